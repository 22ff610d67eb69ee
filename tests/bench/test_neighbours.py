"""Our own workers and other processes on the GPU."""

from __future__ import annotations

import os

import pytest

from artifact.bench.neighbours import BY_COUNT, BY_NUMBER, NOT_LISTED, NOT_SEEN, Neighbours
from artifact.errors import EnvironmentUnmet


def neighbours(same: bool, *workers: int, children: tuple[int, ...] = ()) -> Neighbours:
    made = Neighbours(same, lambda roots: roots | frozenset(children))
    made.workers(workers)
    return made


def few(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def test_workers_and_what_they_start_are_ours() -> None:
    ours = neighbours(True, 1, 2, children=(3,))
    assert ours.told == NOT_SEEN
    assert ours.strangers(few(1, 2, 3)) == few()
    assert ours.strangers(few(1, 9)) == few(9)
    assert ours.told == BY_NUMBER


def test_numbers_that_are_the_drivers_own_are_never_counted() -> None:
    assert neighbours(True, 1, 2).strangers(few(9)) == few(9)


def test_in_another_namespace_the_first_ones_count_as_ours() -> None:
    ours = neighbours(False, 1, 2)
    assert ours.strangers(few(501, 502)) == few()
    assert ours.told == BY_COUNT
    assert ours.strangers(few(501)) == few()
    assert ours.strangers(few(501, 503)) == few(503)


def test_in_another_namespace_more_than_ours_are_too_many() -> None:
    assert neighbours(False, 1, 2).strangers(few(501, 502, 503)) == few(501, 502, 503)


def test_a_container_that_shares_the_numbers() -> None:
    ours = neighbours(False, 1, 2)
    assert ours.strangers(few(1, 2, 9)) == few(9)
    assert ours.told == BY_NUMBER


@pytest.mark.parametrize("running", [None, frozenset()])
def test_what_cannot_be_seen_is_said(running: frozenset[int] | None) -> None:
    ours = neighbours(False, 1)
    assert ours.strangers(running) == few()
    assert ours.told == NOT_LISTED


def test_nobody_may_be_there_before() -> None:
    ours = Neighbours(True)
    ours.require_none(None, 0)
    ours.require_none(few(), 0)
    with pytest.raises(EnvironmentUnmet, match="another process computes") as caught:
        ours.require_none(few(os.getpid()), 3)
    assert str(caught.value.found).startswith(f"process {os.getpid()} (")
    assert caught.value.where == "GPU 3"
    with pytest.raises(EnvironmentUnmet) as caught:
        Neighbours(False).require_none(few(os.getpid(), 7), 0)
    assert caught.value.found == ", ".join(f"process {n}" for n in sorted({7, os.getpid()}))
    assert "container" in str(caught.value.cause)
