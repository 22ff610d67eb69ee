"""Ways through the statements of a function that several passes share."""

from __future__ import annotations

from collections.abc import Iterator

from artifact.choreo import syntax
from artifact.choreo.tables import Symbol, Tables

#: What leaves a block before its end.
JUMPS = syntax.Break | syntax.Continue | syntax.Return


def bodies(stmt: syntax.Stmt) -> tuple[syntax.Block, ...]:
    """The blocks directly inside a statement, in source order."""
    if isinstance(stmt, syntax.Block):
        return (stmt,)
    if isinstance(stmt, syntax.If):
        return (stmt.then,) if stmt.otherwise is None else (stmt.then, stmt.otherwise)
    if isinstance(
        stmt, syntax.Parallel | syntax.Inthreads | syntax.Foreach | syntax.While | syntax.Apply
    ):
        return (stmt.body,)
    return ()


def statements(block: syntax.Block) -> Iterator[syntax.Stmt]:
    """Every statement of a block, also nested ones, in source order."""
    for stmt in block.body:
        yield stmt
        for body in bodies(stmt):
            yield from statements(body)


def with_nested(stmt: syntax.Stmt) -> list[syntax.Stmt]:
    """A statement and every one nested in it, in source order."""
    return [stmt, *(inner for body in bodies(stmt) for inner in statements(body))]


def own(stmt: syntax.Stmt) -> Iterator[syntax.Node]:
    """The nodes of a statement itself, without the statements in its blocks."""
    yield stmt
    if not isinstance(stmt, syntax.Block):
        for child in syntax.children(stmt):
            if not isinstance(child, syntax.Block):
                yield from syntax.walk(child)


def changed_name(node: syntax.Node) -> syntax.Name | None:
    """The name of what a node assigns or counts: a scalar, or what an element belongs to."""
    if isinstance(node, syntax.Increment):
        return node.name
    if isinstance(node, syntax.Assign):
        return node.target.base if isinstance(node.target, syntax.Element) else node.target
    return None


def passed(
    tables: Tables, stmt: syntax.CallStmt
) -> Iterator[tuple[syntax.Expr | syntax.View, Symbol]]:
    """The arguments of a helper that name something, with the symbol behind each.

    It is that of the name, or of the whole array of which one buffer or tile is passed.
    """
    for arg in stmt.args:
        base: syntax.Node = arg.base if isinstance(arg, syntax.View) else arg
        symbol = tables.uses.get(base.base if isinstance(base, syntax.Index) else base)
        if symbol is not None:
            yield arg, symbol


class Places:
    """Where every statement of a function stands: its block and what encloses it."""

    def __init__(self, function: syntax.Function) -> None:
        self._block: dict[syntax.Node, syntax.Block] = {}
        self._owner: dict[syntax.Block, syntax.Stmt | None] = {function.body: None}
        self._index: dict[syntax.Node, int] = {}
        self._enter(function.body)

    def _enter(self, block: syntax.Block) -> None:
        for index, stmt in enumerate(block.body):
            self._block[stmt] = block
            self._index[stmt] = index
            for body in bodies(stmt):
                # A bare block is a statement and its own body.
                self._owner[body] = stmt
                self._enter(body)

    def block(self, stmt: syntax.Stmt) -> syntax.Block:
        """The block that a statement stands in."""
        return self._block[stmt]

    def index(self, stmt: syntax.Stmt) -> int:
        """Its position there."""
        return self._index[stmt]

    def enclosing(self, stmt: syntax.Stmt) -> Iterator[syntax.Stmt]:
        """The statements around one, innermost first."""
        owner = self._owner[self._block[stmt]]
        while owner is not None:
            yield owner
            owner = self._owner[self._block[owner]]

    def loops(self, stmt: syntax.Stmt) -> Iterator[syntax.Foreach | syntax.While]:
        """The loops around a statement, innermost first."""
        for owner in self.enclosing(stmt):
            if isinstance(owner, syntax.Foreach | syntax.While):
                yield owner

    def before(self, stmt: syntax.Stmt) -> Iterator[syntax.Stmt]:
        """What stands before a statement in its block and in the blocks around it.

        Nearest first; statements nested in those are not listed on their own.
        """
        here: syntax.Stmt | None = stmt
        while here is not None:
            block = self._block[here]
            yield from reversed(block.body[: self._index[here]])
            here = self._owner[block]

    def after(self, stmt: syntax.Stmt) -> tuple[syntax.Stmt, ...]:
        """What follows a statement in its own block."""
        return self._block[stmt].body[self._index[stmt] + 1 :]
