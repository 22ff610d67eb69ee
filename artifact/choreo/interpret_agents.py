"""Who runs on its own, and what it knows of the others: vector clocks.

Two accesses to one place are in order if the program puts them in order: by one agent after the
other, through an event, a barrier, or a wait for a future. That is what the clocks record, so that
a missing wait is found whatever order a run happens to take.
"""

from __future__ import annotations

from collections.abc import Callable

from artifact.choreo import syntax

Clock = dict["Agent", int]


def learn(clock: Clock, other: Clock) -> None:
    """Know what the other knows too."""
    for agent, time in other.items():
        if clock.get(agent, 0) < time:
            clock[agent] = time


class Agent:
    """A group of threads that run together, or an asynchronous operation.

    Attributes:
        clock: For every agent the time up to which what it did is known to be done.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = {**(clock or {}), self: 1}

    @property
    def now(self) -> int:
        """Its own time."""
        return self.clock[self]

    def publish(self) -> Clock:
        """What others learn when they learn of it; what it does later is not part of that."""
        clock = dict(self.clock)
        self.clock[self] += 1
        return clock

    def knows(self, other: Agent, time: int) -> bool:
        """Whether what another did at a time is done for certain."""
        return self.clock.get(other, 0) >= time


class Operation(Agent):
    """Something that runs beside its issuer: a load, a store, an MMA.

    Attributes:
        node: Its statement.
        label: What messages call it.
        detail: What it completes, for messages.
        done: Whether it has run.
    """

    def __init__(self, issuer: Agent, node: syntax.Node, label: str) -> None:
        super().__init__(issuer.publish())
        self.node = node
        self.label = label
        self.detail = ""
        self.done = False
        self.action: Callable[[], None] | None = None
        self.after: Operation | None = None

    @property
    def ready(self) -> bool:
        """Whether it may run now: it was started, and what comes before it has run."""
        return self.action is not None and (self.after is None or self.after.done)

    def run(self) -> None:
        """Do what it does."""
        if self.action is None:
            raise AssertionError("an operation that was not started")
        self.action()
        self.done = True
        self.after = None

    def __str__(self) -> str:
        return f"{self.label} of line {self.node.span.line}{self.detail}"
