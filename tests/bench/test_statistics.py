from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from artifact.bench import statistics as ours
from artifact.model.manifest import StatisticsRules

RULES = StatisticsRules(confidence=0.95, tie=0.01, max_drift=0.05)
times = st.floats(0.01, 1000.0)


def samples(least: int = 1, most: int = 9) -> st.SearchStrategy[list[float]]:
    return st.lists(times, min_size=least, max_size=most)


# Spread


def test_spread_is_median_and_full_range() -> None:
    assert ours.spread([3.0, 1.0, 2.0]) == ours.Spread(2.0, 1.0, 3.0)
    assert ours.spread([4.0, 1.0]) == ours.Spread(2.5, 1.0, 4.0)


def test_no_times_have_no_spread() -> None:
    with pytest.raises(ValueError, match="no times"):
        ours.spread([])


# The sign test


@pytest.mark.parametrize(
    ("n", "k", "coverage"),
    [(0, 0, 1.0), (5, 0, 1.0), (6, 1, 0.96875), (9, 2, 0.9609375), (10, 2, 0.978515625)],
)
def test_sign_rank_of_small_samples(n: int, k: int, coverage: float) -> None:
    assert ours.sign_rank(n, 0.95) == (k, coverage)


@pytest.mark.parametrize("confidence", [0.6, 0.9, 0.95, 0.99])
def test_sign_rank_agrees_with_scipys_binomial(confidence: float) -> None:
    for n in range(1, 200):
        k, coverage = ours.sign_rank(n, confidence)
        assert coverage == pytest.approx(1 - 2 * stats.binom.cdf(k - 1, n, 0.5), abs=1e-12)
        assert coverage >= confidence
        assert 1 - 2 * stats.binom.cdf(k, n, 0.5) < confidence + 1e-12


@pytest.mark.parametrize("n", [6, 7, 8, 9, 11])
def test_sign_interval_covers_the_median_as_often_as_it_says(n: int) -> None:
    # Every value is above or below the true median 1 with probability 1/2: all 2^n patterns.
    covered = 0
    for pattern in product((-1, 1), repeat=n):
        ratios = [1 + sign * (0.01 + 0.001 * i) for i, sign in enumerate(pattern)]
        interval = ours.paired_interval(ratios, 0.95)
        assert interval is not None
        covered += interval.low <= 1 <= interval.high
    assert interval.coverage == covered / 2**n >= 0.95


def test_nine_rounds_give_the_second_and_the_eighth() -> None:
    interval = ours.paired_interval([0.9 + 0.01 * i for i in (8, 3, 1, 7, 0, 2, 6, 5, 4)], 0.95)
    assert interval == ours.Interval(0.9 + 0.01 * 1, 0.9 + 0.01 * 7, 0.9609375)


def test_five_rounds_give_none() -> None:
    assert ours.paired_interval([1.0] * 5, 0.95) is None
    assert ours.paired_interval([1.0] * 5, 0.9) is not None


# The rank sum


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 5), (3, 3), (3, 6), (6, 3), (4, 7), (5, 5)])
def test_rank_sum_tail_by_enumeration(m: int, n: int) -> None:
    counts = [0] * (m * n + 1)
    for chosen in combinations(range(m + n), m):
        rest = [x for x in range(m + n) if x not in chosen]
        counts[sum(a < b for a in chosen for b in rest)] += 1
    assert ours.rank_sum_tail(m, n) == counts[: m * n // 2 + 1]


@pytest.mark.parametrize(("m", "n"), [(3, 3), (3, 6), (6, 6), (9, 18), (10, 11), (20, 30)])
def test_rank_sum_tail_agrees_with_scipys_exact_test(m: int, n: int) -> None:
    tail = ours.rank_sum_tail(m, n)
    for u in range(0, m * n // 2, max(1, m * n // 20)):
        # Two samples without ties of which exactly u pairs are in order.
        full, part = divmod(u, n)
        a = [-1.0] * full + [1000.0] * (m - full)
        a = [x + i * 1e-3 for i, x in enumerate(a)]
        if part:
            a[full] = n - part - 0.5
        b = [float(i) for i in range(n)]
        result = stats.mannwhitneyu(a, b, method="exact")
        assert min(result.statistic, m * n - result.statistic) == u
        expected = min(1.0, 2 * sum(tail[: u + 1]) / math.comb(m + n, m))
        assert result.pvalue == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("m", "n", "k", "coverage"),
    [
        (3, 3, 0, 1.0),
        (3, 4, 0, 1.0),
        (3, 5, 1, 1 - 2 / 56),
        (3, 6, 2, 1 - 4 / 84),
        (6, 3, 2, 1 - 4 / 84),
        (4, 4, 1, 1 - 2 / 70),
        (5, 5, 3, 1 - 8 / 252),
    ],
)
def test_rank_sum_rank_of_small_samples(m: int, n: int, k: int, coverage: float) -> None:
    # k - 1 is the critical value of U in every printed table (two-sided, 0.05).
    assert ours.rank_sum_rank(m, n, 0.95) == (k, coverage)


def test_a_coverage_of_exactly_the_confidence_is_enough() -> None:
    # 3 against 3: 1 - 2/20 is 0.9, and the double 0.9 is a little more.
    assert ours.rank_sum_rank(3, 3, 0.9) == (1, 0.9)
    assert ours.rank_sum_rank(1, 9, 0.8) == (1, 0.8)
    assert ours.rank_sum_rank(0, 9, 0.8) == ours.rank_sum_rank(9, 0, 0.8) == (0, 0.0)


@pytest.mark.parametrize(("m", "n"), [(3, 5), (3, 6), (4, 4), (5, 6)])
def test_rank_sum_interval_covers_the_factor_as_often_as_it_says(m: int, n: int) -> None:
    # Under equal distributions every choice of m of the m + n values is equally likely.
    values = [1.0 + 0.01 * i + 0.001 * i * i for i in range(m + n)]
    covered = total = 0
    for chosen in combinations(values, m):
        rest = [x for x in values if x not in chosen]
        interval = ours.unpaired_interval(chosen, rest, 0.95)
        assert interval is not None
        covered += interval.low <= 1 <= interval.high
        total += 1
    assert Fraction(covered, total) >= Fraction(95, 100)
    assert interval.coverage == covered / total


@settings(max_examples=40, deadline=None)
@given(
    st.lists(times, min_size=3, max_size=6, unique=True),
    st.lists(times, min_size=5, max_size=7, unique=True),
    st.floats(0.2, 5.0),
)
def test_rank_sum_interval_is_the_test_inverted(
    anchor: list[float], backend: list[float], factor: float
) -> None:
    interval = ours.unpaired_interval(anchor, backend, 0.95)
    assert interval is not None
    logs = [math.log(a) for a in anchor]
    shifted = [math.log(b) + math.log(factor) for b in backend]
    if min(abs(x - y) for x in logs for y in shifted) < 1e-9:
        return
    rejected = stats.mannwhitneyu(logs, shifted, method="exact").pvalue <= 0.05 + 1e-12
    assert rejected == (not interval.low < factor < interval.high)


def test_three_against_three_give_none() -> None:
    assert ours.unpaired_interval([1.0, 1.1, 1.2], [1.0, 1.1, 1.2], 0.95) is None


@pytest.mark.parametrize(("m", "n"), [(100, 200), (140, 140), (60, 330)])
def test_the_normal_approximation_joins_the_exact_rank(
    m: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, coverage = ours.rank_sum_rank(m, n, 0.95)
    monkeypatch.setattr(ours, "EXACT_PAIRS", 0)
    near, claimed = ours.rank_sum_rank.__wrapped__(m, n, 0.95)
    assert exact - 3 <= near <= exact
    assert claimed == pytest.approx(coverage, abs=1e-3)
    assert claimed >= 0.95


def test_many_samples_are_quick() -> None:
    assert ours.rank_sum_rank(2000, 4000, 0.95)[0] > 3_000_000


# Drift


def test_pass_drift_is_the_published_one() -> None:
    before = [1.3179609680175781, 1.3908067321777344, 1.4447817993164063]
    after = [1.3226588439941407, 1.397989501953125, 1.5033905029296875]
    assert f"{ours.pass_drift(before, after):+.2%}" == "+0.52%"
    assert ours.pass_drift([2.0], [1.0]) == -0.5


@settings(max_examples=60)
@given(st.dictionaries(st.integers(0, 30), times, min_size=2, max_size=12))
def test_trend_drift_agrees_with_scipys_theil_sen(by_round: dict[int, float]) -> None:
    rounds = sorted(by_round)
    values = [by_round[r] for r in rounds]
    slope = stats.theilslopes(values, rounds).slope
    expected = slope * (rounds[-1] - rounds[0]) / ours.spread(values).median
    assert ours.trend_drift(by_round) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_trend_drift_of_a_line_is_its_rise() -> None:
    assert ours.trend_drift({r: 10.0 + 0.1 * r for r in range(11)}) == pytest.approx(1 / 10.5)
    # One outlier is no trend.
    assert ours.trend_drift({0: 1.0, 1: 1.0, 2: 9.0, 3: 1.0, 4: 1.0}) == 0
    assert ours.trend_drift({3: 1.0}) is None
    assert ours.trend_drift({}) is None


# Detectable effect


def test_detectable_effect_of_three_against_three() -> None:
    # Field rule: about 3.0 standard deviations for n = 3.
    logs = [-0.001, 0.0, 0.001]
    group = [math.exp(x) for x in logs]
    effect = ours.detectable_unpaired(group, group, 0.95)
    assert effect is not None
    quantiles = stats.t.ppf(0.975, 4) + stats.t.ppf(0.8, 4)
    assert effect == pytest.approx(math.expm1(quantiles * 0.001 * math.sqrt(2 / 3)), rel=1e-9)
    assert 2.9 < math.log1p(effect) / 0.001 < 3.1


def test_detectable_effect_of_pairs() -> None:
    ratios = [1.0, 1.01, 0.99, 1.02, 1.0, 0.98]
    deviation = stats.tstd([math.log(r) for r in ratios])
    quantiles = stats.t.ppf(0.975, 5) + stats.t.ppf(0.8, 5)
    assert ours.detectable_paired(ratios, 0.95) == pytest.approx(
        math.expm1(quantiles * deviation / math.sqrt(6)), rel=1e-9
    )


def test_detectable_effect_has_the_power_that_it_states() -> None:
    # A shift of the detectable size is found by Student's test in about 80 % of cases.
    import numpy as np

    generator = np.random.default_rng(1)
    n, s = 6, 0.01
    shift = (stats.t.ppf(0.975, 10) + stats.t.ppf(0.8, 10)) * s * math.sqrt(2 / n)
    a = generator.normal(0, s, (4000, n))
    b = generator.normal(shift, s, (4000, n))
    found = stats.ttest_ind(a, b, axis=1).pvalue < 0.05
    assert 0.76 < found.mean() < 0.87
    effect = ours.detectable_unpaired(list(np.exp([-s, s] * 3)), list(np.exp([s, -s] * 3)), 0.95)
    assert effect is not None
    assert math.log1p(effect) == pytest.approx(shift * math.sqrt(6 / 5), rel=1e-6)


@pytest.mark.parametrize(("a", "b"), [([], [1.0]), ([1.0], []), ([1.0], [2.0]), ([], [])])
def test_no_noise_known_no_effect_known(a: list[float], b: list[float]) -> None:
    assert ours.detectable_unpaired(a, b, 0.95) is None


def test_two_rounds_are_the_least_that_show_noise() -> None:
    deviation = math.log(1.01) / math.sqrt(2)
    quantiles = stats.t.ppf(0.975, 1) + stats.t.ppf(0.8, 1)
    assert ours.detectable_paired([1.0, 1.01], 0.95) == pytest.approx(
        math.expm1(quantiles * deviation / math.sqrt(2)), rel=1e-9
    )


def test_noise_without_bound_hides_everything() -> None:
    assert ours.detectable_paired([1.0], 0.95) is None
    assert ours.detectable_paired([1e-9, 1e9], 0.9999999) is None


# Verdicts


@pytest.mark.parametrize(
    ("low", "high", "verdict", "words"),
    [
        (None, None, "UNRESOLVED", "too few samples for an interval at 95 %"),
        (1.0101, 1.02, "FASTER", "faster by more than 1 %"),
        (1.01, 1.02, "UNRESOLVED", "faster, but perhaps by less than 1 %"),
        (1.001, 1.02, "UNRESOLVED", "faster, but perhaps by less than 1 %"),
        (1.0, 1.02, "UNRESOLVED", "too wide"),
        (0.98, 0.99, "SLOWER", "slower by more than 1 %"),
        (0.98, 1 / 1.01, "UNRESOLVED", "slower, but perhaps by less than 1 %"),
        (0.98, 0.9999, "UNRESOLVED", "slower, but perhaps"),
        (1 / 1.01, 1.01, "TIE", "no more than 1 %"),
        (0.995, 1.005, "TIE", "no more than 1 %"),
        (1.001, 1.009, "TIE", "no more than 1 %"),
        (0.98, 1.02, "UNRESOLVED", "too wide"),
        (0.5, 1.005, "UNRESOLVED", "too wide"),
    ],
)
def test_what_an_interval_allows(
    low: float | None, high: float | None, verdict: str, words: str
) -> None:
    found, reason = ours.decide(low, high, RULES)
    assert found == verdict
    assert words in reason


@settings(max_examples=200)
@given(st.floats(0.5, 2), st.floats(1, 1.5), st.floats(0, 0.2))
def test_the_verdict_mirrors_when_anchor_and_backend_swap(
    low: float, width: float, tie: float
) -> None:
    rules = StatisticsRules(tie=tie, max_drift=0.05)
    high = low * width
    edges = (1.0, 1 + tie, 1 / (1 + tie))
    if any(math.isclose(x, y, rel_tol=1e-9) for x in (low, high) for y in edges):
        return
    mirror = {"FASTER": "SLOWER", "SLOWER": "FASTER", "TIE": "TIE", "UNRESOLVED": "UNRESOLVED"}
    there, _ = ours.decide(low, high, rules)
    back, _ = ours.decide(1 / high, 1 / low, rules)
    assert back == mirror[there]


@settings(max_examples=100)
@given(st.floats(0.5, 2), st.floats(1, 1.5), st.floats(1, 1.2))
def test_a_wider_interval_never_decides_more(low: float, width: float, more: float) -> None:
    high = low * width
    narrow, _ = ours.decide(low, high, RULES)
    wide, _ = ours.decide(low / more, high * more, RULES)
    assert wide in (narrow, "UNRESOLVED")


# Paper order


FA3_8192 = (
    [5.254291381835937, 5.2478369140625, 5.2577392578125],
    [5.347284545898438, 5.379610595703125, 5.387033081054687],
)
V3_8192 = [5.29708068848, 5.31597290039, 5.28245300293]


def test_the_published_gap_of_a_tenth_of_a_percent_is_no_win() -> None:
    found = ours.judge_unpaired(*FA3_8192, V3_8192, RULES)
    assert found.verdict == "UNRESOLVED"
    assert found.ratio == pytest.approx(1.001, abs=1e-4)
    assert found.drift == pytest.approx(0.0239, abs=1e-4)
    assert found.low is not None
    assert found.high is not None
    # Second smallest and second largest of the 18 ratios, widened by 2.39 %.
    ratios = sorted(a / b for a in (*FA3_8192[0], *FA3_8192[1]) for b in V3_8192)
    assert found.low == ratios[1] / (1 + found.drift)
    assert found.high == ratios[-2] * (1 + found.drift)
    assert found.method == (
        "Mann-Whitney, 6 against 3 samples, coverage 0.952, widened by the anchor's drift of "
        "+2.39 %"
    )


@pytest.mark.parametrize("tie", [0.0, 0.001, 0.01, 0.02, 0.05, 0.1])
def test_no_width_of_a_tie_makes_it_one(tie: float) -> None:
    rules = StatisticsRules(tie=tie, max_drift=0.05)
    assert ours.judge_unpaired(*FA3_8192, V3_8192, rules).verdict in ("TIE", "UNRESOLVED")


def test_a_clear_gap_is_decided_both_ways() -> None:
    twice = [2 * x for x in V3_8192]
    half = [x / 2 for x in V3_8192]
    assert ours.judge_unpaired(*FA3_8192, twice, RULES).verdict == "SLOWER"
    assert ours.judge_unpaired(*FA3_8192, half, RULES).verdict == "FASTER"


def test_too_much_drift_decides_nothing() -> None:
    after = [1.06 * x for x in FA3_8192[0]]
    found = ours.judge_unpaired(FA3_8192[0], after, [x / 2 for x in V3_8192], RULES)
    assert found.verdict == "UNRESOLVED"
    assert found.reason == "the anchor drifted by +6.00 %; beyond 5 % nothing is decided"
    before = ours.judge_unpaired(after, FA3_8192[0], [x / 2 for x in V3_8192], RULES)
    assert before.verdict == "UNRESOLVED"
    assert before.drift == pytest.approx(1 / 1.06 - 1)
    # The interval is the same whichever way the anchor went.
    assert (before.low, before.high) == pytest.approx((found.low, found.high))


def test_without_both_passes_of_the_anchor_nothing_is_decided() -> None:
    half = [x / 2 for x in V3_8192]
    for passes in ((FA3_8192[0], []), ([], FA3_8192[1])):
        found = ours.judge_unpaired(*passes, half, RULES)
        assert found.verdict == "UNRESOLVED"
        assert "before and after" in found.reason
        assert found.drift is None
        assert found.ratio is not None


def test_without_samples_there_is_no_ratio() -> None:
    nobody = ours.judge_unpaired([], [], V3_8192, RULES)
    assert (nobody.verdict, nobody.ratio) == ("UNRESOLVED", None)
    assert nobody.reason == "no valid sample of the anchor"
    nothing = ours.judge_unpaired(*FA3_8192, [], RULES)
    assert (nothing.verdict, nothing.reason) == ("UNRESOLVED", "no valid sample of the backend")


def test_one_round_is_too_few() -> None:
    found = ours.judge_unpaired([1.0], [1.0], [0.5], RULES)
    assert found.verdict == "UNRESOLVED"
    assert (found.ratio, found.low, found.high) == (2.0, None, None)
    assert found.method == "Mann-Whitney, 2 against 1 samples"


@settings(max_examples=100)
@given(samples(3, 6), samples(3, 6), samples(3, 6), st.randoms(use_true_random=False))
def test_paper_verdicts_do_not_depend_on_the_order_of_rounds(
    before: list[float], after: list[float], backend: list[float], random: object
) -> None:
    found = ours.judge_unpaired(before, after, backend, RULES)
    shuffled = [list(group) for group in (before, after, backend)]
    for group in shuffled:
        random.shuffle(group)  # type: ignore[attr-defined]
    again = ours.judge_unpaired(*shuffled, RULES)
    assert again.detectable == pytest.approx(found.detectable)
    for name in ("verdict", "reason", "ratio", "low", "high", "method", "drift"):
        assert getattr(again, name) == getattr(found, name)


@settings(max_examples=100)
@given(samples(3, 6), samples(3, 6), samples(3, 6), st.integers(-10, 10))
def test_paper_verdicts_do_not_depend_on_the_unit_of_time(
    before: list[float], after: list[float], backend: list[float], power: int
) -> None:
    found = ours.judge_unpaired(before, after, backend, RULES)
    # A power of two scales without rounding.
    scaled = [[x * 2.0**power for x in group] for group in (before, after, backend)]
    again = ours.judge_unpaired(*scaled, RULES)
    assert again.detectable == pytest.approx(found.detectable)
    for name in ("verdict", "reason", "ratio", "low", "high", "method", "drift"):
        assert getattr(again, name) == getattr(found, name)


@settings(max_examples=100)
@given(samples(3, 6), samples(3, 6), samples(3, 6), st.floats(1, 2))
def test_a_slower_backend_never_has_a_better_ratio(
    before: list[float], after: list[float], backend: list[float], factor: float
) -> None:
    found = ours.judge_unpaired(before, after, backend, RULES)
    slower = ours.judge_unpaired(before, after, [x * factor for x in backend], RULES)
    for name in ("ratio", "low", "high"):
        a, b = getattr(slower, name), getattr(found, name)
        assert (a is None and b is None) or a <= b
    if found.verdict == "SLOWER":
        assert slower.verdict == "SLOWER"
    if slower.verdict == "FASTER":
        assert found.verdict == "FASTER"


@settings(max_examples=100)
@given(samples(3, 15), samples(3, 15), samples(3, 20))
def test_the_interval_holds_the_ratio(
    before: list[float], after: list[float], backend: list[float]
) -> None:
    found = ours.judge_unpaired(before, after, backend, RULES)
    if found.low is not None:
        assert found.ratio is not None
        assert found.high is not None
        assert 0 < found.low <= found.ratio <= found.high < math.inf


# Interleaved order


def rounds(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values))


def test_a_common_drift_does_not_touch_paired_ratios() -> None:
    # The machine gets 30 % slower over the run; the backend stays 2 % faster.
    anchor = [10.0 * (1 + 0.0375 * r) for r in range(9)]
    found = ours.judge_paired(rounds(anchor), rounds([x / 1.02 for x in anchor]), RULES)
    assert found.verdict == "FASTER"
    assert found.drift == pytest.approx(0.3 / 1.15)
    assert found.ratio == pytest.approx(1.02)
    assert found.method == "sign test, 9 rounds, coverage 0.961"


def test_equal_times_are_a_tie() -> None:
    found = ours.judge_paired(rounds([1.0] * 9), rounds([1.001, 0.999] * 4 + [1.0]), RULES)
    assert found.verdict == "TIE"


def test_rounds_that_only_one_has_are_left_out() -> None:
    anchor = {0: 1.0, 1: 1.0, 2: 1.0, 5: 50.0}
    found = ours.judge_paired(anchor, {0: 2.0, 1: 2.0, 2: 2.0, 7: 99.0}, RULES)
    assert found.ratio == 0.5
    assert found.method == "sign test, 3 rounds"
    assert found.reason == "too few samples for an interval at 95 %"


@pytest.mark.parametrize(
    ("anchor", "backend", "reason"),
    [
        ({}, {0: 1.0}, "no valid sample of the anchor"),
        ({0: 1.0}, {}, "no valid sample of the backend"),
        ({0: 1.0}, {1: 1.0}, "no round in which both"),
    ],
)
def test_no_common_round_gives_no_ratio(
    anchor: dict[int, float], backend: dict[int, float], reason: str
) -> None:
    found = ours.judge_paired(anchor, backend, RULES)
    assert found.verdict == "UNRESOLVED"
    assert found.ratio is None
    assert found.reason.startswith(reason)


@settings(max_examples=100)
@given(st.lists(st.tuples(times, times), min_size=1, max_size=12), st.floats(1, 2))
def test_paired_estimates_are_ordered_and_monotone(
    pairs: list[tuple[float, float]], factor: float
) -> None:
    anchor, backend = rounds([a for a, _ in pairs]), rounds([b for _, b in pairs])
    found = ours.judge_paired(anchor, backend, RULES)
    assert found.ratio is not None
    if found.low is not None and found.high is not None:
        assert found.low <= found.ratio <= found.high
    slower = ours.judge_paired(anchor, {r: b * factor for r, b in backend.items()}, RULES)
    assert slower.ratio is not None
    assert slower.ratio <= found.ratio
