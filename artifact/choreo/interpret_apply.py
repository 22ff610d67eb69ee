"""``apply``: a body for every element that the threads of one warp own.

Statements of row vectors alone run once a row, before the elements. The rest runs for all elements
at once where none depends on another; where it changes a row vector, a lane goes through its
elements of a row one after the other, as its thread does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artifact.choreo import syntax
from artifact.choreo.emit_touches import Touches
from artifact.choreo.fragments import GROUP
from artifact.choreo.interpret_error import Report
from artifact.choreo.interpret_fragments import LANES, ROWS, Fragment
from artifact.choreo.interpret_locals import Lanes
from artifact.choreo.interpret_values import Value, Values, cast
from artifact.choreo.local_buffers import written_locals
from artifact.choreo.tables import FragmentPlan, Symbol, Tables
from artifact.choreo.thread_scalars import thread_scalars

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True)
class ApplyPlan:
    """How a statement is carried out, the same for all who execute it.

    Attributes:
        once: What runs once a row.
        each: What runs for every element.
        carries: Whether the elements of a row depend on one another.
        halves: Whether the two rows of a thread do: the thread has something of its own.
        scalars: The scalars in it of which every thread has its own.
        blocks: Where the columns lie that it runs over, in groups of 8.
    """

    node: syntax.Apply
    layout: FragmentPlan
    once: tuple[syntax.Stmt, ...]
    each: tuple[syntax.Stmt, ...]
    carries: bool
    halves: bool
    scalars: frozenset[Symbol]
    blocks: range


def plan_apply(tables: Tables, node: syntax.Apply) -> ApplyPlan:
    """Plan one statement."""
    layout = tables.fragments[tables.uses[node.fragment]]
    body = node.body.body
    names = {tables.uses.get(inner) for inner in syntax.walk(node.body)}
    scalars = frozenset(s for s in thread_scalars(tables) if s in names)
    halves = bool(written_locals(tables, node) or scalars)
    columns = tables.columns.get(node, range(layout.columns))
    blocks = range(columns.start // GROUP, columns.stop // GROUP)
    if layout.layout == "row":
        return ApplyPlan(node, layout, body, (), False, halves, scalars, blocks)
    touch = Touches(tables, node)
    each = tuple(s for s in body if touch.elements(s))
    # An assignment that is not to the element itself hands something on to the next one.
    carries = any(
        isinstance(inner, syntax.Assign)
        and inner not in tables.declares
        and not touch.is_matrix(inner.target)
        for stmt in each
        for inner in syntax.walk(stmt)
    )
    once = tuple(s for s in body if s not in each)
    return ApplyPlan(node, layout, once, each, carries, halves, scalars, blocks)


class Apply:
    """One execution of an ``apply`` statement."""

    def __init__(
        self,
        tables: Tables,
        plan: ApplyPlan,
        fragments: dict[Symbol, Fragment],
        values: Values,
        first_row: int,
        report: Report,
    ) -> None:
        self._tables = tables
        self._plan = plan
        self._fragments = fragments
        self._values = values
        self._first_row = first_row
        self._report = report
        self._step: int | None = None
        self._part_rows = slice(0, ROWS)
        self._threads: Array | None = None
        self._rows_only = True
        self._local: set[Symbol] = set()

    def run(self) -> None:
        """All of it."""
        outer = self._values.element, self._values.lanes
        self._values.element = self._read
        half = ROWS // 2
        parts = [slice(0, half), slice(half, ROWS)] if self._plan.halves else [slice(0, ROWS)]
        try:
            for self._part_rows in parts:
                self._rows_only = True
                self._run()
        finally:
            self._values.element, self._values.lanes = outer

    def _run(self) -> None:
        plan = self._plan
        self._place(None)
        self._body(plan.once, True)
        if not plan.each:
            return
        self._rows_only = False
        if not plan.carries:
            self._place(None, plan.blocks)
            variables = self._values.variables
            own = {s: variables[s] for s in plan.scalars}
            for symbol in (*self._local, *own):
                variables[symbol] = _along_rows(variables[symbol])
            self._body(plan.each, True)
            variables.update(own)
            return
        for step in range(2 * plan.blocks.start, 2 * plan.blocks.stop):
            self._place(step)
            self._body(plan.each, True)

    def _place(self, step: int | None, blocks: range = range(0)) -> None:
        """Set the coordinates: of rows, of all elements, or of one element of every lane."""
        import numpy as np

        self._step = step
        number = np.arange(ROWS)[self._part_rows, None]
        rows = self._first_row + number
        lanes = np.arange(LANES)
        self._threads = number % (ROWS // 2) * LANES + lanes
        coordinates: list[Array] = [rows, lanes]
        if blocks:
            block, pair = np.array(blocks)[:, None, None], np.arange(2)
            coordinates = [rows[:, :, None, None], GROUP * block + 2 * lanes[:, None] + pair]
            shape = (len(number), len(blocks), LANES, 2)
            self._threads = np.broadcast_to(self._threads[:, None, :, None], shape)
        elif step is not None:
            column = GROUP * (step // 2) + 2 * lanes + step % 2
            # Of every row too: a scalar that gets it is the threads' own.
            coordinates[1] = np.broadcast_to(column, self._threads.shape)
        symbols = self._tables.declares[self._plan.node]
        for symbol, values in zip(symbols, coordinates, strict=False):
            self._values.variables[symbol] = values

    # Statements --------------------------------------------------------------------------------

    def _body(self, body: tuple[syntax.Stmt, ...], mask: Value) -> None:
        for stmt in body:
            self._statement(stmt, mask)

    def _statement(self, stmt: syntax.Stmt, mask: Value) -> None:
        import numpy as np

        if self._values.locals and self._threads is not None:
            taking = np.broadcast_to(np.asarray(mask, dtype=bool), self._threads.shape)
            self._values.lanes = Lanes(self._threads, taking, apart=True)
        match stmt:
            case syntax.Block():
                self._body(stmt.body, mask)
            case syntax.If():
                condition = np.asarray(self._values.of(stmt.condition), dtype=bool)
                for arm, here in ((stmt.then, condition), (stmt.otherwise, ~condition)):
                    if arm is not None and np.any(mask & here):
                        self._body(arm.body, mask & here)
            case syntax.ScalarDecl():
                self._declare(stmt, stmt.value)
            case syntax.Assign():
                if stmt in self._tables.declares:
                    self._declare(stmt, stmt.value)
                else:
                    self._assign(stmt, mask)
            case _:
                raise self._report.error(
                    "unsupported", stmt, "this statement is not interpreted within apply"
                )

    def _declare(self, stmt: syntax.ScalarDecl | syntax.Assign, value: syntax.Expr) -> None:
        (symbol,) = self._tables.declares[stmt]
        self._local.add(symbol)
        self._values.variables[symbol] = self._values.converted(value, symbol.type)

    def _assign(self, stmt: syntax.Assign, mask: Value) -> None:
        import numpy as np

        if isinstance(stmt.target, syntax.Name):
            self._assign_local(stmt, stmt.target, mask)
            return
        symbol = self._tables.uses[stmt.target.base]
        if symbol.kind == "local":
            self._values.set_element(stmt.target, stmt.op, stmt.value, symbol)
            return
        fragment = self._fragment(stmt.target)
        value = self._values.of(stmt.value)
        if stmt.op != "=":
            value = self._values.combine(stmt.op[:-1], self._read(stmt.target), value, "f32")
        target = self._part(fragment, fragment.target(stmt.target))
        np.copyto(target, cast(value, fragment.plan.type), where=np.asarray(mask))

    def _assign_local(self, stmt: syntax.Assign, target: syntax.Name, mask: Value) -> None:
        import numpy as np

        symbol = self._tables.uses[target]
        if symbol not in self._local and symbol not in self._plan.scalars:
            raise self._report.error(
                "unsupported", stmt, f"{target.id} of outside is assigned within apply"
            )
        type_ = symbol.type or "f32"
        old = self._values.variables[symbol]
        value = self._values.converted(stmt.value, type_)
        if stmt.op != "=":
            value = cast(self._values.combine(stmt.op[:-1], old, value, type_), type_)
        self._values.variables[symbol] = np.where(mask, value, old)

    # Elements ----------------------------------------------------------------------------------

    def _fragment(self, node: syntax.Element) -> Fragment:
        return self._fragments[self._tables.uses[node.base]]

    def _read(self, node: syntax.Element) -> Value:
        fragment = self._fragment(node)
        return self._part(fragment, fragment.values(node))

    def _part(self, fragment: Fragment, values: Array) -> Array:
        """The elements at the coordinates at hand, as a view."""
        values = values[self._part_rows]
        if fragment.plan.layout == "row":
            together = not self._rows_only and self._step is None
            return values[:, None, :, None] if together else values
        if self._step is None:
            return values[:, self._plan.blocks.start : self._plan.blocks.stop]
        return values[:, self._step // 2, :, self._step % 2]


def _along_rows(values: Value) -> Value:
    """A scalar that every lane has once a row, to stand beside all elements."""
    return values[:, None, :, None] if getattr(values, "ndim", 0) == 2 else values
