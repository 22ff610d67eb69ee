"""The raw log of one worker: its standard error, every request and every answer."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

from artifact.bench.scrub import Scrubber
from artifact.errors import EnvironmentUnmet

MAX_LOG_BYTES = 64 * 1024 * 1024
"""A worker that prints without end must not fill the disk."""

_MAX_LINE_BYTES = 65536
_TAIL_LINES = 20


class RawLog:
    """``logs/<backend>.log``.

    Standard error is kept line by line as it came, but for names of the machine
    (:mod:`artifact.bench.scrub`). Lines of the runner begin with the seconds since the
    worker's start and ``>`` (request), ``<`` (answer) or ``#`` (note).

    Args:
        path: The file, made new.
        scrub: What must not be written down.

    Raises:
        EnvironmentUnmet: where the file cannot be made.
    """

    def __init__(self, path: Path, scrub: Scrubber) -> None:
        self.path = path
        self.scrub = scrub
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._partial = b""
        self._written = 0
        self._started = time.monotonic()
        self._problem: OSError | None = None
        try:
            # Unbuffered: what was printed before a crash is in the file.
            self._file = path.open("xb", buffering=0)
        except OSError as error:
            self._problem = error
            self.check()

    def note(self, text: str) -> None:
        """A line of the runner's own."""
        self._runner("#", text)

    def request(self, text: str) -> None:
        """A request as it was sent."""
        self._runner(">", text)

    def answer(self, data: bytes) -> None:
        """A line that the worker answered."""
        self.flush()
        self._runner("<", data.decode("utf-8", "backslashreplace"))

    def stderr(self, chunk: bytes) -> None:
        """Bytes of the worker's standard error."""
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        if len(self._partial) > _MAX_LINE_BYTES:
            lines.append(self._partial)
            self._partial = b""
        if lines:
            self._keep(lines)

    def flush(self) -> None:
        """Write a last line that had no newline yet."""
        if self._partial:
            self._keep([self._partial])
            self._partial = b""

    def tail(self) -> tuple[str, ...]:
        """The last lines of standard error, for an error message."""
        self.flush()
        return tuple(self._tail)

    def check(self) -> None:
        """Say whether writing has failed since the last look.

        Raises:
            EnvironmentUnmet: where it has; the log then ends before that.
        """
        if self._problem is not None:
            raise EnvironmentUnmet(
                "a raw log could not be written",
                where=self.path.name,
                found=self._problem.strerror or str(self._problem),
                cause="the disk is full, or a quota is used up",
                next="make room, or name another place with --results-dir",
            ) from self._problem

    def close(self) -> None:
        """Write what is left and close the file."""
        self.flush()
        self._file.close()

    def _keep(self, lines: list[bytes]) -> None:
        texts = [self.scrub.text(line.decode("utf-8", "backslashreplace")) for line in lines]
        self._tail.extend(text for text in texts if text.strip())
        self._write("".join(text + "\n" for text in texts))

    def _runner(self, sign: str, text: str) -> None:
        seconds = time.monotonic() - self._started
        self._write(f"[{seconds:10.3f}] {sign} {self.scrub.text(text)}\n")

    def _write(self, text: str) -> None:
        if self._problem is not None or self._file.closed or self._written > MAX_LOG_BYTES:
            return
        data = text.encode("utf-8", "backslashreplace")
        self._written += len(data)
        if self._written > MAX_LOG_BYTES:
            data = b"[the log ends here: the worker wrote too much]\n"
        try:
            self._file.write(data)
        except OSError as error:
            self._problem = error
