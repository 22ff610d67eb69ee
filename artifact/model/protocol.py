"""How time is taken: the protocol, its identity and its digest."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from artifact.model.base import Model
from artifact.model.workload import Order

CUSTOM_SUFFIX = "+custom"
"""The end of a changed protocol's name; no other name can have a ``+``."""

ProtocolName = Annotated[
    str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*(\+custom)?$", max_length=64 + len(CUSTOM_SUFFIX))
]


class Protocol(Model):
    """A timing protocol. One sample is the mean of ``repeat`` launches after ``warmup``."""

    name: ProtocolName
    clock: Literal["cuda-events", "host-monotonic"]
    """The instrument. It never changes by itself: a worker that reports another is refused."""
    order: Order
    warmup: NonNegativeInt
    """Launches before each sample that are not timed."""
    repeat: PositiveInt
    """Launches in each sample."""
    rounds: PositiveInt
    """Samples of each backend and shape (the anchor has twice as many in ``paper`` order)."""
    seed: NonNegativeInt = 0
    """The seed of the block order (``interleaved``)."""
    max_temperature_c: PositiveFloat | None = None
    """The device must be no warmer before each backend; null where there is no sensor."""
    max_wait_s: NonNegativeFloat = 0.0
    """The longest wait for that temperature before the measurement is invalid."""
    worker_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """The longest time for one answer of a worker."""
    custom: bool = False
    """Set when ``--warmup``, ``--repeat`` or ``--rounds`` changed it."""

    @model_validator(mode="after")
    def _named_for_what_it_is(self) -> Protocol:
        if self.custom != self.name.endswith(CUSTOM_SUFFIX):
            raise ValueError(f"name: ends in {CUSTOM_SUFFIX!r} exactly if custom is true")
        return self

    def digest(self) -> str:
        """BLAKE3 over the canonical JSON of every field but the timeouts: 64 hex digits.

        Two runs are measured alike exactly if their protocol digests are equal.
        """
        from artifact.model.canonical import canonical_digest

        return canonical_digest(self.model_dump(mode="json", exclude={"worker_timeout_s"}))
