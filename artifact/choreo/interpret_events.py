"""Events of one block: the language's generations, and the barriers that stand for them.

A barrier knows the parity of its phase and nothing else. A wait for generation g passes where the
phase of g's parity is over: that is right as long as g is the generation at hand or the one before.
Both are kept here, and where they differ the run ends with an error: on the machine that wait would
hang, or pass too soon. Nor may the order of the run be what keeps them together: a generation comes
after every wait for the one before it, for certain, or the run ends as well.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.interpret_agents import Agent, Clock, Operation, learn
from artifact.choreo.interpret_error import Report
from artifact.choreo.tables import EventPlan, Symbol


class Slot:
    """One mbarrier: its phases, and what still has to come for the one at hand."""

    def __init__(self, event: Symbol, plan: EventPlan, number: int, report: Report) -> None:
        self.plan = plan
        self.name = f"{event.name} slot {number}" if plan.slots > 1 else event.name
        self.phase = 0
        self.clock: Clock = {}
        self._report = report
        self._pending = plan.arrivals
        self._bytes = 0
        self._arrived = 0
        self._next: Clock = {}
        self._passed: list[tuple[Agent, int, int, syntax.Node]] = []

    @property
    def generation(self) -> int:
        """The generation that the arrivals of now count for."""
        return self.phase + int(self.plan.ready)

    def arrive(
        self, agent: Agent, mask: int, count: int, generation: int | None, node: syntax.Node
    ) -> None:
        """``count`` arrivals by the threads of ``mask``, for a generation if they name one.

        Raises:
            InterpreterError: ``over-arrival``.
        """
        if generation is not None and generation != self.generation:
            late = generation < self.generation
            raise self._report.error(
                "over-arrival",
                node,
                f"{self.name} is triggered for generation {generation}, and generation "
                f"{self.generation} is pending: the arrival counts for that one",
                cause="its generation was completed by other arrivals"
                if late
                else "its generation comes after one that is not complete",
            )
        if mask & self._arrived or count > self._pending:
            again = "by the same threads again" if mask & self._arrived else "once too often"
            raise self._report.error(
                "over-arrival",
                node,
                f"{self.name} is triggered {again} in generation {self.generation}, which "
                f"{self.plan.arrivals} arrival{'s' if self.plan.arrivals != 1 else ''} complete",
                cause="each thread, or each load, arrives exactly once a generation",
            )
        self._arrived |= mask
        self._pending -= count
        learn(self._next, agent.publish())
        self._complete()

    def expect(self, count: int) -> None:
        """Bytes that the phase at hand waits for, before the arrival that announces them."""
        self._bytes += count

    def land(self, operation: Operation, count: int) -> None:
        """Bytes of a load have been written."""
        self._bytes -= count
        learn(self._next, operation.publish())
        self._complete()

    def _complete(self) -> None:
        if self._pending == 0 and self._bytes == 0:
            self._overtakes()
            self.phase += 1
            self._pending = self.plan.arrivals
            self._arrived = 0
            learn(self.clock, self._next)

    def _overtakes(self) -> None:
        """All who waited for the generation before have done so, for certain."""
        for agent, time, generation, node in self._passed:
            if self._next.get(agent, 0) < time:
                raise self._report.error(
                    "missed-generation",
                    node,
                    f"the wait for generation {generation} of {self.name} may come too late: "
                    f"generation {self.generation} does not wait for it, and a barrier has but the "
                    "parity of its phase",
                    cause="nothing tells those who trigger that this wait is over",
                )
        self._passed.clear()

    def over(self, agent: Agent, generation: int, node: syntax.Node) -> bool:
        """Whether a generation is complete, so that an agent that waits for it goes on.

        Raises:
            InterpreterError: ``missed-generation``: the parity that the wait looks at says
                something else.
        """
        ahead = self.generation - generation
        if ahead == 0:
            return False
        if ahead == 1:
            self._passed.append((agent, agent.now, generation, node))
            return True
        if ahead > 1:
            found = f"generation {generation + 1} is complete too"
            cause = "somebody triggered again before all who wait had seen this generation"
        else:
            found = f"generation {generation - 2} was the last of its parity"
            cause = "this wait is two generations ahead of the event"
        raise self._report.error(
            "missed-generation",
            node,
            f"the wait for generation {generation} of {self.name} comes "
            f"{'too late' if ahead > 1 else 'too early'}: {found}, and a barrier has but the "
            "parity of its phase",
            cause=cause,
        )

    def state(self) -> str:
        """What has come so far."""
        arrived = self.plan.arrivals - self._pending
        unit = "warps" if self.plan.per_warp else "arrivals"
        text = f"{arrived} of {self.plan.arrivals} {unit}"
        return text + (f", {self._bytes} bytes to come" if self._bytes else "")


class Meeting:
    """A hardware barrier that counts threads: those that arrive and those that wait there."""

    def __init__(self, name: str, threads: int, report: Report) -> None:
        self.name = name
        self.threads = threads
        self.passed = 0
        self.clock: Clock = {}
        self._report = report
        self._arrived = 0
        self._next: Clock = {}

    def arrive(self, agent: Agent, mask: int, node: syntax.Node) -> None:
        """The threads of ``mask`` have come.

        Raises:
            InterpreterError: ``over-arrival``: the same threads have come before, and the barrier
                is not complete yet.
        """
        if mask & self._arrived:
            raise self._report.error(
                "over-arrival",
                node,
                f"{self.name} is reached by the same threads again before it is complete",
                cause="triggers and waits of a named barrier alternate strictly",
            )
        self._arrived |= mask
        learn(self._next, agent.publish())
        if self._arrived.bit_count() >= self.threads:
            self.passed += 1
            self._arrived = 0
            learn(self.clock, self._next)

    def state(self) -> str:
        """What has come so far."""
        return f"{self._arrived.bit_count()} of {self.threads} threads"


class Events:
    """Every event of one block."""

    def __init__(self, plans: dict[Symbol, EventPlan], report: Report) -> None:
        self.plans = plans
        self.slots: dict[Symbol, list[Slot]] = {}
        self.named: dict[Symbol, Meeting] = {}
        for symbol, plan in plans.items():
            if plan.kind == "named":
                self.named[symbol] = Meeting(symbol.name, plan.participants, report)
            else:
                self.slots[symbol] = [Slot(symbol, plan, n, report) for n in range(plan.slots)]
