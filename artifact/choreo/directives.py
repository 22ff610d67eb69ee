"""The directives of a ``.co`` file: definitions, and which lines count."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from artifact.choreo import conditions
from artifact.choreo import macros as macro_table
from artifact.choreo.conditions import Undecided
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.lexer import Source, Token
from artifact.choreo.syntax import Span

# The rest of a directive's line: spliced lines and comments belong to it.
_LINE = re.compile(
    r"""(?:\\\r?\n|//(?:\\\r?\n|[^\n])*|/\*(?s:.*?)\*/|"(?:\\.|[^"\\\n])*"|[^\n])*""", re.VERBOSE
)


@dataclass
class _Condition:
    """An ``#if`` that is open: where it stands, whether its lines count, whether a branch did."""

    span: Span
    active: bool
    outer: bool
    taken: bool
    undecided: str | None = None
    alternative: bool = False


class Directives:
    """Macros and open conditions, as the directives of a file change them.

    Attributes:
        macros: The macros defined so far.
    """

    def __init__(
        self, source: Source, defines: Mapping[str, str], diagnostics: Diagnostics
    ) -> None:
        self._source = source
        self._diagnostics = diagnostics
        self._conditions: list[_Condition] = []
        self._outside: int | None = None  # in a function: the conditions open around it
        self.macros = macro_table.table(defines)

    @property
    def active(self) -> bool:
        """Whether the lines after the last directive count."""
        return not self._conditions or self._conditions[-1].active

    @property
    def braces_in_macros(self) -> bool:
        """Whether C++ text may open or close a brace by a macro."""
        return any(token.text in "{}" for m in self.macros.values() for token in m.body)

    def undecided(self) -> tuple[Span, str] | None:
        """The open condition, if any, that only the C++ preprocessor can decide, and why."""
        for condition in self._conditions:
            if condition.undecided and condition.outer:
                return condition.span, condition.undecided
        return None

    def begin_function(self) -> None:
        """From here on directives are consumed: none may close what was open before."""
        self._outside = len(self._conditions)

    def end_function(self) -> None:
        """Back in C++ text; an error for each condition that the function left open."""
        for condition in self._conditions[self._outside :]:
            self._diagnostics.error(
                "directive",
                condition.span,
                "this #if opens inside a __co__ function and is not closed in it",
            )
        del self._conditions[self._outside :]
        self._outside = None

    def end_file(self) -> None:
        """An error for each condition still open."""
        for condition in self._conditions:
            self._diagnostics.error("directive", condition.span, "this #if has no #endif")

    def evaluate(self, start: int) -> int:
        """Evaluate the directive whose ``#`` is at offset ``start``; where its line ends."""
        line = _LINE.match(self._source.text, start + 1)
        assert line is not None  # it matches the empty text
        tokens = [token for token, _ in self._source.tokens(start + 1, line.end())]
        tokens = [token for token in tokens if token.kind != "newline"]
        if not tokens:
            return line.end()
        name, rest = tokens[0], tokens[1:]
        first = self._source.span(start, start + 1)
        span = Span(first.line, first.column, name.span.end_line, name.span.end_column)
        if name.text in ("if", "ifdef", "ifndef"):
            self._open(name.text, rest, span)
        elif name.text in ("elif", "else", "endif"):
            self._next_branch(name.text, rest, span)
        elif self.active:
            self._act(name.text, rest, span)
        if (
            self._outside is not None
            and self._conditions
            and (why := self._conditions[-1].undecided)
        ):
            self._conditions[-1].undecided = None
            self._diagnostics.error("directive", span, f"this condition cannot be evaluated: {why}")
        return line.end()

    def _open(self, word: str, rest: list[Token], span: Span) -> None:
        outer = self.active
        condition = _Condition(span, active=False, outer=outer, taken=not outer)
        self._conditions.append(condition)
        if outer:
            self._branch(condition, word, rest)

    def _branch(self, condition: _Condition, word: str, rest: list[Token]) -> None:
        """Enter a branch if its condition holds."""
        try:
            if word in ("ifdef", "ifndef"):
                if len(rest) != 1 or rest[0].kind != "name":
                    raise Undecided(f"#{word} needs the name of a macro and nothing else")
                holds = (rest[0].text in self.macros) == (word == "ifdef")
            elif not rest:
                raise Undecided("it is empty")
            else:
                holds = conditions.holds(rest, self.macros)
        except Undecided as reason:
            condition.undecided, holds = str(reason), True
        condition.active = condition.taken = holds

    def _next_branch(self, word: str, rest: list[Token], span: Span) -> None:
        if len(self._conditions) <= (self._outside or 0):
            where = "" if self._outside is None else " inside the __co__ function"
            self._diagnostics.error("directive", span, f"this #{word} has no #if{where}")
            return
        condition = self._conditions[-1]
        if word == "endif":
            self._conditions.pop()
            return
        if condition.alternative:
            self._diagnostics.error("directive", span, f"this #{word} comes after its #if's #else")
        condition.active = False
        condition.alternative |= word == "else"
        if condition.taken:
            return
        if word == "else":
            condition.active = condition.taken = True
        else:
            self._branch(condition, word, rest)

    def _act(self, word: str, rest: list[Token], span: Span) -> None:
        """A directive that is no condition."""
        inside = self._outside is not None
        if word == "define":
            made = macro_table.definition(rest)
            if isinstance(made, str):
                self._diagnostics.error("directive", span, made)
            else:
                self.macros[made.name] = made
        elif word == "undef":
            self.macros.pop(rest[0].text if rest else "", None)
        elif word == "error":
            text = " ".join(token.text for token in rest)
            self._diagnostics.error("directive", span, f"#error {text}".rstrip())
        elif inside and word == "include":
            self._diagnostics.error(
                "directive",
                span,
                "#include inside a __co__ function",
                rule="headers are C++: only C++ text can include them",
                repair="move the #include before the function; #define in this file what it needs",
            )
        elif inside and word in ("pragma", "line", "warning"):
            self._diagnostics.add(
                "warning", "directive", span, f"#{word} has no effect in a __co__ function"
            )
        elif inside:
            self._diagnostics.error(
                "directive",
                span,
                f"unknown directive #{word}",
                rule="a '#' that starts a line starts a directive",
                repair="put the operator '#' behind its left operand, on that line",
            )
