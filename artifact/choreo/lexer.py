"""The tokens of the language and of its preprocessor: their forms, and their places.

One scanner serves DSL functions and directives. It knows no keyword: which names and members are
words of the grammar depends on where they stand, and parse.py decides that.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from artifact.choreo.syntax import Span

Kind = Literal["name", "member", "number", "string", "mark", "unknown", "newline"]

#: Element types, and the C spellings of some of them.
ELEMENT_TYPES = frozenset(
    {
        "f64",
        "f32",
        "tf32",
        "f16",
        "bf16",
        "f8_e4m3",
        "f8_e5m2",
        "u64",
        "s64",
        "u32",
        "s32",
        "u16",
        "s16",
        "u8",
        "s8",
    }
)
C_TYPES = frozenset({"int", "bool", "float", "double", "half", "bfp16"})
TYPES = ELEMENT_TYPES | C_TYPES

#: Words that start a statement or an expression, or name storage: no declaration may take them.
RESERVED = frozenset(
    {
        "__co__",
        "parallel",
        "inthreads",
        "foreach",
        "apply",
        "while",
        "if",
        "else",
        "break",
        "continue",
        "return",
        "wait",
        "trigger",
        "call",
        "frag",
        "shared",
        "local",
        "global",
        "event",
        "mutable",
        "dma",
        "tma",
        "mma",
        "true",
        "false",
        "inf",
        "__to",
    }
)

COMPOUND = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
INCREMENT = frozenset(("++", "--"))

_FORMS = re.compile(
    r"""
      (?P<newline>\n)
    | (?P<space>(?:[ \t\r\f\v]|\\\r?\n|//(?:\\\r?\n|[^\n])*|/\*(?s:.*?)\*/)+)
    | (?P<name>group-4(?!\w)|[A-Za-z_]\w*)
    | (?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)
    | (?P<member>\.[A-Za-z_]\w*)
    | (?P<string>"(?:\\.|[^"\\\n])*")
    | (?P<mark><<=|>>=|=>|::|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\.\.\.|\#\#
        |[-+*/%&|^~!?:;,.<>=(){}\[\]\#])
    | (?P<unknown>.)
    """,
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the source: its kind, its text, and where it stands in the original file.

    ``macro`` names the outermost macro whose expansion gave the token (its span is then that use
    of the macro), ``hidden`` the macros that must not expand it again.
    """

    kind: Kind
    text: str
    span: Span
    macro: str | None = None
    hidden: frozenset[str] = field(default=frozenset(), compare=False)

    def moved(self, span: Span, macro: str | None) -> Token:
        """The same token as part of a macro's use at ``span``."""
        return replace(self, span=span, macro=macro)


class Source:
    """A text with its lines, to turn offsets into places."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, counted from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """The span of ``text[start:end]``."""
        return Span(*self.place(start), *self.place(end))

    def offset(self, line: int, column: int) -> int:
        """The offset of a place: the inverse of :meth:`place`."""
        return self._starts[line - 1] + column - 1

    def tokens(self, start: int, end: int) -> Iterator[tuple[Token, int]]:
        """The tokens of ``text[start:end]``, newlines among them, each with its end offset.

        White space, comments and spliced lines are skipped; an opening ``/*`` that nothing
        closes is a ``mark`` of that text.
        """
        offset = start
        while offset < end:
            match = _FORMS.match(self.text, offset, end)
            assert match is not None  # the last form takes any character
            kind, offset = match.lastgroup, match.end()
            if kind == "space":
                continue
            if match.group() == "/" and self.text.startswith("/*", match.start()):
                yield Token("unknown", "/*", self.span(match.start(), match.start() + 2)), end
                return
            assert kind is not None
            yield Token(kind, match.group(), self.span(match.start(), offset)), offset  # type: ignore[arg-type]  # the groups are named for the kinds


def integer(text: str) -> tuple[int, str] | None:
    """Value and suffix (in lower case) of an integer literal; null if ``text`` is none.

    Decimal and hexadecimal; a leading zero would be octal in C++ and is refused.
    """
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)([uU]?(?:l|L|ll|LL)?)", text)
    if match is None:
        return None
    digits = match[1].lower().removeprefix("0x").lstrip("0") or "0"
    # No literal of 64 bits is longer, and Python refuses to read very long ones.
    value = int(match[1], 0) if len(digits) <= 64 else TOO_LARGE
    return value, match[2].lower()


#: Stands for every integer literal that no type holds, whatever its value.
TOO_LARGE = 1 << 64


def real(text: str) -> tuple[float, str] | None:
    """Value and suffix (``f`` or empty) of a floating-point literal; null if ``text`` is none."""
    match = re.fullmatch(
        r"((?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)([fF]?)", text
    )
    return (float(match[1]), match[2].lower()) if match else None
