"""The views pass: what box of which root every view is.

Rules (co-language.md, 5):

* ``.subspan(e ..).at(i ..)`` takes tile ``i_k`` of ``e_k`` elements: the index counts tiles, with
  ``.step(s ..)`` it counts steps. ``.view(e ..).from(o ..)`` takes element offsets.
  ``.chunkat(p, _)`` takes part ``p`` of the ``#p`` equal parts of its dimension.
* ``_`` is the whole dimension. As many extents, steps and indices as dimensions.
* A constant extent divides a constant dimension where tiles are counted; nothing reaches past a
  constant dimension, for any thread that gets there.
* ``.sqz()`` drops the extents equal to 1, directly after ``.subspan``, ``.span_as`` or ``.view``.
* ``.span_as`` may only drop extents of 1 here: other shapes would need another root.
* The name of a load's future stands for the view that the load fills.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.names import bound_of
from artifact.choreo.tables import Symbol, Tables, Term, ViewPlan
from artifact.choreo.threads import ThreadValues
from artifact.choreo.traverse import own, statements

Extent = int | syntax.Expr


def plan_views(tables: Tables, diagnostics: Diagnostics, values: ThreadValues) -> None:
    """Fill ``views``."""
    views = _Views(tables, diagnostics, values)
    for stmt in statements(tables.function.body):
        views.mask = tables.threads.get(stmt)
        for node in own(stmt):
            if isinstance(node, syntax.View):
                views.plan(node)
            elif isinstance(node, syntax.Index):
                views.tile_range(node)
        if isinstance(stmt, syntax.ViewDecl | syntax.Transfer):
            _inherit_type(tables, stmt)


def _inherit_type(tables: Tables, stmt: syntax.ViewDecl | syntax.Transfer) -> None:
    """A named view and an anonymous buffer have the element type of what they come from."""
    plan = tables.views.get(stmt.view if isinstance(stmt, syntax.ViewDecl) else stmt.source)
    for symbol in tables.declares.get(stmt, ()):
        if plan is not None and symbol.kind in ("view", "shared"):
            symbol.type = plan.root.type


def shape_of(tables: Tables, symbol: Symbol) -> tuple[Extent, ...] | None:
    """The shape of a tensor or a shared tile; integers where it is constant."""
    node = symbol.node
    if isinstance(node, syntax.TensorParam | syntax.SharedDecl | syntax.FragDecl):
        return tuple(_constant(tables, extent) for extent in node.extents)
    if isinstance(node, syntax.Transfer):
        # An anonymous buffer has the shape of what is copied into it.
        plan = tables.views.get(node.source)
        return squeezed(plan).extents if plan is not None else None
    return None


def _constant(tables: Tables, extent: syntax.Expr) -> Extent:
    value = tables.constants.get(extent)
    return value if isinstance(value, int) else extent


def squeezed(plan: ViewPlan) -> ViewPlan:
    """A view without its extents of 1."""
    kept = [k for k, extent in enumerate(plan.extents) if extent != 1]
    return replace(
        plan,
        extents=tuple(plan.extents[k] for k in kept),
        dims=tuple(plan.dims[k] for k in kept),
    )


@dataclass
class _Box:
    """A view on its way: one entry a dimension that is left."""

    extents: list[Extent]
    dims: list[int]
    added: list[list[Term]]


class _Views:
    def __init__(self, tables: Tables, diagnostics: Diagnostics, values: ThreadValues) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.values = values
        self.mask: int | None = None

    def plan(self, view: syntax.View) -> None:
        """Plan one view, if what it is taken of is known."""
        name = view.base if isinstance(view.base, syntax.Name) else view.base.base
        symbol = self.tables.uses.get(name)
        if symbol is None or symbol.kind in ("fragment", "local"):
            return
        start = self._start(view, symbol)
        if start is None:
            return
        box = _Box(list(start.extents), list(start.dims), [list(terms) for terms in start.added])
        previous: syntax.ViewOp | None = None
        for op in view.ops:
            if not self._apply(box, op, previous):
                return
            previous = op
        self.tables.views[view] = replace(
            start,
            added=tuple(tuple(terms) for terms in box.added),
            extents=tuple(box.extents),
            dims=tuple(box.dims),
        )

    def _start(self, view: syntax.View, symbol: Symbol) -> ViewPlan | None:
        """The plan of the base, without anything taken of it."""
        tile = view.base.index if isinstance(view.base, syntax.Index) else None
        node = symbol.node
        if symbol.kind == "view" and isinstance(node, syntax.ViewDecl):
            plan = self.tables.views.get(node.view)
            if plan is None or self._no_tile(view, tile):
                return None
            return replace(plan, base=symbol, added=((),) * len(plan.added))
        if symbol.kind == "future" and isinstance(node, syntax.Transfer) and node.destination:
            filled = self.tables.views.get(node.destination)
            if filled is None or self._no_tile(view, tile):
                return None
            self._unchanging(view, node.destination)
            return filled
        shape = shape_of(self.tables, symbol)
        if shape is None:
            return None
        tiles = node.tiles if isinstance(node, syntax.SharedDecl) else None
        if tiles is None:
            if self._no_tile(view, tile):
                return None
        elif tile is None:
            self.diagnostics.error(
                "tile-missing",
                view,
                f"{symbol.name} is an array of tiles, and no tile is named",
                rule="transfers and MMAs work on one tile",
                repair=f"write {symbol.name}[slot]",
            )
            return None
        return ViewPlan(
            root=symbol,
            base=symbol,
            tile=tile,
            added=((),) * len(shape),
            extents=shape,
            dims=tuple(range(len(shape))),
        )

    def _no_tile(self, view: syntax.View, tile: syntax.Expr | None) -> bool:
        """Say that something that is no array was indexed."""
        if tile is None:
            return False
        self.diagnostics.error(
            "not-an-array",
            view.base,
            "only an array of shared tiles is indexed with [..]",
            rule="x[i] is tile i of 'shared T [..] x[n]'",
            repair="take a part with .subspan(..).at(..)",
        )
        return True

    def _unchanging(self, view: syntax.View, filled: syntax.View) -> None:
        """A future's view is computed again at its use, so nothing in it may have changed."""
        for node in syntax.walk(filled):
            symbol = self.tables.uses.get(node)
            if symbol is not None and symbol.kind in ("mutable", "local"):
                self.diagnostics.error(
                    "future-view",
                    view,
                    f"the tile behind this future depends on {symbol.name}, which may have changed",
                    rule="a future stands for the view that its load fills",
                    repair="name the buffer, or compute the slot into an immutable first",
                )

    def tile_range(self, node: syntax.Index) -> None:
        """A tile's number lies within its array, where it is known."""
        symbol = self.tables.uses.get(node.base)
        if symbol is not None and isinstance(symbol.node, syntax.SharedDecl) and symbol.node.tiles:
            tiles = self.tables.constants.get(symbol.node.tiles)
            if isinstance(tiles, int):
                self._range(node.index, 1, 1, tiles)

    # Operations --------------------------------------------------------------------------------

    def _apply(self, box: _Box, op: syntax.ViewOp, previous: syntax.ViewOp | None) -> bool:
        match op:
            case syntax.Subspan():
                return self._subspan(box, op)
            case syntax.ViewFrom():
                return self._view_from(box, op)
            case syntax.ChunkAt():
                return self._chunkat(box, op)
            case syntax.SpanAs():
                return self._span_as(box, op)
            case syntax.Squeeze():
                return self._squeeze(box, op, previous)

    def _rank(self, box: _Box, op: syntax.ViewOp, *lists: tuple[object, ...] | None) -> bool:
        for items in lists:
            if items is not None and len(items) != len(box.extents):
                self.diagnostics.error(
                    "view-rank",
                    op,
                    f"{len(items)} extents, steps or indices for {len(box.extents)} dimensions",
                    rule="a view operation says something of every dimension",
                    repair="write _ for a whole dimension and 0 for its index",
                )
                return False
        return True

    def _subspan(self, box: _Box, op: syntax.Subspan) -> bool:
        if not self._rank(box, op, op.extents, op.steps, op.indices):
            return False
        for k, extent in enumerate(op.extents):
            dim = box.extents[k]
            size = dim if isinstance(extent, syntax.Wildcard) else _constant(self.tables, extent)
            step = size if op.steps is None else _constant(self.tables, op.steps[k])
            tiles = op.steps is None and op.indices is not None
            if not self._fits(extent, size, dim, tiles=tiles):
                return False
            if op.indices is not None:
                self._shift(box, k, op.indices[k], step, size)
            box.extents[k] = size
        return True

    def _view_from(self, box: _Box, op: syntax.ViewFrom) -> bool:
        if not self._rank(box, op, op.extents, op.offsets):
            return False
        for k, extent in enumerate(op.extents):
            size = _constant(self.tables, extent)
            if not self._fits(extent, size, box.extents[k], tiles=False):
                return False
            if op.offsets is not None:
                self._shift(box, k, op.offsets[k], 1, size)
            box.extents[k] = size
        return True

    def _chunkat(self, box: _Box, op: syntax.ChunkAt) -> bool:
        if not self._rank(box, op, op.factors):
            return False
        for k, factor in enumerate(op.factors):
            if isinstance(factor, syntax.Wildcard):
                continue
            parts = self._parts(factor)
            dim = box.extents[k]
            if parts is None:
                self.diagnostics.error(
                    "not-bounded",
                    factor,
                    "a factor of chunkat has no constant bound",
                    rule="chunkat takes variables of parallel or foreach: #p parts, part p",
                    repair="use .subspan(extent, ..).at(index, ..)",
                )
                return False
            size: Extent
            if isinstance(dim, int):
                if dim % parts:
                    self._does_not_divide(factor, parts, dim)
                size = max(dim // parts, 1)
            else:
                size = self._quotient(dim, parts)
            self._shift(box, k, factor, size, size)
            box.extents[k] = size
        return True

    def _parts(self, factor: syntax.Expr) -> int | None:
        """``#p`` of a factor, also of ``a # b``."""
        if isinstance(factor, syntax.Compose):
            left, right = self._parts(factor.left), self._parts(factor.right)
            return left * right if left is not None and right is not None else None
        symbol = self.tables.uses.get(factor)
        if symbol is None or symbol.kind not in ("level", "loop"):
            return None
        bound = self.tables.constants.get(bound_of(symbol))
        return bound if isinstance(bound, int) and bound > 0 else None

    def _quotient(self, dim: syntax.Expr, parts: int) -> syntax.Expr:
        """``dim / parts`` as an expression of its own."""
        divisor = syntax.int_literal(dim.span, parts)
        quotient = syntax.Binary(dim.span, "/", dim, divisor)
        type_ = self.tables.types.get(dim, "u32")
        self.tables.types.update({divisor: type_, quotient: type_})
        self.tables.constants[divisor] = parts
        return quotient

    def _span_as(self, box: _Box, op: syntax.SpanAs) -> bool:
        wanted = [_constant(self.tables, extent) for extent in op.extents]
        kept = [k for k, extent in enumerate(box.extents) if extent != 1]
        if wanted != [box.extents[k] for k in kept] and wanted != box.extents:
            self.diagnostics.error(
                "span-as",
                op,
                "this changes more than extents of 1",
                rule="span_as may drop extents of 1; other shapes are not supported",
                repair="declare the buffer in the shape that it is used in",
            )
            return False
        if wanted != box.extents:
            self._keep(box, kept)
        return True

    def _squeeze(self, box: _Box, op: syntax.Squeeze, previous: syntax.ViewOp | None) -> bool:
        if not isinstance(previous, syntax.Subspan | syntax.ViewFrom | syntax.SpanAs):
            self.diagnostics.error(
                "sqz-place",
                op,
                ".sqz() stands after something else than .subspan, .span_as or .view",
                rule=".sqz() may stand only directly after .subspan, .span_as or .view",
                repair="take the part with .subspan(..).at(..) and squeeze that",
            )
            return False
        self._keep(box, [k for k, extent in enumerate(box.extents) if extent != 1])
        return True

    def _keep(self, box: _Box, kept: list[int]) -> None:
        box.extents = [box.extents[k] for k in kept]
        box.dims = [box.dims[k] for k in kept]

    # Checks ------------------------------------------------------------------------------------

    def _shift(self, box: _Box, k: int, index: syntax.Expr, scale: Extent, size: Extent) -> None:
        if isinstance(scale, int) and isinstance(size, int) and isinstance(box.extents[k], int):
            self._range(index, scale, size, box.extents[k])
        if self.tables.constants.get(index) != 0:
            box.added[box.dims[k]].append(Term(index, scale))

    def _range(self, index: syntax.Expr, scale: int, size: int, dim: Extent) -> None:
        """Check an index for every thread that gets here, where it depends on nothing else."""
        values = self.values.of(index)
        if values is None or not isinstance(dim, int) or scale < 1:
            return
        mask = self.mask if self.mask is not None else 0
        here = {int(v) for t, v in enumerate(values) if mask >> t & 1} or {int(values[0])}
        for value in (min(here), max(here)):
            if value < 0 or value * scale + size > dim:
                self.diagnostics.error(
                    "index-range",
                    index,
                    f"index {value} lies outside: {value} * {scale} + {size} of {dim}",
                    rule="a view stays within its base; .at counts tiles, not elements",
                    repair=f"use an index from 0 to {max((dim - size) // scale, 0)}",
                )
                return

    def _fits(self, place: syntax.Node, size: Extent, dim: Extent, *, tiles: bool) -> bool:
        """Whether an extent fits its dimension, as far as both are known."""
        if not isinstance(size, int):
            return True
        if size < 1:
            self.diagnostics.error(
                "not-positive",
                place,
                f"an extent of {size}",
                rule="extents are positive",
                repair="use a positive extent, or _ for the whole dimension",
            )
            return False
        if isinstance(dim, int) and size > dim:
            self.diagnostics.error(
                "extent-range",
                place,
                f"an extent of {size} in a dimension of {dim}",
                rule="a view stays within its base",
                repair=f"use an extent of at most {dim}",
            )
            return False
        if tiles and isinstance(dim, int) and dim % size:
            self._does_not_divide(place, size, dim)
            return False
        return True

    def _does_not_divide(self, place: syntax.Node, size: int, dim: int) -> None:
        self.diagnostics.error(
            "tile-divides",
            place,
            f"{size} does not divide the dimension of {dim}",
            rule="tiles of a constant dimension divide it",
            repair=f"use a divisor of {dim}",
        )
