"""What makes nodes of lark's trees: places, errors, types and numbers."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any, TypeAlias

from artifact.choreo import syntax
from artifact.choreo.arithmetic import fits, literal_type
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.lexer import TYPES, integer, real
from artifact.choreo.syntax import Span

#: One of lark's trees or tokens, whose types say nothing that the grammar does not.
Parsed: TypeAlias = Any

_OF_C = {
    name: f"write {type_}"
    for type_, names in {
        "u32": ("unsigned", "uint32_t", "uint"),
        "s32": ("int32_t", "signed", "short"),
        "u64": ("uint64_t", "size_t"),
        "s64": ("int64_t", "long"),
        "bf16": ("bfloat16", "__nv_bfloat16"),
        "f16": ("__half",),
    }.items()
    for name in names
}


class Malformed(Exception):
    """A construct was given up; its diagnostic is there already."""


def span_of(item: Parsed) -> Span:
    """Where a tree or a token stands."""
    place = item.meta if hasattr(item, "meta") else item
    return Span(place.line, place.column, place.end_line, place.end_column)


def between(first: Span, last: Span) -> Span:
    """From the begin of one place to the end of another."""
    return Span(first.line, first.column, last.end_line, last.end_column)


class Reader:
    """Makes nodes; what is wrong goes to ``diagnostics`` and ends the construct at hand.

    Raises:
        Malformed: from every method, after a diagnostic.
    """

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics

    def fail(
        self,
        code: str,
        place: Span,
        message: str,
        *,
        rule: str | None = None,
        repair: str | None = None,
    ) -> Malformed:
        """Report an error; the caller raises the result, which gives the construct up."""
        self._diagnostics.error(code, place, message, rule=rule, repair=repair)
        return Malformed()

    def type(self, token: Parsed) -> str:
        """An element type, or C's name of one."""
        if token not in TYPES:
            raise self.fail(
                "type-name",
                span_of(token),
                f"'{token}' is no type",
                repair=_OF_C.get(str(token)) or likely(str(token), TYPES),
            )
        return str(token)

    def number(self, tree: Parsed) -> syntax.Expr:
        """An integer or a float, with its suffix."""
        (token,) = tree.children
        text, span = str(token), span_of(tree)
        literal: syntax.IntLit | syntax.FloatLit | None = None
        if (whole := integer(text)) is not None:
            literal = syntax.IntLit(span, text, *whole)
        elif (fraction := real(text)) is not None:
            literal = syntax.FloatLit(span, text, *fraction)
        if literal is not None:
            self._holds(literal)
            return literal
        repair = None
        if text.isdigit():
            repair = f"write {text.lstrip('0')}: a leading zero would be octal in C++"
        elif text[:-1].isdigit() and text[-1] in "fF":
            repair = f"write {text[:-1]}.0f"
        raise self.fail("syntax", span, f"'{_short(text)}' is no number", repair=repair)

    def _holds(self, literal: syntax.IntLit | syntax.FloatLit) -> None:
        """Check that the type of a literal holds its value."""
        type_ = literal_type(literal)
        if isinstance(literal, syntax.FloatLit):
            held, repair = math.isfinite(literal.value), "write inf where that is meant"
        else:
            held = fits(literal.value, type_)
            unsigned = "u" not in literal.suffix and fits(literal.value, "u64")
            repair = f"write {literal.text}u" if unsigned else "use a number of at most 64 bits"
        if not held:
            raise self.fail(
                "constant-overflow",
                literal.span,
                f"{_short(literal.text)} does not fit {type_}",
                rule="the type of a literal holds its value",
                repair=repair,
            )


def likely(word: str, words: Iterable[str]) -> str | None:
    """The repair of a misspelled word, where one is close."""
    close = difflib.get_close_matches(word, sorted(words), n=1)
    return f"is {close[0]} meant?" if close else None


def _short(text: str) -> str:
    """A literal as messages show it."""
    return text if len(text) <= 40 else f"{text[:32]}.. ({len(text)} characters)"
