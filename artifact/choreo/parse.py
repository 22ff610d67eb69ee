"""A ``.co`` file to its syntax tree.

preprocess.py cuts the file and expands macros, this module runs lark's parser over the tokens of
each function and goes on after a syntax error where the next statement begins, ``tree_*.py``
make our tree of lark's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifact.choreo import preprocess, syntax_errors
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.lexer import COMPOUND, INCREMENT, RESERVED, Token
from artifact.choreo.syntax import File, Function, Span, Text

if TYPE_CHECKING:
    import lark

#: Brackets open at once; more is no program, and would exhaust Python's stack.
DEEPEST = 64

#: Errors reported of one function's syntax.
MOST_ERRORS = 20

_CLASSES = {"name": "NAME", "number": "NUMBER", "string": "STRING", "member": "MEMBER"}


def parse_file(
    text: str, path: str, defines: Mapping[str, str], diagnostics: Diagnostics
) -> File | None:
    """The syntax tree of a file; null if there is an error, which ``diagnostics`` then has.

    Args:
        text: The file.
        path: Its name, for messages.
        defines: Macros of the command line: name to value.
        diagnostics: Takes the findings. Spans are of the original file; what a macro expands to
            has the span of the macro's use.
    """
    from artifact.choreo.tree_statements import function

    parts: list[Text | Function] = []
    for region in preprocess.split(text, path, defines, diagnostics):
        if region.kind == "text":
            parts.append(Text(region.span, region.original))
        elif (
            not diagnostics.failed
            and (tree := _Parse(region.tokens, diagnostics).run()) is not None
        ):
            parts.append(function(tree, diagnostics))
    return None if diagnostics.failed else File(Span(1, 1, *_end(text)), path, tuple(parts))


def _end(text: str) -> tuple[int, int]:
    return text.count("\n") + 1, len(text) - text.rfind("\n")


@dataclass(frozen=True)
class Grammar:
    """lark's parser, and the words of grammar.lark by their spelling."""

    lark: lark.Lark
    words: Mapping[str, str]
    spellings: Mapping[str, str]


@lru_cache(maxsize=1)
def grammar() -> Grammar:
    """The grammar, built once a process."""
    import lark
    from lark.lexer import Lexer, LexerState, PatternStr

    class NoLexer(Lexer):
        """The parser is fed token by token."""

        def __init__(self, lexer_conf: object) -> None:
            del lexer_conf

        def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[lark.Token]:
            raise NotImplementedError

    parser = lark.Lark(
        Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer=NoLexer,
        start="function",
        propagate_positions=True,
        maybe_placeholders=True,
    )
    spellings = {
        t.name: t.pattern.value for t in parser.terminals if isinstance(t.pattern, PatternStr)
    }
    return Grammar(parser, {text: name for name, text in spellings.items()}, spellings)


@dataclass(frozen=True)
class _Place:
    """The parser where a statement of an open block begins: its stacks, the token, open braces."""

    states: list[Any]
    values: list[Any]
    position: int
    braces: int


class _Parse:
    """One function's parse, which knows where it could take a statement up again."""

    def __init__(self, tokens: Sequence[Token], diagnostics: Diagnostics) -> None:
        self._tokens = tokens
        self._diagnostics = diagnostics
        self._grammar = grammar()
        self._parser: Any = self._grammar.lark.parse_interactive()
        self._state = self._parser.parser_state
        self._states = self._state.parse_conf.parse_table.states
        self._blocks: list[_Place] = []
        self._braces: list[bool] = []  # of each open brace, whether a block began there

    def run(self) -> lark.Tree[lark.Token] | None:
        position, failures = 0, 0
        if not self._shallow():
            return None
        while position < len(self._tokens):
            if self._feed(position):
                position += 1
                continue
            failures += 1
            resumed = self._resume(position)
            if resumed is None or failures == MOST_ERRORS:
                return None
            position = resumed
        if failures or self._diagnostics.failed:
            return None
        import lark

        last = self._lark_token(len(self._tokens) - 1, "$END")
        try:
            tree: lark.Tree[lark.Token] = self._parser.feed_eof(last)
        except lark.UnexpectedToken:
            # A declaration ended at its ';', or something is left open: both are reported.
            self._report(len(self._tokens) - 1)
            return None
        return tree

    def _shallow(self) -> bool:
        depth = 0
        for token in self._tokens:
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            if depth > DEEPEST:
                self._diagnostics.error(
                    "syntax", token.span, f"more than {DEEPEST} brackets are open here"
                )
                return False
        return True

    # One token -----------------------------------------------------------------------------------

    def _feed(self, position: int) -> bool:
        """Give the parser a token; false (and a diagnostic) if it cannot stand there."""
        import lark

        token = self._tokens[position]
        state = self._state
        row = self._states[state.position]
        before = list(state.state_stack), list(state.value_stack)
        kind = self._type(token, row)
        if kind is None or (kind == "NAME" and token.text in RESERVED):
            self._report(position)
            return False
        try:
            self._parser.feed_token(self._lark_token(position, kind))
        except lark.UnexpectedToken:
            state.state_stack, state.value_stack = before
            self._report(position)
            return False
        self._keep_place(token.text, position + 1)
        return True

    def _type(self, token: Token, row: Mapping[str, object]) -> str | None:
        """A token's terminal where the parser stands: a word of the grammar, or a class."""
        word = self._grammar.words.get(token.text)
        if word is not None and (word in row or token.kind == "mark" or token.text == "group-4"):
            return word
        if token.text in COMPOUND:
            return "COMPOUND"
        if token.text in INCREMENT:
            return "INCREMENT"
        return _CLASSES.get(token.kind)

    def _lark_token(self, position: int, kind: str) -> lark.Token:
        import lark

        token = self._tokens[position]
        span = token.span
        return lark.Token(
            kind,
            token.text,
            start_pos=position,
            line=span.line,
            column=span.column,
            end_line=span.end_line,
            end_column=span.end_column,
            end_pos=position + 1,
        )

    # Going on after an error -------------------------------------------------------------------

    def _keep_place(self, text: str, next_position: int) -> None:
        """Note where the parser is, if a statement of a block may begin after this token."""
        begins = self._grammar.words["parallel"] in self._states[self._state.position]
        if text == "{":
            self._braces.append(begins)
            if begins:
                self._blocks.append(self._place(next_position))
        elif text == "}" and self._braces.pop():
            self._blocks.pop()
        if text in (";", "}") and self._blocks and begins:
            self._blocks[-1] = self._place(next_position)

    def _place(self, position: int) -> _Place:
        state = self._state
        stacks = list(state.state_stack), list(state.value_stack)
        return _Place(*stacks, position, len(self._braces))

    def _resume(self, position: int) -> int | None:
        """After an error at ``position``: where the next statement begins; null to give up.

        The parser goes back to the begin of the statement that is wrong, whose tokens are left
        out up to its ``;``, the end of its body, or the end of the block around it.
        """
        if not self._blocks:
            return None
        place = self._blocks[-1]
        end = syntax_errors.statement_end(self._tokens, place.position, position)
        if end is None:
            return None
        self._state.state_stack = list(place.states)
        self._state.value_stack = list(place.values)
        del self._braces[place.braces :]
        self._blocks[-1] = replace(place, position=end)
        return end

    def _report(self, position: int) -> None:
        begin = self._blocks[-1].position if self._blocks else 0
        acceptable = {self._grammar.spellings.get(t, t) for t in self._parser.accepts()}
        syntax_errors.report(self._tokens, begin, position, acceptable, self._diagnostics)
