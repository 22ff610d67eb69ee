"""What the threads of one block share: memory, barriers, and whose turn it is."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from artifact.choreo import syntax
from artifact.choreo.interpret_agents import Agent, Operation
from artifact.choreo.interpret_apply import ApplyPlan, plan_apply
from artifact.choreo.interpret_error import Report
from artifact.choreo.interpret_events import Events, Meeting
from artifact.choreo.interpret_memory import SharedMemory
from artifact.choreo.interpret_schedule import Schedule
from artifact.choreo.tables import Symbol, Tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass
class BlockState:
    """One block of the grid."""

    tables: Tables
    tensors: dict[Symbol, Array]
    report: Report
    rng: random.Random
    applies: dict[syntax.Apply, ApplyPlan]
    """Shared by all blocks of a launch."""
    memory: SharedMemory = field(init=False)
    events: Events = field(init=False)
    schedule: Schedule = field(init=False)
    _meetings: dict[tuple[str, int], Meeting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.memory = SharedMemory(self.tables.shared, self.report)
        self.events = Events(self.tables.events, self.report)
        self.schedule = Schedule(self.tables.function, self.rng, self.report)

    def meeting(self, kind: str, number: int, threads: int) -> Meeting:
        """A hardware barrier, by what it is for and its number."""
        key = (kind, number)
        if key not in self._meetings:
            self._meetings[key] = Meeting(f"{kind} {number}", threads, self.report)
        return self._meetings[key]

    def apply_plan(self, node: syntax.Apply) -> ApplyPlan:
        """How an ``apply`` is carried out."""
        if node not in self.applies:
            self.applies[node] = plan_apply(self.tables, node)
        return self.applies[node]

    def start(self, operation: Operation) -> None:
        """An asynchronous operation takes turns from now on."""
        self.schedule.operations.append(operation)

    def check_end(self, agents: list[Agent]) -> None:
        """Nothing is under way when the block ends that nobody has waited for.

        Raises:
            InterpreterError: ``in-flight``: a load writes shared memory that belongs to another
                block by then.
        """
        last = Agent()
        for agent in agents:
            for other, time in agent.clock.items():
                last.clock[other] = max(last.clock.get(other, 0), time)
        for tiles in self.memory.tiles.values():
            for tile in tiles:
                access = tile.unfinished(last)
                if access is not None:
                    raise self.report.error(
                        "in-flight",
                        access.node,
                        f"nobody waits for {access} into {tile.name} before the block ends",
                        cause="a block may not end before what it issued is complete",
                    )
