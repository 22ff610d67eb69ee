from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from artifact.archive import ahead as module
from artifact.archive.ahead import ahead


def test_items_and_their_order() -> None:
    assert list(ahead(iter(range(1000)), 3)) == list(range(1000))
    assert list(ahead(iter(()), 3)) == []


def test_an_exception_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("x")

    made = ahead(items(), 4)
    assert [next(made), next(made)] == [1, 2]
    with pytest.raises(KeyError):
        next(made)


def test_only_so_many_wait_and_closing_stops_it(
    monkeypatch: pytest.MonkeyPatch, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    monkeypatch.setattr(module, "_END_S", 120.0)
    before = set(threading.enumerate())
    counts: list[int] = []

    def items() -> Iterator[int]:
        for i in range(10_000):
            counts.append(i)
            yield i

    made = ahead(items(), 3)
    assert next(made) == 0
    # One was taken, and four wait.
    wait_until(lambda: len(counts) >= 5)
    time.sleep(0.05)  # for what should not come
    assert len(counts) == 5
    made.close()
    assert set(threading.enumerate()) <= before
    assert len(counts) <= 6
