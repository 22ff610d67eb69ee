"""The fragments pass: how each fragment lies in registers, and what may be done with it.

Rules (co-language.md, 10):

* Layouts follow from use: accumulators and register operands of MMAs; what ``mma.load`` loads is
  a register operand [R]; destinations of reductions and limits of ``__above`` are row vectors; then
  ``copy`` and ``apply`` carry a layout on, until nothing changes. A fragment that nothing anchors
  is an error [R]: its registers would be a guess.
* A fragment belongs to whole warpgroups.
* In ``apply {i, j} in x.span`` a two-dimensional fragment is read and written at exactly
  ``(i, j)``, a row vector at ``(i)`` [R]; outside of ``apply`` there are no elements [R].
* An ``apply`` may run over a part of a matrix: whole rows of a constant multiple of 8 columns,
  which begin at one; its coordinates are those of the fragment [R].
* A body assigns scalars of its own and mutables: each thread then has its own value of them [R].
* What touches row vectors alone runs once a row, before the elements: in a body it stands first.
* ``reduce`` reduces dimension 1 of a matrix into a row vector; ``all_reduce`` takes a row
  vector; ``copy`` takes two fragments of one layout [R].
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.comparisons import compared
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.local_buffers import written_locals
from artifact.choreo.tables import FragmentPlan, Symbol, Tables
from artifact.choreo.thread_scalars import written_scalars
from artifact.choreo.threads import whole
from artifact.choreo.traverse import own, statements
from artifact.choreo.views import squeezed

#: Rows of a warpgroup's tile.
ROWS = 64
#: Columns of A that one instruction multiplies (BF16).
K_STEP = 16
#: Columns of which four neighbouring lanes own two each.
GROUP = 8
MATRICES = ("accumulator", "operand")


def plan_fragments(tables: Tables, diagnostics: Diagnostics) -> None:
    """Fill ``fragments``; views are planned."""
    _Fragments(tables, diagnostics).run()


class _Fragments:
    def __init__(self, tables: Tables, diagnostics: Diagnostics) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.shapes: dict[Symbol, tuple[int, ...]] = {}
        self.all = [s for s in tables.symbols if s.kind == "fragment"]
        self.reported: set[Symbol] = set()
        self.inside: set[syntax.Stmt] = set()
        """Statements in the bodies of apply."""

    def run(self) -> None:
        stmts = list(statements(self.tables.function.body))
        for symbol in self.all:
            if isinstance(symbol.node, syntax.FragDecl):
                extents = [self.tables.constants.get(e) for e in symbol.node.extents]
                self.shapes[symbol] = tuple(e for e in extents if isinstance(e, int))
        for stmt in stmts:
            if isinstance(stmt, syntax.Mma):
                self._anchor(stmt)
            elif isinstance(stmt, syntax.MmaLoad):
                self._anchor_load(stmt)
            elif isinstance(stmt, syntax.Apply):
                self.inside.update(statements(stmt.body))
        for stmt in stmts:
            if isinstance(stmt, syntax.Reduce | syntax.AllReduce):
                self._row(self.tables.uses[stmt.target])
            for _, limit in compared(stmt):
                self._row(self.tables.uses[limit])
        while self._propagate(stmts):
            pass
        for symbol in self.all:
            self._complete(symbol)
        if self.diagnostics.failed:
            return
        for stmt in stmts:
            self._check(stmt)

    # Layouts -----------------------------------------------------------------------------------

    def _anchor(self, stmt: syntax.Mma) -> None:
        accumulator = self.tables.uses[stmt.accumulator]
        b = self.tables.views.get(stmt.b)
        if b is not None and len(b.extents) == 2:
            n = b.extents[0 if stmt.b_order == "row" else 1]
            if isinstance(n, int):
                self._set(accumulator, "accumulator", (ROWS, n), stmt)
        base = stmt.a.base
        operand = self.tables.uses.get(base)
        if operand is not None and operand.kind == "fragment":
            self._set(operand, "operand", self.shapes.get(operand, ()), stmt)

    def _anchor_load(self, stmt: syntax.MmaLoad) -> None:
        """A loaded tile is a whole A operand of a warpgroup."""
        symbol, view = self.tables.fills[stmt], self.tables.views.get(stmt.source)
        shape = squeezed(view).extents if view is not None else ()
        match shape:
            case (int(rows), int(k)) if rows == ROWS and k % K_STEP == 0:
                self._set(symbol, "operand", (rows, k), stmt)
            case _:
                self.reported.add(symbol)
                self.diagnostics.error(
                    "mma-load-shape",
                    stmt,
                    f"mma.load of {_text(shape)}",
                    rule=f"mma.load takes the A operand of a warpgroup: [{ROWS}, K], K a constant "
                    f"multiple of {K_STEP}",
                    repair=f"take it with .subspan({ROWS}, K).at(..)",
                )

    def _set(self, symbol: Symbol, layout: str, shape: tuple[int, ...], place: syntax.Node) -> None:
        declared = self.shapes.setdefault(symbol, shape)
        known = self.tables.fragments.get(symbol)
        if declared != shape or (known is not None and known.layout != layout):
            self.reported.add(symbol)
            self.diagnostics.error(
                "fragment-shape",
                place,
                f"{symbol.name} is used as {_text(shape)} {layout} here, but it is "
                f"{_text(declared)}{' ' + known.layout if known is not None else ''}",
                rule="a fragment has one shape and one layout: of the MMAs that use it",
                repair="use a fragment of its own for this operation",
            )
            return
        type_ = symbol.type or "f32"
        if layout == "row" and len(shape) == 1 and shape[0] == ROWS:
            self.tables.fragments[symbol] = FragmentPlan("row", type_, shape[0], 1)
        elif layout == "accumulator" and len(shape) == 2 and shape[0] == ROWS:
            self.tables.fragments[symbol] = FragmentPlan("accumulator", type_, *shape)
        elif layout == "operand" and len(shape) == 2 and shape[0] == ROWS:
            self.tables.fragments[symbol] = FragmentPlan("operand", type_, *shape)

    def _row(self, symbol: Symbol) -> None:
        shape = self.shapes.get(symbol, ())
        if symbol not in self.tables.fragments and len(shape) == 1:
            self._set(symbol, "row", shape, symbol.node)

    def _propagate(self, stmts: list[syntax.Stmt]) -> bool:
        """One round; whether a layout was found."""
        before = len(self.tables.fragments)
        for stmt in stmts:
            if isinstance(stmt, syntax.CopyFragment):
                self._alike([self.tables.uses[stmt.target], self.tables.uses[stmt.source]])
            elif isinstance(stmt, syntax.Apply):
                self._through_apply(stmt)
        return len(self.tables.fragments) > before

    def _through_apply(self, stmt: syntax.Apply) -> None:
        over = self.tables.uses[stmt.fragment]
        used = [over, *(s for s in map(self._fragment, _elements(stmt)) if s is not None)]
        plan = self.tables.fragments.get(over)
        if plan is not None and plan.layout in MATRICES:
            for symbol in used:
                if len(self.shapes.get(symbol, ())) == 1 and self.shapes[symbol][0] == plan.rows:
                    self._row(symbol)
        self._alike([s for s in used if len(self.shapes.get(s, ())) == 1])
        self._alike([s for s in used if len(self.shapes.get(s, ())) == 2])

    def _alike(self, symbols: list[Symbol]) -> None:
        """Fragments of one shape are laid out alike, by element type."""
        known = next((s for s in symbols if s in self.tables.fragments), None)
        if known is None:
            return
        shape = self.shapes[known]
        for symbol in symbols:
            if symbol not in self.tables.fragments and self.shapes.get(symbol) == shape:
                if len(shape) == 1:
                    self._row(symbol)
                elif symbol.type == "f32":
                    self._set(symbol, "accumulator", shape, symbol.node)
                elif symbol.type in ("bf16", "f16"):
                    self._set(symbol, "operand", shape, symbol.node)

    def _complete(self, symbol: Symbol) -> None:
        """Every fragment has a layout and belongs to whole warpgroups."""
        if symbol in self.reported:
            return
        if isinstance(symbol.node, syntax.MmaFill) and symbol not in self.shapes:
            self.diagnostics.error(
                "accumulator-unused",
                symbol.node,
                f"no MMA uses {symbol.name}, so it has no shape",
                rule="an accumulator's shape is that of the MMA that it is used in",
                repair="use it in an MMA, or declare 'frag f32 [rows, columns] name {0.0f};'",
            )
            return
        plan = self.tables.fragments.get(symbol)
        if plan is None:
            self.diagnostics.error(
                "fragment-layout",
                symbol.node,
                f"nothing says how {symbol.name} lies in registers",
                rule="a fragment's layout follows from MMAs, reductions, copy and apply; a row "
                "vector has 64 elements, a matrix 64 rows",
                repair="use it in an apply over an accumulator, or drop it",
            )
            return
        wanted = {"accumulator": ("f32",), "operand": ("bf16",), "row": ("f32",)}[plan.layout]
        if plan.type not in wanted:
            self.diagnostics.error(
                "fragment-type",
                symbol.node,
                f"{symbol.name} is {plan.type}, as {plan.layout} it must be {wanted[0]}",
                rule="accumulators and row vectors are f32, register operands bf16",
                repair=f"declare it as frag {wanted[0]}",
            )
        mask = self.tables.threads.get(symbol.node)
        if mask is None or not whole(mask, 128):
            self.diagnostics.error(
                "fragment-threads",
                symbol.node,
                f"{symbol.name} does not belong to whole warpgroups",
                rule="a fragment lies in the registers of the 128 threads of a warpgroup",
                repair="declare it where all 128 threads of a group-4 get",
            )

    def _fragment(self, element: syntax.Element) -> Symbol | None:
        symbol = self.tables.uses.get(element.base)
        return symbol if symbol is not None and symbol.kind == "fragment" else None

    # Uses --------------------------------------------------------------------------------------

    def _check(self, stmt: syntax.Stmt) -> None:
        match stmt:
            case syntax.Apply():
                self._apply(stmt)
            case syntax.Reduce():
                self._reduce(stmt)
            case syntax.AllReduce():
                if self.tables.fragments[self.tables.uses[stmt.target]].layout != "row":
                    self.diagnostics.error(
                        "all-reduce-layout",
                        stmt,
                        f"{stmt.target.id} is no row vector",
                        rule=f"all_reduce_{stmt.kind} requires a replicated 1D fragment layout",
                        repair=f"reduce the matrix with reduce_{stmt.kind}(row, matrix, 1) first",
                    )
            case syntax.CopyFragment():
                target, source = (
                    self.tables.fragments[self.tables.uses[n]] for n in (stmt.target, stmt.source)
                )
                if target != source:
                    self.diagnostics.error(
                        "copy-layout",
                        stmt,
                        f"{stmt.target.id} and {stmt.source.id} differ in shape, type or layout",
                        rule="copy moves registers: both fragments lie alike",
                        repair="convert element by element in an apply",
                    )
        for node in own(stmt):
            if (
                isinstance(node, syntax.Element)
                and self._fragment(node) is not None
                and stmt not in self.inside
            ):
                self.diagnostics.error(
                    "element-outside-apply",
                    node,
                    f"an element of {node.base.id} outside of apply",
                    rule="a thread owns some elements of a fragment; apply names those",
                    repair=f"apply {{i}} in {node.base.id}.span ..",
                )

    def _reduce(self, stmt: syntax.Reduce) -> None:
        target, source = (
            self.tables.fragments[self.tables.uses[n]] for n in (stmt.target, stmt.source)
        )
        if self.tables.constants.get(stmt.dim) != 1:
            self.diagnostics.error(
                "reduce-dim",
                stmt.dim,
                "only dimension 1, the columns, can be reduced",
                rule="a row lies in the four lanes of a quad, a column in all warps",
                repair=f"reduce_{stmt.kind}({stmt.target.id}, {stmt.source.id}, 1)",
            )
        if target.layout != "row" or source.layout != "accumulator":
            self.diagnostics.error(
                "reduce-layout",
                stmt,
                f"{stmt.kind} from {source.layout} to {target.layout}",
                rule="a reduction goes from an accumulator to a row vector",
                repair="declare the destination as frag f32 [64]",
            )

    def _apply(self, stmt: syntax.Apply) -> None:
        plan = self.tables.fragments[self.tables.uses[stmt.fragment]]
        rank = 1 if plan.layout == "row" else 2
        if len(stmt.variables) != rank:
            self.diagnostics.error(
                "apply-rank",
                stmt,
                f"{len(stmt.variables)} coordinates for a fragment of {rank} dimensions",
                rule="apply names one coordinate for each dimension",
                repair=f"apply {{{'i' if rank == 1 else 'i, j'}}} in {stmt.fragment.id}.span",
            )
            return
        if stmt.part is not None:
            self._part(stmt, stmt.part, plan)
        coordinates = self.tables.declares[stmt]
        for inner in statements(stmt.body):
            self._apply_statement(inner)
        for element in _elements(stmt):
            symbol = self._fragment(element)
            if symbol is not None:
                self._access(element, self.tables.fragments[symbol], plan, coordinates)
        self._order(stmt, coordinates)

    def _part(
        self,
        stmt: syntax.Apply,
        part: syntax.Subspan | syntax.ViewFrom,
        plan: FragmentPlan,
    ) -> None:
        """The columns of a part; whole rows of whole groups of the columns that lanes share."""
        columns = self._columns(part) if plan.layout in MATRICES else None
        if columns is not None and columns.stop <= plan.columns:
            self.tables.columns[stmt] = columns
            return
        self.diagnostics.error(
            "apply-part",
            part,
            f"this is no part of {stmt.fragment.id} that apply can run over",
            rule=f"a part of a fragment has all {ROWS} rows and a constant multiple of {GROUP} "
            f"columns, and begins at a multiple of {GROUP}",
            repair=f"apply {{i, j}} in {stmt.fragment.id}.subspan(_, columns).at(0, k)",
        )

    def _columns(self, part: syntax.Subspan | syntax.ViewFrom) -> range | None:
        constants = self.tables.constants
        places = part.indices if isinstance(part, syntax.Subspan) else part.offsets
        steps = part.steps if isinstance(part, syntax.Subspan) else None
        if places is None or steps is not None or not len(places) == len(part.extents) == 2:
            return None
        rows, width = (
            None if isinstance(e, syntax.Wildcard) else constants.get(e) for e in part.extents
        )
        whole_rows = isinstance(part.extents[0], syntax.Wildcard) or rows == ROWS
        first = constants.get(places[1])
        if constants.get(places[0]) != 0 or not whole_rows:
            return None
        if not isinstance(width, int) or not isinstance(first, int):
            return None
        if isinstance(part, syntax.Subspan):
            first *= width
        if width < 1 or width % GROUP or first < 0 or first % GROUP:
            return None
        return range(first, first + width)

    def _apply_statement(self, inner: syntax.Stmt) -> None:
        """Only scalars, elements and conditions are in a body."""
        allowed = isinstance(inner, syntax.Assign | syntax.ScalarDecl | syntax.If | syntax.Block)
        if isinstance(inner, syntax.Assign) and isinstance(inner.target, syntax.Element):
            allowed = self.tables.uses[inner.target.base].kind != "tensor"
        if not allowed:
            self.diagnostics.error(
                "apply-statement",
                inner,
                "this may not stand in the body of apply",
                rule="a body assigns elements of fragments and local buffers, and scalars, under "
                "conditions",
                repair="move it out of the apply",
            )

    def _access(
        self,
        element: syntax.Element,
        plan: FragmentPlan,
        over: FragmentPlan,
        coordinates: tuple[Symbol, ...],
    ) -> None:
        indices = [
            self.tables.uses.get(e) if isinstance(e, syntax.Name) else None for e in element.indices
        ]
        wanted = coordinates[:1] if plan.layout == "row" else coordinates
        fits = plan.rows == over.rows and (plan.layout == "row" or plan.columns == over.columns)
        matrix_over_row = plan.layout != "row" and over.layout == "row"
        if indices != list(wanted) or not fits or matrix_over_row:
            names = ", ".join(c.name for c in wanted)
            self.diagnostics.error(
                "apply-access",
                element,
                f"{element.base.id} can be reached at ({names}) only"
                if fits and not matrix_over_row
                else f"{element.base.id} does not have the shape of what apply runs over",
                rule="a thread owns the element at the coordinates of the apply, and no other",
                repair=f"{element.base.id}.at({names})"
                if fits and not matrix_over_row
                else "use an apply over a fragment of this shape",
            )

    def _order(self, stmt: syntax.Apply, coordinates: tuple[Symbol, ...]) -> None:
        """What runs once a row stands before what runs for every element."""
        if len(coordinates) < 2:
            return
        differing = {coordinates[1], *written_locals(self.tables, stmt)}
        differing.update(written_scalars(self.tables, stmt))
        seen = False
        for inner in stmt.body.body:
            each = any(self._differs(node, differing) for node in _outside_indices(inner, self))
            if each:
                seen = True
                differing.update(self.tables.declares.get(inner, ()))
            elif seen:
                self.diagnostics.error(
                    "apply-order",
                    inner,
                    "this touches row vectors alone and runs before the elements, "
                    "but it stands after them",
                    rule="statements of row vectors run once a row, before the elements",
                    repair="put it into an apply of its own, after this one",
                )

    def _differs(self, node: syntax.Node, differing: set[Symbol]) -> bool:
        if isinstance(node, syntax.Element):
            symbol = self._fragment(node)
            return symbol is not None and self.tables.fragments[symbol].layout != "row"
        return self.tables.uses.get(node) in differing


def _outside_indices(node: syntax.Node, owner: _Fragments) -> list[syntax.Node]:
    """A node and what is below it, without the indices of fragments."""
    out = [node]
    if isinstance(node, syntax.Element) and owner._fragment(node) is not None:
        return out
    for child in syntax.children(node):
        out += _outside_indices(child, owner)
    return out


def _elements(stmt: syntax.Apply) -> list[syntax.Element]:
    return [node for node in syntax.walk(stmt.body) if isinstance(node, syntax.Element)]


def _text(shape: tuple[int | syntax.Expr, ...]) -> str:
    return f"[{', '.join(str(e) if isinstance(e, int) else '?' for e in shape)}]"
