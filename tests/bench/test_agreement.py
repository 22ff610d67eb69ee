from __future__ import annotations

from typing import Any

import pytest

from artifact.bench import agreement
from artifact.errors import GateFailed
from artifact.model.results import Band, CheckRecord, ControlRecord, Figures, GateVerdict

PASSED = GateVerdict(passed=True, reasons=())


def figures(*, max_abs0: float = 0.1, **band: float) -> Figures:
    errors = {"e_max": 0.004, "e_rms": 0.002, "e0_max": 0.004, "e0_rms": 0.002, **band}
    return Figures(
        elements=16,
        rows=4,
        nonfinite=0,
        outside_tolerance=0,
        max_abs=0.1,
        max_abs0=max_abs0,
        bands=(Band(first=0, last=3, rows=4, **errors),),
    )


def record(
    backend: str, *, shape: str = "N=4", control: Figures | None = None, **changes: Any
) -> CheckRecord:
    control = control or figures()
    values = {
        "backend": backend,
        "shape": shape,
        "inputs": {"q": "a" * 64},
        "published": PASSED,
        "strict": PASSED,
        "figures": figures(),
        "controls": (
            ControlRecord(
                name="zeros", position=None, rejected=True, by_published=False, figures=control
            ),
        ),
        "checked_elements": 16,
        "max_abs_error": 0.1,
        **changes,
    }
    return CheckRecord(**values)


def test_backends_must_have_computed_on_the_same_bytes() -> None:
    one = record("v1")
    inputs = {"q": "b" * 64, "k": "c" * 64}
    other, elsewhere = record("v2", inputs=inputs), record("v2", shape="N=1", inputs=inputs)
    agreement.require_same_inputs([one, one, elsewhere])
    assert agreement.input_differences([one, other]) == (
        "shape N=4, input k: v2 had cccccccccccc, v1 had none",
        "shape N=4, input q: v2 had bbbbbbbbbbbb, v1 had aaaaaaaaaaaa",
    )
    with pytest.raises(GateFailed, match="different inputs") as caught:
        agreement.require_same_inputs([one, other])
    assert caught.value.details == agreement.input_differences([one, other])
    alike = record("v3", inputs={"q": "d" * 64})
    with pytest.raises(GateFailed) as caught:
        agreement.require_same_inputs([one, alike])
    assert caught.value.found == agreement.input_differences([one, alike])[0]
    assert caught.value.details == ()


def test_one_plain_implementation_for_all() -> None:
    # Other sums in another order, within the hundredth that this can make.
    records = [record("v1"), record("v2", figures=figures(e0_rms=0.00201))]
    assert agreement.baseline_differences(records) == ()
    agreement.require_same_baseline(records)


@pytest.mark.parametrize(
    ("wider", "place"),
    [
        ({"max_abs0": 1e6}, "max_abs0"),
        ({"e0_max": 1e6}, "bands[0].e0_max"),
        ({"e0_rms": 9e-3}, "bands[0].e0_rms"),
    ],
)
def test_a_worker_cannot_widen_its_own_gate(wider: dict[str, float], place: str) -> None:
    """Neither beside its own controls, nor beside another worker of the same inputs."""
    with pytest.raises(GateFailed, match="one plain implementation") as caught:
        agreement.require_same_baseline([record("liar", figures=figures(**wider))])
    assert "liar, control zeros states" in str(caught.value.found)
    liar = record("liar", figures=figures(**wider), controls=())
    with pytest.raises(GateFailed) as caught:
        agreement.require_same_baseline([record("v1"), liar])
    assert f"{place}: liar states" in str(caught.value.where) + ": " + str(caught.value.found)
    agreement.require_same_baseline([record("v1"), record("v2", shape="N=8"), record("v3")])


def test_a_figure_that_one_worker_has_not_is_a_difference() -> None:
    lacking = figures().model_copy(update={"max_abs0": None})
    (said,) = agreement.baseline_differences([record("v1"), record("v2", figures=lacking)])
    assert said == "shape N=4, max_abs0: v2 states null (not finite), v1 states 0.1"
