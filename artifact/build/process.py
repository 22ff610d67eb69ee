"""Programs of a build: bounded in time, ended together."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from artifact.errors import EnvironmentUnmet

_PASSED = ("PATH", "HOME")
_FIXED = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def tool_environment(caller: Mapping[str, str]) -> dict[str, str]:
    """What a compiler gets of the caller's environment: where programs are, and nothing else.

    ``CPATH``, ``NVCC_APPEND_FLAGS`` and their kind change what is compiled, and are no part
    of any record.
    """
    return {**{name: caller[name] for name in _PASSED if name in caller}, **_FIXED}


class Processes:
    """The programs that a build has started and that have not ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        timeout: float,
        keep_open: tuple[int, ...] = (),
    ) -> tuple[int | None, str]:
        """Run ``command`` to its end.

        Args:
            command: The program and its arguments.
            cwd: Its working directory.
            environment: Its whole environment.
            timeout: Seconds until it is killed.
            keep_open: Descriptors that it and its children inherit: a lock is so held
                until the last of them has ended, also where this process is killed.

        Returns:
            Its status (None: it was killed for the time that it took), and what it printed.

        Raises:
            EnvironmentUnmet: where it cannot be started.
        """
        try:
            with self._lock:
                if self._stopped:
                    return None, ""
                process = subprocess.Popen(
                    list(command), cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                    pass_fds=keep_open,
                )  # fmt: skip
                self._running.add(process)
        except OSError as error:
            raise EnvironmentUnmet(
                "a program of the build cannot be started",
                where=command[0],
                expected="a program that can be executed",
                found=error.strerror or str(error),
                next=f"ls -l {shlex.quote(command[0])}",
            ) from error
        status: int | None = None
        printed = b""
        try:
            try:
                printed, _ = process.communicate(timeout=timeout)
                status = process.returncode
            except subprocess.TimeoutExpired:
                _kill(process)
                printed, _ = process.communicate()
        finally:
            _kill(process)
            with self._lock:
                self._running.discard(process)
        return status, printed.decode("utf-8", "replace")

    def stop(self) -> None:
        """Kill whatever runs; nothing is started any more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # Its children are in its group, and may outlive it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
