"""How far a run is, for whoever watches it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artifact.bench.schedule import Window
    from artifact.model.results import Phase


class Progress:
    """Shows nothing; the variants show the same calls in their own way.

    A run calls :meth:`phase` once for each phase with the number of its steps, then
    :meth:`step` before each of them.
    """

    def phase(self, phase: Phase, steps: int) -> None:
        """A phase of ``steps`` steps begins."""

    def step(self, label: str, remaining: float | None = None) -> None:
        """A step begins; ``remaining`` seconds of the phase are estimated to be left."""

    def message(self, text: str) -> None:
        """Something worth a line of its own."""

    def close(self) -> None:
        """The run has ended, well or not."""


class Lines(Progress):
    """Plain lines, few enough for the log of a batch system.

    Args:
        write: Takes one line.
        interval: Seconds that must lie between the lines of two steps of one phase.
    """

    def __init__(self, write: Callable[[str], None], interval: float = 5.0) -> None:
        self._write = write
        self._interval = interval
        self._phase = ""
        self._steps = 0
        self._step = 0
        self._last = 0.0

    def phase(self, phase: Phase, steps: int) -> None:
        """Write the name of the phase."""
        self._phase, self._steps, self._step = phase, steps, 0
        self._last = time.monotonic()
        self._write(f"[{phase}]" + (f" {steps} steps" if steps > 1 else ""))

    def step(self, label: str, remaining: float | None = None) -> None:
        """Write the step, unless a line was written a moment ago."""
        self._step += 1
        now = time.monotonic()
        if self._step > 1 and now - self._last < self._interval:
            return
        self._last = now
        left = "" if remaining is None else f", about {duration(remaining)} left"
        self._write(f"[{self._phase}] {self._step}/{self._steps} {label}{left}")

    def message(self, text: str) -> None:
        """Write the message."""
        self._write(text)


class Estimate:
    """The time that the windows to come will take, from those that were taken.

    A backend and shape that has run is expected to take its mean again. One that has not
    is expected to do as much work a second as all windows so far.

    Args:
        work: The work of one launch by shape, in any unit.
    """

    def __init__(self, work: dict[str, float]) -> None:
        self._work = work
        self._seen: dict[tuple[str, str], list[float]] = {}
        self._seconds = 0.0
        self._done = 0.0

    def add(self, window: Window, seconds: float) -> None:
        """Take in a window that took ``seconds``."""
        self._seen.setdefault((window.backend, window.shape), []).append(seconds)
        self._seconds += seconds
        self._done += self._work[window.shape]

    def remaining(self, windows: Sequence[Window]) -> float | None:
        """Seconds for ``windows``; None before the first one was taken."""
        if not self._seen:
            return None
        pace = self._seconds / self._done if self._done > 0 else 0.0
        total = 0.0
        for window in windows:
            seen = self._seen.get((window.backend, window.shape))
            total += sum(seen) / len(seen) if seen else self._work[window.shape] * pace
        return total


def duration(seconds: float) -> str:
    """``seconds`` for people: ``40 s``, ``3 min``, ``1 h 05 min``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"
