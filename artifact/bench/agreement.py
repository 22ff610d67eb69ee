"""What the backends of one shape must agree on: their inputs, and the plain implementation.

Times are comparable only where the same bytes were computed on, and the strict gate holds only
where its measure, the errors of the plain low-precision implementation, is one for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from artifact.bench.gates import control_label, shown_error
from artifact.errors import GateFailed
from artifact.model.results import CheckRecord, Figures

_SAME = 0.01
"""Errors of the plain implementation are of the same inputs and the same arithmetic; what
differs between two workers is the order of their sums."""


def input_differences(records: Sequence[CheckRecord]) -> tuple[str, ...]:
    """Where backends of one shape did not compute on the same bytes, a sentence each."""
    differences = []
    first: dict[str, CheckRecord] = {}
    for record in records:
        reference = first.setdefault(record.shape, record)
        for name in sorted(reference.inputs.keys() | record.inputs.keys()):
            ours, theirs = record.inputs.get(name), reference.inputs.get(name)
            if ours != theirs:
                differences.append(
                    f"shape {record.shape}, input {name}: {record.backend} had "
                    f"{_digest(ours)}, {reference.backend} had {_digest(theirs)}"
                )
    return tuple(differences)


def require_same_inputs(records: Sequence[CheckRecord]) -> None:
    """Accept backends that computed on the same bytes, shape by shape.

    Raises:
        GateFailed: naming shape, input and both backends; their times are not comparable.
    """
    differences = input_differences(records)
    if not differences:
        return
    raise GateFailed(
        "backends computed on different inputs",
        where="the input digests of the workers",
        expected="one SHA-256 for each input of a shape",
        found=differences[0] if len(differences) == 1 else f"{len(differences)} differences",
        cause="a worker has its own generator, or another version of it",
        next="the digests stand under `checks[].inputs` in the run's results.json",
        details=differences if len(differences) > 1 else (),
    )


def baseline_differences(records: Sequence[CheckRecord]) -> tuple[str, ...]:
    """Where the plain implementation's errors are not the same for one shape, a sentence each.

    They belong to the inputs and not to a backend, so the figures of every output, right or
    wrong, must state the same: a worker that states larger ones would widen its own gate.
    """
    differences = []
    first: dict[str, tuple[str, Figures]] = {}
    for record in records:
        stated = [(record.backend, record.figures)]
        stated += [
            (f"{record.backend}, {control_label(c.name, c.position)}", c.figures)
            for c in record.controls
        ]
        for who, figures in stated:
            if figures is None:
                continue
            reference, theirs = first.setdefault(record.shape, (who, figures))
            for (place, mine), (_, other) in zip(_plain(figures), _plain(theirs), strict=False):
                if not _same(mine, other):
                    differences.append(
                        f"shape {record.shape}, {place}: {who} states {shown_error(mine)}, "
                        f"{reference} states {shown_error(other)}"
                    )
    return tuple(differences)


def _plain(figures: Figures) -> Iterator[tuple[str, float | None]]:
    yield "max_abs0", figures.max_abs0
    for i, band in enumerate(figures.bands):
        yield f"bands[{i}].e0_max", band.e0_max
        yield f"bands[{i}].e0_rms", band.e0_rms


def _same(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= _SAME * max(abs(a), abs(b))


def require_same_baseline(records: Sequence[CheckRecord]) -> None:
    """Accept gates that were measured against one plain implementation.

    Raises:
        GateFailed: naming the shape, the figure and who states it otherwise.
    """
    differences = baseline_differences(records)
    if not differences:
        return
    raise GateFailed(
        "the strict gate was not measured against one plain implementation",
        where=differences[0].partition(":")[0],
        expected="the same errors of the plain implementation from every worker and control",
        found=differences[0].partition(": ")[2],
        cause="a worker computes the plain implementation otherwise, or states errors that "
        "would widen its own gate",
        next="the figures stand under `checks` in the run's results.json",
        details=differences[:20] if len(differences) > 1 else (),
    )


def _digest(value: str | None) -> str:
    return "none" if value is None else value[:12]
