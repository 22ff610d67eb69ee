"""The MMA pass: shapes, operands and swizzles of every tensor core operation.

Rules (co-language.md, 11):

* ``mma.row.row`` takes A ``[64, K]`` and B ``[N, K]``, ``mma.row.col`` B ``[K, N]``; K is a
  multiple of 16, N of 8 from 8 to 256. Operands are bf16, accumulators f32.
* A is a view of shared memory or a register fragment, B a view of shared memory.
* An operand in shared memory is swizzled [R]: without a swizzle the address pattern of a
  descriptor does not fit a row-major tile. It begins at a multiple of 8 rows and of a whole panel
  of columns, or the swizzle's pattern would be another one; so do the panels of its buffer.
* All 128 threads of a warpgroup execute an MMA, and name the same tiles: the hardware takes one
  descriptor for all [R]. So with ``mma.load`` and ``mma.store``, of which each thread does a part.
* A ``mma.fill`` of zero that only its MMA follows becomes scale-d = 0 of the first step.
* ``mma.load`` reads an operand in shared memory that an MMA could read [R].
* ``mma.store`` writes ``[64, N]`` to a view of that shape.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.fragments import K_STEP, ROWS
from artifact.choreo.tables import MmaPlan, Symbol, Tables, Term, ViewPlan
from artifact.choreo.threads import ThreadValues, warpgroup_mask, warpgroups, whole
from artifact.choreo.traverse import JUMPS, Places, statements
from artifact.choreo.views import squeezed


def plan_mmas(
    tables: Tables, diagnostics: Diagnostics, values: ThreadValues, places: Places
) -> None:
    """Fill ``mmas`` and ``fused_fills``."""
    mmas = _Mmas(tables, diagnostics, values, places)
    for stmt in statements(tables.function.body):
        if isinstance(stmt, syntax.MmaFill):
            mmas.fuse(stmt)
    for stmt in statements(tables.function.body):
        if isinstance(stmt, syntax.Mma):
            mmas.plan(stmt)
        elif isinstance(stmt, syntax.MmaLoad):
            mmas.load(stmt)
        elif isinstance(stmt, syntax.MmaStore):
            mmas.store(stmt)
        elif isinstance(stmt, syntax.Reduce | syntax.AllReduce):
            # Lanes of a warp exchange their values; other warps need not get there.
            mmas.together(stmt, unit=32)


def origin_terms(tables: Tables, plan: ViewPlan, dim: int) -> tuple[Term, ...]:
    """Everything that adds to a view's origin in a dimension of its root."""
    node = plan.base.node
    if plan.base is plan.root or not isinstance(node, syntax.ViewDecl):
        return plan.added[dim]
    return (*origin_terms(tables, tables.views[node.view], dim), *plan.added[dim])


def differs(tables: Tables, values: ThreadValues, plan: ViewPlan, mask: int) -> bool:
    """Whether a view may be another one for some threads of a set."""
    if plan.tile is not None and values.varies(plan.tile, mask):
        return True
    return any(
        values.varies(term.index, mask)
        for dim in range(len(plan.added))
        for term in origin_terms(tables, plan, dim)
    )


class _Mmas:
    def __init__(
        self, tables: Tables, diagnostics: Diagnostics, values: ThreadValues, places: Places
    ) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.values = values
        self.places = places
        self.clearing: set[syntax.Mma] = set()

    # Fills -------------------------------------------------------------------------------------

    def fuse(self, fill: syntax.MmaFill) -> None:
        """Let an MMA clear its accumulator, where it is the next to touch it."""
        if self.tables.constants.get(fill.value) != 0:
            return
        symbol = self.tables.fills[fill]
        for stmt in self.places.after(fill):
            if isinstance(stmt, syntax.Mma) and self.tables.uses[stmt.accumulator] is symbol:
                self.tables.fused_fills.add(fill)
                self.clearing.add(stmt)
                return
            for node in syntax.walk(stmt):
                touches = self.tables.uses.get(node) is symbol or (
                    isinstance(node, syntax.MmaFill) and self.tables.fills[node] is symbol
                )
                if touches or isinstance(node, JUMPS):
                    return

    # Operations --------------------------------------------------------------------------------

    def plan(self, stmt: syntax.Mma) -> None:
        """Check an MMA and plan it."""
        self.together(stmt)
        if stmt.a_order != "row":
            self.diagnostics.error(
                "mma-order",
                stmt,
                "A is stored by columns",
                rule="A is row-major: mma.row.row and mma.row.col are the forms",
                repair="store A as [M, K] with K contiguous",
            )
            return
        a_shape = self._a_shape(stmt)
        b = self._shared(stmt.b)
        if a_shape is None or b is None:
            return
        n, k = (0, 1) if stmt.b_order == "row" else (1, 0)
        shape = self._shape(stmt, a_shape, (b.extents[n], b.extents[k]))
        if shape is None:
            return
        accumulator = self.tables.fragments[self.tables.uses[stmt.accumulator]]
        if accumulator.layout != "accumulator" or accumulator.columns != shape[0]:
            self._mismatch(stmt, f"the accumulator is not [{ROWS}, {shape[0]}]")
            return
        for view in (stmt.a, stmt.b):
            self._same(stmt, view)
        a = self.tables.views.get(stmt.a)
        a_plan: ViewPlan | Symbol = (
            squeezed(a) if a is not None else self.tables.uses[_base(stmt.a)]
        )
        self.tables.mmas[stmt] = MmaPlan(
            n=shape[0],
            k=shape[1],
            a=a_plan,
            b=b,
            a_swizzle=self._operand(stmt.a, a_plan) if isinstance(a_plan, ViewPlan) else 0,
            b_swizzle=self._operand(stmt.b, b, transposed=stmt.b_order == "col"),
            clears=stmt in self.clearing,
        )

    def _a_shape(self, stmt: syntax.Mma) -> tuple[object, object] | None:
        symbol = self.tables.uses[_base(stmt.a)]
        if symbol.kind == "fragment":
            plan = self.tables.fragments[symbol]
            return plan.rows, plan.columns
        a = self._shared(stmt.a)
        return (a.extents[0], a.extents[1]) if a is not None else None

    def _shared(self, view: syntax.View) -> ViewPlan | None:
        """An operand that must be a matrix of bf16 in shared memory."""
        plan = self.tables.views.get(view)
        if plan is None:
            self.diagnostics.error(
                "mma-operand",
                view,
                "this operand does not lie in shared memory",
                rule="A is a view of shared memory or a register fragment, B a view",
                repair="load it into a shared buffer first",
            )
            return None
        plan = squeezed(plan)
        if plan.root.kind != "shared" or plan.root.type != "bf16" or len(plan.extents) != 2:
            self.diagnostics.error(
                "mma-operand",
                view,
                f"this operand is a view of {plan.root.name}, {plan.root.type} in "
                f"{'shared' if plan.root.kind == 'shared' else 'global'} memory, with "
                f"{len(plan.extents)} dimensions",
                rule="operands in memory are two-dimensional bf16 views of shared buffers",
                repair="load the tile into a shared bf16 buffer first",
            )
            return None
        return plan

    def _shape(
        self, stmt: syntax.Mma, a: tuple[object, object], b: tuple[object, object]
    ) -> tuple[int, int] | None:
        """N and K, if the operands fit each other and the instruction."""
        (m, k), (n, b_k) = a, b
        if not isinstance(n, int) or not isinstance(k, int):
            self._mismatch(stmt, "the extents are not constant")
            return None
        if k != b_k:
            self._mismatch(stmt, f"A has K = {k}, B has K = {b_k}")
            return None
        if m != ROWS:
            self._mismatch(stmt, f"A has {m} rows, a warpgroup multiplies {ROWS}")
            return None
        if k % K_STEP or n % 8 or not 8 <= n <= 256:
            self._mismatch(stmt, f"N = {n}, K = {k}")
            return None
        return n, k

    def _mismatch(self, stmt: syntax.Mma, what: str) -> None:
        form = "B [N, K]" if stmt.b_order == "row" else "B [K, N]"
        self.diagnostics.error(
            "mma-shape",
            stmt,
            f"MMA: matrix shapes do not match: {what}",
            rule=f"acc [64, N] += A [64, K] * {form}; K a multiple of 16, N of 8 from 8 to 256",
            repair="take the tiles of these shapes with .subspan(..).at(..)",
        )

    def _operand(self, view: syntax.View, plan: ViewPlan, *, transposed: bool = False) -> int:
        """Check how an operand lies in its buffer; its swizzle."""
        shared = self.tables.shared[plan.root]
        if not shared.swizzle:
            self.diagnostics.error(
                "mma-swizzle",
                view,
                f"{plan.root.name} has no swizzle",
                rule="an operand of an MMA is swizzled by the transfer that fills it",
                repair="write .swiz<128> in that transfer",
            )
            return 0
        panel = shared.swizzle // 2
        if shared.columns > panel and shared.rows % 8:
            self.diagnostics.error(
                "mma-alignment",
                view,
                f"the panels of {plan.root.name} have {shared.rows} rows",
                rule="each panel of an operand's buffer begins at a whole swizzle pattern: 8 rows",
                repair="use a buffer of a multiple of 8 rows",
            )
        for dim, unit, what in ((-2, 8, "rows"), (-1, panel, "columns")):
            if not self._multiple(plan, dim, unit):
                self.diagnostics.error(
                    "mma-alignment",
                    view,
                    f"this operand may begin between multiples of {unit} {what}",
                    rule="an operand begins at whole swizzle patterns: 8 rows, a panel of columns",
                    repair=f"use tiles of a multiple of {unit} {what}",
                )
        columns = plan.extents[1]
        if transposed and isinstance(columns, int) and columns > panel and columns % panel:
            self.diagnostics.error(
                "mma-alignment",
                view,
                f"{columns} columns are no whole panels of {panel}",
                rule="a B of mma.row.col has whole panels of columns",
                repair=f"use a multiple of {panel} columns",
            )
        return shared.swizzle

    def _multiple(self, plan: ViewPlan, dim: int, unit: int) -> bool:
        """Whether a view begins at multiples of ``unit`` in a dimension of its root."""
        if len(plan.added) + dim < 0:
            return True
        return all(
            multiple(self.tables, self.values, term, unit)
            for term in origin_terms(self.tables, plan, len(plan.added) + dim)
        )

    def load(self, stmt: syntax.MmaLoad) -> None:
        """Check where a register operand is loaded from."""
        self.together(stmt)
        plan = self._shared(stmt.source)
        if plan is not None:
            self._operand(stmt.source, plan)
            self._same(stmt, stmt.source)

    def store(self, stmt: syntax.MmaStore) -> None:
        """Check where an accumulator is stored."""
        self.together(stmt)
        plan = self.tables.views.get(stmt.destination)
        fragment = self.tables.fragments[self.tables.uses[stmt.accumulator]]
        if fragment.layout != "accumulator":
            self.diagnostics.error(
                "store-layout",
                stmt,
                f"{stmt.accumulator.id} is no accumulator",
                rule="mma.store writes an accumulator",
                repair="store the accumulator of the MMA",
            )
            return
        if plan is None:
            return
        self._same(stmt, stmt.destination)
        plan = squeezed(plan)
        if plan.extents != (fragment.rows, fragment.columns):
            shape = ", ".join(str(e) if isinstance(e, int) else "?" for e in plan.extents)
            self.diagnostics.error(
                "store-shape",
                stmt,
                f"an accumulator of [{fragment.rows}, {fragment.columns}] goes to [{shape}]",
                rule="mma.store writes a view of the accumulator's shape",
                repair=f"take it with .subspan({fragment.rows}, {fragment.columns}).at(..)",
            )
        elif plan.root.type != "bf16":
            self.diagnostics.error(
                "store-type",
                stmt,
                f"{plan.root.name} is {plan.root.type}",
                rule="mma.store converts to bf16",
                repair="store to a bf16 tensor or buffer",
            )
        elif plan.root.kind == "shared" and not (
            self._multiple(plan, -2, 8)
            and self._multiple(plan, -1, (self.tables.shared[plan.root].swizzle or 16) // 2)
        ):
            self.diagnostics.error(
                "mma-alignment",
                stmt.destination,
                "this view may begin inside a swizzle pattern",
                rule="a stored tile begins at whole swizzle patterns: 8 rows, a panel of columns",
                repair="use tiles of a multiple of 8 rows and of whole panels",
            )

    def _same(self, stmt: syntax.Stmt, view: syntax.View) -> None:
        """Check that the threads of a warpgroup mean the same part of memory."""
        plan, mask = self.tables.views.get(view), self.tables.threads.get(stmt)
        if plan is None or mask is None:
            return
        parts = [mask & warpgroup_mask(group) for group in warpgroups(mask)]
        if any(differs(self.tables, self.values, plan, part) for part in parts):
            self.diagnostics.error(
                "operand-differs",
                view,
                "threads of one warpgroup name different tiles",
                rule="a warpgroup works on one tile: where it lies may depend on the warpgroup, "
                "not on the thread or the warp",
                repair="compute the place from the variables of block and group-4 and from what "
                "all threads of the warpgroup share",
            )

    def together(self, stmt: syntax.Stmt, *, unit: int = 128) -> None:
        """All threads of a warpgroup get to an MMA, a load, a reduction or a store."""
        mask = self.tables.threads.get(stmt)
        if mask is None or not whole(mask, 128):
            self.diagnostics.error(
                "mma-threads",
                stmt,
                "not all 128 threads of a warpgroup get here",
                rule="MMAs, stores, loads of operands and reductions are the work of whole "
                "warpgroups",
                repair="move it out of the inthreads that splits the warpgroup",
            )
            return
        divergent = self.values.divergent(stmt, mask)
        if divergent is not None:
            self._divergent(stmt, divergent, mask, unit)

    def _divergent(self, stmt: syntax.Stmt, divergent: syntax.Stmt, mask: int, unit: int) -> None:
        """A condition may differ between warpgroups (or warps), but not within one."""
        what = "warpgroup" if unit == 128 else "warp"
        for group in range(0, mask.bit_length(), unit):
            part = mask & ((1 << unit) - 1) << group
            if part and self.values.divergent(stmt, part) is not None:
                self.diagnostics.error(
                    "divergent",
                    stmt,
                    f"the condition of line {divergent.span.line} splits a {what} here",
                    rule=f"what a {what} does together stands under conditions that all of its "
                    "threads share",
                    repair="use inthreads for roles, and uniform conditions within them",
                )
                return


def multiple(tables: Tables, values: ThreadValues, term: Term, unit: int) -> bool:
    """Whether a summand of an origin is a multiple of ``unit`` for certain."""
    if isinstance(term.scale, int):
        if term.scale % unit == 0:
            return True
        known = values.of(term.index)
        return known is not None and all(int(v) * term.scale % unit == 0 for v in known)
    return False


def _base(view: syntax.View) -> syntax.Name:
    return view.base if isinstance(view.base, syntax.Name) else view.base.base
