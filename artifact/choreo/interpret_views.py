"""Where a view lies: its place in a tile or in a tensor, with the values of the moment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artifact.choreo import syntax
from artifact.choreo.interpret_error import Report
from artifact.choreo.interpret_memory import Box, SharedMemory, Tile
from artifact.choreo.interpret_values import Values
from artifact.choreo.tables import Symbol, ViewPlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Origin = tuple[int, ...]
"""By dimension of the root, in elements."""


@dataclass(frozen=True, eq=False)
class Window:
    """A tile of a tensor, seen as a matrix: rows along one dimension, and all that is before it."""

    matrix: Array
    row: int
    column: int

    def down(self, rows: int) -> Window:
        """The tile that begins some rows further down."""
        return Window(self.matrix, self.row + rows, self.column)

    def load(self, rows: int, columns: int) -> Array:
        """The tile."""
        return self.matrix[self.row : self.row + rows, self.column : self.column + columns]

    def store(self, values: Array, rows: int) -> None:
        """Write the tile's first ``rows`` rows."""
        self.load(rows, values.shape[1])[...] = values[:rows]


class Places:
    """Places of views for one group of threads."""

    def __init__(
        self, values: Values, memory: SharedMemory, tensors: dict[Symbol, Array], report: Report
    ) -> None:
        self._values = values
        self._memory = memory
        self._tensors = tensors
        self._report = report
        self._named: dict[Symbol, Origin] = {}

    def declare(self, symbol: Symbol, plan: ViewPlan) -> None:
        """A named view stays where its declaration put it."""
        self._named[symbol] = self.origin(plan)

    def origin(self, plan: ViewPlan) -> Origin:
        """Where a view begins in its root."""
        known = self._named.get(plan.base, (0,) * len(plan.added))
        return tuple(
            start + sum(self._values.integer(t.index) * self._values.extent(t.scale) for t in terms)
            for start, terms in zip(known, plan.added, strict=True)
        )

    def tile(self, plan: ViewPlan, node: syntax.Node) -> tuple[Tile, Box]:
        """A view of shared memory: its tile, and the rows and columns there."""
        number = 0 if plan.tile is None else self._values.integer(plan.tile)
        tile = self._memory.tile(plan.root, number, node)
        origin = self.origin(plan)
        extents = [self._values.extent(e) for e in plan.extents]
        rows, columns = (extents[0], extents[1]) if len(extents) == 2 else (1, extents[0])
        row = self._ravel(origin[:-1], self._shape(plan.root)[-len(origin) : -1])
        return tile, (row, row + rows, origin[-1], origin[-1] + columns)

    def _shape(self, root: Symbol) -> list[int]:
        node = root.node
        if isinstance(node, syntax.SharedDecl):
            return [self._values.integer(extent) for extent in node.extents]
        return list(self._memory.tiles[root][0].shape)

    def window(self, plan: ViewPlan, node: syntax.Node, *, partial: bool = False) -> Window:
        """A view of a tensor: dimensions left of its rows are flattened into the row number.

        Args:
            plan: The view.
            node: What takes it.
            partial: Its rows may reach past the end of their dimension.

        Raises:
            InterpreterError: ``out-of-range``.
        """
        tensor = self._tensors[plan.root]
        # The one row of a tensor of one dimension has no dimension of its own.
        split = plan.dims[0] + 1 if len(tensor.shape) > 1 else 0
        rows, columns = tensor.shape[:split], tensor.shape[split:]
        matrix = tensor.reshape(math.prod(rows), math.prod(columns))
        origin = self.origin(plan)
        extents = dict(zip(plan.dims, map(self._values.extent, plan.extents), strict=True))
        for dim, (start, size) in enumerate(zip(origin, tensor.shape, strict=True)):
            if partial and dim == plan.dims[0]:
                continue
            if not 0 <= start <= size - extents.get(dim, 1):
                raise self._report.error(
                    "out-of-range",
                    node,
                    f"{extents.get(dim, 1)} elements from {start} in dimension {dim} of "
                    f"{plan.root.name}, whose extent is {size}",
                )
        return Window(
            matrix, self._ravel(origin[:split], rows), self._ravel(origin[split:], columns)
        )

    def rows_left(self, plan: ViewPlan) -> int:
        """Rows from the view's first one to the end of its dimension."""
        dim = plan.dims[0]
        return int(self._tensors[plan.root].shape[dim]) - self.origin(plan)[dim]

    def _ravel(self, origin: Sequence[int], shape: Sequence[int]) -> int:
        position = 0
        for index, extent in zip(origin, shape, strict=True):
            position = position * extent + index
        return position
