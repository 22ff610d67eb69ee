"""Signals held back."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from artifact.bench.signals import deferred, ignored


def test_a_signal_takes_effect_at_the_end_of_the_block() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), deferred():
        os.kill(os.getpid(), signal.SIGINT)
        reached = True
    assert reached


def test_nothing_is_held_back_where_nothing_came() -> None:
    before = signal.getsignal(signal.SIGINT)
    with deferred():
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_while_cleaning_up_a_second_ctrl_c_changes_nothing() -> None:
    with ignored():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with deferred():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_nothing_is_touched() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with deferred(), ignored():
                pass
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []
