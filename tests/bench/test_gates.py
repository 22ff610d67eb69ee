from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.bench import gates
from artifact.bench.messages import Checked, ControlFigures
from artifact.errors import ExitCode, GateFailed
from artifact.model.manifest import (
    Control,
    GateRules,
    OutputRules,
    PublishedGate,
    StrictGate,
)
from artifact.model.results import Band, CheckRecord, Figures

DIMS = {"B": 2, "H": 3, "S": 2500, "D": 4}
ROWS, ELEMENTS = 15_000, 60_000
RULES = GateRules(
    output=OutputRules(elements="B*S*H*D", rows="B*S*H", band_axis="S", band_rows=1024),
    published=PublishedGate(atol=0.05, rtol=0.1),
    strict=StrictGate(factor=2.0),
    controls=(
        Control(name="zeros", description="zeros"),
        Control(name="dropped-tile", positions=("first", "last"), description="dropped"),
    ),
)
INPUTS = {"q": "a" * 64}
WRONG = {"e_max": 0.05, "e_rms": 0.02}
NOT_ERRORS = (None, math.nan, math.inf, -math.inf, -1e-9)


def band(first: int, last: int, **changes: Any) -> Band:
    values = {
        "first": first,
        "last": last,
        "rows": 6 * (last - first + 1),
        "e_max": 0.004,
        "e_rms": 0.002,
        "e0_max": 0.004,
        "e0_rms": 0.002,
        **changes,
    }
    return Band(**values)


def bands(**changes: Any) -> tuple[Band, ...]:
    middle = band(1024, 2047).model_copy(update=changes)
    return (band(0, 1023), middle, band(2048, 2499))


def figures(**changes: Any) -> Figures:
    values = {
        "elements": ELEMENTS,
        "rows": ROWS,
        "nonfinite": 0,
        "outside_tolerance": 0,
        "max_abs": 0.1,
        "max_abs0": 0.1,
        "bands": bands(),
        **changes,
    }
    # Past validation on purpose: NaN and negative numbers must fail here too.
    return Figures.model_construct(**values)


def control(name: str, position: Any = None, **changes: Any) -> ControlFigures:
    return ControlFigures.model_construct(
        name=name, position=position, figures=figures(**{"bands": bands(**WRONG), **changes})
    )


CONTROLS = (
    control("zeros"),
    control("dropped-tile", "first"),
    control("dropped-tile", "last"),
)


def checked(*, controls: tuple[ControlFigures, ...] = CONTROLS, **changes: Any) -> Checked:
    return Checked.model_construct(
        op="check", id=1, backend="v1", figures=figures(**changes), controls=controls
    )


def plain(answer: Checked) -> Checked:
    """The same through JSON, as a worker sends it."""
    return Checked.model_validate_json(answer.model_dump_json())


def judge(**changes: Any) -> CheckRecord:
    return gates.judge("v1", "S=2500", INPUTS, plain(checked(**changes)), RULES, DIMS)


def published(**changes: Any) -> Any:
    return gates.published_verdict(figures(**changes), ELEMENTS)


def strict(**changes: Any) -> Any:
    return gates.strict_verdict(figures(**changes), RULES, DIMS)


def test_a_right_answer_passes_everything() -> None:
    record = judge()
    assert record.published.passed
    assert record.strict is not None
    assert record.strict.passed
    assert record.published.reasons == record.strict.reasons == ()
    assert [(c.name, c.position, c.rejected) for c in record.controls] == [
        ("zeros", None, True), ("dropped-tile", "first", True), ("dropped-tile", "last", True),
    ]  # fmt: skip
    assert record.checked_elements == ELEMENTS
    assert record.max_abs_error == 0.1
    assert record.inputs == INPUTS
    gates.require_passed(record)
    gates.require_rejected(record, RULES, DIMS)


def test_controls_are_expanded_by_position() -> None:
    assert gates.expected_controls(RULES) == (
        ("zeros", None), ("dropped-tile", "first"), ("dropped-tile", "last"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"elements": ELEMENTS - 1}, "elements: 59999 were checked, the output has 60000"),
        ({"elements": ELEMENTS + 1}, "elements: 60001 were checked"),
        ({"elements": 0}, "elements: 0 were checked"),
        ({"nonfinite": 1, "outside_tolerance": 1}, "nonfinite: 1 "),
        ({"outside_tolerance": 1}, "outside_tolerance: 1 "),
        ({"outside_tolerance": -1}, "outside_tolerance: -1 "),
        *(({"max_abs": bad}, "max_abs: ") for bad in NOT_ERRORS),
        ({"max_abs": None}, "max_abs: null (not finite) is no error"),
        ({"max_abs": -0.5}, "max_abs: -0.5 is no error"),
    ],
)
def test_the_published_gate_passes_nothing_else(changes: dict[str, Any], reason: str) -> None:
    verdict = published(**changes)
    assert not verdict.passed
    assert any(r.startswith(reason) for r in verdict.reasons)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"elements": ELEMENTS - 1}, "elements: "),
        ({"rows": ROWS + 1}, "rows: 15001 were checked, the output has 15000"),
        ({"nonfinite": 1, "outside_tolerance": 1}, "nonfinite: 1 "),
        ({"nonfinite": -1}, "nonfinite: -1 "),
        ({"nonfinite": ELEMENTS + 1}, "nonfinite: "),
        ({"outside_tolerance": ELEMENTS + 1}, "outside_tolerance: "),
        ({"max_abs": 0.201}, "max_abs: 0.201 is 2.01 times"),
        *(({"max_abs": bad}, "max_abs: ") for bad in NOT_ERRORS),
        *(({"max_abs0": bad}, "max_abs: the plain implementation's") for bad in NOT_ERRORS),
        ({"max_abs0": 1e308, "max_abs": 1e307}, "max_abs: the plain implementation's"),
    ],
)
def test_the_strict_gate_passes_no_other_figures(changes: dict[str, Any], reason: str) -> None:
    verdict = strict(**changes)
    assert not verdict.passed
    assert any(r.startswith(reason) for r in verdict.reasons), verdict.reasons


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("field", ["e_max", "e_rms", "e0_max", "e0_rms"])
@pytest.mark.parametrize("bad", NOT_ERRORS)
def test_no_band_may_hold_what_is_no_error(which: int, field: str, bad: float | None) -> None:
    mutated = list(bands())
    mutated[which] = mutated[which].model_copy(update={field: bad})
    verdict = strict(bands=tuple(mutated))
    assert not verdict.passed
    assert any(f"bands[{which}]" in reason for reason in verdict.reasons)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"e_max": 0.0081}, "bands[1] (1024-2047).e_max: 0.0081 is 2.02 times"),
        ({"e_rms": 0.00401}, "bands[1] (1024-2047).e_rms: 0.00401 is 2.00 times"),
        ({"e0_max": 0.0019, "e0_rms": 0.001}, "bands[1] (1024-2047).e_max: 0.004 is 2.11 times"),
        ({"e0_rms": 0.0009}, "bands[1] (1024-2047).e_rms: 0.002 is 2.22 times"),
        ({"e0_rms": 0.0}, "bands[1] (1024-2047).e_rms: 0.002 is more than"),
        ({"e_rms": 0.0079}, "bands[1].e_rms: is larger than e_max, which cannot be"),
        ({"e0_rms": 0.0041}, "bands[1].e0_rms: is larger than e0_max"),
        ({"e_max": 0.11, "e0_max": 0.1}, "bands[1].e_max: is larger than the output's max_abs"),
        ({"e0_max": 0.11}, "bands[1].e0_max: is larger than the output's max_abs0"),
        ({"rows": 6143}, "bands[1].rows: 6143 were checked, the band has 6144"),
        ({"rows": 6145}, "bands[1].rows: 6145 were checked"),
        ({"first": 1023}, "bands: must be 0-1023, 1024-2047, 2048-2499 of S, found 0-1023, 1023-"),
        ({"first": 1025}, "bands: must be"),
        ({"last": 2046}, "bands: must be"),
        ({"last": 2048}, "bands: must be"),
    ],
)
def test_one_band_alone_can_fail_the_strict_gate(changes: dict[str, Any], reason: str) -> None:
    verdict = strict(bands=bands(**changes))
    assert not verdict.passed
    assert any(r.startswith(reason) for r in verdict.reasons), verdict.reasons


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        bands()[:2],
        bands()[1:],
        (*bands(), band(2500, 3000)),
        (*bands(), bands()[2]),
        (bands()[1], bands()[0], bands()[2]),
        (bands()[0], bands()[0], bands()[2]),
        (band(0, 2499),),
        (band(0, 1023), band(1024, 2047), band(2048, 2500)),
        (band(0, 499), band(500, 1499), band(1500, 2499)),
    ],
)
def test_bands_must_cut_the_whole_axis(wrong: tuple[Band, ...]) -> None:
    verdict = strict(bands=wrong)
    assert not verdict.passed
    assert any(reason.startswith("bands: ") for reason in verdict.reasons)


def test_the_limit_itself_passes() -> None:
    assert strict(max_abs=0.2, bands=bands(e_max=0.008, e_rms=0.004)).passed


def test_figures_may_bound_each_other_to_the_rounding_of_a_worker() -> None:
    # In FP32 a root mean square can come out a little above the maximum.
    level = {"e_max": 0.004, "e_rms": 0.004, "e0_max": 0.004, "e0_rms": 0.004}
    assert strict(bands=bands(**level)).passed
    assert strict(bands=bands(**{**level, "e_rms": 0.004 * 1.0009})).passed
    assert not strict(bands=bands(**{**level, "e_rms": 0.004 * 1.0011})).passed


def test_where_the_plain_implementation_makes_no_error_neither_may_the_output() -> None:
    exact = {"e_max": 0.0, "e_rms": 0.0, "e0_max": 0.0, "e0_rms": 0.0}
    assert strict(bands=bands(**exact)).passed
    assert not strict(bands=bands(**{**exact, "e_max": 1e-30})).passed


def test_every_reason_is_listed() -> None:
    verdict = strict(
        elements=1, rows=1, nonfinite=1, max_abs=None, bands=(band(0, 5, e_max=9.0, e_rms=None),)
    )
    places = {reason.split(":")[0] for reason in verdict.reasons}
    assert {"elements", "rows", "bands", "nonfinite", "max_abs"} <= places
    assert any("e_rms" in place for place in places)


def test_only_the_strict_gate_sees_zeros_on_long_rows() -> None:
    # Measured: at rows of 8192 and more all-zero outputs stay within the published tolerance.
    zeros = {"max_abs": 0.05, "max_abs0": 0.005, "bands": bands(e_max=0.016, e_rms=0.015)}
    assert published(**zeros).passed
    assert not strict(**zeros).passed
    (record, *_) = judge(controls=(control("zeros", **zeros),)).controls
    assert record.rejected
    assert not record.by_published


@settings(max_examples=200)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 10))
def test_the_strict_gate_is_the_stated_inequalities(
    e_max: float, share: float, e0_max: float, share0: float, factor: float
) -> None:
    rules = RULES.model_copy(update={"strict": StrictGate(factor=factor)})
    e_rms, e0_rms = e_max * share, e0_max * share0
    changed = bands(e_max=e_max, e_rms=e_rms, e0_max=e0_max, e0_rms=e0_rms)
    others = factor >= 1
    verdict = gates.strict_verdict(figures(max_abs=1.0, max_abs0=1.0, bands=changed), rules, DIMS)
    assert verdict.passed == (others and e_max <= factor * e0_max and e_rms <= factor * e0_rms)


@settings(max_examples=100)
@given(st.floats(0, 0.02), st.floats(1, 10))
def test_a_larger_error_never_passes_where_a_smaller_one_failed(error: float, more: float) -> None:
    def passes(value: float) -> bool:
        return bool(strict(bands=bands(e_max=value, e_rms=value / 2)).passed)

    assert passes(error) or not passes(error * more)


def test_a_failed_gate_raises_with_every_reason() -> None:
    record = judge(outside_tolerance=7, bands=bands(**WRONG))
    with pytest.raises(GateFailed) as caught:
        gates.require_passed(record)
    error = caught.value
    assert error.exit_code == ExitCode.GATE == 4
    assert error.where == "backend v1, shape S=2500"
    assert "published and the strict gate reject it" in error.what
    assert error.details[0] == "published gate: outside_tolerance: 7 elements"
    assert len(error.details) == 3
    assert all(word in error.details[1] for word in ("strict gate", "bands[1]", "e_max", "12.50"))


def test_one_reason_stands_in_the_summary() -> None:
    with pytest.raises(GateFailed) as caught:
        gates.require_passed(judge(max_abs=0.3))
    assert caught.value.found is not None
    assert caught.value.found.startswith("strict gate: max_abs: 0.3 is 3.00 times")
    assert "the strict gate rejects it" in caught.value.what
    assert caught.value.details == ()


def test_a_record_without_a_strict_verdict_is_not_passed() -> None:
    record = judge().model_copy(update={"strict": None})
    with pytest.raises(GateFailed, match="strict"):
        gates.require_passed(record)


@pytest.mark.parametrize("bad", [None, -1.0])
def test_a_largest_error_that_is_none_is_recorded_as_none(bad: float | None) -> None:
    assert judge(max_abs=bad).max_abs_error is None


@pytest.mark.parametrize(
    ("controls", "problem"),
    [
        ((), "control zeros: was not measured"),
        (CONTROLS[1:], "control zeros: was not measured"),
        (CONTROLS[:2], "control dropped-tile (last): was not measured"),
        ((*CONTROLS, control("nan")), "control nan: is not in the manifest"),
        ((*CONTROLS, control("zeros", "first")), "control zeros (first): is not in the manifest"),
        ((*CONTROLS, control("dropped-tile", "middle")), "control dropped-tile (middle): is not"),
        ((*CONTROLS, control("zeros")), "control zeros: was measured 2 times"),
        (
            (control("zeros", bands=bands()), *CONTROLS[1:]),
            "control zeros: is wrong, but passes the strict gate",
        ),
        # A control that was not measured whole fails the gate's inequalities by its gaps
        # alone; that proves nothing.
        (
            (control("zeros", elements=0), *CONTROLS[1:]),
            "control zeros: was not measured whole: elements: 0",
        ),
        (
            (control("zeros", bands=bands()[:1]), *CONTROLS[1:]),
            "control zeros: was not measured whole: bands",
        ),
    ],
)
def test_a_gate_that_is_not_proved_is_broken(
    controls: tuple[ControlFigures, ...], problem: str
) -> None:
    record = judge(controls=controls)
    gates.require_passed(record)
    with pytest.raises(GateFailed, match="gate is broken") as caught:
        gates.require_rejected(record, RULES, DIMS)
    lines = caught.value.details or (caught.value.found,)
    assert any(line.startswith(problem) for line in lines), lines
    assert caught.value.exit_code == 4


def test_a_control_of_nan_is_rejected() -> None:
    nan = control(
        "zeros",
        nonfinite=1,
        outside_tolerance=1,
        max_abs=None,
        bands=bands(e_max=None, e_rms=None),
    )
    record = judge(controls=(nan, *CONTROLS[1:]))
    gates.require_rejected(record, RULES, DIMS)
    assert record.controls[0].by_published


def test_all_problems_of_the_controls_are_listed() -> None:
    record = judge(controls=(control("nan"), control("zeros", bands=bands())))
    assert len(gates.control_problems(record, RULES, DIMS)) == 4


def test_an_axis_of_many_bands_is_not_counted_out() -> None:
    dims = {**DIMS, "S": 10**15}
    (problem, *_) = (
        p for p in gates.coverage_problems(figures(), RULES, dims) if p.startswith("bands")
    )
    assert problem == f"bands: 3 were measured, S has {-(-(10**15) // 1024)}"


def test_judging_again_from_a_record_gives_the_same_record() -> None:
    for record in (judge(), judge(outside_tolerance=3), judge(controls=CONTROLS[:1])):
        assert record.figures is not None
        again = gates.judge_figures(
            record.backend,
            record.shape,
            record.inputs,
            record.figures,
            record.controls,
            RULES,
            DIMS,
        )
        assert again == record
