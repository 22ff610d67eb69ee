"""Every obstacle and every caveat, on the published run of this artifact and copies of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artifact.bench.check import load_results
from artifact.bench.compare import Claim, RunComparison, compare
from artifact.errors import ExitCode
from artifact.integrity.documents import load_manifest
from artifact.model.manifest import Manifest
from artifact.model.results import Interpreter, RunResults, State

ROOT = Path(__file__).resolve().parents[2]
RUN = "20260921-h800-bf16"
RATIOS, TIMES = 7 * 3, 8 * 3


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_manifest(ROOT)


@pytest.fixture(scope="module")
def published() -> RunResults:
    return load_results(ROOT / "results" / RUN)


@pytest.fixture(scope="module")
def run(published) -> RunResults:
    """A measurement of the same figures: what this tool would have recorded."""
    return published.model_copy(
        update={
            "run_id": "20261201T000000Z-h800-pcie-bf16",
            "origin": "measured",
            "device": published.device.model_copy(
                update={"facts": {**published.device.facts, "power_limit_w": 350.0, "ecc": True}}
            ),
        }
    )


def but(results: RunResults, **changes: Any) -> RunResults:
    """``results`` with fields replaced; ``a__b`` replaces field b of a."""
    for place, value in changes.items():
        *path, last = place.split("__")
        update = {last: value}
        if path:
            (field,) = path
            update = {field: getattr(results, field).model_copy(update=update)}
        results = results.model_copy(update=update)
    return results


def scaled(results: RunResults, backend: str, factor: float, **where: Any) -> RunResults:
    """With the times of one backend multiplied; ``where`` picks samples by their fields."""
    samples = tuple(
        s.model_copy(update={"ms": s.ms * factor})
        if s.backend == backend and all(getattr(s, k) == v for k, v in where.items())
        else s
        for s in results.samples
    )
    return but(results, samples=samples)


def versions(results: RunResults, backend: str, **changed: str) -> RunResults:
    backends = tuple(
        b.model_copy(update={"versions": {**b.versions, **changed}}) if b.name == backend else b
        for b in results.backends
    )
    return but(results, backends=backends)


def without(results: RunResults, *names: str) -> RunResults:
    return but(
        results,
        backends=tuple(b for b in results.backends if b.name not in names),
        samples=tuple(s for s in results.samples if s.backend not in names),
        checks=tuple(c for c in results.checks if c.backend not in names),
    )


def codes(claim: Claim) -> set[str]:
    return {reason.code for reason in claim.reasons}


def caveats(claim: Claim) -> dict[str, str]:
    return {reason.code: reason.what for reason in claim.caveats}


def by(comparison: RunComparison, kind: str, backend: str) -> list[Claim]:
    return [c for c in comparison.claims if (c.kind, c.backend) == (kind, backend)]


def one(comparison: RunComparison, kind: str, backend: str, shape: str = "S=8192") -> Claim:
    (claim,) = (c for c in by(comparison, kind, backend) if c.shape == shape)
    return claim


def refused(comparison: RunComparison, code: str, *kinds: str) -> str:
    """Every claim of ``kinds`` is INCOMPARABLE for ``code`` alone, others are not; its words."""
    texts = set()
    for claim in comparison.claims:
        if claim.kind in (kinds or ("ratio", "absolute")):
            assert claim.outcome == "INCOMPARABLE" and codes(claim) == {code}
            # Both figures stand there all the same, side by side.
            assert claim.run is not None and claim.published is not None
            assert claim.difference is not None
            texts |= {reason.what for reason in claim.reasons}
            assert all(reason.next for reason in claim.reasons)
        else:
            assert claim.outcome == "REPRODUCED"
    assert len(texts) == 1
    return texts.pop()


# --- verdicts


def test_the_published_run_reproduces_itself_and_that_shows_nothing(published, manifest):
    comparison = compare(published, published, manifest)
    assert comparison.counts("ratio") == {
        "REPRODUCED": RATIOS, "NOT REPRODUCED": 0, "INCOMPARABLE": 0
    }  # fmt: skip
    assert comparison.counts("absolute")["REPRODUCED"] == TIMES
    assert comparison.exit_code == ExitCode.DONE
    assert all("itself" in caveats(claim) for claim in comparison.claims)


def test_a_measurement_of_the_same_is_reproduced(run, published, manifest):
    comparison = compare(run, published, manifest)
    assert comparison.outcome == "REPRODUCED"
    assert comparison.counts()["REPRODUCED"] == RATIOS + TIMES
    assert not comparison.obstacles and not comparison.only_run and not comparison.only_published
    assert not any("itself" in caveats(claim) for claim in comparison.claims)
    assert not any(claim.cross_device for claim in comparison.claims)


def test_the_anchor_claims_times_and_no_ratio(run, published, manifest):
    comparison = compare(run, published, manifest)
    assert not by(comparison, "ratio", "fa3") and len(by(comparison, "absolute", "fa3")) == 3
    order = list(dict.fromkeys(c.backend for c in comparison.claims if c.kind == "absolute"))
    assert order == ["fa3", "v1", "v2", "v4", "v3", "tilelang", "triton", "triton-ws"]


def test_one_slower_backend_is_not_reproduced(run, published, manifest):
    comparison = compare(scaled(run, "v4", 1.3), published, manifest)
    assert {c.outcome for c in by(comparison, "ratio", "v4")} == {"NOT REPRODUCED"}
    assert {c.outcome for c in by(comparison, "absolute", "v4")} == {"NOT REPRODUCED"}
    assert comparison.counts()["NOT REPRODUCED"] == 6
    assert comparison.exit_code == ExitCode.VERIFICATION
    assert one(comparison, "absolute", "v4").difference == pytest.approx(0.3)


def test_a_whole_machine_that_is_slower_keeps_its_ratios(run, published, manifest):
    for backend in [b.name for b in run.backends]:
        run = scaled(run, backend, 1.2)
    comparison = compare(run, published, manifest)
    assert comparison.counts("ratio")["REPRODUCED"] == RATIOS
    assert comparison.counts("absolute")["NOT REPRODUCED"] == TIMES


@pytest.mark.parametrize(
    ("factor", "outcome"),
    [
        (1.0, "REPRODUCED"),
        (1.0499, "REPRODUCED"),
        (1.0501, "INCOMPARABLE"),
        (1.2, "NOT REPRODUCED"),
    ],
)
def test_near_the_tolerance(run, published, manifest, factor, outcome):
    # The published range of v4 at this length is 0.8 %: only beyond it is a difference certain.
    claim = one(compare(scaled(run, "v4", factor), published, manifest), "absolute", "v4")
    assert claim.outcome == outcome


def test_tolerances_are_the_manifests(run, published, manifest):
    strict = but(manifest, claims__ratio=0.001, claims__absolute=0.001)
    slower = scaled(run, "v1", 1.01)
    assert one(compare(slower, published, manifest), "absolute", "v1").outcome == "REPRODUCED"
    assert one(compare(slower, published, strict), "absolute", "v1").outcome == "NOT REPRODUCED"


def test_a_noisy_claim_is_not_reproduced_by_chance(run, published, manifest):
    # S=4096 of TileLang is the noisiest: its ratio's interval reaches 10.7 % from it.
    narrow = but(manifest, claims__resolution=0.1)
    claim = one(compare(run, published, narrow), "ratio", "tilelang", "S=4096")
    assert claim.outcome == "INCOMPARABLE" and codes(claim) == {"resolution"}


# --- what forbids every comparison


def test_an_incomplete_run(run, published, manifest):
    ended = but(run, complete=False, state=State(phase="timing"))
    said = refused(compare(ended, published, manifest), "incomplete")
    assert "the run is not complete" in said and "timing" in said
    said = refused(compare(run, but(ended, origin="published"), manifest), "incomplete")
    assert "the published run is not complete" in said


def test_a_workload_that_is_not_comparable(run, published, manifest):
    demo = but(run, workload__comparable=False, workload__note="A demonstration.")
    assert "A demonstration." in refused(compare(demo, published, manifest), "not-comparable")


def test_an_unlocked_run(run, published, manifest):
    interpreter = Interpreter(
        environment="main", python="3.12.1", implementation="CPython", locked=False,
        differences=("torch: 2.10.0, not 2.11.0", "b", "c", "d"),
    )  # fmt: skip
    unlocked = but(run, marks=("UNLOCKED",), interpreters=(interpreter,))
    comparison = compare(unlocked, published, manifest)
    said = refused(comparison, "unlocked")
    assert "torch: 2.10.0, not 2.11.0" in said and "1 more" in said
    assert "artifact env create main" in (comparison.obstacles[0].next or "")
    # Without the mark the fact itself counts, and without the fact the mark.
    refused(compare(but(unlocked, marks=()), published, manifest), "unlocked")
    refused(compare(but(run, marks=("UNLOCKED",)), published, manifest), "unlocked")


def test_a_modified_run(run, published, manifest):
    modified = but(run, marks=("MODIFIED",), artifact__modified=("kernels/v4.co",))
    assert "kernels/v4.co" in refused(compare(modified, published, manifest), "modified")
    refused(compare(but(run, marks=("MODIFIED",)), published, manifest), "modified")


def test_another_workload(run, published, manifest):
    said = refused(compare(but(run, workload__name="other"), published, manifest), "workload")
    assert "other" in said and "prefill-d128" in said


@pytest.mark.parametrize(("field", "value"), [("warmup", 5), ("repeat", 20)])
def test_a_sample_of_something_else(run, published, manifest, field, value):
    other = but(run, **{f"protocol__{field}": value})
    said = refused(compare(other, published, manifest), f"protocol-{field}")
    assert f"{field} is {value} in the run" in said


def test_another_clock(run, published, manifest):
    other = but(run, protocol__clock="host-monotonic")
    refused(compare(other, published, manifest), "protocol-clock")


def test_a_run_of_the_cpu_demonstration(published, manifest):
    path = ROOT / "tests/assets/results/cpu-complete.json"
    from artifact.model.load import load_json

    demo = load_json("results", RunResults, path.read_bytes(), str(path))
    comparison = compare(demo, published, manifest)
    assert comparison.outcome == "INCOMPARABLE" and not comparison.claims
    assert comparison.exit_code == ExitCode.MEASUREMENT
    found = {reason.code for reason in comparison.obstacles}
    assert {"not-comparable", "workload", "unlocked", "protocol-clock"} <= found
    assert "cpu-direct" in comparison.only_run and "v4" in comparison.only_published
    assert "S=384" in comparison.only_run and "S=4096" in comparison.only_published
    # Nor can it be compared with itself.
    itself = compare(demo, demo, manifest)
    assert itself.claims and itself.outcome == "INCOMPARABLE"
    assert all("not-comparable" in codes(claim) for claim in itself.claims)


# --- devices


def test_another_device(run, published, manifest):
    h200 = but(run, device__name="NVIDIA H200", device__target="h200")
    said = refused(compare(h200, published, manifest), "device")
    assert "NVIDIA H200" in said and "NVIDIA H800 PCIe" in said


def test_another_device_if_asked_for(run, published, manifest):
    h200 = but(run, device__name="NVIDIA H200", device__target="h200", device__facts={})
    comparison = compare(scaled(h200, "v1", 2.0), published, manifest, cross_device=True)
    assert all(claim.cross_device for claim in comparison.claims)
    assert all("NVIDIA H200" in caveats(claim)["device"] for claim in comparison.claims)
    assert {c.outcome for c in by(comparison, "absolute", "v1")} == {"NOT REPRODUCED"}
    assert {c.outcome for c in by(comparison, "absolute", "v2")} == {"REPRODUCED"}


def test_asking_lifts_nothing_but_the_device(run, published, manifest):
    h200 = but(run, device__name="NVIDIA H200", device__target="h200", marks=("MODIFIED",))
    comparison = compare(h200, published, manifest, cross_device=True)
    refused(comparison, "modified")
    assert not any(claim.cross_device for claim in comparison.claims)


def test_asking_for_other_devices_marks_nothing_on_the_same_one(run, published, manifest):
    comparison = compare(run, published, manifest, cross_device=True)
    assert not any(claim.cross_device for claim in comparison.claims)


def test_another_power_limit(run, published, manifest):
    known = but(published, device__facts={"power_limit_w": 350.0})
    assert compare(run, known, manifest).outcome == "REPRODUCED"
    capped = but(run, device__facts={"power_limit_w": 300.5})
    said = refused(compare(capped, known, manifest), "device-power-limit-w")
    assert "the power limit in W was 300.5 in the run and 350 in the published run" in said
    assert compare(capped, known, manifest, cross_device=True).claims[0].cross_device


def test_another_ecc_mode(run, published, manifest):
    pair = (but(run, device__facts={"ecc": v}) for v in (True, False))
    assert "ECC was on in the run and off" in refused(compare(*pair, manifest), "device-ecc")


def test_two_names_of_one_target(run, published, manifest):
    renamed = but(run, device__name="NVIDIA H800 PCIe 80GB")
    comparison = compare(renamed, published, manifest)
    assert comparison.outcome == "REPRODUCED"
    assert "device-name" in caveats(comparison.claims[0])
    # Without a target on either side only the names can tell.
    refused(compare(but(renamed, device__target=None), published, manifest), "device")
    assert compare(but(run, device__target=None), published, manifest).outcome == "REPRODUCED"


# --- protocol: what ratios bear and times do not


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [("max_temperature_c", 80.0, "protocol-max-temperature-c"),
     ("max_temperature_c", None, "protocol-max-temperature-c")],
)  # fmt: skip
def test_another_temperature_limit(run, published, manifest, field, value, code):
    comparison = compare(but(run, **{f"protocol__{field}": value}), published, manifest)
    refused(comparison, code, "absolute")
    assert code in caveats(one(comparison, "ratio", "v1"))


def interleaved(results: RunResults) -> RunResults:
    """Every backend nine times at its published median, round by round."""
    medians = {(row.backend, row.shape): row.median_ms for row in results.summary}
    sample = results.samples[0]
    samples = tuple(
        sample.model_copy(
            update={
                "backend": backend, "shape": shape, "round": r, "position": r, "ms": ms + r * 1e-6
            }
        )
        for r in range(9)
        for (backend, shape), ms in medians.items()
    )  # fmt: skip
    return but(results, samples=samples, protocol__order="interleaved", protocol__rounds=9)


def test_interleaved_against_paper_order(run, published, manifest):
    comparison = compare(interleaved(run), published, manifest)
    said = refused(comparison, "protocol-order", "absolute")
    assert "order is interleaved in the run and paper in the published run" in said
    claim = one(comparison, "ratio", "v3")
    assert {"protocol-order", "rounds"} <= caveats(claim).keys()


def test_rounds_seed_and_waiting_forbid_nothing(run, published, manifest):
    other = but(run, protocol__rounds=5, protocol__seed=7, protocol__max_wait_s=1.0)
    comparison = compare(other, published, manifest)
    assert comparison.outcome == "REPRODUCED"
    assert comparison.counts()["INCOMPARABLE"] == 0
    assert "5 rounds" in caveats(comparison.claims[0])["rounds"]


# --- shapes, inputs, anchors, drift


def test_another_shape_of_the_same_name(run, published, manifest):
    first, *rest = run.workload.shapes
    other = first.model_copy(update={"dims": {**first.dims, "H": 8}})
    comparison = compare(but(run, workload__shapes=(other, *rest)), published, manifest)
    for claim in comparison.claims:
        if claim.shape == "S=4096":
            assert claim.outcome == "INCOMPARABLE" and codes(claim) == {"shape"}
            assert "H=8" in claim.reasons[0].what and "H=32" in claim.reasons[0].what
        else:
            assert claim.outcome == "REPRODUCED"


def with_inputs(results: RunResults, digest: str) -> RunResults:
    return but(
        results,
        checks=tuple(c.model_copy(update={"inputs": {"Q": digest}}) for c in results.checks),
    )


def test_other_inputs(run, published, manifest):
    comparison = compare(with_inputs(run, "a" * 64), with_inputs(published, "b" * 64), manifest)
    for claim in comparison.claims:
        assert codes(claim) == {"inputs"} and "Q" in claim.reasons[0].what


def test_unknown_inputs_are_a_caveat(run, published, manifest):
    comparison = compare(with_inputs(run, "a" * 64), published, manifest)
    assert comparison.outcome == "REPRODUCED"
    said = caveats(comparison.claims[0])["inputs-unknown"]
    assert said == "the inputs of the published run are not known by digest; its seed is 42"


def test_a_run_without_the_anchor(run, published, manifest):
    comparison = compare(without(run, "fa3"), published, manifest)
    ratios = [c for c in comparison.claims if c.kind == "ratio"]
    assert len(ratios) == RATIOS
    for claim in ratios:
        assert claim.outcome == "INCOMPARABLE" and codes(claim) == {"anchor"}
        assert claim.reasons[0].what.startswith("FlashAttention-3 was not in this run")
        assert "fa3" in (claim.reasons[0].next or "")
    assert comparison.counts("absolute")["REPRODUCED"] == RATIOS
    assert comparison.only_published == ("fa3",) and comparison.outcome == "REPRODUCED"


def test_a_published_run_without_an_anchor(run, published, manifest):
    comparison = compare(run, without(published, "fa3"), manifest)
    assert {c.reasons[0].what for c in comparison.claims if c.kind == "ratio"} == {
        "the published run has no anchor, so it claims no ratio"
    }


def test_another_anchor(run, published, manifest):
    backends = tuple(b.model_copy(update={"anchor": b.name == "tilelang"}) for b in run.backends)
    comparison = compare(but(run, backends=backends), published, manifest)
    claim = one(comparison, "ratio", "v1")
    assert claim.outcome == "INCOMPARABLE" and "anchor" in codes(claim)
    assert "TileLang" in claim.reasons[0].what and "FlashAttention-3" in claim.reasons[0].what


def test_a_drift_decides_nothing(run, published, manifest):
    drifted = scaled(run, "fa3", 1.06, position=8, shape="S=16384")
    comparison = compare(drifted, published, manifest)
    for claim in comparison.claims:
        assert ("drift" in codes(claim)) == (claim.shape == "S=16384")
    said = one(comparison, "ratio", "v1", "S=16384").reasons[0].what
    assert said.startswith("FlashAttention-3 drifted by +7.8") and "5 %" in said


def test_a_drift_within_the_limit(run, published, manifest):
    # The published drift at 8192 is 2.39 %.
    tight = but(manifest, statistics__max_drift=0.0238)
    assert "drift" in codes(one(compare(run, published, tight), "ratio", "v1"))
    wide = but(manifest, statistics__max_drift=0.0239)
    assert one(compare(run, published, wide), "ratio", "v1").outcome == "REPRODUCED"


def test_a_drift_does_not_reach_interleaved_ratios(run, published, manifest):
    medley = interleaved(run)
    samples = tuple(
        s.model_copy(update={"ms": s.ms * (1 + 0.02 * s.round)}) for s in medley.samples
    )
    comparison = compare(but(medley, samples=samples), published, manifest)
    assert not any("drift" in codes(c) for c in comparison.claims if c.kind == "ratio")
    assert all("drift" in codes(c) for c in comparison.claims if c.kind == "absolute")


def test_no_valid_sample(run, published, manifest):
    samples = tuple(
        s.model_copy(update={"valid": False, "reasons": ("no",)}) if s.backend == "v2" else s
        for s in run.samples
    )
    comparison = compare(but(run, samples=samples), published, manifest)
    for claim in by(comparison, "absolute", "v2"):
        assert claim.outcome == "INCOMPARABLE" and codes(claim) == {"no-samples"}
        assert claim.run is None and claim.published is not None and claim.difference is None


def test_backends_and_shapes_of_one_run_alone(run, published, manifest):
    comparison = compare(without(run, "v1", "triton"), without(published, "v4"), manifest)
    assert comparison.only_run == ("v4",) and comparison.only_published == ("v1", "triton")
    assert {c.backend for c in comparison.claims} == {"fa3", "v2", "v3", "tilelang", "triton-ws"}


# --- libraries and environments


def test_another_version_of_a_library(run, published, manifest):
    comparison = compare(versions(run, "tilelang", tilelang="0.1.8"), published, manifest)
    for kind in ("ratio", "absolute"):
        claim = one(comparison, kind, "tilelang")
        assert claim.outcome == "INCOMPARABLE" and codes(claim) == {"library"}
        assert "tilelang 0.1.8, and with 0.1.9" in claim.reasons[0].what
        assert "artifact env create main" in (claim.reasons[0].next or "")
    assert comparison.counts()["INCOMPARABLE"] == 6


def test_another_version_of_the_anchors_library_spoils_every_ratio(run, published, manifest):
    other = versions(run, "fa3", torch="2.12.0")
    comparison = compare(other, published, manifest)
    assert {c.outcome for c in comparison.claims if c.kind == "ratio"} == {"INCOMPARABLE"}
    absolute = {c.backend for c in comparison.claims
                if c.kind == "absolute" and c.outcome == "INCOMPARABLE"}  # fmt: skip
    assert absolute == {"fa3"}


def test_a_toolkit_of_another_version(run, published, manifest):
    other = versions(run, "v1", **{"CUDA Toolkit": "12.9.0"})
    claim = one(compare(other, published, manifest), "absolute", "v1")
    assert codes(claim) == {"library"} and claim.reasons[0].next == (
        "measure with the published version"
    )


def test_a_declared_departure_is_named_and_allowed(run, published, manifest):
    other = versions(run, "triton-ws", torch="2.14.0+cu130", triton="3.8.0")
    comparison = compare(other, published, manifest)
    claim = one(comparison, "ratio", "triton-ws")
    assert claim.outcome == "REPRODUCED"
    assert "triton-ws departs" in caveats(claim)["departure"]
    assert "triton is 3.8.0 in the run" in caveats(claim)["build"]
    assert "departure" not in caveats(one(comparison, "ratio", "triton"))
    # What was not declared is not allowed.
    undeclared = versions(run, "triton-ws", torch="2.13.0")
    assert codes(one(compare(undeclared, published, manifest), "ratio", "triton-ws")) == {"library"}


def test_libraries_that_only_one_names(run, published, manifest):
    other = versions(run, "fa3", **{"tokenspeed-fa3": "3.0.0.post1"})
    claim = one(compare(other, published, manifest), "absolute", "fa3")
    assert claim.outcome == "REPRODUCED"
    assert "tokenspeed-fa3 3.0.0.post1 in the run" in caveats(claim)["library-unknown"]


# --- caveats


def test_what_is_not_known_of_the_published_run(run, published, manifest):
    measured = but(run, artifact__content_id="c" * 64)
    comparison = compare(measured, published, manifest)
    ratio, time = (one(comparison, kind, "v1") for kind in ("ratio", "absolute"))
    assert {"imported", "bytes", "inputs-unknown", "gate"} <= caveats(ratio).keys()
    assert (
        caveats(ratio)["bytes"] == "which bytes the published run measured is not known by digest"
    )
    assert "device-unknown" in caveats(time) and "device-unknown" not in caveats(ratio)
    assert "the power limit in W" in caveats(time)["device-unknown"]


def test_another_driver_and_worker_are_caveats(run, published, manifest):
    def of(results: RunResults, driver: str, digest: str) -> RunResults:
        backends = tuple(
            b.model_copy(update={"worker": "w.py", "worker_blake3": digest * 64})
            for b in results.backends
        )
        facts = {**results.device.facts, "driver": driver}
        return but(results, backends=backends, device__facts=facts)

    comparison = compare(of(run, "1.0", "a"), of(published, "2.0", "b"), manifest)
    assert comparison.outcome == "REPRODUCED"
    said = caveats(comparison.claims[0])
    assert said["driver"] == "the driver is 1.0, and was 2.0"
    assert "another worker file" in said["worker"]
    assert "worker" not in caveats(
        compare(of(run, "1.0", "a"), of(published, "1.0", "a"), manifest).claims[0]
    )


def test_reasons_add_up(run, published, manifest):
    h200 = but(run, device__name="NVIDIA H200", device__target="h200", protocol__warmup=1)
    claim = compare(h200, published, manifest).claims[0]
    assert codes(claim) == {"device", "protocol-warmup"}
