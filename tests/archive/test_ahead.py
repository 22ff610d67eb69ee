from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

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


def settled(counts: list[int]) -> int:
    """How many items there are once no more come."""
    before = -1
    while before != len(counts):
        before = len(counts)
        time.sleep(0.05)
    return before


def test_no_more_than_depth_wait_and_closing_stops_it() -> None:
    counts: list[int] = []

    def items() -> Iterator[int]:
        for i in range(10_000):
            counts.append(i)
            yield i

    made = ahead(items(), 3)
    assert next(made) == 0
    assert settled(counts) <= 6
    made.close()
    assert settled(counts) <= 7
    assert all(t.name != "ahead" or not t.is_alive() for t in threading.enumerate())
