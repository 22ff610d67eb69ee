"""Seconds by phase, activity and backend."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from artifact.bench import times as module
from artifact.bench.times import OWN, Times


def by_key(times: Times) -> dict[tuple[str, str, str | None], float]:
    return {(t.phase, t.activity, t.backend): t.seconds for t in times.records()}


def test_what_is_not_measured_is_the_runners_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now))
    times = Times()
    times.enter("prepare")
    with times.measure("start", "alpha"):
        now += 2.0
    now += 3.0
    times.enter("timing")
    now += 0.5
    assert by_key(times) == {
        ("prepare", "start", "alpha"): 2.0,
        ("prepare", OWN, None): 3.0,
        ("timing", OWN, None): 0.5,
    }


def test_parts_that_are_claimed_never_exceed_the_whole() -> None:
    times = Times()
    times.enter("timing")
    times.split(1.0, {"a": 3.0, "b": 1.0}, "rest")
    times.split(1.0, {"a": 0.25}, "rest")
    times.split(1.0, {}, "rest")
    found = by_key(times)
    assert found["timing", "a", None] == pytest.approx(1.0)
    assert found["timing", "b", None] == pytest.approx(0.25)
    assert found["timing", "rest", None] == pytest.approx(1.75)
    assert found["timing", OWN, None] == 0


def test_an_error_is_counted_too() -> None:
    times = Times()
    times.enter("gates")
    with pytest.raises(ValueError), times.measure("check"):
        raise ValueError
    assert ("gates", "check", None) in by_key(times)
