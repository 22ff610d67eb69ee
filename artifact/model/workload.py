"""What is measured: shapes, the workloads that group them, and the targets they run on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, StringConstraints

from artifact.model.base import Model, Name, Text

Dimension = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
"""The name of a dimension: ``B``, ``H``, ``S``, ``D``."""

Order = Literal["paper", "interleaved"]
"""``paper``: one backend after the other, the anchor at both ends. ``interleaved``: seeded
random blocks, every backend once in each."""


class Shape(Model):
    """One point of a workload."""

    name: Text
    """What tables print at the head of a column, such as ``S=4096``."""
    dims: dict[Dimension, PositiveInt]
    """Every dimension that formulas and workers use."""


class Workload(Model):
    """A named set of shapes, measured together."""

    name: Name
    title: Text
    device: Literal["cpu", "gpu"]
    """Where its backends run. A workload never changes its device by itself."""
    comparable: bool
    """Whether its figures may be compared with published ones."""
    note: str = ""
    """A sentence that every table of this workload carries."""
    seed: Annotated[int, Field(ge=0, lt=2**64)]
    """The seed of the input generator."""
    shapes: Annotated[tuple[Shape, ...], Field(min_length=1)]
    protocols: dict[Order, Name]
    """The protocol for each order that ``--order`` may name."""
    default_order: Order = "paper"


class Target(Model):
    """One device that the artifact knows. A device in no row is refused, not guessed."""

    name: Name
    title: Text
    device_names: Annotated[tuple[Text, ...], Field(min_length=1)]
    """The exact names by which NVML reports the device."""
    sms: PositiveInt
    """Streaming multiprocessors that the device must have."""
    parameters: dict[Name, int] = {}
    """Launch arguments that depend on the target, such as ``persistent-ctas``."""
