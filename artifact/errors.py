"""The one root error of the package, and the exit codes of the command line.

Every failure that a person must act on is an :class:`ArtifactError`. It answers five
questions in a fixed order: what failed, where, what was expected and what was found,
what the likely cause is, and which command to type next. The command line maps the
class of the error to an exit code and prints nothing else.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import ClassVar

# C0 but the newline, DEL, and C1, which has the escapes again in one character each.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


class ExitCode(IntEnum):
    """Exit codes of every command (contract: design.md, Commands)."""

    DONE = 0
    VERIFICATION = 1
    USAGE = 2
    ENVIRONMENT = 3
    GATE = 4
    MEASUREMENT = 5
    FALLBACK = 6
    INTERRUPTED = 130


class ArtifactError(Exception):
    """Something failed that a person must act on.

    Args:
        what: One sentence: what failed.
        where: The place: a path, a dotted path in a document, a backend and phase.
        expected: What would have been right.
        found: What was there instead.
        cause: The likely cause, where there is one.
        next: The next command or act of the reader.
        details: Further lines, one finding each, printed under the summary.
    """

    exit_code: ExitCode = ExitCode.VERIFICATION

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        cause: str | None = None,
        next: str | None = None,
        details: tuple[str, ...] = (),
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.found = found
        self.cause = cause
        self.next = next
        self.details = details

    def fields(self) -> dict[str, str]:
        """The filled-in answers, in the order in which they are printed."""
        pairs = (
            ("where", self.where),
            ("expected", self.expected),
            ("found", self.found),
            ("cause", self.cause),
            ("next", self.next),
        )
        return {name: value for name, value in pairs if value is not None}

    def render(self) -> str:
        """The error as the terminal shows it: a headline, then one aligned line an answer."""
        lines = [f"error: {_inert(self.what)}"]
        for name, value in self.fields().items():
            first, *rest = _inert(value).removesuffix("\n").split("\n")
            lines.append(f"  {name + ':':<10}{first}")
            lines.extend(f"  {'':<10}{line}" for line in rest)
        lines.extend(f"  - {_inert(detail)}" for detail in self.details)
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """The error as ``--json`` prints it."""
        return {
            "error": type(self).__name__,
            "exit_code": int(self.exit_code),
            "what": self.what,
            **self.fields(),
            "details": list(self.details),
        }


def _inert(text: str) -> str:
    """``text`` without what a terminal acts on: a worker, or a name, may hold anything."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


class VerificationError(ArtifactError):
    """Bytes are not what was pinned, or a document is not what its schema allows."""

    exit_code = ExitCode.VERIFICATION


class UsageError(ArtifactError):
    """The command line asks for something that does not exist or does not go together."""

    exit_code = ExitCode.USAGE


class EnvironmentUnmet(ArtifactError):
    """The machine lacks something: a GPU, an interpreter, a library, disk space, a permission."""

    exit_code = ExitCode.ENVIRONMENT


class GateFailed(ArtifactError):
    """A backend computed a wrong answer, or the gate did not reject a known-wrong one."""

    exit_code = ExitCode.GATE


class MeasurementInvalid(ArtifactError):
    """The machine was not in a state in which a time means anything, or a worker broke down."""

    exit_code = ExitCode.MEASUREMENT


class FallbackRefused(ArtifactError):
    """What ran is not what the manifest names; it is never accepted in its place."""

    exit_code = ExitCode.FALLBACK


class Interrupted(ArtifactError):
    """SIGINT or SIGTERM ended the command; what had been measured is kept."""

    exit_code = ExitCode.INTERRUPTED

    received: ClassVar[str | None] = None
    """The signal that came to this process. An extension module may swallow the exception that
    a handler raises inside one of its callbacks and fail in its own words instead."""
