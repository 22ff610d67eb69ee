"""What a transfer moves: its direction, its tile, and the tensor map behind it.

Rules (co-language.md, 9):

* ``tma`` from a tensor to shared memory is a load, from shared memory to a tensor a store; ``dma``
  is a cooperative copy of a tensor's tile to shared memory.
* Both sides have one element type and, without extents of 1, one shape; a row of the tile is a
  multiple of 16 bytes, a box has at most 256 rows and 256 columns a panel.
* The columns of a tile run along the last dimension of its tensor. A tile wider than its swizzle is
  moved in panels and begins at one.
* A part of a buffer is moved where its bytes are one run of the swizzle's pattern.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from artifact.choreo import syntax
from artifact.choreo.arithmetic import BYTES
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.mma import multiple, origin_terms
from artifact.choreo.tables import Tables, TensorMapPlan, ViewPlan
from artifact.choreo.threads import ThreadValues
from artifact.choreo.views import squeezed

TransferKind = Literal["tma-load", "tma-store", "cooperative-load"]

BOX_LIMIT = 256


@dataclass(frozen=True, eq=False)
class Tile:
    """What one transfer moves; both views have two dimensions."""

    kind: TransferKind
    source: ViewPlan
    target: ViewPlan
    rows: int
    columns: int
    bytes: int
    map: TensorMapPlan | None
    """Null of a cooperative copy."""


class Tiles:
    """Finds out what the transfers of a function move."""

    def __init__(self, tables: Tables, diagnostics: Diagnostics, values: ThreadValues) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.values = values

    def tile(self, stmt: syntax.Transfer) -> Tile | None:
        """The tile of a transfer; null after an error."""
        source = self.tables.views.get(stmt.source)
        target = self._target(stmt)
        if source is None or target is None:
            return None
        kind = self._kind(stmt, source, target)
        shape = self._shape(stmt, source, target) if kind is not None else None
        if kind is None or shape is None:
            return None
        (rows, columns), source, target = shape
        memory, shared = (target, source) if kind == "tma-store" else (source, target)
        element = BYTES[memory.root.type or "bf16"]
        self._shared_tile(stmt, shared, self.tables.shared[shared.root].swizzle, element)
        return Tile(
            kind=kind,
            source=source,
            target=target,
            rows=rows,
            columns=columns,
            bytes=rows * columns * element,
            map=None if kind == "cooperative-load" else self._map(stmt, memory, shared, element),
        )

    def _target(self, stmt: syntax.Transfer) -> ViewPlan | None:
        if stmt.destination is not None:
            return self.tables.views.get(stmt.destination)
        source = self.tables.views.get(stmt.source)
        buffer = next((s for s in self.tables.declares.get(stmt, ()) if s.kind == "shared"), None)
        if source is None or buffer is None:
            return None
        extents = squeezed(source).extents
        return ViewPlan(
            root=buffer,
            base=buffer,
            tile=None,
            added=((),) * len(extents),
            extents=extents,
            dims=tuple(range(len(extents))),
        )

    def _kind(
        self, stmt: syntax.Transfer, source: ViewPlan, target: ViewPlan
    ) -> TransferKind | None:
        kinds = (source.root.kind, target.root.kind)
        if kinds == ("tensor", "shared"):
            return "tma-load" if stmt.engine == "tma" else "cooperative-load"
        if kinds == ("shared", "tensor") and stmt.engine == "tma" and stmt.operation == "copy":
            if stmt.is_async:
                self.diagnostics.error(
                    "store-async",
                    stmt,
                    "a store is not asynchronous here",
                    rule="tma.copy from shared to global memory is synchronous",
                    repair="drop '.async'",
                )
                return None
            return "tma-store"
        self.diagnostics.error(
            "transfer-direction",
            stmt,
            f"{stmt.engine}.{stmt.operation} from a {_place(source)} to a {_place(target)}",
            rule="tma.load and dma.copy go from a tensor to shared memory, tma.copy either way",
            repair="use tma.load for loads and tma.copy for stores",
        )
        return None

    def _shape(
        self, stmt: syntax.Transfer, source: ViewPlan, target: ViewPlan
    ) -> tuple[tuple[int, int], ViewPlan, ViewPlan] | None:
        """Rows and columns, and both views as two-dimensional tiles."""
        if source.root.type != target.root.type:
            self.diagnostics.error(
                "transfer-type",
                stmt,
                f"{source.root.type} goes to {target.root.type}",
                rule="a transfer converts nothing: both sides have one element type",
                repair=f"declare the buffer as {source.root.type}",
            )
            return None
        left, right = squeezed(source), squeezed(target)
        if left.extents != right.extents:
            self.diagnostics.error(
                "transfer-shape",
                stmt,
                f"a tile of {_shape_text(left)} goes to one of {_shape_text(right)}",
                rule="both sides of a transfer have one shape, extents of 1 aside",
                repair="take the same tile on both sides",
            )
            return None
        extents = [e for e in left.extents if isinstance(e, int)]
        if len(extents) != len(left.extents) or len(extents) not in (1, 2):
            self.diagnostics.error(
                "transfer-rank",
                stmt,
                f"a tile of {_shape_text(left)}",
                rule="a tile has two dimensions of constant extents",
                repair="take it with .subspan(1, rows, 1, columns).at(..)",
            )
            return None
        element = BYTES[source.root.type or "bf16"]
        if extents[-1] * element % 16:
            self.diagnostics.error(
                "transfer-bytes",
                stmt,
                f"a row of {extents[-1] * element} bytes",
                rule="a row of a tile is a multiple of 16 bytes",
                repair=f"use a multiple of {16 // element} columns",
            )
            return None
        rows = extents[0] if len(extents) == 2 else 1
        return (rows, extents[-1]), _as_tile(left), _as_tile(right)

    def _map(
        self, stmt: syntax.Transfer, memory: ViewPlan, shared: ViewPlan, element: int
    ) -> TensorMapPlan:
        """The tensor map of a tile of a tensor, checked against what TMA can address."""
        rows, columns = memory.extents
        assert isinstance(rows, int) and isinstance(columns, int)
        swizzle = self.tables.shared[shared.root].swizzle
        panel = swizzle // element if swizzle else columns
        if rows > BOX_LIMIT or min(panel, columns) > BOX_LIMIT:
            self.diagnostics.error(
                "box-range",
                stmt,
                f"a box of {rows} rows and {min(panel, columns)} columns",
                rule=f"a box has at most {BOX_LIMIT} rows, and as many columns a panel",
                repair="load it in parts, or use a swizzle: it splits the columns into panels",
            )
        last = len(memory.added) - 1
        if memory.dims[1] != last:
            self.diagnostics.error(
                "tile-columns",
                stmt,
                f"the columns of this tile run along dimension {memory.dims[1]} of "
                f"{memory.root.name}",
                rule="the columns of a tile run along the last dimension, which is contiguous",
                repair="take the whole tile along the last dimension",
            )
        if swizzle and columns > panel:
            self._panels(stmt, memory, panel)
        return TensorMapPlan(
            root=memory.root.name,
            element_bytes=element,
            row_dim=memory.dims[0],
            box_rows=rows,
            box_columns=columns,
            swizzle=swizzle,
        )

    def _shared_tile(
        self, stmt: syntax.Transfer, shared: ViewPlan, swizzle: int, element: int
    ) -> None:
        """A part of a buffer is moved where its bytes are one run of the swizzle's pattern."""
        plan = self.tables.shared[shared.root]
        rows, columns = shared.extents
        if (rows, columns) == (plan.rows, plan.columns):
            return
        last = len(shared.added) - 1
        panel = swizzle // element if swizzle else plan.columns
        whole_rows = columns == plan.columns and columns == panel
        one_panel = swizzle and columns == panel
        aligned = all(
            multiple(self.tables, self.values, term, unit)
            for dim, unit in ((last, panel), (last - 1, 8 if swizzle else 1))
            if dim >= 0
            for term in origin_terms(self.tables, shared, dim)
        )
        if (
            not (whole_rows or one_panel or (not swizzle and columns == plan.columns))
            or not aligned
        ):
            self.diagnostics.error(
                "buffer-part",
                stmt,
                f"this part of {shared.root.name} is not contiguous in shared memory",
                rule="a transfer moves a whole buffer, or rows of one panel from a multiple of 8",
                repair="move the whole buffer, or use an array of tiles",
            )

    def _panels(self, stmt: syntax.Transfer, memory: ViewPlan, panel: int) -> None:
        """A box in panels begins at a whole panel."""
        node = memory.root.node
        extents = node.extents if isinstance(node, syntax.TensorParam) else ()
        inner = self.tables.constants.get(extents[-1]) if extents else None
        before = any(
            origin_terms(self.tables, memory, dim)
            for dim in range(memory.dims[0] + 1, len(extents) - 1)
        )
        fits = all(
            multiple(self.tables, self.values, term, panel)
            for term in origin_terms(self.tables, memory, len(extents) - 1)
        )
        if not fits or (before and (not isinstance(inner, int) or inner % panel)):
            self.diagnostics.error(
                "panel-start",
                stmt,
                f"this tile may begin between multiples of {panel} columns",
                rule=f"a tile wider than its swizzle is moved in panels of {panel} columns",
                repair="use a constant last extent and column origins that are multiples of it",
            )


def _as_tile(plan: ViewPlan) -> ViewPlan:
    """A view of two dimensions; a single row gets the dimension before its columns."""
    if len(plan.extents) == 2:
        return plan
    column = plan.dims[0]
    return replace(plan, extents=(1, plan.extents[0]), dims=(max(column - 1, 0), column))


def _place(plan: ViewPlan) -> str:
    return "tensor" if plan.root.kind == "tensor" else "shared buffer"


def _shape_text(plan: ViewPlan) -> str:
    return f"[{', '.join(str(e) if isinstance(e, int) else '?' for e in plan.extents)}]"
