"""A ``.co`` file cut into C++ text and ``__co__`` functions, with macros expanded in the latter.

C++ text is never rewritten: its directives are evaluated, so that their macros are known below,
and stay where they are for the C++ preprocessor. Directives inside a function are consumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.directives import Directives
from artifact.choreo.lexer import Source, Token
from artifact.choreo.macros import Expander, GaveUp
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
    | (?P<space>[ \t\r\f\v\ufeff]+|\\\r?\n)
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


class _Splitter:
    def __init__(self, text: str, defines: Mapping[str, str], diagnostics: Diagnostics) -> None:
        self._source = Source(text)
        self._text = text
        self._diagnostics = diagnostics
        self._directives = Directives(self._source, defines, diagnostics)
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
        self._directives.end_file()
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
        offset, line_begins, depth = 0, True, 0
        function: int | None = None
        while offset < len(self._text):
            match = _CXX.match(self._text, offset)
            assert match is not None  # the last form takes any character
            begin, offset = offset, match.end()
            kind = match.lastgroup
            if kind == "hash" and line_begins:
                offset = self._directives.evaluate(begin)
            elif kind == "unclosed":
                self._no_comment_end(self._source.span(begin, begin + 2))
                return
            elif kind == "name" and match.group() in ("__co__", "__cok__") and self._compiled():
                yield begin
                if match.group() == "__co__":
                    function, offset = begin, self._function_end
            elif kind == "other" and match.group() in "{}" and self._directives.active:
                depth += 1 if match.group() == "{" else -1
                if depth < 0 and function is not None:
                    self._stray_brace(begin, function)
                    function = None
            line_begins = kind == "newline" or (line_begins and kind in ("space", "comment"))

    def _stray_brace(self, offset: int, function: int) -> None:
        """C++ text closes a brace that it did not open: most likely a function ended too early."""
        if not self._directives.braces_in_macros:
            line, _ = self._source.place(function)
            end, _ = self._source.place(self._function_end)
            self._diagnostics.error(
                "unterminated",
                self._source.span(offset, offset + 1),
                "this '}' closes nothing",
                rule=f"the __co__ function of line {line} ended at its matching brace, "
                f"in line {end}",
                repair="is a '}' too many, or a '{' missing, in that function?",
            )

    def _compiled(self) -> bool:
        """Whether a ``__co__`` here is compiled; an error where only nvcc could tell."""
        if (undecided := self._directives.undecided()) is not None:
            span, why = undecided
            self._diagnostics.error(
                "directive",
                span,
                f"a __co__ function depends on this condition, but {why}",
                rule="conditions around a function are evaluated here, without its includes",
                repair="make the condition an integer expression of macros of this file",
            )
            return False
        return self._directives.active

    # Functions ---------------------------------------------------------------------------------

    def _function(self, start: int) -> tuple[Token, ...]:
        """The expanded tokens of the function at ``start``; sets where it ends."""
        self._directives.begin_function()
        tokens: list[Token] = []
        open_braces: list[Token] = []
        self._function_end = start
        expander = Expander(self._raw(start), self._directives.macros, self._diagnostics)
        try:
            for token in expander:
                if token.text == "/*":
                    self._no_comment_end(token.span)
                    break
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
            if (rest := expander.pending) is not None:
                self._diagnostics.error(
                    "macro", rest.span, f"macro {rest.macro} goes on after the end of the function"
                )
        except GaveUp:
            self._function_end = len(self._text)
        self._directives.end_function()
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

    def _no_comment_end(self, span: Span) -> None:
        self._diagnostics.error("unterminated", span, "this comment has no '*/'")

    def _raw(self, start: int) -> Iterator[Token]:
        """The active tokens from ``start`` on, directives taken out; moves the function's end."""
        offset, line_begins = start, False
        while offset < len(self._text):
            restart = None
            for token, end in self._source.tokens(offset, len(self._text)):
                if token.text == "#" and line_begins:
                    restart = self._directives.evaluate(end - 1)
                    break
                if token.kind == "newline":
                    line_begins = True
                    continue
                line_begins = False
                if self._directives.active:
                    self._function_end = end
                    yield token
            if restart is None:
                self._function_end = len(self._text)
                return
            offset, line_begins = restart, False
