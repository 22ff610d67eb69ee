"""Kills the workers of a runner that was killed. Started by the runner, as a script.

A runner that gets SIGKILL cannot stop its workers. So each run starts this process first
and tells it, a line each, which process groups and folders would be left behind. The pipe
between them closes when the runner is gone, whatever ended it; then everything that is
still listed is removed. It needs the standard library alone and starts in a few
milliseconds.

    group N     the process group N is a worker's
    gone N      the process group N has ended
    folder P    the folder P is scratch
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path


class Reaper:
    """The runner's end of the pipe."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def group(self, number: int) -> None:
        """Kill the process group ``number`` if the runner dies."""
        self._tell(f"group {number}")

    def gone(self, number: int) -> None:
        """Forget a process group that has ended."""
        self._tell(f"gone {number}")

    def folder(self, path: Path) -> None:
        """Remove the folder ``path`` if the runner dies, and when it closes."""
        self._tell(f"folder {path}")

    def close(self) -> None:
        """Let it remove what is still listed, and wait for its end."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        # A name that holds a newline would be two lines.
        if "\n" in line:
            raise ValueError(f"a name holds a newline: {line!r}")
        try:
            self._process.stdin.write(os.fsencode(line) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            # It was killed. The run goes on: it only loses the guard against its own death.
            return


def reap(lines: Iterable[bytes]) -> None:
    """Follow ``lines`` to their end, then kill and remove what is still listed."""
    groups: set[int] = set()
    folders: list[bytes] = []
    for line in lines:
        verb, _, rest = line.rstrip(b"\n").partition(b" ")
        if verb == b"group":
            groups.add(int(rest))
        elif verb == b"gone":
            groups.discard(int(rest))
        elif verb == b"folder":
            folders.append(rest)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    reap(sys.stdin.buffer)
