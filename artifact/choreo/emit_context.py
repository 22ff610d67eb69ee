"""What every part of the emission of one function shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from artifact.choreo import syntax
from artifact.choreo.emit_expressions import CXX_TYPES, Expressions
from artifact.choreo.emit_names import Names
from artifact.choreo.tables import Launch, Symbol, Tables, TensorMapPlan
from artifact.choreo.writer import Writer

_COMMENT_WIDTH = 104
_SPACE = re.compile(r"\s+")
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def _no_statement(node: syntax.Stmt) -> None:
    raise AssertionError(f"nobody emits statements yet: {node.span}")


@dataclass
class Context:
    """One function on its way to CUDA C++.

    ``out`` is where the text goes; ``maps`` are the tensor maps that the kernel needs, with their
    parameters' names.
    """

    tables: Tables
    source: str
    names: Names
    expressions: Expressions
    out: Writer = field(default_factory=Writer)
    maps: dict[TensorMapPlan, str] = field(default_factory=dict)
    origins: dict[Symbol, tuple[str | None, ...]] = field(default_factory=dict)
    """Named views: where they begin in their root, by dimension, in elements; null is 0."""
    tiles: dict[Symbol, str] = field(default_factory=dict)
    """Named views of one tile of several: the tile's number."""
    phases: dict[Symbol, str] = field(default_factory=dict)
    """Scalar events to this thread's parity variable."""
    loads: dict[Symbol, tuple[syntax.Transfer, tuple[str, ...]]] = field(default_factory=dict)
    """Futures of loads that their trigger issues: the load, and the operands that it had at the
    place of its statement."""

    statement: Callable[[syntax.Stmt], None] = _no_statement
    """Emits one statement: set by the module that knows them all."""
    assign_operand: Callable[[syntax.Assign], bool] | None = None
    """Within ``apply``: emits a store into an operand fragment, and says whether it was one."""

    def __post_init__(self) -> None:
        self.read = frozenset(self.tables.uses.values())
        """Symbols that some name of the source stands for."""

    @property
    def function(self) -> syntax.Function:
        """The function."""
        return self.tables.function

    @property
    def launch(self) -> Launch:
        """Its one launch."""
        launch = self.tables.launch
        if launch is None:
            raise AssertionError(f"{self.function.name} launches nothing")
        return launch

    def symbol(self, name: syntax.Name) -> Symbol:
        """What a name stands for."""
        return self.tables.uses[name]

    def text(self, node: syntax.Expr, binding: int = 0) -> str:
        """An expression in C++."""
        return self.expressions.text(node, binding)

    def cxx_type(self, symbol: Symbol) -> str:
        """A scalar's type in C++."""
        if symbol.type is None:
            raise AssertionError(f"{symbol.name} has no element type")
        return CXX_TYPES[symbol.type]

    def quote(self, node: syntax.Node, body: syntax.Node | None = None) -> None:
        """A comment with the source's line number and text; up to ``body`` where that is given."""
        self.out.comment(f"{node.span.line}: {self.excerpt(node, body)}")

    def excerpt(self, node: syntax.Node, body: syntax.Node | None = None) -> str:
        """The source text of a node in one line, shortened."""
        span = node.span
        end = (body.span.line, body.span.column) if body else (span.end_line, span.end_column)
        lines = self.source.splitlines()[span.line - 1 : end[0]]
        if not lines:
            return ""
        if end[0] > span.line:
            lines[-1] = lines[-1][: end[1] - 1]
            lines[0] = lines[0][span.column - 1 :]
        else:
            lines[0] = lines[0][span.column - 1 : end[1] - 1]
        text = _SPACE.sub(" ", _COMMENTS.sub(" ", "\n".join(lines))).strip()
        # A comment's last character may not continue it into the next line.
        text = text.rstrip("\\ ")
        return text if len(text) <= _COMMENT_WIDTH else text[: _COMMENT_WIDTH - 4] + " ..."

    @contextmanager
    def block(self, head: str | None = "", tail: str = "}") -> Iterator[None]:
        """A C++ block that is also a scope of names."""
        with self.out.block(head, tail), self.names.scope():
            yield
