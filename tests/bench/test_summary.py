from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.bench.schedule import schedule
from artifact.bench.summary import rate, summarise
from artifact.errors import VerificationError
from artifact.model.manifest import Metric as ManifestMetric
from artifact.model.manifest import StatisticsRules
from artifact.model.protocol import Protocol
from artifact.model.results import Comparison, Metric, Sample, SummaryRow
from artifact.model.workload import Shape, Workload

#: The published run of 2026-09-21: position, backend, length, then the three rounds in ms.
PUBLISHED = """
0 fa3 4096 1.3179609680175781 1.3908067321777344 1.4447817993164063
0 fa3 8192 5.254291381835937 5.2478369140625 5.2577392578125
0 fa3 16384 20.44233642578125 20.50056640625 20.5923974609375
1 v1 4096 2.58128936768 2.58498596191 2.58051757812
1 v1 8192 9.25581298828 9.28579589844 9.30924865723
1 v1 16384 35.3456933594 35.3124731445 35.3770800781
2 v2 4096 1.66002334595 1.66307617188 1.6333770752
2 v2 8192 6.10557373047 6.13873779297 6.15002502441
2 v2 16384 23.7090405273 23.7252880859 23.5249243164
3 v4 4096 1.48040100098 1.46422546387 1.46265335083
3 v4 8192 5.47535095215 5.45627929687 5.4329876709
3 v4 16384 21.2085913086 21.1821435547 20.9237280273
4 v3 4096 1.39186309814 1.40790298462 1.39671051025
4 v3 8192 5.29708068848 5.31597290039 5.28245300293
4 v3 16384 20.7590039063 20.7938671875 20.8100439453
5 tilelang 4096 1.6484440612792968 1.6510588073730468 1.7252786254882813
5 tilelang 8192 6.211298828125 6.3070001220703125 6.2545556640625
5 tilelang 16384 23.9559765625 24.203779296875 24.26598388671875
6 triton 4096 1.6855709838867188 1.754219970703125 1.8057185363769532
6 triton 8192 6.633601684570312 6.684990234375 6.674417724609375
6 triton 16384 25.75680419921875 25.9038623046875 25.965078125
7 triton-ws 4096 1.8823226928710937 1.94765869140625 1.921661376953125
7 triton-ws 8192 6.856834716796875 6.965403442382812 6.9945703125
7 triton-ws 16384 26.4671484375 26.626416015625 26.63458251953125
8 fa3 4096 1.3226588439941407 1.397989501953125 1.5033905029296875
8 fa3 8192 5.347284545898438 5.379610595703125 5.387033081054687
8 fa3 16384 20.8184912109375 20.85906005859375 20.9091552734375
"""

#: The worklog's table: median ms and TFLOPS at 4096, 8192 and 16384.
TABLE = {
    "fa3": "1.3944 / 394.3 5.3025 / 414.7 20.7054 / 424.8",
    "v1": "2.5813 / 213.0 9.2858 / 236.8 35.3457 / 248.9",
    "v2": "1.6600 / 331.2 6.1387 / 358.2 23.7090 / 371.0",
    "v4": "1.4642 / 375.5 5.4563 / 403.0 21.1821 / 415.3",
    "v3": "1.3967 / 393.6 5.2971 / 415.1 20.7939 / 423.0",
    "tilelang": "1.6511 / 333.0 6.2546 / 351.6 24.2038 / 363.4",
    "triton": "1.7542 / 313.4 6.6744 / 329.5 25.9039 / 339.6",
    "triton-ws": "1.9217 / 286.1 6.9654 / 315.7 26.6264 / 330.4",
}
LENGTHS = (4096, 8192, 16384)
BACKENDS = tuple(TABLE)
WORKLOAD = Workload(
    name="prefill",
    title="Causal prefill",
    device="gpu",
    comparable=True,
    seed=42,
    shapes=tuple(Shape(name=f"S={s}", dims={"B": 4, "H": 32, "S": s, "D": 128}) for s in LENGTHS),
    protocols={"paper": "paper"},
)
METRIC = Metric(name="TFLOPS", work="2*B*H*S*S*D", per_second=1e12)
RULES = StatisticsRules(confidence=0.95, tie=0.01, max_drift=0.05)


def protocol(order: str = "paper", rounds: int = 3) -> Protocol:
    return Protocol(
        name="p", clock="cuda-events", order=order, warmup=50, repeat=200, rounds=rounds, seed=42
    )


def sample(backend: str, shape: str, position: int, round_: int, ms: float, **more: Any) -> Sample:
    return Sample(backend=backend, shape=shape, position=position, round=round_, ms=ms, **more)


def published() -> list[Sample]:
    rows = [line.split() for line in PUBLISHED.split("\n") if line]
    return [
        sample(backend, f"S={length}", int(position), round_, float(ms))
        for position, backend, length, *times in rows
        for round_, ms in enumerate(times)
    ]


def summarised(
    samples: list[Sample], **changes: Any
) -> tuple[tuple[SummaryRow, ...], tuple[Comparison, ...]]:
    arguments: dict[str, Any] = {
        "workload": WORKLOAD,
        "backends": BACKENDS,
        "anchor": "fa3",
        "metric": METRIC,
        "rules": RULES,
        "protocol": protocol(),
        **changes,
    }
    return summarise(samples, **arguments)


def interleaved(times: dict[str, float], rounds: int = 9) -> list[Sample]:
    order = protocol("interleaved", rounds)
    return [
        sample(w.backend, w.shape, w.position, w.round, times[w.backend] * (1 + w.round / 1000))
        for w in schedule(order, tuple(times), ("S=4096",), None)
    ]


def test_the_published_samples_have_the_windows_of_the_schedule() -> None:
    windows = schedule(protocol(), BACKENDS, [s.name for s in WORKLOAD.shapes], "fa3")
    assert [(s.position, s.round, s.backend, s.shape) for s in published()] == [
        (w.position, w.round, w.backend, w.shape) for w in windows
    ]


def test_the_published_table_comes_out_of_the_published_samples() -> None:
    rows, _ = summarised(published())
    assert [(r.backend, r.shape) for r in rows] == [
        (b, f"S={s}") for b in BACKENDS for s in LENGTHS
    ]
    found = {
        backend: " ".join(f"{r.median_ms:.4f} / {r.rate:.1f}" for r in rows if r.backend == backend)
        for backend in BACKENDS
    }
    assert found == TABLE
    assert {r.backend: r.samples for r in rows} == {b: 6 if b == "fa3" else 3 for b in BACKENDS}


def test_the_published_range_and_drift_come_out_too() -> None:
    rows, comparisons = summarised(published())
    assert (f"{rows[0].min_ms:.4f}", f"{rows[0].max_ms:.4f}") == ("1.3180", "1.5034")
    drifts = [f"{c.drift:+.2%}" for c in comparisons if c.backend == "fa3" and c.drift is not None]
    assert drifts == ["+0.52%", "+2.39%", "+1.75%"]
    v1 = next(r for r in rows if (r.backend, r.shape) == ("v1", "S=8192"))
    speedups = [
        f"{v1.median_ms / r.median_ms:.2f}"
        for r in rows
        if r.shape == "S=8192" and r.backend in ("v4", "v3")
    ]
    assert speedups == ["1.70", "1.75"]


def test_the_published_verdicts_claim_no_win() -> None:
    _, comparisons = summarised(published())
    verdicts = {(c.backend, c.shape): c.verdict for c in comparisons}
    assert not [key for key, verdict in verdicts.items() if verdict == "FASTER"]
    for backend in ("v3", "v4"):
        assert {verdicts[backend, f"S={s}"] for s in LENGTHS} == {"UNRESOLVED"}
    for backend in ("v1", "v2", "tilelang", "triton", "triton-ws"):
        assert {verdicts[backend, f"S={s}"] for s in LENGTHS} == {"SLOWER"}
    tied = next(c for c in comparisons if (c.backend, c.shape) == ("v3", "S=8192"))
    assert tied.ratio is not None
    assert tied.low is not None
    assert tied.high is not None
    assert tied.low < 1 < tied.ratio < tied.high
    # The gap is far below what these samples could have shown.
    assert tied.detectable is not None
    assert tied.detectable > 0.02 > 10 * (tied.ratio - 1)


def test_the_anchor_comes_first_and_is_called_so() -> None:
    rows, comparisons = summarised(published(), backends=("v3", "v1", *BACKENDS))
    assert list(dict.fromkeys(r.backend for r in rows))[:3] == ["fa3", "v3", "v1"]
    for c in comparisons[:3]:
        assert (c.backend, c.anchor, c.verdict, c.ratio) == ("fa3", "fa3", "ANCHOR", 1.0)
        assert (c.low, c.high, c.method, c.detectable) == (None, None, None, None)
    assert comparisons[1].reason == "it drifted by +2.39 % from its first to its last pass"


def test_without_an_anchor_there_is_no_ratio() -> None:
    samples = [s for s in published() if s.backend != "fa3"]
    rows, comparisons = summarised(samples, backends=BACKENDS[1:], anchor=None)
    assert len(rows) == len(comparisons) == 21
    assert {(c.verdict, c.ratio, c.anchor) for c in comparisons} == {("NO ANCHOR", None, None)}


@settings(max_examples=300)
@given(st.floats(1e-6, 1e6), st.integers(1, 10**18))
def test_tflops_are_those_of_the_printed_formula_to_the_last_bit(ms: float, work: int) -> None:
    assert rate(work, ms, 1e12) == work / (ms * 1e9)


def test_rates_stand_at_median_slowest_and_fastest() -> None:
    rows, _ = summarised(published())
    for row, length in zip(rows, LENGTHS * 8, strict=True):
        work = 2 * 4 * 32 * length * length * 128
        assert row.rate == work / (row.median_ms * 1e9)
        assert row.rate_min == work / (row.max_ms * 1e9)
        assert row.rate_max == work / (row.min_ms * 1e9)
        assert row.rate_min <= row.rate <= row.rate_max


def test_the_manifests_metric_serves_as_well() -> None:
    metric = ManifestMetric(**METRIC.model_dump())
    assert summarised(published(), metric=metric) == summarised(published())


def test_invalid_samples_never_enter() -> None:
    samples = published()
    wild = [
        s.model_copy(update={"ms": s.ms * 100, "valid": False, "reasons": ("throttled",)})
        for s in samples
    ]
    assert summarised(wild + samples) == summarised(samples)


def test_a_shape_without_a_valid_sample_says_so() -> None:
    samples = [
        s.model_copy(update={"valid": False, "reasons": ("throttled",)})
        if (s.backend, s.shape) == ("v3", "S=8192")
        else s
        for s in published()
    ]
    rows, comparisons = summarised(samples)
    assert ("v3", "S=8192") not in [(r.backend, r.shape) for r in rows]
    found = next(c for c in comparisons if (c.backend, c.shape) == ("v3", "S=8192"))
    assert (found.verdict, found.ratio) == ("UNRESOLVED", None)
    assert found.reason == "no valid sample of the backend"


def test_an_invalid_pass_of_the_anchor_decides_nothing() -> None:
    samples = [
        s.model_copy(update={"valid": False, "reasons": ("throttled",)}) if s.position == 8 else s
        for s in published()
    ]
    _, comparisons = summarised(samples)
    assert {c.verdict for c in comparisons} == {"ANCHOR", "UNRESOLVED"}
    assert {c.drift for c in comparisons} == {None}
    assert comparisons[0].reason == "its drift is not known"


def test_what_was_not_measured_has_no_entry() -> None:
    samples = [s for s in published() if s.position < 2 and s.shape == "S=4096"]
    rows, comparisons = summarised(samples)
    assert [(r.backend, r.samples) for r in rows] == [("fa3", 3), ("v1", 3)]
    assert [c.verdict for c in comparisons] == ["ANCHOR", "UNRESOLVED"]
    assert summarised([]) == ((), ())


def test_interleaved_rounds_are_paired() -> None:
    samples = interleaved({"a": 1.0, "b": 1.1, "c": 0.9, "d": 1.001})
    _, comparisons = summarised(
        samples, backends=("b", "a", "c", "d"), anchor="a", protocol=protocol("interleaved", 9)
    )
    assert [(c.backend, c.verdict) for c in comparisons] == [
        ("a", "ANCHOR"), ("b", "SLOWER"), ("c", "FASTER"), ("d", "TIE"),
    ]  # fmt: skip
    assert {c.method for c in comparisons[1:]} == {"sign test, 9 rounds, coverage 0.961"}
    assert comparisons[0].drift == pytest.approx(0.008 / 1.004)
    assert comparisons[1].ratio == pytest.approx(1 / 1.1)
    assert comparisons[0].reason.endswith("over the rounds")


def test_an_invalid_interleaved_sample_takes_its_round_along() -> None:
    samples = interleaved({"a": 1.0, "b": 1.1})
    i = next(i for i, s in enumerate(samples) if s.backend == "a" and s.round == 4)
    samples[i] = samples[i].model_copy(
        update={"ms": 99.0, "valid": False, "reasons": ("throttled",)}
    )
    _, comparisons = summarised(
        samples, backends=("a", "b"), anchor="a", protocol=protocol("interleaved", 9)
    )
    assert comparisons[1].method == "sign test, 8 rounds, coverage 0.992"
    assert comparisons[1].verdict == "SLOWER"


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(81)))
def test_the_order_of_the_samples_does_not_matter(order: list[int]) -> None:
    samples = published()
    rows, comparisons = summarised([samples[i] for i in order])
    expected_rows, expected = summarised(samples)
    assert rows == expected_rows
    assert [c.verdict for c in comparisons] == [c.verdict for c in expected]
    assert [(c.ratio, c.low, c.high) for c in comparisons] == [
        (c.ratio, c.low, c.high) for c in expected
    ]


@pytest.mark.parametrize(
    ("extra", "what", "where"),
    [
        (sample("fa2", "S=4096", 0, 0, 1.0), "of no backend", "samples[81].backend"),
        (sample("v1", "S=1", 1, 0, 1.0), "of no shape", "samples[81].shape"),
        (sample("v1", "S=4096", 1, 2, 1.0), "two valid samples", "samples[81]"),
    ],
)
def test_samples_of_another_run_are_refused(extra: Sample, what: str, where: str) -> None:
    with pytest.raises(VerificationError, match=what) as caught:
        summarised([*published(), extra])
    assert caught.value.where == where


def test_one_interleaved_round_twice_is_refused_even_at_another_position() -> None:
    samples = interleaved({"a": 1.0, "b": 1.1})
    twice = samples[0].model_copy(update={"position": 99})
    with pytest.raises(VerificationError, match="two valid samples"):
        summarised(
            [*samples, twice],
            backends=("a", "b"),
            anchor="a",
            protocol=protocol("interleaved", 9),
        )


@pytest.mark.parametrize("work", ["B-B", "B-S", "*".join("S" * 28)])
def test_work_that_makes_no_rate_is_refused(work: str) -> None:
    with pytest.raises(VerificationError, match="no work"):
        summarised(published(), metric=METRIC.model_copy(update={"work": work}))


@pytest.mark.parametrize("per_second", [1e-300, 5e-324, 1e308])
def test_a_unit_that_makes_no_number_is_refused(per_second: float) -> None:
    metric = METRIC.model_copy(update={"per_second": per_second})
    samples = [sample("v1", "S=4096", 0, 0, 1e-9), sample("v1", "S=4096", 0, 1, 1e12)]
    with pytest.raises(VerificationError, match="too small or too large"):
        summarised(samples, metric=metric, anchor=None)


@pytest.mark.parametrize("ms", [1e-10, 1e13, 0.0, -1.0])
def test_a_time_that_no_clock_shows_is_no_sample(ms: float) -> None:
    with pytest.raises(ValueError, match="ms"):
        sample("v1", "S=4096", 0, 0, ms)


def test_extreme_times_still_make_documents() -> None:
    samples = [
        sample(b, "S=4096", p, r, ms)
        for p, b in ((0, "fa3"), (1, "v1"), (2, "fa3"))
        for r, ms in enumerate((1e-9, 1.0, 1e12))
    ]
    rows, comparisons = summarised(samples)
    for item in (*rows, *comparisons):
        assert (
            type(item).model_validate_json(json.dumps(item.model_dump(), allow_nan=False)) == item
        )
