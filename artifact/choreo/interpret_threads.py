"""A group of threads that run a block's statements together: at most a warp.

Threads of a warp that every ``inthreads`` treats alike take every step together; warps do not,
unless something makes them meet. A whole warp owns 16 rows of every fragment of its warpgroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from artifact.choreo import syntax
from artifact.choreo.interpret_agents import Agent, Operation, learn
from artifact.choreo.interpret_block import BlockState
from artifact.choreo.interpret_events import Meeting
from artifact.choreo.interpret_fragments import Fragment
from artifact.choreo.interpret_locals import Lanes
from artifact.choreo.interpret_schedule import Blocked
from artifact.choreo.interpret_values import Value, Values
from artifact.choreo.interpret_views import Places
from artifact.choreo.tables import Symbol, TransferPlan

Steps = Iterator[Blocked | None]

WARP = 32
GROUP = 128


class Threads(Agent):
    """One group.

    Attributes:
        whole: Its threads, all of one warp.
        values: Its expressions, its scalars, and its local buffers.
        places: Its views.
        fragments: Its rows of every fragment declared so far.
        mmas: Its MMAs in flight, oldest first, with the fragments that they use.
        futures: The operations behind every future, of its last issue.
        own: The threads that have each scalar.
        waited: By event and slot the last generation that it has waited for.
    """

    def __init__(self, block: BlockState, mask: int, variables: dict[Symbol, Value]) -> None:
        super().__init__()
        self.block = block
        self.tables = block.tables
        self.report = block.report
        self.whole = mask
        self.first = (mask & -mask).bit_length() - 1
        self.values = Values(block.tables, variables, block.tensors, block.report)
        self.mask = mask
        self.places = Places(self.values, block.memory, block.tensors, block.report)
        self.fragments: dict[Symbol, Fragment] = {}
        self.values.fragments = self.fragments
        self.mmas: list[tuple[Operation, tuple[Fragment, ...]]] = []
        self.futures: dict[Symbol, Operation] = {}
        self.own: dict[Symbol, int] = {}
        self.waited: dict[tuple[Symbol, int], int] = {}

    @property
    def mask(self) -> int:
        """Those of its threads that run the statement at hand."""
        return self._mask

    @mask.setter
    def mask(self, mask: int) -> None:
        self._mask = mask
        self.values.lanes = Lanes.of(mask)

    @property
    def count(self) -> int:
        """How many threads run the statement at hand."""
        return self.mask.bit_count()

    @property
    def warp(self) -> int:
        """Its warp within its warpgroup."""
        return self.first % GROUP // WARP

    def assign(self, symbol: Symbol, value: Value, node: syntax.Node) -> None:
        """A mutable gets a value, in all threads of the group."""
        if self.mask & self.own.get(symbol, self.whole) != self.own.get(symbol, self.whole):
            raise self.report.error(
                "unsupported",
                node,
                f"{symbol.name} is assigned by some threads of a warp, and others have it too",
            )
        self.values.variables[symbol] = value

    def declare(self, symbol: Symbol, value: Value) -> None:
        """A scalar gets its first value."""
        self.own[symbol] = self.mask
        self.values.variables[symbol] = value

    def leads(self, plan: TransferPlan) -> bool:
        """Whether one of its threads issues a transfer."""
        return any(self.mask >> leader & 1 for leader in plan.leaders)

    def until(self, node: syntax.Node, ready: Callable[[], bool], why: Callable[[], str]) -> Steps:
        """Go on when something holds."""
        if not ready():
            yield Blocked(node, ready, why)

    def complete(self, operation: Operation, node: syntax.Node) -> Steps:
        """Wait for an operation of its own, and know that it is done."""
        yield from self.until(node, lambda: operation.done, lambda: str(operation))
        learn(self.clock, operation.publish())

    def wait_for(
        self, event: Symbol, number: int, generation: int | None, node: syntax.Node
    ) -> Steps:
        """Wait for a generation of a slot; null is the next one that was not waited for.

        Raises:
            InterpreterError: ``missed-generation``.
        """
        slot = self.block.events.slots[event][number]
        last = self.waited.get((event, number), -1)
        wanted = last + 1 if generation is None else generation
        if wanted <= last:
            raise self.report.error(
                "missed-generation",
                node,
                f"these threads wait for generation {wanted} of {slot.name} again, after "
                f"generation {last}",
                cause="an order counts on; reduced to the slot it has lost its generation",
            )
        self.waited[event, number] = wanted
        yield from self.until(
            node,
            lambda: slot.generation != wanted,
            lambda: f"{slot.name}, generation {wanted} ({slot.state()})",
        )
        slot.over(self, wanted, node)
        learn(self.clock, slot.clock)

    def meet(self, meeting: Meeting, node: syntax.Node, *, event: bool = False) -> Steps:
        """Arrive at a hardware barrier and wait for the others."""
        before = meeting.passed
        text = f", generation {before}" if event else ""
        meeting.arrive(self, self.mask, node)
        yield from self.until(
            node,
            lambda: meeting.passed > before,
            lambda: f"{meeting.name}{text} ({meeting.state()})",
        )
        learn(self.clock, meeting.clock)

    def meet_for(self, plan: TransferPlan, node: syntax.Node) -> Steps:
        """The barrier of the threads that load, copy or store together."""
        launch = self.tables.launch
        count = plan.threads.bit_count()
        if plan.barrier is not None:
            # With several leaders one barrier a warpgroup, numbered from the first.
            several = len(plan.leaders) > 1
            step = self.first // GROUP - min(plan.leaders) // GROUP if several else 0
            meeting = self.block.meeting("barrier", plan.barrier + step, plan.barrier_threads)
        elif plan.barrier_threads or launch is None or count == launch.threads:
            meeting = self.block.meeting("the barrier of the block", 0, count)
        else:
            meeting = self.block.meeting("the barrier of warp", self.first // WARP, count)
        yield from self.meet(meeting, node)

    def meet_warpgroup(self, node: syntax.Node) -> Steps:
        """A barrier of its warpgroup."""
        meeting = self.block.meeting("the barrier of warpgroup", self.first // GROUP, GROUP)
        yield from self.meet(meeting, node)
