from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.bench.claims import Figure, allowed, figures, judge
from artifact.model.manifest import ClaimRules, StatisticsRules
from artifact.model.protocol import Protocol
from artifact.model.results import (
    ArtifactRef,
    BackendRun,
    Device,
    Headings,
    Metric,
    RunResults,
    Sample,
    State,
    ToolRef,
)
from artifact.model.workload import Shape, Workload

RULES = ClaimRules(ratio=0.05, absolute=0.1, resolution=0.15)
LOOSE = ClaimRules(ratio=0.05, absolute=0.1)
STATISTICS = StatisticsRules(confidence=0.95, tie=0.01, max_drift=0.05)


def figure(value: float, low: float | None = None, high: float | None = None) -> Figure:
    return Figure(value, low, high, "made up")


def tight(value: float) -> Figure:
    return figure(value, value * 0.999, value * 1.001)


def outcome(published: Figure, run: Figure, rules: ClaimRules = RULES, kind="ratio"):
    found, reason = judge(kind, published, run, rules)
    return found, reason.code


@pytest.mark.parametrize("value", [0.54, 1.0, 1.3944, 35.3])
def test_both_ends_of_the_zone_belong_to_it(value):
    low, high = allowed(value, 0.05)
    assert (low, high) == (value / 1.05, value * 1.05)
    for edge in (low, high):
        assert outcome(tight(value), tight(edge)) == ("REPRODUCED", "within")
    below, above = math.nextafter(low, 0), math.nextafter(high, 9e9)
    for outside in (below, above):
        assert outcome(figure(value), figure(outside), LOOSE) == ("NOT REPRODUCED", "outside")
        # Its interval reaches into the zone: noise explains the last digit.
        assert outcome(tight(value), tight(outside)) == ("INCOMPARABLE", "undecided")


def test_each_kind_has_its_own_tolerance():
    assert outcome(tight(1.0), tight(1.08), kind="ratio")[0] == "NOT REPRODUCED"
    assert outcome(tight(1.0), tight(1.08), kind="absolute")[0] == "REPRODUCED"


def test_not_reproduced_needs_the_whole_interval_outside():
    published = tight(1.0)
    assert outcome(published, figure(1.10, 1.06, 1.12)) == ("NOT REPRODUCED", "outside")
    assert outcome(published, figure(1.10, 1.05, 1.12)) == ("INCOMPARABLE", "undecided")
    assert outcome(published, figure(0.90, 0.88, 0.94)) == ("NOT REPRODUCED", "outside")
    assert outcome(published, figure(0.90, 0.88, 0.953)) == ("INCOMPARABLE", "undecided")


def test_what_the_published_samples_leave_open_is_not_held_against_a_run():
    vague = figure(1.0, 0.92, 1.08)
    assert outcome(vague, tight(1.07)) == ("INCOMPARABLE", "undecided")
    assert outcome(vague, tight(1.09)) == ("NOT REPRODUCED", "outside")
    assert outcome(vague, tight(0.93)) == ("INCOMPARABLE", "undecided")


def test_an_interval_on_both_sides_decides_nothing():
    assert outcome(tight(1.0), figure(1.2, 0.5, 1.5)) == ("INCOMPARABLE", "undecided")


def test_resolution_binds_an_agreement_on_either_side():
    at, beyond = figure(1.0, 1.0, 1.15), figure(1.0, 1.0, 1.1501)
    assert outcome(tight(1.0), at) == ("REPRODUCED", "within")
    for pair in ((tight(1.0), beyond), (beyond, tight(1.0))):
        found, reason = judge("ratio", *pair, RULES)
        assert (found, reason.code) == ("INCOMPARABLE", "resolution")
        assert "15 %" in reason.what and reason.next
    assert outcome(tight(1.0), figure(1.0, 0.5, 2.0), LOOSE) == ("REPRODUCED", "within")


def test_a_low_bound_far_off_counts_like_a_high_one():
    assert figure(1.0, 1 / 1.2, 1.0).reach == pytest.approx(0.2)
    assert outcome(tight(1.0), figure(1.0, 0.8, 1.0)) == ("INCOMPARABLE", "resolution")


def test_resolution_does_not_keep_a_clear_difference_from_being_one():
    assert outcome(tight(1.0), figure(2.0, 1.5, 3.0)) == ("NOT REPRODUCED", "outside")


def test_without_an_interval_only_a_manifest_without_resolution_decides():
    for pair in ((figure(1.0), tight(1.0)), (tight(1.0), figure(1.0)), (tight(1.0), figure(9.0))):
        assert outcome(*pair) == ("INCOMPARABLE", "no-interval")
    assert outcome(figure(1.0), figure(1.04), LOOSE) == ("REPRODUCED", "within")
    assert outcome(figure(1.0), figure(1.06), LOOSE) == ("NOT REPRODUCED", "outside")


def test_an_estimate_outside_of_its_own_interval_widens_it():
    # The ratio of medians is not the estimate that the interval was built around.
    assert figure(1.2, 1.0, 1.1).bounds == (1.0, 1.2)
    assert outcome(tight(1.0), figure(1.2, 1.0, 1.1))[0] == "INCOMPARABLE"


times = st.floats(0.01, 100)


@settings(max_examples=60, deadline=None)
@given(times, times)
def test_agreement_is_mutual(a, b):
    low, high = allowed(a, 0.05)
    if math.isclose(b, low) or math.isclose(b, high):
        return
    assert outcome(figure(a), figure(b), LOOSE) == outcome(figure(b), figure(a), LOOSE)


@settings(max_examples=60, deadline=None)
@given(times, st.floats(1, 1.15), st.floats(1, 1.15))
def test_every_figure_reproduces_itself(value, down, up):
    own = figure(value, value / down, value * up)
    assert judge("ratio", own, own, ClaimRules(ratio=0.05, absolute=0.05, resolution=0.1501))[
        0
    ] == ("REPRODUCED")


def results(times: dict[str, list[float]], order: str = "interleaved") -> RunResults:
    rounds = max(map(len, times.values()))
    protocol = Protocol(
        name="toy", clock="host-monotonic", order=order, warmup=1, repeat=3, rounds=rounds
    )
    return RunResults(
        results_version=1,
        run_id="toy",
        origin="measured",
        complete=False,
        state=State(phase="timing"),
        started="2026-09-21T10:05:14Z",
        artifact=ArtifactRef(name="toy", version="1", content_id=None, lock_blake3=None),
        tool=ToolRef(name="artifact", version="1", python="3.12", command=()),
        machine=None,
        device=Device(kind="cpu", name="cpu"),
        workload=Workload(
            name="toy", title="Toy", device="cpu", comparable=True, seed=1,
            shapes=(Shape(name="N=1", dims={"N": 1}),), protocols={order: "toy"},
            default_order=order,
        ),
        protocol=protocol,
        protocol_digest=protocol.digest(),
        metric=Metric(name="rate", work="N", per_second=1.0),
        headings=Headings(title="toy", axis="N"),
        backends=tuple(
            BackendRun(
                name=name, title=name, anchor=name == "a", environment=None, worker=None,
                worker_blake3=None,
            )
            for name in times
        ),
        samples=tuple(
            Sample(backend=name, shape="N=1", position=i, round=i, ms=ms)
            for name, values in times.items()
            for i, ms in enumerate(values)
        ),
    )  # fmt: skip


def test_the_figures_of_an_interleaved_run():
    values = [float(i) for i in range(1, 10)]
    found, drift = figures(results({"a": values, "b": [2 * v for v in values]}), STATISTICS)
    # The second smallest and largest of nine cover the median at 1 - 20/512.
    assert found["absolute", "a", "N=1"] == Figure(
        5.0, 2.0, 8.0, "sign test, 9 samples, coverage 0.961"
    )
    ratio = found["ratio", "b", "N=1"]
    assert (ratio.value, ratio.low, ratio.high) == (0.5, 0.5, 0.5)
    assert ("ratio", "a", "N=1") not in found
    assert drift["N=1"] == pytest.approx(8 / 5)


@pytest.mark.parametrize(
    ("number", "bounds", "basis"),
    [
        (1, (None, None), "1 sample, no interval"),
        (2, (None, None), "2 samples, no interval"),
        (3, (1.0, 3.0), "range of 3 samples, coverage 0.750"),
        (5, (1.0, 5.0), "range of 5 samples, coverage 0.938"),
        (6, (1.0, 6.0), "sign test, 6 samples, coverage 0.969"),
    ],
)
def test_few_samples_have_their_range(number, bounds, basis):
    found, _ = figures(results({"a": [float(i + 1) for i in range(number)]}), STATISTICS)
    median = found["absolute", "a", "N=1"]
    assert (median.low, median.high) == bounds and median.basis == basis


def test_invalid_samples_are_no_figures():
    run = results({"a": [1.0] * 3, "b": [2.0] * 3})
    spoiled = tuple(
        s.model_copy(update={"valid": False, "reasons": ("no",)}) if s.backend == "b" else s
        for s in run.samples
    )
    found, _ = figures(run.model_copy(update={"samples": spoiled}), STATISTICS)
    assert set(found) == {("absolute", "a", "N=1")}


def test_an_invalid_sample_widens_no_interval():
    run = results({"a": [1.0, 2.0, 3.0, 9.0]})
    *valid, last = run.samples
    spoiled = (*valid, last.model_copy(update={"valid": False, "reasons": ("no",)}))
    found, _ = figures(run.model_copy(update={"samples": spoiled}), STATISTICS)
    median = found["absolute", "a", "N=1"]
    assert (median.value, median.low, median.high) == (2.0, 1.0, 3.0)
