"""The threads pass: which threads reach each statement.

Rules (co-language.md, 7):

* A predicate of ``inthreads`` is evaluated for every thread id, with every parallel variable as
  ``(tid / unit) % bound``, and joined with the threads of the enclosing ``inthreads``. Immutable
  scalars computed from such variables count too.
* Where it cannot be evaluated the set is unknown; an info says so, and what depends on the set is
  an error later.
* A predicate differs between the threads of a block; a role has at least one thread.
* ``.async`` stands only at the outermost ``inthreads``.
* ``if``, ``while`` and ``foreach`` do not change the set. What meets at a barrier therefore may
  not stand under a condition that differs between the threads [R]; the events, transfers and MMA
  passes ask :meth:`ThreadValues.divergent` for it.
"""

from __future__ import annotations

from collections.abc import Callable

from artifact.choreo import syntax
from artifact.choreo.arithmetic import fold, fold_call, fold_unary, same_after
from artifact.choreo.comparisons import is_comparison, is_vote
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import JUMPS, Places, bodies, changed_name, own, passed, statements

Values = tuple[int | float | bool, ...]


def plan_threads(tables: Tables, diagnostics: Diagnostics, values: ThreadValues) -> None:
    """Fill ``threads``."""
    if tables.launch is None:
        return
    everyone = (1 << tables.launch.threads) - 1
    _visit(tables, diagnostics, values, tables.launch.node.body, everyone, 0)


def _visit(
    tables: Tables,
    diagnostics: Diagnostics,
    values: ThreadValues,
    block: syntax.Block,
    mask: int | None,
    depth: int,
) -> None:
    for stmt in block.body:
        tables.threads[stmt] = mask
        if isinstance(stmt, syntax.Inthreads):
            if stmt.is_async and depth:
                diagnostics.error(
                    "nested-async",
                    stmt,
                    "an inner inthreads is not asynchronous",
                    rule="only the outermost inthreads may be .async",
                    repair="drop '.async'",
                )
            inner = _role(tables, diagnostics, values, stmt, mask)
            _visit(tables, diagnostics, values, stmt.body, inner, depth + 1)
        else:
            for body in bodies(stmt):
                _visit(tables, diagnostics, values, body, mask, depth)


def _role(
    tables: Tables,
    diagnostics: Diagnostics,
    values: ThreadValues,
    stmt: syntax.Inthreads,
    enclosing: int | None,
) -> int | None:
    found = values.of(stmt.condition)
    if found is None:
        diagnostics.add(
            "info",
            "unknown-threads",
            stmt.condition,
            "the threads of this role are not known at compile time",
            rule="a predicate compares variables of parallel with constants",
            repair="use 'if' where no event, transfer or MMA depends on it",
        )
        return None
    chosen = sum(1 << thread for thread, value in enumerate(found) if value)
    if chosen in (0, (1 << len(found)) - 1):
        diagnostics.error(
            "uniform-role",
            stmt.condition,
            f"this holds for {'no' if chosen == 0 else 'every'} thread of the block",
            rule="the predicate of inthreads differs between threads",
            repair="use 'if', or compare a variable of parallel within its bound",
        )
        return enclosing
    if enclosing is None:
        return None
    if chosen & enclosing == 0:
        diagnostics.error(
            "empty-role",
            stmt.condition,
            "no thread of the enclosing role gets here",
            rule="a role has at least one thread",
            repair="check the predicate against that of the enclosing inthreads",
        )
        return enclosing
    return chosen & enclosing


class ThreadValues:
    """Values of expressions for every thread of a block, where they depend on nothing else."""

    def __init__(self, tables: Tables, places: Places) -> None:
        self._tables = tables
        self._places = places
        self._count = tables.launch.threads if tables.launch else 1
        self._known: dict[syntax.Node, Values | None] = {}
        self._assigned = _assignments(tables)
        everything = list(statements(tables.function.body))
        self._order = {stmt: position for position, stmt in enumerate(everything)}
        self._jumps = [s for s in everything if isinstance(s, JUMPS)]

    def of(self, expr: syntax.Expr) -> Values | None:
        """By thread id; null where the value is not known at compile time."""
        if expr not in self._known:
            self._known[expr] = self._compute(expr)
        return self._known[expr]

    def _compute(self, expr: syntax.Expr) -> Values | None:
        tables = self._tables
        constant = tables.constants.get(expr)
        if constant is not None:
            return (constant,) * self._count
        match expr:
            case syntax.Name():
                symbol = tables.uses.get(expr)
                if symbol is None:
                    return None
                plan = tables.levels.get(symbol)
                if plan is not None:
                    return tuple(t // plan.unit % plan.bound for t in range(self._count))
                node = symbol.node
                if symbol.kind == "scalar" and isinstance(node, syntax.ScalarDecl | syntax.Assign):
                    values = self.of(node.value)
                    kept = values is not None and all(
                        same_after(value, symbol.type) for value in values
                    )
                    return values if kept else None
                return None
            case syntax.Unary():
                type_ = tables.types.get(expr, "s32")
                return self._map(lambda v: fold_unary(expr.op, v[0], type_), expr.operand)
            case syntax.Binary():
                return self._binary(expr)
            case syntax.Ternary():
                return self._map(
                    lambda v: v[1] if v[0] else v[2], expr.condition, expr.then, expr.otherwise
                )
            case syntax.BuiltinCall():
                return self._map(lambda v: fold_call(expr.name, v), *expr.args)
            case syntax.Compose():
                left, right = self.of(expr.left), self.of(expr.right)
                symbol = tables.uses.get(expr.right)
                plan = tables.levels.get(symbol) if symbol is not None else None
                if left is None or right is None or plan is None:
                    return None
                return tuple(a * plan.bound + b for a, b in zip(left, right, strict=True))
        return None

    def _binary(self, expr: syntax.Binary) -> Values | None:
        # The type of the operands: a comparison's own is bool.
        type_ = self._tables.types.get(expr, "s32")
        if type_ == "bool":
            type_ = "s64"
        return self._map(
            lambda v: (
                None if expr.op in ("/", "%") and v[1] == 0 else fold(expr.op, v[0], v[1], type_)
            ),
            expr.left,
            expr.right,
        )

    def _map(
        self,
        function: Callable[[tuple[int | float | bool, ...]], int | float | bool | None],
        *operands: syntax.Expr,
    ) -> Values | None:
        columns = []
        for operand in operands:
            values = self.of(operand)
            if values is None:
                return None
            columns.append(values)
        out = []
        for row in zip(*columns, strict=True):
            value = function(row)
            if value is None:
                return None
            out.append(value)
        return tuple(out)

    def varies(self, expr: syntax.Node, mask: int) -> bool:
        """Whether an expression may differ between threads of a set."""
        return self._varies(expr, mask, set())

    def _varies(self, node: syntax.Node, mask: int, seen: set[syntax.Node]) -> bool:
        """The same in one search.

        What it has seen did not vary, or is being looked at: whatever varies ends the search.
        """
        if node in seen:
            return False
        seen.add(node)
        if isinstance(node, _EXPRESSIONS):
            values = self.of(node)
            if values is not None:
                return len({v for t, v in enumerate(values) if mask >> t & 1}) > 1
        if isinstance(node, syntax.Name):
            # Also the base of an element of a local buffer.
            symbol = self._tables.uses.get(node)
            if symbol is None:
                return False
            if symbol.kind == "coordinate":
                return True
            return any(
                self._differs_after(stmt, mask, seen)
                for stmt in self._assigned.get(symbol, ())
                if stmt not in seen
            )
        if is_vote(node) and of_one_warp(mask):
            # A warp agrees on it, whatever its threads have.
            return False
        if is_comparison(node):
            return True
        if isinstance(node, syntax.Element):
            base = self._tables.uses.get(node.base)
            if base is not None and base.kind == "fragment":
                return True
        return any(self._varies(child, mask, seen) for child in syntax.children(node))

    def _differs_after(self, stmt: syntax.Stmt, mask: int, seen: set[syntax.Node]) -> bool:
        """Whether an assignment leaves a scalar different in threads of a set."""
        seen.add(stmt)
        if isinstance(stmt, syntax.CallStmt):
            # What a helper writes into a local buffer nobody knows.
            return True
        given: list[syntax.Node] = []
        if isinstance(stmt, syntax.ScalarDecl | syntax.Assign):
            given.append(stmt.value)
        if isinstance(stmt, syntax.Assign) and isinstance(stmt.target, syntax.Element):
            given += [e for e in (stmt.target.tile, *stmt.target.indices) if e is not None]
        if isinstance(stmt, syntax.LocalDecl) and stmt.init is not None:
            given.append(stmt.init)
        if any(self._varies(node, mask, seen) for node in given):
            return True
        # Some threads may assign and others not.
        threads = self._tables.threads.get(stmt)
        if threads is not None and threads & mask not in (0, mask):
            return True
        return self._divergent(stmt, mask, seen) is not None

    def divergent(self, stmt: syntax.Stmt, mask: int) -> syntax.Stmt | None:
        """The ``if``, loop or role that splits a set of threads on its way to a statement.

        It is around the statement, or around a jump that passes by it.
        """
        return self._divergent(stmt, mask, set())

    def _divergent(
        self, stmt: syntax.Stmt, mask: int, seen: set[syntax.Node]
    ) -> syntax.Stmt | None:
        for owner in self._places.enclosing(stmt):
            conditions: tuple[syntax.Expr, ...] = ()
            if isinstance(owner, syntax.If | syntax.While):
                conditions = (owner.condition,)
            elif isinstance(owner, syntax.Foreach):
                conditions = owner.bounds
            if any(self._varies(condition, mask, seen) for condition in conditions):
                return owner
        for jump in self._jumps:
            if jump in seen or not self._passes_by(jump, stmt):
                continue
            threads = self._tables.threads.get(jump)
            if threads is not None and threads & mask not in (0, mask):
                return next(self._places.enclosing(jump))
            if threads is None or threads & mask:
                seen.add(jump)
                split = self._divergent(jump, mask, seen)
                if split is not None:
                    return split
        return None

    def _passes_by(self, jump: syntax.Stmt, stmt: syntax.Stmt) -> bool:
        """Whether a thread that jumps may not get to a statement that others get to."""
        before = self._order[jump] < self._order[stmt]
        loop = next(self._places.loops(jump), None)
        around = list(self._places.loops(stmt))
        match jump:
            case syntax.Continue():
                return before and loop in around
            case syntax.Break():
                return loop in around
        return before or any(other in around for other in self._places.loops(jump))


def _assignments(tables: Tables) -> dict[Symbol, list[syntax.Stmt]]:
    """The statements that give each scalar, or an element of each local buffer, a value."""
    out: dict[Symbol, list[syntax.Stmt]] = {}
    for stmt in statements(tables.function.body):
        changed = list(tables.declares.get(stmt, ()))
        names = (changed_name(node) for node in own(stmt))
        changed += [tables.uses[name] for name in names if name in tables.uses]
        if isinstance(stmt, syntax.CallStmt):
            changed += [symbol for _, symbol in passed(tables, stmt) if symbol.kind == "local"]
        for symbol in changed:
            if symbol.kind in ("scalar", "mutable", "local"):
                out.setdefault(symbol, []).append(stmt)
    return out


_EXPRESSIONS = (
    syntax.IntLit,
    syntax.FloatLit,
    syntax.BoolLit,
    syntax.Name,
    syntax.Unary,
    syntax.Binary,
    syntax.Ternary,
    syntax.BuiltinCall,
    syntax.Compose,
)


def of_one_warp(mask: int) -> bool:
    """Whether the threads of a set are all of one warp."""
    return len(warps(mask)) <= 1


def warpgroups(mask: int) -> tuple[int, ...]:
    """The numbers of the warpgroups that have threads in a set."""
    numbers = range((mask.bit_length() + 127) // 128)
    return tuple(group for group in numbers if mask & warpgroup_mask(group))


def warps(mask: int) -> tuple[int, ...]:
    """The numbers of the warps that have threads in a set."""
    numbers = range((mask.bit_length() + 31) // 32)
    return tuple(warp for warp in numbers if mask & warp_mask(warp))


def warp_mask(warp: int) -> int:
    """The threads of the warp of a number."""
    return (1 << 32) - 1 << 32 * warp


def warpgroup_mask(group: int) -> int:
    """The threads of the warpgroup of a number."""
    return (1 << 128) - 1 << 128 * group


def whole(mask: int, unit: int) -> bool:
    """Whether a set is made of whole groups of ``unit`` threads (32: warps, 128: warpgroups)."""
    full = (1 << unit) - 1
    while mask:
        if mask & full not in (0, full):
            return False
        mask >>= unit
    return True
