"""The worker protocol, version 1: one JSON object a line, on standard input and output.

The runner writes a request, the worker answers with exactly one line. Whatever else a
worker or its libraries print belongs on standard error, which goes to the raw log. Every
answer repeats the request's ``id`` and ``op`` and the worker's ``backend``, so that an
answer to another question, or of another backend, is seen. docs/worker-protocol.md is the
same for people who write a worker.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, TypeAdapter

from artifact.model.base import Hex64, Model, Name, Text
from artifact.model.results import Figures, Milliseconds, Scalar

PROTOCOL = 1

ErrorKind = Literal[
    "out_of_memory", "missing_module", "wrong_version", "unsupported_shape", "fallback", "failed"
]


class Hello(Model):
    """Answer to ``{"op": "hello", "id": n, "protocol": 1}``: who the worker is."""

    op: Literal["hello"]
    id: int
    backend: Name
    protocol: int
    python: Text | None = None
    versions: dict[str, str] = {}
    """Versions of the libraries that it uses."""
    clock: Literal["cuda-events", "host-monotonic"]
    """The instrument that ``time`` will use."""


class Prepared(Model):
    """Answer to ``{"op": "prepare", "shape": {dims}, "seed": n, "parameters": {...}}``.

    ``parameters`` are the target's launch arguments. Inputs are generated, and everything
    that is not timed (compilation, autotuning, conversion, host setup) is done here.
    """

    op: Literal["prepare"]
    id: int
    backend: Name
    inputs: Annotated[dict[str, Hex64], Field(min_length=1)]
    """SHA-256 of the little-endian bytes of each input tensor."""
    setup_ms: dict[str, NonNegativeFloat] = {}
    """One-time costs that timing leaves out, by name."""


class ControlFigures(Model):
    """Figures of one known-wrong output."""

    name: Name
    position: Literal["first", "middle", "last"] | None
    figures: Figures


class Checked(Model):
    """Answer to ``{"op": "check", "gates": {...}, "controls": [...]}``.

    ``gates`` holds ``atol``, ``rtol``, ``band_axis`` and ``band_rows``. The worker runs its
    implementation once into a poisoned output and measures *every* element against its FP32
    oracle; it judges nothing. Each control is
    ``{"name": ..., "position": ... or null}`` and is measured like an output.
    """

    op: Literal["check"]
    id: int
    backend: Name
    figures: Figures
    controls: tuple[ControlFigures, ...]


class Witnessed(Model):
    """Answer to ``{"op": "witness"}``: facts about the kernel that the last launch ran."""

    op: Literal["witness"]
    id: int
    backend: Name
    facts: dict[str, Scalar]


class Timed(Model):
    """Answer to ``{"op": "time", "warmup": n, "repeat": n}``: one sample."""

    op: Literal["time"]
    id: int
    backend: Name
    ms: Milliseconds
    """Mean milliseconds of one launch over the timed window."""
    clock: Literal["cuda-events", "host-monotonic"]
    warmup: int
    repeat: int


class Quit(Model):
    """Answer to ``{"op": "quit"}``; the process then ends with status 0."""

    op: Literal["quit"]
    id: int
    backend: Name


class Failed(Model):
    """Answer to any request that the worker could not carry out."""

    op: Literal["error"]
    id: int
    backend: Name
    kind: ErrorKind
    message: Text
    expected: str | None = None
    found: str | None = None


Answer = Annotated[
    Hello | Prepared | Checked | Witnessed | Timed | Quit | Failed, Field(discriminator="op")
]


@cache
def answer_adapter() -> TypeAdapter[Answer]:
    """The parser of one answer line."""
    return TypeAdapter(Answer)
