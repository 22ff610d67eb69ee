"""What a published figure claims, and when another measurement agrees with it.

Two kinds of claims, never mixed: *ratio*, the anchor's time over the backend's in one run, and
*absolute*, the median time itself. docs/comparing.md has the reasoning behind the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from artifact.bench import statistics
from artifact.bench.summary import summarise
from artifact.model.manifest import ClaimRules, StatisticsRules
from artifact.model.results import RunResults

Kind = Literal["ratio", "absolute"]
Outcome = Literal["REPRODUCED", "NOT REPRODUCED", "INCOMPARABLE"]

#: Fewer samples have no range that would say anything: that of two covers the median at 50 %.
LEAST_FOR_A_RANGE = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value with what its samples leave open; both bounds are None for too few."""

    value: float
    low: float | None
    high: float | None
    basis: str
    """What the bounds are, in words."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval, or the value alone where there is none."""
        if self.low is None or self.high is None:
            return self.value, self.value
        return min(self.low, self.value), max(self.high, self.value)

    @property
    def reach(self) -> float | None:
        """How far the interval reaches from the value, relatively; None without one."""
        if self.low is None or self.high is None:
            return None
        low, high = self.bounds
        return max(high / self.value, self.value / low) - 1


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a claim was decided as it was, or was not; or what to keep in mind about it."""

    code: str
    """Short and stable, for programs."""
    what: str
    next: str | None = None
    """What a person can do about it."""


def allowed(value: float, tolerance: float) -> tuple[float, float]:
    """The zone ``[value / (1 + tolerance), value * (1 + tolerance)]``, both ends included.

    Like the zone of a tie it is symmetric in ratios: A agrees with B exactly if B agrees
    with A, and it does not matter which of two times is called the anchor.
    """
    return value / (1 + tolerance), value * (1 + tolerance)


def judge(kind: Kind, published: Figure, run: Figure, rules: ClaimRules) -> tuple[Outcome, Reason]:
    """What ``run`` says to the claim ``published``; the rules are docs/comparing.md's.

    REPRODUCED: the run's figure lies in the zone of the tolerance around the published one,
    and neither interval reaches further than ``rules.resolution``. NOT REPRODUCED: the figure
    and its whole interval lie on one side of that zone and of the published interval.
    Otherwise, and where ``rules.resolution`` asks for an interval that is not there, the two
    measurements cannot decide it.
    """
    tolerance = rules.ratio if kind == "ratio" else rules.absolute
    low, high = allowed(published.value, tolerance)
    shown = f"{tolerance * 100:g} %"
    both = (("the run's", run), ("the published", published))
    if rules.resolution is not None:
        for whose, figure in both:
            if figure.reach is None:
                return "INCOMPARABLE", Reason(
                    "no-interval",
                    f"{whose} samples are too few for an interval, so nothing is known of their "
                    "noise",
                    "measure with the protocol's rounds",
                )
    if low <= run.value <= high:
        for whose, figure in both:
            if rules.resolution is not None and (figure.reach or 0.0) > rules.resolution:
                return "INCOMPARABLE", Reason(
                    "resolution",
                    f"the figures agree, but {whose} interval reaches further than "
                    f"{rules.resolution * 100:g} % from its figure: it would agree with much",
                    "measure with more rounds, on a device that is left alone",
                )
        return "REPRODUCED", Reason("within", f"the difference is no more than {shown}")
    known_low, known_high = published.bounds
    run_low, run_high = run.bounds
    if run_high < min(low, known_low) or run_low > max(high, known_high):
        return "NOT REPRODUCED", Reason(
            "outside",
            f"the difference is more than {shown}, and more than the noise of both runs explains",
            "look for what differs: facts of the device, clocks and versions in both report.html",
        )
    return "INCOMPARABLE", Reason(
        "undecided",
        f"the difference is more than {shown}, but noise of this size would explain it: the "
        "run's interval reaches what is allowed, or the published interval",
        "measure with more rounds (--order interleaved has narrower intervals), or on a quieter "
        "device",
    )


def figures(
    results: RunResults, rules: StatisticsRules
) -> tuple[dict[tuple[Kind, str, str], Figure], dict[str, float]]:
    """Every figure of a run by (kind, backend, shape), and the anchor's drift by shape.

    Both runs of a comparison are put together anew from their samples by the same rules. A
    median's interval is that of the sign test; where the samples are too few for one at the
    confidence, their full range, which covers the median of n samples at ``1 - 2^(1 - n)``.

    Raises:
        VerificationError: where the samples are not of this run.
    """
    rows, comparisons = summarise(
        results.samples,
        results.workload,
        [backend.name for backend in results.backends],
        results.anchor,
        results.metric,
        rules,
        results.protocol,
    )
    found: dict[tuple[Kind, str, str], Figure] = {}
    for row in rows:
        times = [
            sample.ms
            for sample in results.samples
            if sample.valid and (sample.backend, sample.shape) == (row.backend, row.shape)
        ]
        found["absolute", row.backend, row.shape] = _median(row.median_ms, times, rules)
    for item in comparisons:
        if item.ratio is not None and item.verdict != "ANCHOR":
            found["ratio", item.backend, item.shape] = Figure(
                item.ratio, item.low, item.high, item.method or ""
            )
    drift = {
        item.shape: item.drift
        for item in comparisons
        if item.verdict == "ANCHOR" and item.drift is not None
    }
    return found, drift


def _median(value: float, times: Sequence[float], rules: StatisticsRules) -> Figure:
    number = len(times)
    interval = statistics.paired_interval(times, rules.confidence)
    if interval is not None:
        basis = f"sign test, {number} samples, coverage {interval.coverage:.3f}"
        return Figure(value, interval.low, interval.high, basis)
    if number < LEAST_FOR_A_RANGE:
        noun = "sample" if number == 1 else "samples"
        return Figure(value, None, None, f"{number} {noun}, no interval")
    coverage = 1 - 2 ** (1 - number)
    basis = f"range of {number} samples, coverage {coverage:.3f}"
    return Figure(value, min(times), max(times), basis)
