"""How time is taken: the protocol, its identity and its digest."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from artifact.model.base import Model, Name
from artifact.model.workload import Order


class Protocol(Model):
    """A timing protocol. One sample is the mean of ``repeat`` launches after ``warmup``."""

    name: Name
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
    """Set when ``--warmup``, ``--repeat``, ``--rounds`` or ``--order`` changed it."""

    def digest(self) -> str:
        """BLAKE3 over the canonical JSON of every field but the timeouts: 64 hex digits.

        Two runs are measured alike exactly if their protocol digests are equal.
        """
        from artifact.model.canonical import canonical_digest

        return canonical_digest(self.model_dump(mode="json", exclude={"worker_timeout_s"}))
