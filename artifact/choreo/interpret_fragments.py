"""Fragments of one warp: 16 of the 64 rows that its warpgroup has.

A matrix is kept as ``[16, N / 8, 4, 2]``: row, block of 8 columns, the lane of four that owns the
element, its two neighbours. A row vector is ``[16, 4]``: every lane has its own copy, and what a
lane added up alone stays its own (co-language.md, 10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artifact.choreo import syntax
from artifact.choreo.interpret_agents import Operation
from artifact.choreo.interpret_error import Report
from artifact.choreo.interpret_values import Value, cast
from artifact.choreo.tables import FragmentPlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

ROWS = 16
"""Rows of a warp."""
LANES = 4


class Fragment:
    """A fragment's values, and the MMAs in flight that use it.

    An accumulator of an MMA in flight is not defined: its values are NaN, and reading or writing
    it is an error.
    """

    def __init__(self, name: str, plan: FragmentPlan, report: Report) -> None:
        import numpy as np

        self.name = name
        self.plan = plan
        shape = (ROWS, LANES) if plan.layout == "row" else (ROWS, plan.columns // 8, LANES, 2)
        self._values: Array = np.full(shape, np.nan, dtype=np.float32)
        self._accumulating: list[Operation] = []
        self._reading: list[Operation] = []
        self._hidden: Array = self._values
        self._report = report

    @property
    def busy(self) -> bool:
        """Whether an MMA accumulates in it."""
        return bool(self._accumulating)

    def values(self, node: syntax.Node) -> Array:
        """The values, to be read.

        Raises:
            InterpreterError: ``in-flight``.
        """
        if self._accumulating:
            raise self._busy(node, "read", self._accumulating[-1], "still accumulates in it")
        return self._values

    def target(self, node: syntax.Node) -> Array:
        """The values, to be written.

        Raises:
            InterpreterError: ``in-flight``.
        """
        if self._accumulating:
            raise self._busy(node, "written", self._accumulating[-1], "still accumulates in it")
        if self._reading:
            raise self._busy(node, "overwritten", self._reading[-1], "still reads it")
        return self._values

    def _busy(self, node: syntax.Node, verb: str, by: Operation, what: str) -> Exception:
        return self._report.error(
            "in-flight",
            node,
            f"{self.name} is {verb} while {by} {what}",
            cause="its future has not been waited for",
        )

    def fill(self, value: Value, node: syntax.Node) -> None:
        """Every element becomes a value."""
        self.target(node)[...] = cast(value, self.plan.type)

    def undefine(self, node: syntax.Node) -> None:
        """What it holds does not matter any more: its next MMA clears it."""
        self.target(node)[...] = float("nan")

    # MMAs --------------------------------------------------------------------------------------

    def begin(self, operation: Operation, *, clears: bool) -> None:
        """An MMA that accumulates here is issued."""
        import numpy as np

        if not self._accumulating:
            self._hidden = self._values
        if clears:
            self._hidden = np.zeros_like(self._values)
        self._values = np.full_like(self._values, np.nan)
        self._accumulating.append(operation)

    def accumulate(self, product: Array) -> None:
        """An MMA has run."""
        self._hidden = self._hidden + product.reshape(self._hidden.shape)

    def end(self, operation: Operation) -> None:
        """An MMA that uses the fragment is known to be complete."""
        if operation in self._accumulating:
            self._accumulating.remove(operation)
            if not self._accumulating:
                self._values = self._hidden
        if operation in self._reading:
            self._reading.remove(operation)

    def lend(self, operation: Operation, node: syntax.Node) -> None:
        """An MMA reads the fragment until it is complete."""
        self.values(node)
        self._reading.append(operation)

    def matrix(self) -> Array:
        """The values as ``[16, N]``, as an MMA reads them."""
        return self._values.reshape(ROWS, -1)

    # Reductions --------------------------------------------------------------------------------

    def reduce(self, kind: str, source: Fragment, node: syntax.Node) -> None:
        """Become the maximum or the sum of another's columns, in all four lanes."""
        import numpy as np

        values = source.values(node).transpose(0, 2, 1, 3).reshape(ROWS, LANES, -1)
        # A number wins over a NaN, as fmaxf does; a lane sums its own elements first.
        with np.errstate(all="ignore"):
            if kind == "max":
                fmax: Any = np.fmax
                total = fmax.reduce(values, axis=(1, 2))
            else:
                total = values.sum(axis=2).sum(axis=1)
        self.target(node)[...] = total[:, None]

    def all_reduce(self, kind: str, node: syntax.Node) -> None:
        """The maximum or the sum over the four lanes of a row, in all of them."""
        import numpy as np

        values = self.values(node)
        with np.errstate(all="ignore"):
            if kind == "max":
                fmax: Any = np.fmax
                total = fmax.reduce(values, axis=1, keepdims=True)
            else:
                total = values.sum(axis=1, keepdims=True)
        self.target(node)[...] = total

    def above(self, limit: Fragment, node: syntax.Node) -> Array:
        """Whether a thread has an element above its row's limit: ``[8, 4]``, by row and lane.

        As the runtime compares (fragment.cuh): by bit patterns, and a limit with a sign gives true.
        """
        import numpy as np

        elements, bounds = (
            np.ascontiguousarray(f.values(node), np.float32).view(np.int32) for f in (self, limit)
        )
        over = (bounds < 0) | (elements.max(axis=(1, 3)) > bounds)
        rows: Array = over[: ROWS // 2] | over[ROWS // 2 :]
        return rows

    def copy(self, source: Fragment, node: syntax.Node) -> None:
        """Become what another is."""
        self.target(node)[...] = source.values(node)
