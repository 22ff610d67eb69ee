"""The local buffers pass: arrays of one thread, and which of their elements exist.

Rules (co-language.md, 3 and 8.1, which name ``local`` storage; the rest is ours [R]):

* ``local T [d, ..] name {init};`` declares an array that each thread has for itself, ``name[N]`` an
  array of N of them. It stands inside a level of threads, and belongs to the block of its
  declaration, as a scalar does.
* An element is named by one index for each dimension, of an array by the number of the buffer too:
  ``name[k].at(i, j)``. What is known of an index lies within its extent.
* The buffers of a function fit into the 512 KiB that a thread can have at most.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.arithmetic import BYTES
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.names import bound_of
from artifact.choreo.tables import LocalPlan, Symbol, Tables
from artifact.choreo.threads import ThreadValues
from artifact.choreo.traverse import JUMPS, Places, own, passed, statements

#: Bytes of local memory that a thread of the hardware can have.
MOST = 512 * 1024

_GUARDS = syntax.If | syntax.While


def plan_locals(
    tables: Tables, diagnostics: Diagnostics, values: ThreadValues, places: Places
) -> None:
    """Fill ``locals``, and check every element; fragments are planned."""
    buffers = _Locals(tables, diagnostics, values, places)
    everything = list(statements(tables.function.body))
    for stmt in everything:
        if isinstance(stmt, syntax.LocalDecl):
            buffers.declare(stmt)
    for stmt in everything:
        for node in own(stmt):
            if isinstance(node, syntax.Element):
                buffers.element(stmt, node)
        if isinstance(stmt, syntax.CallStmt):
            for arg, symbol in passed(tables, stmt):
                buffers.argument(stmt, arg, symbol)


def written_locals(tables: Tables, node: syntax.Node) -> set[Symbol]:
    """The local buffers that the statements below a node assign elements of."""
    return {
        symbol
        for inner in syntax.walk(node)
        if isinstance(inner, syntax.Assign)
        and isinstance(inner.target, syntax.Element)
        and (symbol := tables.uses[inner.target.base]).kind == "local"
    }


class _Locals:
    def __init__(
        self, tables: Tables, diagnostics: Diagnostics, values: ThreadValues, places: Places
    ) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.values = values
        self.places = places
        self.bytes = 0
        self.jumps = any(isinstance(s, JUMPS) for s in statements(tables.function.body))

    def declare(self, stmt: syntax.LocalDecl) -> None:
        """Plan one buffer."""
        (symbol,) = self.tables.declares[stmt]
        shape = [self.tables.constants[extent] for extent in stmt.extents]
        tiles = 1 if stmt.tiles is None else self.tables.constants[stmt.tiles]
        plan = LocalPlan(symbol.type or "f32", tuple(map(int, shape)), int(tiles))
        self.tables.locals[symbol] = plan
        if not self._in_threads(stmt):
            self.diagnostics.error(
                "local-place",
                stmt,
                f"{symbol.name} is declared outside of a level of threads",
                rule="a local buffer is an array of one thread",
                repair="declare it inside 'parallel .. : thread', or write shared for a tile of "
                "the block",
            )
        before = self.bytes
        self.bytes += plan.elements * plan.tiles * BYTES[plan.type]
        if self.bytes > MOST >= before:
            self.diagnostics.error(
                "local-memory",
                stmt,
                f"the local buffers of a thread take {self.bytes} bytes up to here",
                rule=f"a thread has at most {MOST} bytes of local memory, and few of them are fast",
                repair="use smaller buffers, or shared memory",
            )

    def _in_threads(self, stmt: syntax.Stmt) -> bool:
        # A level without a kind is one of threads; the launch itself is the grid.
        launch = self.tables.launch
        return any(
            (level.kind or "thread") == "thread"
            for owner in self.places.enclosing(stmt)
            if isinstance(owner, syntax.Parallel)
            for number, level in enumerate(owner.levels)
            if launch is None or owner is not launch.node or number
        )

    # Elements ----------------------------------------------------------------------------------

    def element(self, stmt: syntax.Stmt, node: syntax.Element) -> None:
        """One access of a thread."""
        symbol = self.tables.uses[node.base]
        plan = self.tables.locals.get(symbol)
        if not self._named(node, symbol, node.tile) or plan is None:
            return
        if len(node.indices) != len(plan.shape):
            self.diagnostics.error(
                "view-rank",
                node,
                f"{len(node.indices)} indices of {node.base.id}, which has "
                f"{len(plan.shape)} dimensions",
                rule="an element has one index for every dimension",
                repair="write as many indices as the buffer has dimensions",
            )
            return
        guarded = self._guarded(stmt, node)
        if node.tile is not None:
            self._range(stmt, node.tile, plan.tiles, guarded=guarded)
        for index, extent in zip(node.indices, plan.shape, strict=True):
            self._range(stmt, index, extent, guarded=guarded)

    def argument(
        self, stmt: syntax.CallStmt, arg: syntax.Expr | syntax.View, symbol: Symbol
    ) -> None:
        """One of an array of buffers, which a helper gets."""
        base = arg.base if isinstance(arg, syntax.View) else None
        if not isinstance(base, syntax.Index) or symbol.kind != "local":
            return
        if self._named(arg, symbol, base.index):
            plan = self.tables.locals[symbol]
            self._range(stmt, base.index, plan.tiles, guarded=self._guarded(stmt, arg))

    def _named(self, node: syntax.Node, symbol: Symbol, tile: syntax.Expr | None) -> bool:
        """Whether a buffer of an array is named, and nothing else is indexed like one."""
        declared = symbol.node
        array = isinstance(declared, syntax.LocalDecl) and declared.tiles is not None
        if array and tile is None:
            self.diagnostics.error(
                "tile-missing",
                node,
                f"{symbol.name} is an array of buffers, and none of them is named",
                rule="an element belongs to one buffer",
                repair=f"write {symbol.name}[k].at(..)",
            )
        elif tile is not None and not array:
            self.diagnostics.error(
                "not-an-array",
                node,
                f"{symbol.name} is no array of buffers",
                rule="x[k].at(i) is an element of buffer k of 'local T [..] x[n]'",
                repair=f"write {symbol.name}.at(..)",
            )
        return array == (tile is not None)

    # Ranges ------------------------------------------------------------------------------------

    def _range(self, stmt: syntax.Stmt, index: syntax.Expr, extent: int, *, guarded: bool) -> None:
        """Check the values that an index takes for certain."""
        taken = self._taken(stmt, index, guarded=guarded)
        outside = next((v for v in taken if not 0 <= v < extent), None)
        if outside is not None:
            self.diagnostics.error(
                "index-range",
                index,
                f"index {outside} of {extent}",
                rule="an index is from 0 to the extent of its dimension, less one",
                repair=f"use an index from 0 to {extent - 1}",
            )

    def _taken(self, stmt: syntax.Stmt, index: syntax.Expr, *, guarded: bool) -> tuple[int, ...]:
        constant = self.tables.constants.get(index)
        if constant is not None:
            return (int(constant),)
        if guarded:
            return ()
        values, mask = self.values.of(index), self.tables.threads.get(stmt)
        if values is not None:
            return tuple(int(v) for t, v in enumerate(values) if mask and mask >> t & 1)
        return self._ends(index) or ()

    def _ends(self, expr: syntax.Expr) -> tuple[int, int] | None:
        """The first and the last value of a variable that counts, and of what moves with it."""
        constant = self.tables.constants.get(expr)
        if constant is not None:
            return int(constant), int(constant)
        if isinstance(expr, syntax.Name):
            taken = self._counted(self.tables.uses[expr])
            return (taken[0], taken[-1]) if taken else None
        if isinstance(expr, syntax.Binary) and expr.op in ("+", "-", "*"):
            left, right = self._ends(expr.left), self._ends(expr.right)
            if left is None or right is None or (left[0] != left[1] and right[0] != right[1]):
                return None
            one, two = (_combined(expr.op, a, b) for a, b in zip(left, right, strict=True))
            return one, two
        return None

    def _counted(self, symbol: Symbol) -> range | None:
        """The values that a variable of ``foreach`` or ``apply`` takes, where they are constant."""
        node = symbol.node
        if isinstance(node, syntax.Apply):
            plan = self.tables.fragments[self.tables.uses[node.fragment]]
            if node.variables.index(symbol.name):
                return self.tables.columns.get(node, range(plan.columns))
            return range(plan.rows)
        if symbol.kind != "loop":
            return None
        bound = self.tables.constants.get(bound_of(symbol))
        return range(bound) if isinstance(bound, int) else None

    def _guarded(self, stmt: syntax.Stmt, node: syntax.Node) -> bool:
        """Whether some threads or trips may not get to an access."""
        if self.jumps or any(isinstance(s, _GUARDS) for s in (stmt, *self.places.enclosing(stmt))):
            return True
        return any(
            (isinstance(n, syntax.Ternary) or (isinstance(n, syntax.Binary) and n.op in _SHORT))
            and node in syntax.walk(n)
            for n in own(stmt)
        )


_SHORT = ("&&", "||")


def _combined(op: str, left: int, right: int) -> int:
    return left + right if op == "+" else left - right if op == "-" else left * right
