"""Signals that end a run, held back while something must not be torn.

The command line turns SIGTERM and SIGHUP into exceptions, as Python does with SIGINT. They
may come between any two instructions: also between starting a process and noting its
number. Such a step stands inside :func:`deferred`; what cleans up stands inside
:func:`ignored`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals by which people and systems end a command."""


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let a signal that comes inside take effect at the end of the block."""
    pending: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        pending.append(signum)

    with _handled_by(note):
        yield
    for signum in pending[:1]:
        os.kill(os.getpid(), signum)


@contextlib.contextmanager
def ignored() -> Iterator[None]:
    """Let nothing but SIGKILL end the block, which must end soon by itself."""

    def drop(signum: int, frame: FrameType | None) -> None:
        return None

    with _handled_by(drop):
        yield


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    # Only the main thread receives signals, and only it may say who handles them.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A signal that is ignored, as SIGHUP is under nohup, stays so.
    before = {s: h for s in ENDING if (h := signal.getsignal(s)) is not signal.SIG_IGN}
    try:
        for signum in before:
            signal.signal(signum, handler)
        yield
    finally:
        for signum, old in before.items():
            signal.signal(signum, old)
