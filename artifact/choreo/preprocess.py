"""A ``.co`` file cut into C++ text and ``__co__`` functions, with macros expanded in the latter.

C++ text is never rewritten: its directives are evaluated, so that their macros are known below,
and stay where they are for the C++ preprocessor. Directives inside a function are consumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from artifact.choreo import macros as macro_table
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.lexer import Source, Token
from artifact.choreo.macros import Expander, RunawayMacro, Undecided
from artifact.choreo.syntax import File, Span, Text


@dataclass(frozen=True)
class Region:
    """A piece of the file; the pieces in order, by their ``original`` text, are the whole file.

    Attributes:
        kind: C++ text, or a ``__co__`` function from that word to its closing brace.
        span: Where it stands.
        original: What stands there.
        tokens: Of a function: its tokens, macros expanded, each with its place in the file; those
            of an expansion have the place of the macro's use.
    """

    kind: Literal["text", "function"]
    span: Span
    original: str
    tokens: tuple[Token, ...] = ()

    @property
    def expanded(self) -> str:
        """A function as it is after preprocessing, on the lines where its tokens stand."""
        out: list[str] = []
        line = self.span.line
        for token in self.tokens:
            down = token.span.line - line
            out.append("\n" * down if down > 0 else " " if out else "")
            out.append(token.text)
            line = max(line, token.span.line)
        return "".join(out)


def split(
    text: str, path: str, defines: Mapping[str, str], diagnostics: Diagnostics
) -> list[Region]:
    """Cut a file into its regions.

    What is wrong with its directives, macros and blocks goes to ``diagnostics``; the regions are
    then still those of the whole file, as far as they could be told apart.

    Args:
        text: The file.
        path: Its name, for messages.
        defines: Macros of the command line: name to value.
        diagnostics: Takes the findings.
    """
    return _Splitter(text, defines, diagnostics).run()


def quoted_includes(file: File) -> tuple[str, ...]:
    """Names of the headers that a file's C++ text includes with quotes.

    Headers are not opened: a macro that one of them defines is unknown in a ``__co__`` function,
    which is the likely cause of an undeclared name in a file that has such includes.
    """
    found = (_INCLUDE.findall(part.text) for part in file.parts if isinstance(part, Text))
    return tuple(name for names in found for name in names)


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]*)"', re.MULTILINE)

# C++ as far as it must be told apart: what may hold a word without meaning it.
_CXX = re.compile(
    r"""
      (?P<newline>\n)
    | (?P<space>[ \t\r\f\v]+|\\\r?\n)
    | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*(?s:.*?)\*/)
    | (?P<unclosed>/\*)
    | (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^\s()\\]{0,16})\((?s:.*?)\)(?P=fence)")
    | (?P<text>"(?:\\(?s:.)|[^"\\\n])*"|'(?:\\(?s:.)|[^'\\\n])*')
    | (?P<number>\.?[0-9](?:[eEpP][+-]|'\w|[\w.])*)
    | (?P<name>[^\W\d]\w*)
    | (?P<hash>\#)
    | (?P<other>.)
    """,
    re.VERBOSE,
)
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


class _Splitter:
    def __init__(self, text: str, defines: Mapping[str, str], diagnostics: Diagnostics) -> None:
        self._source = Source(text)
        self._text = text
        self._diagnostics = diagnostics
        self._macros = macro_table.table(defines)
        self._conditions: list[_Condition] = []
        self._base = 0  # conditions that the present function may not close
        self._function_end = 0

    def run(self) -> list[Region]:
        regions: list[Region] = []
        start = 0
        for offset in self._words():
            if self._text.startswith("__cok__", offset):
                self._diagnostics.error(
                    "unsupported",
                    self._source.span(offset, offset + len("__cok__")),
                    "__cok__ blocks are not supported",
                    rule="device code of a .co file is C++ text beside its functions",
                    repair="take the block's contents out of __cok__ { .. }",
                )
                continue
            if start < offset:
                regions.append(self._region("text", start, offset))
            tokens = self._function(offset)
            start = self._function_end
            regions.append(self._region("function", offset, start, tokens))
        if start < len(self._text):
            regions.append(self._region("text", start, len(self._text)))
        for condition in self._conditions:
            self._diagnostics.error("directive", condition.span, "this #if has no #endif")
        return regions

    def _region(
        self,
        kind: Literal["text", "function"],
        start: int,
        end: int,
        tokens: tuple[Token, ...] = (),
    ) -> Region:
        return Region(kind, self._source.span(start, end), self._text[start:end], tokens)

    # C++ text ----------------------------------------------------------------------------------

    def _words(self) -> Iterator[int]:
        """Offsets of ``__co__`` and ``__cok__``; goes on after the function made of the former."""
        offset, line_begins = 0, True
        while offset < len(self._text):
            match = _CXX.match(self._text, offset)
            assert match is not None  # the last form takes any character
            begin, offset = offset, match.end()
            kind = match.lastgroup if match.lastgroup != "fence" else "raw"
            if kind == "hash" and line_begins:
                offset = self._directive(begin, inside=None)
            elif kind == "unclosed":
                self._diagnostics.error(
                    "unterminated",
                    self._source.span(begin, begin + 2),
                    "this comment has no '*/'",
                )
                return
            elif kind == "name" and match.group() in ("__co__", "__cok__") and self._here(begin):
                yield begin
                if match.group() == "__co__":
                    offset = self._function_end
            line_begins = kind == "newline" or (line_begins and kind in ("space", "comment"))

    def _here(self, offset: int) -> bool:
        """Whether a ``__co__`` at ``offset`` is compiled; an error where only C++ could tell."""
        for condition in self._conditions:
            if condition.undecided and condition.outer:
                self._diagnostics.error(
                    "directive",
                    condition.span,
                    f"a __co__ function depends on this condition, but {condition.undecided}",
                    rule="conditions around a function are evaluated here, without its includes",
                    repair="make the condition an integer expression of macros of this file",
                )
                return False
        return self._active

    @property
    def _active(self) -> bool:
        return not self._conditions or self._conditions[-1].active

    # Functions ---------------------------------------------------------------------------------

    def _function(self, start: int) -> tuple[Token, ...]:
        """The expanded tokens of the function at ``start``; sets where it ends."""
        self._base = len(self._conditions)
        tokens: list[Token] = []
        open_braces: list[Token] = []
        self._function_end = start
        expander = Expander(self._raw(start), self._macros, self._diagnostics)
        try:
            for token in expander:
                if token.text in ("__co__", "__cok__") and tokens:
                    self._unfinished(open_braces or tokens[:1], token)
                    break
                tokens.append(token)
                if token.text == "{":
                    open_braces.append(token)
                elif token.text == "}" and open_braces:
                    open_braces.pop()
                    if not open_braces:
                        break
                elif token.text == ";" and not open_braces:
                    break  # a declaration without a body: the parser says so
            else:
                self._unfinished(open_braces or tokens[:1], None)
        except RunawayMacro:
            self._function_end = len(self._text)
        if (rest := expander.pending) is not None:
            self._diagnostics.error(
                "macro", rest.span, f"macro {rest.macro} goes on after the end of the function"
            )
        for condition in self._conditions[self._base :]:
            self._diagnostics.error(
                "directive",
                condition.span,
                "this #if opens inside a __co__ function and is not closed in it",
            )
        del self._conditions[self._base :]
        return tuple(tokens)

    def _unfinished(self, open_: list[Token], next_function: Token | None) -> None:
        where = "the file ends" if next_function is None else "the next function begins"
        if next_function is not None:
            span = next_function.span
            self._function_end = self._source.offset(span.line, span.column)
        self._diagnostics.error(
            "unterminated",
            open_[-1].span,
            f"{where} and this '{open_[-1].text}' has no '}}'"
            if open_[-1].text == "{"
            else f"{where} before this function has a body",
        )

    def _raw(self, start: int) -> Iterator[Token]:
        """The active tokens from ``start`` on, directives taken out; moves the function's end."""
        offset, line_begins = start, False
        while offset < len(self._text):
            restart = None
            for token, end in self._source.tokens(offset, len(self._text)):
                if token.text == "#" and line_begins:
                    restart = self._directive(end - 1, inside=self._base)
                    break
                if token.kind == "newline":
                    line_begins = True
                    continue
                line_begins = False
                if self._active:
                    self._function_end = end
                    yield token
            if restart is None:
                self._function_end = len(self._text)
                return
            offset, line_begins = restart, False

    # Directives --------------------------------------------------------------------------------

    def _directive(self, start: int, inside: int | None) -> int:
        """Evaluate the directive whose ``#`` is at ``start``; where its line ends.

        ``inside`` is null in C++ text; in a function it is the number of conditions that were
        open before it.
        """
        line = _LINE.match(self._text, start + 1)
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
            self._next_branch(name.text, rest, span, inside)
        elif self._active:
            self._act(name.text, rest, span, inside is not None)
        if inside is not None and self._conditions and (why := self._conditions[-1].undecided):
            self._conditions[-1].undecided = None
            self._diagnostics.error("directive", span, f"this condition cannot be evaluated: {why}")
        return line.end()

    def _open(self, word: str, rest: list[Token], span: Span) -> None:
        outer = self._active
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
                holds = (rest[0].text in self._macros) == (word == "ifdef")
            elif not rest:
                raise Undecided("it is empty")
            else:
                holds = macro_table.condition(rest, self._macros)
        except Undecided as reason:
            condition.undecided, holds = str(reason), True
        condition.active = condition.taken = holds

    def _next_branch(self, word: str, rest: list[Token], span: Span, inside: int | None) -> None:
        if len(self._conditions) <= (inside or 0):
            where = "" if inside is None else " inside the __co__ function"
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

    def _act(self, word: str, rest: list[Token], span: Span, inside: bool) -> None:
        """A directive that is no condition."""
        if word == "define":
            made = macro_table.definition(rest)
            if isinstance(made, str):
                self._diagnostics.error("directive", span, made)
            else:
                self._macros[made.name] = made
        elif word == "undef":
            self._macros.pop(rest[0].text if rest else "", None)
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
