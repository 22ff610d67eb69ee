"""The order in which a protocol times its backends.

A *window* is one sample: warm-up launches, then timed ones, of one backend and shape.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from artifact.model.canonical import canonical_json
from artifact.model.protocol import Protocol


@dataclass(frozen=True, slots=True)
class Window:
    """One timed window, in the order in which the runner takes them."""

    position: int
    """Paper order: the place of the backend's pass in the suite. Interleaved: the place of
    this window among all windows."""
    round: int
    """From 0, in each pass and shape. In interleaved order, also the block's number."""
    backend: str
    shape: str


def schedule(
    protocol: Protocol, backends: Sequence[str], shapes: Sequence[str], anchor: str | None
) -> tuple[Window, ...]:
    """Every window of a run, in order.

    ``paper``: the anchor, the other backends as given, the anchor again (where there is an
    anchor and anything to compare with it). Within one pass every shape, within a shape
    every round. The anchor's second pass has a position of its own and counts its rounds
    from 0 again, as the published run did.

    ``interleaved``: for each shape and each round one block that holds every backend once,
    the anchor among them, in the random order of :func:`block_order`. Shapes are not mixed:
    a worker holds the tensors of one shape at a time.

    Args:
        protocol: Says the order, the rounds and the seed.
        backends: Distinct names, in the order of the manifest.
        shapes: Distinct names, in the order of the workload.
        anchor: One of ``backends``, or None where ratios are taken to nothing.

    Raises:
        ValueError: where a name stands twice, there is nothing to time, or the anchor is
            not among the backends.
    """
    for kind, names in (("backend", backends), ("shape", shapes)):
        if not names:
            raise ValueError(f"no {kind} to schedule")
        if len(set(names)) != len(names):
            raise ValueError(f"a {kind} stands twice: {', '.join(names)}")
    if anchor is not None and anchor not in backends:
        raise ValueError(f"the anchor {anchor!r} is not among the backends {', '.join(backends)}")
    if protocol.order == "paper":
        return tuple(_paper(protocol.rounds, backends, shapes, anchor))
    return tuple(_interleaved(protocol, backends, shapes))


def _paper(
    rounds: int, backends: Sequence[str], shapes: Sequence[str], anchor: str | None
) -> Iterator[Window]:
    suite = list(backends)
    if anchor is not None:
        others = [name for name in backends if name != anchor]
        suite = [anchor, *others, anchor] if others else [anchor]
    for position, backend in enumerate(suite):
        for shape in shapes:
            for round_ in range(rounds):
                yield Window(position, round_, backend, shape)


def _interleaved(
    protocol: Protocol, backends: Sequence[str], shapes: Sequence[str]
) -> Iterator[Window]:
    position = 0
    for shape in shapes:
        for round_ in range(protocol.rounds):
            for backend in block_order(protocol.seed, shape, round_, backends):
                yield Window(position, round_, backend, shape)
                position += 1


def block_order(seed: int, shape: str, round_: int, backends: Sequence[str]) -> tuple[str, ...]:
    """The random order of one interleaved block.

    Backends are sorted by the SHA-256 of the canonical JSON of ``[seed, shape, round,
    backend]``. Python promises the same stream for one seed only of ``random.random()``, not
    of ``shuffle`` or ``sample``; this order is the same in every version, can be recomputed
    in any language, and leaving out one backend does not reorder the others.
    """

    def rank(backend: str) -> bytes:
        return hashlib.sha256(canonical_json([seed, shape, round_, backend])).digest()

    return tuple(sorted(backends, key=rank))


def suite_order(windows: Sequence[Window]) -> tuple[str, ...]:
    """The backends of ``windows`` in the order in which their passes begin.

    Paper order gives the anchor at both ends; interleaved order names each backend once, as
    its first block does.
    """
    by_position = {window.position: window.backend for window in windows}
    passes = [by_position[position] for position in sorted(by_position)]
    if len({(w.shape, w.round) for w in windows}) * len(set(passes)) == len(passes):
        # One window a position: interleaved (or a suite in which the two cannot differ).
        return tuple(dict.fromkeys(passes))
    return tuple(passes)
