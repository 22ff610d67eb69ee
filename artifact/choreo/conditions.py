"""The conditions of ``#if``: integer expressions over macros."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.lexer import TOO_LARGE, Token, integer
from artifact.choreo.macros import Expander, GaveUp, Macro


class Undecided(Exception):
    """A condition that cannot be evaluated here; the text says why."""


def holds(tokens: Sequence[Token], macros: Mapping[str, Macro]) -> bool:
    """Whether the condition of an ``#if`` or ``#elif`` holds; an unknown name is 0, as in C.

    Raises:
        Undecided: it is malformed, or asks what only the C++ compiler knows.
    """
    plain: list[Token] = []
    rest = deque(tokens)
    while rest:
        token = rest.popleft()
        if token.text != "defined":
            plain.append(token)
            continue
        opened = bool(rest) and rest[0].text == "("
        words = [rest.popleft() for _ in range(min(len(rest), 3 if opened else 1))]
        if opened and [words[0].text, words[-1].text] == ["(", ")"]:
            words = words[1:-1]
        if len(words) != 1 or words[0].kind != "name":
            raise Undecided("'defined' needs the name of a macro")
        name = words[0]
        plain.append(replace(token, kind="number", text=str(int(name.text in macros))))
    found = Diagnostics("", "")
    try:
        expanded = list(Expander(iter(plain), macros, found))
    except GaveUp:
        raise Undecided(found.found[0].message) from None
    if found.failed:
        raise Undecided(found.found[0].message)
    try:
        return bool(_Condition(expanded).value())
    except RecursionError:
        raise Undecided("it is nested too deeply") from None


def _quotient(left: int, right: int) -> int:
    """C's division, towards zero."""
    if right == 0:
        raise Undecided("it divides by zero")
    magnitude = abs(left) // abs(right)
    return magnitude if (left < 0) == (right < 0) else -magnitude


def _shifted(left: int, right: int) -> int:
    if not -64 < right < 64:
        raise Undecided("it shifts by more than 63")
    return left << right if right >= 0 else left >> -right


_BINARY: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a) or bool(b))},
    {"&&": lambda a, b: int(bool(a) and bool(b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        ">": lambda a, b: int(a > b),
        "<=": lambda a, b: int(a <= b),
        ">=": lambda a, b: int(a >= b),
    },
    {"<<": _shifted, ">>": lambda a, b: _shifted(a, -b)},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b)},
)
_UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda a: -a,
    "+": lambda a: a,
    "~": lambda a: ~a,
    "!": lambda a: int(not a),
}


class _Condition:
    """An integer expression over expanded tokens, by recursive descent.

    An operand whose value does not count (``0 && 1 / 0``) is read, not evaluated.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self._rest = deque(tokens)
        self._dead = 0

    def value(self) -> int:
        value = self._ternary()
        if self._rest:
            raise Undecided(f"'{self._rest[0].text}' is not expected there")
        return value

    def _take(self, *texts: str) -> str | None:
        if self._rest and self._rest[0].text in texts:
            return self._rest.popleft().text
        return None

    def _ternary(self) -> int:
        test = self._binary(0)
        if not self._take("?"):
            return test
        then = self._operand(self._ternary, bool(test))
        if not self._take(":"):
            raise Undecided("a '?' has no ':'")
        otherwise = self._operand(self._ternary, not test)
        return then if test else otherwise

    def _binary(self, level: int) -> int:
        if level == len(_BINARY):
            return self._unary()
        value = self._binary(level + 1)
        while op := self._take(*_BINARY[level]):
            counts = not ((op == "&&" and not value) or (op == "||" and value))
            right = self._operand(lambda: self._binary(level + 1), counts)
            if not self._dead:
                value = _BINARY[level][op](value, right if counts else value)
        return value

    def _operand(self, parse: Callable[[], int], counts: bool) -> int:
        self._dead += not counts
        value = parse()
        self._dead -= not counts
        return value

    def _unary(self) -> int:
        if op := self._take(*_UNARY):
            return _UNARY[op](self._unary())
        if not self._rest:
            raise Undecided("it ends too early")
        token = self._rest.popleft()
        if token.text == "(":
            value = self._ternary()
            if not self._take(")"):
                raise Undecided("a '(' is not closed")
            return value
        if token.kind == "name":
            if self._rest and self._rest[0].text == "(":
                raise Undecided(f"only the C++ compiler knows {token.text}(..)")
            return int(token.text == "true")
        number = integer(token.text)
        if number is None:
            raise Undecided(f"'{token.text}' is no integer")
        if number[0] >= TOO_LARGE:
            raise Undecided("it has an integer of more than 64 bits")
        return number[0]
