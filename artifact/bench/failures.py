"""What can go wrong with a worker, a class each, so that no two are taken for one another.

Their messages say what happened between the runner and the worker; the runner adds where
(backend, phase, shape), the raw log and the next command.
"""

from __future__ import annotations

from artifact.bench.messages import Failed
from artifact.errors import (
    ArtifactError,
    EnvironmentUnmet,
    FallbackRefused,
    MeasurementInvalid,
    UsageError,
)


class WorkerNotStarted(EnvironmentUnmet):
    """The interpreter or the executable could not be started."""


class WorkerHung(MeasurementInvalid):
    """No answer came in time; the process group was killed."""


class WorkerDied(MeasurementInvalid):
    """The process ended without being asked to, or not with status 0 after it was."""


class WorkerGarbage(MeasurementInvalid):
    """What came is not one answer of the protocol to the request that was sent."""


class WrongProtocol(MeasurementInvalid):
    """The worker speaks another version of the protocol."""


class WorkerMistimed(MeasurementInvalid):
    """A sample that cannot be: other counts than asked for, or more time than passed."""


class WorkerFailed(MeasurementInvalid):
    """The worker says that it could not do what was asked, for a reason of its own."""


class OutOfMemory(EnvironmentUnmet):
    """The worker says that memory does not suffice."""


class MissingModule(EnvironmentUnmet):
    """The worker's interpreter lacks a module."""


class WrongVersion(EnvironmentUnmet):
    """The worker's interpreter has another version of a library than the worker takes."""


class UnsupportedShapeError(UsageError):
    """The worker does not compute this shape."""


class WrongBackend(FallbackRefused):
    """The answer is another backend's."""


class WrongClock(FallbackRefused):
    """The worker times with another instrument than the protocol names."""


class WorkerFallback(FallbackRefused):
    """The worker says that its library would have taken another path."""


class KernelChanged(FallbackRefused):
    """The kernel that was timed is not the kernel that was checked."""


_REPORTED: dict[str, tuple[type[ArtifactError], str, str | None]] = {
    "out_of_memory": (
        OutOfMemory,
        "the memory does not suffice",
        "another process holds memory of the device, or the device has too little",
    ),
    "missing_module": (
        MissingModule,
        "its interpreter lacks a module",
        "the interpreter was not made from the environment's lock",
    ),
    "wrong_version": (
        WrongVersion,
        "a library has the wrong version",
        "the interpreter was not made from the environment's lock",
    ),
    "unsupported_shape": (UnsupportedShapeError, "it does not compute this shape", None),
    "fallback": (
        WorkerFallback,
        "its library would have run something else",
        "another version of the library, or a device that it does not support",
    ),
    "failed": (WorkerFailed, "it could not do what was asked", None),
}


def reported(answer: Failed) -> ArtifactError:
    """The error that a worker's own ``error`` answer stands for."""
    kind, what, cause = _REPORTED[answer.kind]
    first, *rest = answer.message.splitlines() or [answer.message]
    return kind(
        f"{answer.backend}: {what}: {first}",
        expected=answer.expected,
        found=answer.found,
        cause=cause,
        details=tuple(line for line in rest if line.strip())[-20:],
    )
