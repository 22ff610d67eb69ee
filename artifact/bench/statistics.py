"""What times say: exact distribution-free intervals, drift, detectable effect, verdicts.

Everything here works on times in milliseconds and on ratios *anchor over backend*, so a
ratio above 1 says that the backend is faster. No method assumes a distribution but the
minimum detectable effect, which is a planning figure. Ratios are compared by dividing, which
every IEEE machine rounds alike, so that a verdict can be recomputed elsewhere.

The zone of a tie is ``[1 / (1 + tie), 1 + tie]``: the same whichever of the two is the anchor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist, fmean, median

from artifact.bench.student import t_quantile
from artifact.model.manifest import StatisticsRules
from artifact.model.results import Verdict

#: With which probability an effect of the detectable size would be seen.
POWER = 0.8

#: The rank-sum distribution is counted exactly up to this many pairs (100 against 200).
EXACT_PAIRS = 20_000


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and full range of some times."""

    median: float
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval and its real coverage, which is at least the wanted one."""

    low: float
    high: float
    coverage: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """How one backend stands to the anchor at one shape, and why."""

    verdict: Verdict
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    method: str | None = None
    drift: float | None = None
    detectable: float | None = None


def spread(times: Sequence[float]) -> Spread:
    """Median, smallest and largest of ``times``.

    Raises:
        ValueError: where there are none.
    """
    if not times:
        raise ValueError("no times")
    return Spread(float(median(times)), min(times), max(times))


def _alpha(confidence: float) -> Fraction:
    # The decimal that a person wrote, not the binary number next to it: 3 against 3 samples
    # cover exactly 0.9, which is less than the double 0.9.
    return 1 - Fraction(str(confidence))


@lru_cache(maxsize=256)
def sign_rank(n: int, confidence: float) -> tuple[int, float]:
    """Which order statistics of ``n`` values bound their median: ``(k, coverage)``.

    Each value lies below the true median with probability 1/2, independently, whatever the
    distribution. So the k-th smallest lies above it exactly if fewer than k values lie
    below: ``P(Binomial(n, 1/2) <= k - 1)``. The k-th smallest and the k-th largest therefore
    cover it with ``1 - 2 P(Binomial(n, 1/2) <= k - 1)``. The largest k that reaches the
    confidence gives the narrowest interval; 0 stands for "none does" (n < 6 at 0.95).
    """
    allowed = _alpha(confidence) * 2**n
    k, below, term = 0, 0, 1
    while 2 * (below + term) <= allowed:
        below += term
        term = term * (n - k) // (k + 1)
        k += 1
    return k, float(1 - Fraction(2 * below, 2**n))


def paired_interval(ratios: Sequence[float], confidence: float) -> Interval | None:
    """The sign-test interval of the median of independent ratios, or None for too few."""
    k, coverage = sign_rank(len(ratios), confidence)
    if k == 0:
        return None
    ordered = sorted(ratios)
    return Interval(ordered[k - 1], ordered[-k], coverage)


def rank_sum_tail(m: int, n: int) -> list[int]:
    """How many of the ``C(m + n, m)`` orders of two samples have U = 0, 1, ..., m*n // 2.

    U counts the pairs in which the value of the first sample is the smaller one. Its
    generating function over all orders is the Gaussian binomial coefficient, the product of
    ``(1 - q^(n + i)) / (1 - q^i)`` for i = 1..m. Multiplying and dividing one factor at a
    time keeps to whole numbers, and low powers never depend on high ones, so the upper half,
    which mirrors the lower, is left out.
    """
    size = m * n // 2 + 1
    counts = [1] + [0] * (size - 1)
    for i in range(1, m + 1):
        for power in range(size - 1, n + i - 1, -1):
            counts[power] -= counts[power - n - i]
        for power in range(i, size):
            counts[power] += counts[power - i]
    return counts


@lru_cache(maxsize=256)
def rank_sum_rank(m: int, n: int, confidence: float) -> tuple[int, float]:
    """Which of the ``m*n`` pairwise ratios bound the shift of two samples: ``(k, coverage)``.

    If the samples of anchor and backend differ by a factor only, then after dividing it out
    every order of the m + n values is equally likely, whatever the distribution. The factor
    lies below the k-th smallest pairwise ratio exactly if U <= k - 1 (U as in
    :func:`rank_sum_tail`), and above the k-th largest with the same probability. So the two
    cover it with ``1 - 2 P(U <= k - 1)``: the Mann-Whitney test turned into an interval, as
    Hodges and Lehmann did. The largest k that reaches the confidence is taken, 0 stands for
    "none does" (3 against 3 at 0.95). For 3 against 6 it is 2, with coverage 1 - 4/84 = 0.952.

    Beyond :data:`EXACT_PAIRS` pairs the normal approximation of U is used, rounded so that
    the interval gets wider.
    """
    if min(m, n) < 1:
        return 0, 0.0
    alpha = _alpha(confidence)
    if m * n > EXACT_PAIRS:
        deviation = math.sqrt(m * n * (m + n + 1) / 12)
        k = math.floor(m * n / 2 + NormalDist().inv_cdf(float(alpha) / 2) * deviation)
        return k, 1 - 2 * NormalDist().cdf((k - 0.5 - m * n / 2) / deviation)
    total = math.comb(m + n, m)
    k, below = 0, 0
    for count in rank_sum_tail(m, n):
        if 2 * (below + count) > alpha * total:
            break
        below += count
        k += 1
    return k, float(1 - Fraction(2 * below, total))


def unpaired_interval(
    anchor: Sequence[float], backend: Sequence[float], confidence: float
) -> Interval | None:
    """The Mann-Whitney interval of the factor between two samples, or None for too few.

    A ratio is monotone in the difference of logarithms, so the order statistics of the
    pairwise ratios are those of the pairwise log differences.
    """
    k, coverage = rank_sum_rank(len(anchor), len(backend), confidence)
    if k == 0:
        return None
    ratios = sorted(a / b for a in anchor for b in backend)
    return Interval(ratios[k - 1], ratios[-k], coverage)


def pass_drift(before: Sequence[float], after: Sequence[float]) -> float:
    """Change of the anchor's median from its first to its last pass, relative to the first."""
    first = median(before)
    return float((median(after) - first) / first)


def trend_drift(by_round: Mapping[int, float]) -> float | None:
    """Theil-Sen slope of the anchor over its rounds, times their span, over its median.

    The slope is the median over all pairs of rounds, so a few outliers do not make a trend.
    None for fewer than two rounds.
    """
    rounds = sorted(by_round)
    if len(rounds) < 2:
        return None
    slopes = [
        (by_round[later] - by_round[earlier]) / (later - earlier)
        for i, earlier in enumerate(rounds)
        for later in rounds[i + 1 :]
    ]
    return float(median(slopes) * (rounds[-1] - rounds[0]) / median(by_round.values()))


def detectable_unpaired(
    anchor: Sequence[float], backend: Sequence[float], confidence: float
) -> float | None:
    """Smallest relative difference that two samples of this noise would show.

    ``(t_conf + t_power) * s * sqrt(1/n_a + 1/n_b)`` with the pooled standard deviation s of the
    logarithms and ``n_a + n_b - 2`` degrees of freedom, turned back into a relative
    difference. None where nothing can be said of the noise, or nothing would be seen in it.
    """
    n_a, n_b = len(anchor), len(backend)
    df = n_a + n_b - 2
    if min(n_a, n_b) < 1 or df < 1:
        return None
    squares = _squares([math.log(x) for x in anchor]) + _squares([math.log(x) for x in backend])
    return _effect(math.sqrt(squares / df * (1 / n_a + 1 / n_b)), df, confidence)


def detectable_paired(ratios: Sequence[float], confidence: float) -> float | None:
    """The same for independent ratios: ``(t_conf + t_power) * s / sqrt(n)`` on logarithms."""
    n = len(ratios)
    if n < 2:
        return None
    squares = _squares([math.log(ratio) for ratio in ratios])
    return _effect(math.sqrt(squares / (n - 1) / n), n - 1, confidence)


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)


def _effect(error: float, df: int, confidence: float) -> float | None:
    quantiles = t_quantile(1 - (1 - confidence) / 2, df) + t_quantile(POWER, df)
    try:
        return math.expm1(quantiles * error)
    except OverflowError:
        return None


def judge_unpaired(
    before: Sequence[float],
    after: Sequence[float],
    backend: Sequence[float],
    rules: StatisticsRules,
) -> Judgement:
    """Paper order: a backend against both passes of the anchor.

    Nobody knows how fast the anchor would have been while the backend ran, only that it went
    from ``before`` to ``after``. So the interval is widened on both sides by the factor
    between the two medians (1 + drift for a rise), and beyond ``rules.max_drift`` nothing
    is decided; nor is it where one of the two passes is missing.

    Args:
        before: Valid times of the anchor's first pass.
        after: Of its last pass.
        backend: Of the backend.
        rules: The manifest's.
    """
    anchor = [*before, *after]
    if not anchor or not backend:
        return _no_samples(anchor, backend)
    interval = unpaired_interval(anchor, backend, rules.confidence)
    ratio = float(median(anchor) / median(backend))
    method = _unpaired_method(len(anchor), len(backend), interval)
    low = high = drift = None
    if before and after:
        drift = pass_drift(before, after)
    if interval is not None:
        factor = max(1 + drift, 1 / (1 + drift)) if drift is not None else 1.0
        # The ratio of the medians is not the estimate that the interval is built around; for
        # many odd samples it may lie outside, and the interval then reaches out to it.
        low = min(interval.low / factor, ratio)
        high = max(interval.high * factor, ratio)
        if factor != 1:
            method += f", widened by the anchor's drift of {_signed(drift or 0)}"
    if drift is None:
        verdict, reason = _unresolved("the anchor was not measured both before and after")
    elif abs(drift) > rules.max_drift:
        verdict, reason = _unresolved(
            f"the anchor drifted by {_signed(drift)}; beyond {_percent(rules.max_drift)} "
            "nothing is decided"
        )
    else:
        verdict, reason = decide(low, high, rules)
    detectable = detectable_unpaired(anchor, backend, rules.confidence)
    return Judgement(verdict, reason, ratio, low, high, method, drift, detectable)


def judge_paired(
    anchor: Mapping[int, float], backend: Mapping[int, float], rules: StatisticsRules
) -> Judgement:
    """Interleaved order: a backend against the anchor of the same block, round by round.

    A drift that is slower than a block falls out of every ratio, so it is reported and
    widens nothing.

    Args:
        anchor: Valid times of the anchor by round.
        backend: Of the backend by round. Rounds that only one of the two has are left out.
        rules: The manifest's.
    """
    rounds = sorted(anchor.keys() & backend.keys())
    drift = trend_drift(anchor)
    if not rounds:
        return _no_samples(list(anchor.values()), list(backend.values()), drift)
    ratios = [anchor[r] / backend[r] for r in rounds]
    interval = paired_interval(ratios, rules.confidence)
    low, high = (interval.low, interval.high) if interval else (None, None)
    verdict, reason = decide(low, high, rules)
    method = f"sign test, {len(ratios)} rounds"
    if interval is not None:
        method += f", coverage {interval.coverage:.3f}"
    detectable = detectable_paired(ratios, rules.confidence)
    return Judgement(verdict, reason, float(median(ratios)), low, high, method, drift, detectable)


def decide(low: float | None, high: float | None, rules: StatisticsRules) -> tuple[Verdict, str]:
    """The verdict that an interval of the ratio allows, and the reason in words.

    FASTER or SLOWER if the whole interval lies beyond the zone of a tie, TIE if the whole
    interval lies within it, UNRESOLVED otherwise. An interval that excludes 1 but reaches
    into the zone shows a difference that may be smaller than what counts as one: UNRESOLVED.
    """
    if low is None or high is None:
        return _unresolved(f"too few samples for an interval at {_percent(rules.confidence)}")
    top = 1 + rules.tie
    bottom = 1 / top
    shown = f"the ratio lies between {low:.4f} and {high:.4f}"
    tie = _percent(rules.tie)
    if low > top:
        return "FASTER", f"{shown}: faster by more than {tie}"
    if high < bottom:
        return "SLOWER", f"{shown}: slower by more than {tie}"
    if low >= bottom and high <= top:
        return "TIE", f"{shown}: a difference of no more than {tie}"
    if low > 1:
        return _unresolved(f"{shown}: faster, but perhaps by less than {tie}")
    if high < 1:
        return _unresolved(f"{shown}: slower, but perhaps by less than {tie}")
    return _unresolved(f"{shown}: too wide to tell faster, slower and tied apart")


def _unresolved(reason: str) -> tuple[Verdict, str]:
    return "UNRESOLVED", reason


def _no_samples(
    anchor: Sequence[float], backend: Sequence[float], drift: float | None = None
) -> Judgement:
    if anchor and backend:
        reason = "no round in which both the anchor and the backend have a valid sample"
    else:
        reason = f"no valid sample of the {'anchor' if backend else 'backend'}"
    return Judgement("UNRESOLVED", reason, drift=drift)


def _unpaired_method(n_anchor: int, n_backend: int, interval: Interval | None) -> str:
    text = f"Mann-Whitney, {n_anchor} against {n_backend} samples"
    if interval is None:
        return text
    exact = "" if n_anchor * n_backend <= EXACT_PAIRS else " (normal approximation)"
    return f"{text}, coverage {interval.coverage:.3f}{exact}"


def _percent(value: float) -> str:
    return f"{value * 100:.4g} %"


def _signed(value: float) -> str:
    return f"{value * 100:+.2f} %"
