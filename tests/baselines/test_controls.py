"""Figures, the gates over them, and the negative controls on cpu-demo's shapes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from artifact.bench.gates import expected_controls, judge_figures
from artifact.bench.messages import ControlFigures
from artifact.integrity.documents import load_manifest
from artifact.model.results import Figures

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = load_manifest(ROOT)
DEMO = MANIFEST.workload("cpu-demo")
BACKENDS = MANIFEST.backends_of("cpu-demo")


def attend_of(cpu, args):
    """The implementation that a backend's arguments name."""
    given = dict(zip(args[::2], args[1::2], strict=True))
    if given["--variant"] == "direct":
        return cpu.direct
    tile = int(given["--tile"])
    return cpu.Online(tile, tile, given["--traversal"] == "reverse")


def checked(cpu, attend, dims, seed=42, band_rows=None):
    rules = MANIFEST.gates
    worker = cpu.Worker("x", attend, (128,))
    worker.prepare({"shape": dims, "seed": seed})
    return worker.check(
        {
            "gates": {
                "atol": rules.published.atol,
                "rtol": rules.published.rtol,
                "band_axis": rules.output.band_axis,
                "band_rows": band_rows or rules.output.band_rows,
            },
            "controls": [{"name": n, "position": p} for n, p in expected_controls(rules)],
        }
    )


def judged(answer, dims):
    controls = [ControlFigures.model_validate_json(json.dumps(c)) for c in answer["controls"]]
    figures = Figures.model_validate_json(json.dumps(answer["figures"]))
    return judge_figures("x", "s", {}, figures, controls, MANIFEST.gates, dims)


def ratios(figures):
    """Every ratio that the strict gate judges."""
    found = [figures["max_abs"] / figures["max_abs0"]]
    for band in figures["bands"]:
        found += [band["e_max"] / band["e0_max"], band["e_rms"] / band["e0_rms"]]
    return found


def test_the_demo_is_worth_its_name():
    lengths = [shape.dims["S"] for shape in DEMO.shapes]
    assert min(lengths) >= 3 * 128
    assert max(lengths) > MANIFEST.gates.output.band_rows
    assert not DEMO.comparable


@pytest.mark.parametrize("shape", DEMO.shapes, ids=lambda shape: shape.name)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_honest_outputs_pass_with_margin_and_every_control_is_rejected(cpu, backend, shape):
    attend = attend_of(cpu, backend.args)
    assert cpu.implementation_name(attend) == backend.witness.implementation
    answer = checked(cpu, attend, shape.dims)
    record = judged(answer, shape.dims)
    assert record.published.passed and record.strict.passed, record.strict.reasons
    assert max(ratios(answer["figures"])) < 1.2  # of 2 that the gate allows
    assert len(record.controls) == 10
    for control in record.controls:
        assert control.rejected, (control.name, control.position)


def test_the_published_gate_alone_lets_a_dropped_tile_pass(cpu):
    answer = checked(cpu, cpu.Online(), DEMO.shapes[-1].dims)
    record = judged(answer, DEMO.shapes[-1].dims)
    passed = {(c.name, c.position) for c in record.controls if not c.by_published}
    assert ("dropped-tile", "last") in passed


@pytest.mark.parametrize("tile", [32, 64])
def test_controls_do_not_depend_on_the_implementations_tile(cpu, tile):
    dims = {"B": 1, "H": 1, "S": 384, "D": 128}
    answer = checked(cpu, cpu.Online(tile, tile, reverse=True), dims)
    reference = checked(cpu, cpu.Online(128, 128), dims)
    for ours, theirs in zip(answer["controls"], reference["controls"], strict=True):
        if ours["name"] == "nan":
            continue
        assert ours["figures"]["max_abs"] == pytest.approx(theirs["figures"]["max_abs"], rel=0.05)


def wrong_rows(cpu, name, position, length=512):
    """The query rows whose bits a control changes, and the right output."""
    inputs = cpu.Inputs(cpu.Shape(1, length, 1, 16), 42)
    good = np.empty(inputs.shape, dtype=np.uint16)
    cpu.launch(cpu.Online(), inputs, good)
    kept = good.copy()
    bad = cpu.control_output(name, position, cpu.Online(), inputs, 42, good)
    assert np.array_equal(good, kept)
    return {int(i) for i in np.nonzero((bad != good).any(axis=(0, 2, 3)))[0]}, bad


@pytest.mark.parametrize(
    ("name", "position", "first", "last"),
    [
        ("dropped-tile", "first", 0, 511),
        ("dropped-tile", "middle", 128, 511),
        ("dropped-tile", "last", 384, 511),
        ("leaked-tile", "first", 0, 127),
        ("leaked-tile", "middle", 128, 255),
        ("leaked-tile", "last", 256, 383),
        ("stale-buffer", None, 384, 511),
        ("nan", None, 511, 511),
        ("zeros", None, 0, 511),
    ],
)
def test_a_control_is_wrong_where_it_says_and_nowhere_else(cpu, name, position, first, last):
    rows, _ = wrong_rows(cpu, name, position)
    assert min(rows) >= first and max(rows) == last
    assert len(rows) > 0.9 * (last - first + 1)


def test_a_wrong_scale_is_ten_per_cent(cpu):
    inputs = cpu.Inputs(cpu.Shape(1, 256, 1, 16), 42)
    good = np.empty(inputs.shape, dtype=np.uint16)
    bad = cpu.control_output("wrong-scale", None, cpu.Online(), inputs, 42, good)
    inputs.heads = (inputs.heads[0] * np.float32(1.1), *inputs.heads[1:])
    expected = cpu.reference(inputs)
    assert np.abs(cpu.from_bf16(bad) - expected).max() < 4e-3


def test_the_stale_tile_is_that_of_other_inputs(cpu):
    _, bad = wrong_rows(cpu, "stale-buffer", None)
    other = cpu.Inputs(cpu.Shape(1, 512, 1, 16), 42, input_set=1)
    stale = np.empty(other.shape, dtype=np.uint16)
    cpu.launch(cpu.Online(), other, stale)
    np.testing.assert_array_equal(bad[:, 384:], stale[:, 384:])


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("zeros", "first"),
        ("zeros", "end"),
        ("dropped-tile", None),
        ("leaked-tile", "end"),
        ("swapped-rows", None),
        (None, None),
        ("nan", ["first"]),
    ],
)
def test_a_control_that_does_not_exist_is_refused(cpu, name, position):
    inputs = cpu.Inputs(cpu.Shape(1, 256, 1, 16), 42)
    out = np.zeros(inputs.shape, dtype=np.uint16)
    with pytest.raises(cpu.BadRequestError, match="does not exist"):
        cpu.control_output(name, position, cpu.direct, inputs, 42, out)


def test_one_tile_leaves_no_place_for_a_control(cpu):
    inputs = cpu.Inputs(cpu.Shape(1, 128, 1, 16), 42)
    out = np.zeros(inputs.shape, dtype=np.uint16)
    with pytest.raises(cpu.UnsupportedShapeError, match="second tile"):
        cpu.control_output("dropped-tile", "last", cpu.direct, inputs, 42, out)


# ------------------------------------------------------------------------------ figures


def made(cpu, shape=(1, 6, 2, 4)):
    """An oracle of ones, and an output that is right."""
    ref = np.ones(shape)
    return ref, cpu.to_bf16(ref.astype(np.float32))


def test_figures_cover_every_element_in_bands(cpu):
    ref, good = made(cpu)
    out = good.copy()
    out[0, 5, 1, 3] = cpu.to_bf16(np.array([3.0], np.float32))[0]  # off by 2 in one of 4
    plain = cpu.errors(good, ref - 0.5, 0.05, 0.1)
    found = cpu.figures(cpu.errors(out, ref, 0.05, 0.1), plain, out.size, 1, 4)
    assert found["elements"] == 48 and found["rows"] == 12
    assert found["max_abs"] == 2.0 and found["max_abs0"] == 0.5
    assert found["outside_tolerance"] == 1 and found["nonfinite"] == 0
    first, last = found["bands"]
    assert (first["first"], first["last"], first["rows"]) == (0, 3, 8)
    assert (last["first"], last["last"], last["rows"]) == (4, 5, 4)
    assert first["e_max"] == first["e_rms"] == 0.0
    assert last["e_max"] == 1.0  # sqrt(2**2 / 4)
    assert last["e_rms"] == 0.5  # sqrt(1**2 / 4 rows)
    assert last["e0_max"] == last["e0_rms"] == 0.5


@pytest.mark.parametrize("axis", ["B", "S", "H"])
def test_bands_follow_their_axis(cpu, axis):
    ref, good = made(cpu, (2, 6, 4, 3))
    e = cpu.errors(good, ref, 0, 0)
    index = "BSH".index(axis)
    found = cpu.figures(e, e, good.size, index, 1)
    extent = (2, 6, 4)[index]
    assert [band["first"] for band in found["bands"]] == list(range(extent))
    assert {band["rows"] for band in found["bands"]} == {48 // extent}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_never_passes(cpu, value):
    ref, good = made(cpu)
    out = good.copy()
    out[0, 0, 0, 0] = cpu.to_bf16(np.array([value], np.float32))[0]
    e0 = cpu.errors(good, ref, 0.05, 0.1)
    found = cpu.figures(cpu.errors(out, ref, 0.05, 0.1), e0, out.size, 1, 4)
    assert found["nonfinite"] == 1
    assert found["outside_tolerance"] == 1
    assert found["max_abs"] is None
    assert found["bands"][0]["e_max"] is None and found["bands"][0]["e_rms"] is None
    assert found["bands"][1]["e_max"] == 0.0


def test_the_tolerance_is_relative_to_the_oracle(cpu):
    ref = np.array([0.0, 1.0, -2.0, 0.0]).reshape(1, 1, 1, 4)
    out = cpu.to_bf16(np.add(ref, [0.0625, 0.125, -0.25, 0.046875]).astype(np.float32))
    assert cpu.errors(out, ref, 0.05, 0.1).outside == 1  # 0.0625 against a reference of 0


def test_an_element_that_nobody_writes_is_seen(cpu, monkeypatch):
    """The output is poisoned before the check: a kernel that skips a head is caught."""
    worker = cpu.Worker("x", cpu.direct, (128,))
    dims = {"B": 1, "H": 2, "S": 128, "D": 16}
    worker.prepare({"shape": dims, "seed": 42})
    worker.time({"warmup": 0, "repeat": 1})  # leaves the right answer in the buffer
    original = cpu.launch

    def skip_a_head(attend, inputs, out, *rest, **more):
        before = out.copy()
        original(attend, inputs, out, *rest, **more)
        if out is worker.prepared.out:
            out[:, :, 1] = before[:, :, 1]

    monkeypatch.setattr(cpu, "launch", skip_a_head)
    gates = {"atol": 0.05, "rtol": 0.1, "band_axis": "S", "band_rows": 1024}
    found = worker.check({"gates": gates, "controls": []})["figures"]
    assert found["nonfinite"] == 128 * 16
