"""One worker process: start it, ask it, bound its time, stop it, keep its raw log.

A worker is not trusted: it may hang, die, answer for another backend, print on its answer
pipe or write without end. Each of these is one error of :mod:`artifact.bench.failures`, and
none of them hangs or misleads the runner.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from artifact.bench.failures import (
    WorkerDied,
    WorkerGarbage,
    WorkerHung,
    WorkerNotStarted,
    WrongBackend,
    reported,
)
from artifact.bench.messages import (
    Checked,
    Failed,
    Hello,
    Prepared,
    Quit,
    Timed,
    Witnessed,
    answer_adapter,
)
from artifact.bench.rawlog import RawLog
from artifact.bench.reaper import Reaper
from artifact.bench.signals import deferred
from artifact.errors import VerificationError

A = TypeVar("A", Hello, Prepared, Checked, Witnessed, Timed, Quit)

_OPS: dict[type, str] = {
    Hello: "hello",
    Prepared: "prepare",
    Checked: "check",
    Witnessed: "witness",
    Timed: "time",
    Quit: "quit",
}

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""A longer line is no answer: nothing that a worker reports grows with its tensors."""

STOP_TIMEOUT_S = 10.0
"""How long a worker may take to end after ``quit``."""

_KILL_GRACE_S = 2.0
_TICK_S = 0.2
_CHUNK = 65536
_CHUNKS = 64
_SHOWN = 200


class Worker:
    """The process of one backend, from :meth:`start` to :meth:`stop` or :meth:`kill`.

    It runs in a session of its own, so that a Ctrl-C of the terminal reaches the runner
    alone and whatever it starts can be killed with it. One request is under way at a time.
    """

    def __init__(
        self,
        backend: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: Path,
        log: RawLog,
        reaper: Reaper | None = None,
    ) -> None:
        self.backend = backend
        self.log = log
        self._command = list(command)
        self._environment = dict(environment)
        self._cwd = cwd
        self._reaper = reaper
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = bytearray()
        self._open: dict[int, str] = {}
        self._id = 0

    @property
    def pid(self) -> int | None:
        """The process id, and process group, while it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process.

        Raises:
            WorkerNotStarted: where the system does not let us.
        """
        self.log.note(f"$ {' '.join(self._command)}")
        try:
            # Between its start and the line to the reaper no signal may end this process.
            with deferred():
                self._process = subprocess.Popen(
                    self._command,
                    cwd=self._cwd,
                    env=self._environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    start_new_session=True,
                )
                if self._reaper is not None:
                    self._reaper.group(self._process.pid)
        except OSError as error:
            raise WorkerNotStarted(
                f"the worker of {self.backend} cannot be started",
                expected="a program that can be executed",
                found=f"{error.strerror or error}: {self.log.scrub.text(self._command[0])}",
            ) from error
        assert self._process.stdout is not None and self._process.stderr is not None
        self._open = {self._process.stdout.fileno(): "out", self._process.stderr.fileno(): "err"}
        for descriptor in self._open:
            os.set_blocking(descriptor, False)

    def ask(self, kind: type[A], timeout: float, **fields: Any) -> A:
        """Send the request that ``kind`` answers, and return the answer.

        Args:
            kind: The model of the answer; its ``op`` is the request's.
            timeout: Seconds until the worker counts as hung.
            fields: What else the request holds.

        Raises:
            ArtifactError: one of :mod:`artifact.bench.failures`. After any but those that
                the worker itself reports it has been killed.
        """
        try:
            return self._ask(kind, _OPS[kind], timeout, fields)
        except (WorkerHung, WorkerDied, WorkerGarbage, WrongBackend):
            self.kill()
            raise

    def _ask(self, kind: type[A], op: str, timeout: float, fields: Mapping[str, Any]) -> A:
        self.log.check()
        self._id += 1
        line = json.dumps({"op": op, "id": self._id, **fields}, allow_nan=False)
        self._drain()
        if self._answers:
            raise self._garbage(op, "a line that nothing had asked for", bytes(self._answers))
        self.log.request(line)
        self._send(op, line.encode("utf-8") + b"\n")
        data = self._line(op, time.monotonic() + timeout, timeout)
        self.log.answer(data)
        answer = self._parse(op, data)
        if answer.backend != self.backend:
            raise WrongBackend(
                f"another backend answers for {self.backend}",
                expected=self.backend,
                found=answer.backend,
                cause="the worker's file serves several backends and took another one",
            )
        if answer.id != self._id:
            raise self._garbage(op, f"an answer to request {answer.id}, not {self._id}", data)
        if isinstance(answer, Failed):
            raise reported(self._scrubbed(answer))
        if not isinstance(answer, kind):
            raise self._garbage(op, f"an answer to {answer.op!r}, not to {op!r}", data)
        return answer

    def _scrubbed(self, answer: Failed) -> Failed:
        text = self.log.scrub.text
        return answer.model_copy(
            update={
                "message": text(answer.message),
                "expected": None if answer.expected is None else text(answer.expected),
                "found": None if answer.found is None else text(answer.found),
            }
        )

    def _send(self, op: str, data: bytes) -> None:
        process = self._running(op)
        assert process.stdin is not None
        try:
            # A request is far smaller than a pipe, which is empty: this does not block.
            process.stdin.write(data)
        except BrokenPipeError as error:
            self._wait_for_end()
            raise self._died(op) from error

    def _line(self, op: str, deadline: float, timeout: float) -> bytes:
        """The next line of standard output, without its newline."""
        process = self._running(op)
        while b"\n" not in self._answers:
            if len(self._answers) > MAX_ANSWER_BYTES:
                raise self._garbage(op, f"a line of more than {MAX_ANSWER_BYTES} bytes")
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise WorkerHung(
                    f"{self.backend} gives no answer to {op!r}",
                    expected=f"an answer within {timeout:g} s",
                    found="none; the worker was killed",
                    cause="a kernel that never ends, or a deadlock in the worker",
                    details=self.log.tail(),
                )
            # A child of a dead worker may hold its pipes open, so their end is not waited for.
            ended = process.poll() is not None
            self._drain(0.0 if ended else min(_TICK_S, remaining))
            if b"\n" in self._answers:
                break
            if ended or "out" not in self._open.values():
                self._wait_for_end()
                self._drain()
                if b"\n" not in self._answers:
                    raise self._died(op)
        line, _, self._answers = self._answers.partition(b"\n")
        if len(line) > MAX_ANSWER_BYTES:
            raise self._garbage(op, f"a line of more than {MAX_ANSWER_BYTES} bytes")
        return bytes(line)

    def _drain(self, wait: float = 0.0) -> None:
        """Take what stands in the pipes, after waiting up to ``wait`` seconds for something."""
        poll = select.poll()
        for descriptor in self._open:
            poll.register(descriptor, select.POLLIN)
        if not self._open:
            time.sleep(wait)
            return
        # Standard error first: what was printed before an answer stands before it in the log.
        ready = sorted(poll.poll(wait * 1000), key=lambda event: self._open[event[0]] != "err")
        for descriptor, _ in ready:
            # Not until it is empty: a worker may write faster than this reads.
            for _ in range(_CHUNKS):
                chunk = self._read(descriptor)
                if not chunk:
                    break
                if self._open[descriptor] == "err":
                    self.log.stderr(chunk)
                else:
                    self._answers += chunk

    def _read(self, descriptor: int) -> bytes:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return b""
        if not chunk:
            del self._open[descriptor]
        return chunk

    def _parse(self, op: str, data: bytes) -> Any:
        from artifact.model.load import dotted, parse_json

        try:
            answer = answer_adapter().validate_json(data)
            parse_json(data, "answer")  # of a key that stands twice, which one was meant?
            return answer
        except VerificationError as error:
            raise self._garbage(
                op, f"a line that is not strict JSON: {error.found}", data
            ) from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if first["type"] == "json_invalid":
                raise self._garbage(op, "a line that is not JSON", data) from None
            # The first part of the place is the name of the union's member, not a field.
            place = dotted(first["loc"][1:]) or "op"
            raise self._garbage(op, f"{place}: {first['msg']}", data) from None

    def _garbage(self, op: str, what: str, data: bytes = b"") -> WorkerGarbage:
        shown = data[:_SHOWN].decode("utf-8", "backslashreplace")
        more = f" ... ({len(data)} bytes)" if len(data) > _SHOWN else ""
        return WorkerGarbage(
            f"{self.backend} does not speak the worker protocol",
            expected=f"one line of JSON that answers {op!r}",
            found=what + (f": {self.log.scrub.text(shown)}{more}" if shown else ""),
            cause="docs/worker-protocol.md says what an answer holds"
            if data.startswith(b"{")
            else "something prints on standard output; a worker points it at standard error "
            "and answers on a copy (docs/worker-protocol.md)",
            details=self.log.tail(),
        )

    def _running(self, op: str) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise self._died(op)
        return self._process

    def _died(self, op: str) -> WorkerDied:
        status = None if self._process is None else self._process.poll()
        cause = None
        if status is None:
            found = "it closed its standard output"
        elif status >= 0:
            found = f"it ended with status {status}"
        else:
            found = f"it was ended by {_signal_name(-status)}"
            if -status == signal.SIGKILL:
                cause = "the system's out-of-memory killer, or somebody's kill -9"
        return WorkerDied(
            f"{self.backend} ended before it answered {op!r}",
            expected="an answer",
            found=found,
            cause=cause,
            details=self.log.tail(),
        )

    def _wait_for_end(self) -> None:
        """Wait a moment for a process whose pipe has closed, so that its status is known."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_GRACE_S)

    def stop(self) -> None:
        """Ask the worker to end, and wait for it.

        Raises:
            WorkerHung: where it does not end in time.
            WorkerDied: where it ends with another status than 0.
        """
        if self._process is None:
            return
        self.ask(Quit, STOP_TIMEOUT_S)
        process = self._process
        assert process is not None and process.stdin is not None
        process.stdin.close()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            self._drain(_TICK_S / 10)
        self._drain()
        status = process.poll()
        self.kill()
        if status is None:
            raise WorkerHung(
                f"{self.backend} does not end",
                expected=f"its end within {STOP_TIMEOUT_S:g} s after it answered 'quit'",
                found="it was killed",
                details=self.log.tail(),
            )
        if status != 0:
            raise WorkerDied(
                f"{self.backend} did not end well",
                expected="status 0 after 'quit'",
                found=f"status {status}",
                details=self.log.tail(),
            )

    def kill(self) -> None:
        """End the process and everything that it started. Does nothing where it has ended."""
        process, self._process = self._process, None
        if process is None:
            self.log.close()
            return
        self._signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_GRACE_S)
        # What the worker started is in its group, and may outlive it.
        self._signal(process, signal.SIGKILL)
        process.wait()
        if self._reaper is not None:
            self._reaper.gone(process.pid)
        with contextlib.suppress(OSError):
            self._drain()
        self._open = {}
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        self.log.close()

    @staticmethod
    def _signal(process: subprocess.Popen[bytes], signum: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signum)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
