"""Samples put together: one row and one comparison for each backend and shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from artifact.bench import statistics
from artifact.bench.statistics import Judgement
from artifact.errors import VerificationError
from artifact.model import formula
from artifact.model.manifest import Metric as ManifestMetric
from artifact.model.manifest import StatisticsRules
from artifact.model.protocol import Protocol
from artifact.model.results import Comparison, Metric, Sample, SummaryRow
from artifact.model.workload import Shape, Workload

#: More operations than any machine will ever do; far inside the range of a float.
_MOST_WORK = 10**100


def rate(work: float, ms: float, per_second: float) -> float:
    """``work`` operations in ``ms`` milliseconds, in units of ``per_second``.

    With 1e12 a second this is ``work / (ms * 1e9)``, to the last bit.
    """
    unit = ms * (per_second / 1000)
    return work / unit if unit > 0 else math.inf


def summarise(
    samples: Sequence[Sample],
    workload: Workload,
    backends: Sequence[str],
    anchor: str | None,
    metric: Metric | ManifestMetric,
    rules: StatisticsRules,
    protocol: Protocol,
) -> tuple[tuple[SummaryRow, ...], tuple[Comparison, ...]]:
    """Rows and comparisons of a run, the anchor first, then ``backends`` as given.

    Within a backend they follow the shapes of the workload. Samples that are not valid never
    enter. A backend and shape without any sample has neither row nor comparison; one with
    samples of which none is valid has a comparison, UNRESOLVED, that says so.

    Args:
        samples: As results.json keeps them, in any order.
        workload: Gives the shapes.
        backends: Names in the order of the tables; repeated ones count once.
        anchor: The backend that ratios are taken to, or None.
        metric: The rate.
        rules: When a difference is one.
        protocol: Its order says whether rounds are paired.

    Raises:
        VerificationError: where a sample names a backend or shape that is not of this run,
            two samples are of one window, or a shape has no positive amount of work.
    """
    order = sorted(dict.fromkeys(backends), key=lambda backend: backend != anchor)
    _check_samples(samples, order, [shape.name for shape in workload.shapes], protocol)
    rows: list[SummaryRow] = []
    comparisons: list[Comparison] = []
    for backend in order:
        for shape in workload.shapes:
            mine = _of(samples, backend, shape.name)
            if not mine:
                continue
            valid = [sample.ms for sample in mine if sample.valid]
            if valid:
                rows.append(_row(backend, shape, valid, metric))
            reference = _of(samples, anchor, shape.name) if anchor is not None else []
            judgement = _judge(reference, mine, backend == anchor, anchor, rules, protocol)
            comparisons.append(_comparison(backend, shape.name, anchor, judgement))
    return tuple(rows), tuple(comparisons)


def _of(samples: Sequence[Sample], backend: str, shape: str) -> list[Sample]:
    return [s for s in samples if s.backend == backend and s.shape == shape]


def _check_samples(
    samples: Sequence[Sample],
    backends: Sequence[str],
    shapes: Sequence[str],
    protocol: Protocol,
) -> None:
    seen = set()
    for i, sample in enumerate(samples):
        for field, allowed in (("backend", backends), ("shape", shapes)):
            if getattr(sample, field) not in allowed:
                raise VerificationError(
                    f"a sample is of no {field} of this run",
                    where=f"samples[{i}].{field}",
                    expected=", ".join(allowed) or "none",
                    found=getattr(sample, field),
                    next="measure again: artifact run",
                )
        if not sample.valid:
            continue
        # In paper order the anchor has the same rounds in both of its passes.
        pass_ = sample.position if protocol.order == "paper" else None
        window = (sample.backend, sample.shape, pass_, sample.round)
        if window in seen:
            raise VerificationError(
                "a round has two valid samples of one backend",
                where=f"samples[{i}]",
                expected="one valid sample a window",
                found=f"a second one of {sample.backend}, {sample.shape}, position "
                f"{sample.position}, round {sample.round}",
                next="measure again: artifact run",
            )
        seen.add(window)


def _row(
    backend: str, shape: Shape, times: Sequence[float], metric: Metric | ManifestMetric
) -> SummaryRow:
    exact = formula.evaluate(metric.work, shape.dims)
    if not 0 < exact < _MOST_WORK:
        raise VerificationError(
            "a shape has no work to make a rate of",
            where=f"metric.work at shape {shape.name}",
            expected=f"a positive number of operations, less than {float(_MOST_WORK):g}",
            found=f"{metric.work} is not",
            next="correct metric.work in the manifest, then: artifact lock",
        )
    work = float(exact)
    of = statistics.spread(times)
    slowest = rate(work, of.maximum, metric.per_second)
    fastest = rate(work, of.minimum, metric.per_second)
    if not 0 < slowest <= fastest < math.inf:
        raise VerificationError(
            "a rate is too small or too large for a number",
            where="metric.per_second",
            expected="a unit in which the rate of these times can be written",
            found=f"{metric.per_second:g} with {slowest:g} to {fastest:g}",
            next="correct metric.per_second in the manifest, then: artifact lock",
        )
    return SummaryRow(
        backend=backend,
        shape=shape.name,
        samples=len(times),
        median_ms=of.median,
        min_ms=of.minimum,
        max_ms=of.maximum,
        rate=rate(work, of.median, metric.per_second),
        rate_min=slowest,
        rate_max=fastest,
    )


def _judge(
    reference: Sequence[Sample],
    mine: Sequence[Sample],
    is_anchor: bool,
    anchor: str | None,
    rules: StatisticsRules,
    protocol: Protocol,
) -> Judgement:
    if anchor is None:
        return Judgement("NO ANCHOR", "no anchor was measured in this run")
    if protocol.order == "interleaved":
        by_round = _by_round(reference)
        if is_anchor:
            return _anchor(statistics.trend_drift(by_round), "over the rounds")
        return statistics.judge_paired(by_round, _by_round(mine), rules)
    before, after = _passes(reference)
    if is_anchor:
        drift = statistics.pass_drift(before, after) if before and after else None
        return _anchor(drift, "from its first to its last pass")
    times = [sample.ms for sample in mine if sample.valid]
    return statistics.judge_unpaired(before, after, times, rules)


def _anchor(drift: float | None, over: str) -> Judgement:
    reason = "its drift is not known"
    if drift is not None:
        reason = f"it drifted by {drift * 100:+.2f} % {over}"
    return Judgement("ANCHOR", reason, ratio=1.0, drift=drift)


def _passes(reference: Sequence[Sample]) -> tuple[list[float], list[float]]:
    """Valid times of the anchor's first and last pass; the last is empty if there is one."""
    positions = sorted({sample.position for sample in reference})
    times = [
        [s.ms for s in reference if s.valid and s.position == position] for position in positions
    ]
    return (times[0] if times else [], times[-1] if len(times) > 1 else [])


def _by_round(samples: Sequence[Sample]) -> dict[int, float]:
    return {sample.round: sample.ms for sample in samples if sample.valid}


def _comparison(backend: str, shape: str, anchor: str | None, judgement: Judgement) -> Comparison:
    return Comparison(
        backend=backend,
        shape=shape,
        anchor=anchor,
        verdict=judgement.verdict,
        ratio=judgement.ratio,
        low=judgement.low,
        high=judgement.high,
        method=judgement.method,
        drift=judgement.drift,
        detectable=judgement.detectable,
        reason=judgement.reason,
    )
