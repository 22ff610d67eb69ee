"""The C++ identifiers of a function's symbols: the source's names wherever C++ allows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from artifact.choreo.tables import Symbol

#: What a source name may not become: words of C++ and CUDA, what generated code calls, and
#: macros of the headers that it includes.
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
    class compl concept const constexpr const_cast continue decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast requires return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor xor_eq
    threadIdx blockIdx blockDim gridDim warpSize dim3 int4 uint4 float2 float4 size_t NULL INFINITY
    char8_t consteval constinit co_await co_return co_yield
    CUtensorMap EOF errno stdin stdout stderr
    choreo croq cu cute cutlass std main printf uint8_t uint16_t uint32_t uint64_t
    int8_t int16_t int32_t int64_t
    exp2f expf logf sqrtf rsqrtf fabsf fmaf fmaxf fminf fmax fmin max min
"""
RESERVED = frozenset(_WORDS.split())


class Names:
    """Gives each symbol its identifier when it is declared, and knows it from then on.

    C++ scopes are pushed and popped as the emission opens and closes them. An identifier that is
    visible is never given twice, nor one of ``reserved``: a declaration that shadows gets a
    number, because in C++ its own initializer would already mean the new variable.
    """

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._reserved = RESERVED | reserved
        self._scopes: list[set[str]] = [set()]
        self._of: dict[Symbol, str] = {}
        self.used: set[Symbol] = set()
        """Symbols that were looked up since they were declared."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A C++ block: what is declared in it is free again afterwards."""
        self._scopes.append(set())
        try:
            yield
        finally:
            self._scopes.pop()

    def fresh(self, wish: str) -> str:
        """An identifier for something that the source has no name for, or a changed name."""
        taken = set().union(*self._scopes)
        name, number = wish, 2
        while name in taken or name in self._reserved or name.startswith("__"):
            name = f"{wish.lstrip('_')}_{number}"
            number += 1
        self._scopes[-1].add(name)
        return name

    def declare(self, symbol: Symbol) -> str:
        """The identifier of a symbol that is declared here."""
        name = self.fresh(symbol.name)
        self._of[symbol] = name
        return name

    def alias(self, symbol: Symbol, text: str) -> None:
        """Let a symbol stand for an expression that needs no declaration of its own."""
        self._of[symbol] = text

    def of(self, symbol: Symbol) -> str:
        """The identifier of a symbol that was declared."""
        self.used.add(symbol)
        return self._of[symbol]

    def __contains__(self, symbol: Symbol) -> bool:
        return symbol in self._of
