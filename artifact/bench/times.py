"""Where the wall time of a run went."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

from artifact.model.results import Phase, PhaseTime

OWN = "runner"
"""What is left of a phase when everything that was measured in it is taken off."""


class Times:
    """Seconds by phase, activity and backend, each moment counted once."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[Phase, str, str | None], float] = {}
        self._walls: dict[Phase, float] = {}
        self._phase: Phase | None = None
        self._began = 0.0

    def enter(self, phase: Phase) -> None:
        """End the phase before, and begin this one."""
        now = time.perf_counter()
        if self._phase is not None:
            self._walls[self._phase] = self._walls.get(self._phase, 0.0) + now - self._began
        self._phase, self._began = phase, now
        self._walls.setdefault(phase, 0.0)

    def add(self, activity: str, seconds: float, backend: str | None = None) -> None:
        """Count ``seconds`` of the present phase to ``activity``."""
        assert self._phase is not None
        key = (self._phase, activity, backend)
        self._seconds[key] = self._seconds.get(key, 0.0) + seconds

    def split(
        self, total: float, parts: Mapping[str, float], rest: str, backend: str | None = None
    ) -> None:
        """Count ``total`` seconds to ``parts``, and what is left to ``rest``.

        Parts are another's claims: where they add up to more than the total they are
        scaled down to it.
        """
        claimed = sum(parts.values())
        scale = min(1.0, total / claimed) if claimed > 0 else 1.0
        for activity, seconds in parts.items():
            self.add(activity, seconds * scale, backend)
        self.add(rest, max(0.0, total - claimed), backend)

    @contextlib.contextmanager
    def measure(self, activity: str, backend: str | None = None) -> Iterator[None]:
        """Count the time of the block to ``activity``."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(activity, time.perf_counter() - begin, backend)

    def records(self) -> tuple[PhaseTime, ...]:
        """Everything so far, in the order in which it began, each phase's own share last."""
        walls = dict(self._walls)
        if self._phase is not None:
            walls[self._phase] += time.perf_counter() - self._began
        records = []
        for phase, wall in walls.items():
            counted = 0.0
            for (where, activity, backend), seconds in self._seconds.items():
                if where == phase:
                    counted += seconds
                    records.append(_record(phase, activity, backend, seconds))
            records.append(_record(phase, OWN, None, max(0.0, wall - counted)))
        return tuple(records)


def _record(phase: Phase, activity: str, backend: str | None, seconds: float) -> PhaseTime:
    return PhaseTime(phase=phase, activity=activity, backend=backend, seconds=round(seconds, 6))
