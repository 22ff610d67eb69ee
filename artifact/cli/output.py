"""How a command talks: text for people or one JSON document, errors in one layout."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

from artifact.errors import ArtifactError

_RED, _GREEN, _YELLOW, _BOLD, _RESET = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m", "\x1b[0m"


class Output:
    """Where a command's words go.

    Text goes to standard output, notes and errors to standard error. With ``--json``
    standard output carries exactly one JSON document, also when the command fails.
    """

    def __init__(
        self, *, json: bool = False, quiet: bool = False, verbose: bool = False, color: bool = True
    ) -> None:
        self.json = json
        self.quiet = quiet
        self.verbose = verbose
        self._color = color and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        _State.current = self

    @property
    def interactive(self) -> bool:
        """Whether live progress may be drawn."""
        return _is_terminal(sys.stderr) and not self.quiet and not self.json

    @property
    def width(self) -> int:
        """Columns for tables: the terminal's, or many where the text goes to a file or a pipe."""
        return shutil.get_terminal_size((160, 24)).columns

    @property
    def color(self) -> bool:
        """Whether standard error takes colours."""
        return self._color and _is_terminal(sys.stderr)

    @property
    def answer_color(self) -> bool:
        """Whether standard output takes colours."""
        return self._color and _is_terminal(sys.stdout)

    def say(self, text: str = "") -> None:
        """A line of the answer; silent under ``--quiet`` and ``--json``."""
        if not self.json and not self.quiet:
            _write(sys.stdout, text)

    def always(self, text: str) -> None:
        """A line that is the answer itself, kept under ``--quiet``."""
        if not self.json:
            _write(sys.stdout, text)

    def detail(self, text: str) -> None:
        """A line that only ``--verbose`` shows."""
        if self.verbose:
            self.say(text)

    def note(self, text: str) -> None:
        """A line about progress, on standard error."""
        if not self.quiet and not self.json:
            _write(sys.stderr, text)

    def document(self, make: Callable[[], Any]) -> None:
        """The JSON document of this command, made only if it is asked for."""
        if self.json:
            _write(sys.stdout, json.dumps(make(), ensure_ascii=False, allow_nan=False, indent=1))

    def failure(self, error: ArtifactError) -> None:
        """An error, as text on standard error or as the JSON document.

        Where standard output takes no document, it is text after all.
        """
        if self.json and sys.stdout is not None:
            try:
                _write(sys.stdout, json.dumps(error.as_json(), ensure_ascii=False, indent=1))
                return
            except OSError:
                pass
        head, newline, rest = error.render().partition("\n")
        if self.color:
            head = f"{_RED}{_BOLD}error:{_RESET}{head.removeprefix('error:')}"
        _write(sys.stderr, head + newline + rest)

    def good(self, text: str) -> str:
        """``text`` in green, where standard output takes colours."""
        return f"{_GREEN}{text}{_RESET}" if self.answer_color else text

    def bad(self, text: str) -> str:
        """``text`` in red, where standard output takes colours."""
        return f"{_RED}{text}{_RESET}" if self.answer_color else text

    def mark(self, text: str) -> str:
        """``text`` in yellow, where standard output takes colours."""
        return f"{_YELLOW}{text}{_RESET}" if self.answer_color else text


class _State:
    current: Output | None = None


def current() -> Output | None:
    """The output of the running command, or None before any has started."""
    return _State.current


def _write(stream: Any, text: str) -> None:
    """A line to ``stream``, if anybody reads it: who stops reading does not change what is true.

    Raises:
        OSError: where the stream takes no more, a full disk for example. It is given up.
    """
    if stream is None:  # closed before the program began, or given up
        return
    # File names may hold bytes that the terminal's encoding lacks; a message must not fail.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except BrokenPipeError:
        give_up(stream)
    except OSError:
        give_up(stream)
        raise


def give_up(stream: Any) -> None:
    """Write no more to ``stream``, which is standard output or standard error.

    What it still holds goes nowhere: the interpreter would fail over it at its end.
    """
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, stream.fileno())
        os.close(null)
    if stream is sys.stdout:
        sys.stdout = None  # as Python itself has it where it is closed
    elif stream is sys.stderr:
        sys.stderr = None


def _is_terminal(stream: Any) -> bool:
    return stream is not None and bool(stream.isatty())
