"""Local buffers of a group of threads: every thread has its own elements.

Outside of ``apply`` a group computes one value for all its threads, so that they agree on what an
element holds; within ``apply`` each thread of a warp computes with its own elements of the
fragment, and what it writes to a local buffer is its own too. Thread t of a warp is the lane
``t % 4`` of four in the row ``t / 4`` of eight, as it owns rows of fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artifact.choreo import syntax
from artifact.choreo.interpret_error import Report
from artifact.choreo.tables import LocalPlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_WARP = 32
_DTYPES = {"f64": "float64", "u64": "uint64", "bool": "bool"}


@dataclass(frozen=True)
class Lanes:
    """Threads of a warp that compute together.

    Attributes:
        threads: Their numbers within the warp, in the shape of the values that are computed with
            where each has its own.
        taking: Which of them take part, of that shape.
        apart: Whether each computes a value of its own.
    """

    threads: Array
    taking: Array
    apart: bool

    @staticmethod
    def of(mask: int) -> Lanes:
        """The threads of a set, which are of one warp and compute one value.

        Those of a whole warp are in rows, as what they have apart from each other is.
        """
        import numpy as np

        listed = sorted({t % _WARP for t in range(mask.bit_length()) if mask >> t & 1})
        numbers = np.array(listed, dtype=int)
        if len(listed) == _WARP:
            numbers = numbers.reshape(8, 4)
        return Lanes(numbers, np.ones(numbers.shape, dtype=bool), apart=False)


class LocalBuffer:
    """The elements of one declaration: ``[threads of a warp, buffers, *shape]``."""

    def __init__(self, name: str, plan: LocalPlan, report: Report) -> None:
        import numpy as np

        floats = plan.type in ("f32", "bf16", "f16")
        dtype = "float32" if floats else _DTYPES.get(plan.type, "int64")
        shape = (_WARP, plan.tiles, *plan.shape)
        self.name = name
        self.values: Array = np.zeros(shape, dtype=dtype)
        self.written = np.zeros(shape, dtype=bool)
        self._report = report

    def fill(self, value: Any) -> None:
        """Every element becomes a value."""
        self.values[...] = value
        self.written[...] = True

    def read(self, number: Any, indices: tuple[Any, ...], lanes: Lanes, node: syntax.Node) -> Any:
        """An element: one value, or of each thread within ``apply``.

        Raises:
            InterpreterError: ``out-of-range``; ``undefined``, where nothing was written to it;
                ``unsupported``, where threads that compute one value have different ones.
        """
        place = self._place(number, indices, lanes, node)
        if not self.written[place][lanes.taking].all():
            raise self._report.error(
                "undefined", node, f"an element of {self.name} is read that nothing was written to"
            )
        values = self.values[place]
        if lanes.apart:
            return values
        first = values.flat[0]
        if not ((values == first) | ((values != values) & (first != first))).all():
            raise self._report.error(
                "unsupported", node, f"an element of {self.name} differs between threads of a warp"
            )
        return first.item() if values.dtype.kind in "iub" else first

    def write(
        self, number: Any, indices: tuple[Any, ...], lanes: Lanes, value: Any, node: syntax.Node
    ) -> None:
        """Assign an element, in the threads that take part.

        Raises:
            InterpreterError: ``out-of-range``; ``unsupported``, where other threads have the value.
        """
        import numpy as np

        place = self._place(number, indices, lanes, node)
        if np.ndim(value) > 0 and not lanes.apart and np.shape(value) != lanes.taking.shape:
            raise self._report.error(
                "unsupported", node, "what each thread of a warp has is assigned by some of them"
            )
        taking = tuple(np.broadcast_to(part, lanes.taking.shape)[lanes.taking] for part in place)
        self.values[taking] = np.broadcast_to(value, lanes.taking.shape)[lanes.taking]
        self.written[taking] = True

    def _place(
        self, number: Any, indices: tuple[Any, ...], lanes: Lanes, node: syntax.Node
    ) -> tuple[Array, ...]:
        """Indices into the values; those of threads that do not take part are 0."""
        import numpy as np

        place = [np.broadcast_to(lanes.threads, lanes.taking.shape)]
        for index, extent in zip((number, *indices), self.values.shape[1:], strict=True):
            here = np.broadcast_to(np.asarray(index, dtype=np.int64), lanes.taking.shape)
            outside = (here < 0) | (here >= extent)
            if (outside & lanes.taking).any():
                raise self._report.error(
                    "out-of-range", node, f"an index of {self.name}, whose extent is {extent}"
                )
            place.append(np.where(outside, 0, here))
        return tuple(place)
