"""The order in which threads and asynchronous operations of a block take turns.

Any of those that can go on may be next; the choice is a random one of a seed. Some are slow for a
while and others fast, so that one can fall far behind, as on a machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from artifact.choreo import syntax
from artifact.choreo.interpret_agents import Operation
from artifact.choreo.interpret_error import Report
from artifact.choreo.interpret_groups import ranges

#: Turns after which who is slow and who is fast is drawn again, on average.
_PACE = 40


@dataclass(frozen=True)
class Blocked:
    """What a runner waits for: it goes on when ``ready()``."""

    node: syntax.Node
    ready: Callable[[], bool]
    why: Callable[[], str]


Steps = Iterator[Blocked | None]
"""A runner's life: it yields before it touches what others see, null where it can go on."""


class Runner:
    """Threads that run together, on their way."""

    def __init__(self, mask: int, role: Callable[[], str], steps: Steps) -> None:
        self.mask = mask
        self.role = role
        self.blocked: Blocked | None = None
        self.ended = False
        self.pace = 1.0
        self._steps = steps

    @property
    def ready(self) -> bool:
        """Whether it can go on."""
        return not self.ended and (self.blocked is None or self.blocked.ready())

    def run(self) -> None:
        """To the next place where others may come before it."""
        try:
            self.blocked = next(self._steps)
        except StopIteration:
            self.ended = True


class Schedule:
    """The turns of one block."""

    def __init__(self, function: syntax.Function, rng: random.Random, report: Report) -> None:
        self.operations: list[Operation] = []
        self.turns = 0
        self._function = function
        self._rng = rng
        self._report = report

    def run(self, runners: Sequence[Runner], limit: int) -> None:
        """Everything until the end.

        Raises:
            InterpreterError: ``deadlock``; ``endless`` after ``limit`` turns; and what the
                statements raise.
        """
        while True:
            self.operations = [o for o in self.operations if not o.done]
            choice: list[Runner | Operation] = [o for o in self.operations if o.ready]
            choice += [r for r in runners if r.ready]
            if not choice:
                break
            self._draw(runners)
            weights = [c.pace if isinstance(c, Runner) else self._rng.random() for c in choice]
            self._rng.choices(choice, weights)[0].run()
            self.turns += 1
            if self.turns > limit:
                raise self._report.error(
                    "endless",
                    self._function,
                    f"{self._function.name} has no end after {limit} turns",
                )
        stuck = [r for r in runners if not r.ended]
        if stuck:
            raise self._deadlock(stuck)

    def _draw(self, runners: Sequence[Runner]) -> None:
        if self.turns % _PACE == 0:
            for runner in runners:
                runner.pace = self._rng.random() ** 3 + 1e-3

    def _deadlock(self, stuck: Sequence[Runner]) -> Exception:
        """Who waits for what; threads that wait for the same at the same place in one line."""
        found: dict[str, int] = {}
        first: syntax.Node | None = None
        for runner in stuck:
            blocked = runner.blocked
            if blocked is None:
                raise AssertionError("a runner that can go on")
            first = first or blocked.node
            text = f"{runner.role()}: line {blocked.node.span.line} waits for {blocked.why()}"
            found[text] = found.get(text, 0) | runner.mask
        return self._report.error(
            "deadlock",
            first or self._function,
            f"{self._function.name} is deadlocked: nobody can go on",
            cause="what these threads wait for is triggered too rarely, or by nobody who can go on",
            details=tuple(f"threads {ranges(mask)}, {text}" for text, mask in found.items()),
        )
