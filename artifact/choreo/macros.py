"""Macros as in C: definitions, and expansion with hide sets.

What differs from C: ``#`` is an operator of the language, so it never makes a string of a
parameter; ``##`` is refused where a macro that has it is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.lexer import Source, Token
from artifact.choreo.syntax import Span

#: An expansion that passes this many tokens is a macro gone wild, not a kernel.
MOST_TOKENS = 200_000

#: What nvcc itself defines, as far as conditions ask for it.
PREDEFINED = {"__cplusplus": "201703L", "__NVCC__": "1", "__CUDACC__": "1"}


@dataclass(frozen=True)
class Macro:
    """A macro; ``parameters`` is null for one without parentheses."""

    name: str
    body: tuple[Token, ...]
    parameters: tuple[str, ...] | None = None
    variadic: bool = False


def table(defines: Mapping[str, str]) -> dict[str, Macro]:
    """The macros of the command line (``-DNAME=VALUE``) and nvcc's own."""
    macros = {}
    for name, value in {**PREDEFINED, **defines}.items():
        source = Source(value)
        body = tuple(token for token, _ in source.tokens(0, len(value)))
        macros[name] = Macro(name, body)
    return macros


def definition(tokens: Sequence[Token]) -> Macro | str:
    """The macro that the tokens after ``#define`` define, or what is wrong with them."""
    if not tokens or tokens[0].kind != "name":
        return "#define needs the name of a macro"
    name, rest = tokens[0], tokens[1:]
    if name.text == "defined":
        return "'defined' cannot be a macro"
    glued = rest and rest[0].text == "(" and _touching(name.span, rest[0].span)
    if not glued:
        return Macro(name.text, tuple(rest))
    parameters: list[str] = []
    for position, token in enumerate(rest[1:], start=1):
        if token.text == ")" and (position == 1 or position % 2 == 0):
            variadic = parameters[-1:] == ["..."]
            if variadic:
                parameters[-1] = "__VA_ARGS__"
            if len(set(parameters)) < len(parameters):
                return f"two parameters of macro {name.text} have one name"
            return Macro(name.text, tuple(rest[position + 1 :]), tuple(parameters), variadic)
        wanted = token.kind == "name" or token.text == "..." if position % 2 else token.text == ","
        if not wanted or (parameters[-1:] == ["..."]):
            return f"the parameter list of macro {name.text} is malformed at '{token.text}'"
        if position % 2:
            parameters.append(token.text)
    return f"the parameter list of macro {name.text} has no ')'"


def _touching(left: Span, right: Span) -> bool:
    return (left.end_line, left.end_column) == (right.line, right.column)


class Expander:
    """Expands the macros of a stream of tokens, by Prosser's algorithm.

    Args:
        tokens: The stream; expansion takes from it what a macro's arguments need.
        macros: The definitions, which may change while the stream runs (``#define``).
        diagnostics: Takes what is wrong with a use.
    """

    def __init__(
        self, tokens: Iterator[Token], macros: Mapping[str, Macro], diagnostics: Diagnostics
    ) -> None:
        self._tokens = tokens
        self._macros = macros
        self._diagnostics = diagnostics
        self._ahead: deque[Token] = deque()
        self._made = 0

    def __iter__(self) -> Iterator[Token]:
        while (token := self._next()) is not None:
            macro = self._macros.get(token.text) if token.kind == "name" else None
            if macro is None or token.text in token.hidden:
                yield token
            elif macro.parameters is None:
                self._put(macro, token, token.span, {}, token.hidden)
            elif (used := self._arguments(token, macro)) is not None:
                self._put(macro, token, *used)
            else:
                yield token

    @property
    def pending(self) -> Token | None:
        """The next token of an expansion that is not yet consumed."""
        return next((token for token in self._ahead if token.macro), None)

    def _next(self) -> Token | None:
        return self._ahead.popleft() if self._ahead else next(self._tokens, None)

    def _arguments(
        self, name: Token, macro: Macro
    ) -> tuple[Span, dict[str, list[Token]], frozenset[str]] | None:
        """The span, arguments and hide set of a use; null where no ``(`` follows or it is wrong."""
        first = self._next()
        if first is None or first.text != "(":
            if first is not None:
                self._ahead.appendleft(first)
            return None
        depth = 1
        arguments: list[list[Token]] = [[]]
        count = len(macro.parameters or ())
        while (token := self._next()) is not None:
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                break
            last = macro.variadic and len(arguments) == count
            if depth == 1 and token.text == "," and not last:
                arguments.append([])
            else:
                arguments[-1].append(token)
        if token is None:
            self._diagnostics.error(
                "macro", name.span, f"the arguments of macro {name.text} have no ')'"
            )
            raise GaveUp
        if count == 0 and arguments == [[]]:
            arguments = []
        if macro.variadic and len(arguments) == count - 1:
            arguments.append([])
        if len(arguments) != count:
            self._diagnostics.error(
                "macro",
                name.span,
                f"macro {name.text} takes {count} argument{'s' * (count != 1)}, "
                f"{len(arguments)} given",
            )
            return None
        span = name.span
        if token.macro is None:
            end = token.span
            span = Span(span.line, span.column, end.end_line, end.end_column)
        named = dict(zip(macro.parameters or (), arguments, strict=True))
        return span, named, name.hidden & token.hidden

    def _put(
        self,
        macro: Macro,
        use: Token,
        span: Span,
        arguments: Mapping[str, list[Token]],
        hidden: frozenset[str],
    ) -> None:
        """Put the expansion of one use before what is still to come."""
        hidden |= {macro.name}
        origin = use.macro or macro.name
        made: list[Token] = []
        expanded: dict[str, list[Token]] = {}
        for token in macro.body:
            if token.text == "##":
                self._diagnostics.error(
                    "macro",
                    span,
                    f"macro {macro.name} pastes tokens with '##', which a __co__ function "
                    "cannot use",
                    repair="write out the name that the macro builds",
                )
                return
            if token.kind == "name" and token.text in arguments:
                if token.text not in expanded:
                    expanded[token.text] = self._inner(arguments[token.text])
                made += expanded[token.text]
            else:
                made.append(token)
        self._made += len(made)
        if self._made > MOST_TOKENS:
            self._diagnostics.error(
                "macro", span, f"the expansion of macro {origin} is longer than any kernel"
            )
            raise GaveUp
        self._ahead.extendleft(
            replace(token, span=span, macro=origin, hidden=token.hidden | hidden)
            for token in reversed(made)
        )

    def _inner(self, tokens: list[Token]) -> list[Token]:
        """An argument, expanded by itself."""
        inner = Expander(iter(tokens), self._macros, self._diagnostics)
        inner._made = self._made
        done = list(inner)
        self._made = inner._made
        return done


class GaveUp(Exception):
    """An expansion was given up; its diagnostic is there already."""
