"""Memory as the interpreter has it: tensors, and shared tiles that know who touched them.

BF16 is kept as the FP32 numbers that it can represent. The layout of a tile (panels, swizzle) is
not modelled: a tile is a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artifact.choreo import syntax
from artifact.choreo.interpret_agents import Agent, Operation
from artifact.choreo.interpret_error import Report
from artifact.choreo.tables import SharedPlan, Symbol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Box = tuple[int, int, int, int]
"""First row, last row, first column, last column; the last ones exclusive."""


def from_bf16_bits(bits: Array) -> Array:
    """FP32 numbers from the bits of BF16 ones."""
    import numpy as np

    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bf16_bits(values: Array) -> Array:
    """The bits of BF16 numbers, rounded to nearest even."""
    import numpy as np

    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    # A NaN stays one whatever its low bits are.
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def round_bf16(values: Any) -> Any:
    """FP32 numbers rounded to the nearest BF16 ones, ties to even."""
    import numpy as np

    array = np.asarray(values, dtype=np.float32)
    rounded = from_bf16_bits(to_bf16_bits(array)).reshape(array.shape)
    return rounded if isinstance(values, np.ndarray) else rounded[()]


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes have an element in common."""
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def covers(a: Box, b: Box) -> bool:
    """Whether a box holds another."""
    return a[0] <= b[0] and b[1] <= a[1] and a[2] <= b[2] and b[3] <= a[3]


@dataclass(frozen=True, eq=False)
class Access:
    """Somebody read or wrote a part of a tile."""

    agent: Agent
    time: int
    box: Box
    node: syntax.Node
    writes: bool

    def __str__(self) -> str:
        if isinstance(self.agent, Operation):
            return str(self.agent)
        return f"line {self.node.span.line}"


class Tile:
    """A tile of shared memory, its values, and the accesses that may still matter."""

    def __init__(
        self, name: str, type_: str | None, rows: int, columns: int, report: Report
    ) -> None:
        import numpy as np

        # FP64 has every value of the other types up to 32 bits, and NaN for what is undefined.
        dtype = np.float32 if type_ in ("bf16", "f16", "f32") else np.float64

        self.name = name
        self.shape = (rows, columns)
        self.values: Array = np.full((rows, columns), np.nan, dtype=dtype)
        self._filled = np.zeros((rows, columns), dtype=bool)
        self._accesses: list[Access] = []
        self._report = report

    def part(self, box: Box) -> Array:
        """The values of a box, as a view."""
        return self.values[box[0] : box[1], box[2] : box[3]]

    def read(self, agent: Agent, box: Box, node: syntax.Node) -> None:
        """Note a read; what it reads must have been written, for certain.

        Raises:
            InterpreterError: ``early-read``.
        """
        self._inside(box, node)
        for access in self._accesses:
            if access.writes and overlap(access.box, box) and not _ordered(access, agent):
                raise self._report.error(
                    "early-read",
                    node,
                    f"{self.name} is read {self._before(access)}",
                    cause="nothing that these threads waited for says that the tile has arrived",
                )
        if not self._filled[box[0] : box[1], box[2] : box[3]].all():
            raise self._report.error(
                "early-read",
                node,
                f"{self.name} is read before anything was written to it",
                cause="these threads did not wait for the load or the store that fills it",
            )
        new = Access(agent, agent.now, box, node, writes=False)
        # Who comes after the new read comes after those too.
        self._accesses = [
            a for a in self._accesses if a.writes or not (covers(box, a.box) and _ordered(a, agent))
        ]
        self._accesses.append(new)

    def _before(self, access: Access) -> str:
        if isinstance(access.agent, Operation) and not access.agent.done:
            return f"while {access} is in flight"
        return f"without waiting for {access}"

    def write(self, agent: Agent, box: Box, node: syntax.Node) -> None:
        """Note a write; nobody may still read what it overwrites, and no other write be under way.

        Raises:
            InterpreterError: ``overwrite``.
        """
        self._inside(box, node)
        for access in self._accesses:
            if overlap(access.box, box) and not _ordered(access, agent):
                raise self._report.error(
                    "overwrite",
                    node,
                    f"{self.name} is overwritten {self._still(access)}",
                    cause="the threads that write it did not wait until it was free",
                )
        self._accesses = [a for a in self._accesses if not covers(box, a.box)]
        self._accesses.append(Access(agent, agent.now, box, node, writes=True))
        self._filled[box[0] : box[1], box[2] : box[3]] = True

    def _still(self, access: Access) -> str:
        pending = isinstance(access.agent, Operation) and not access.agent.done
        verb = "write" if access.writes else "read"
        if pending:
            return f"while {access} still {verb}s it"
        return f"without waiting for {access} to have {'written' if access.writes else 'read'} it"

    def unfinished(self, agent: Agent) -> Access | None:
        """A write that an agent does not know to be done."""
        for access in self._accesses:
            if access.writes and not _ordered(access, agent):
                return access
        return None

    def _inside(self, box: Box, node: syntax.Node) -> None:
        rows, columns = self.shape
        if not covers((0, rows, 0, columns), box):
            raise self._report.error(
                "out-of-range",
                node,
                f"rows {box[0]} to {box[1]} and columns {box[2]} to {box[3]} of {self.name}, "
                f"which is [{rows}, {columns}]",
            )


def _ordered(access: Access, agent: Agent) -> bool:
    return agent.knows(access.agent, access.time)


class SharedMemory:
    """The shared buffers of one block."""

    def __init__(self, plans: dict[Symbol, SharedPlan], report: Report) -> None:
        self._report = report
        self.tiles = {
            symbol: [
                Tile(
                    f"{symbol.name}[{number}]" if plan.tiles > 1 else symbol.name,
                    symbol.type,
                    plan.rows,
                    plan.columns,
                    report,
                )
                for number in range(plan.tiles)
            ]
            for symbol, plan in plans.items()
        }

    def tile(self, buffer: Symbol, number: int, node: syntax.Node) -> Tile:
        """A tile of a buffer.

        Raises:
            InterpreterError: ``out-of-range``.
        """
        tiles = self.tiles[buffer]
        if not 0 <= number < len(tiles):
            raise self._report.error(
                "out-of-range", node, f"{buffer.name}[{number}] of {len(tiles)} tiles"
            )
        return tiles[number]
