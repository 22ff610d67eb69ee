"""Progress in lines, and the estimate of what is left."""

from __future__ import annotations

import pytest

from artifact.bench.progress import Estimate, Lines, duration
from artifact.bench.schedule import Window


def test_lines_are_few() -> None:
    lines: list[str] = []
    progress = Lines(lines.append, interval=3600)
    progress.phase("timing", 100)
    for number in range(100):
        progress.step(f"window {number}", 90.0)
    progress.message("look")
    assert lines == ["[timing] 100 steps", "[timing] 1/100 window 0, about 2 min left", "look"]


def test_lines_without_interval_are_all_of_them() -> None:
    lines: list[str] = []
    progress = Lines(lines.append, interval=0)
    progress.phase("gates", 2)
    progress.step("a")
    progress.step("b")
    assert lines[1:] == ["[gates] 1/2 a", "[gates] 2/2 b"]


def test_what_is_left_follows_what_was_seen() -> None:
    a, b = Window(0, 0, "x", "small"), Window(0, 1, "x", "large")
    estimate = Estimate({"small": 1.0, "large": 10.0})
    assert estimate.remaining([a, b]) is None
    estimate.add(a, 2.0)
    # Nothing of this size was seen: by its work it takes ten times as long.
    assert estimate.remaining([a, b]) == pytest.approx(2 + 20)
    estimate.add(b, 5.0)
    assert estimate.remaining([a, b, b]) == pytest.approx(2 + 5 + 5)
    assert estimate.remaining([]) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1 s"),
        (40, "40 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (3570, "1 h 00 min"),
        (3900, "1 h 05 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
