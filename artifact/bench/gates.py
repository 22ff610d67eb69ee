"""The three gates that stand before timing: published, strict, and negative controls.

Workers measure and judge nothing; verdicts are made here from their figures and the
manifest's thresholds, so that they can be made again from a run folder.

Every comparison is written as "fails unless", because a comparison with NaN is false both
ways: NaN, and the null that stands for it in JSON, never passes. A verdict lists every
reason, not the first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Literal, TypeGuard

from artifact.bench.messages import Checked, ControlFigures
from artifact.errors import GateFailed
from artifact.model import formula
from artifact.model.manifest import GateRules
from artifact.model.results import CheckRecord, ControlRecord, Figures, GateVerdict

Position = Literal["first", "middle", "last"]

#: Figures of one output bound each other (a root mean square is no larger than the maximum).
#: Workers may accumulate in FP32, so the bound holds to this relative error only.
_ROUNDING = 1e-3


def expected_controls(rules: GateRules) -> tuple[tuple[str, Position | None], ...]:
    """Every known-wrong output that a worker must measure, in the order of the manifest."""
    return tuple(
        (control.name, position)
        for control in rules.controls
        for position in control.positions or (None,)
    )


def published_verdict(figures: Figures, expected_elements: int | Fraction) -> GateVerdict:
    """The published tolerance, over every element: none may lie outside it.

    Args:
        figures: Of the output; ``outside_tolerance`` was counted with the manifest's atol
            and rtol.
        expected_elements: How many elements the output has by the manifest's formula.
    """
    return _verdict(_published_reasons(figures, expected_elements))


def _published_reasons(figures: Figures, expected_elements: int | Fraction) -> Iterator[str]:
    if figures.elements != expected_elements:
        yield f"elements: {figures.elements} were checked, the output has {expected_elements}"
    if figures.nonfinite != 0:
        yield f"nonfinite: {figures.nonfinite} elements are NaN or infinite"
    if figures.outside_tolerance != 0:
        yield f"outside_tolerance: {figures.outside_tolerance} elements"
    if not _is_error(figures.max_abs):
        yield f"max_abs: {shown_error(figures.max_abs)} is no error"


def strict_verdict(figures: Figures, rules: GateRules, dims: Mapping[str, int]) -> GateVerdict:
    """The strict gate: errors against those of the plain low-precision implementation.

    It passes if the figures cover the whole output (:func:`coverage_problems`), nothing is
    NaN or infinite, and the maximum and the RMS of the row errors of every band, and the
    largest absolute error, are at most ``rules.strict.factor`` times the plain
    implementation's. Where the plain implementation makes no error, neither may the output.

    Args:
        figures: Of the output.
        rules: The manifest's gates.
        dims: The dimensions of the shape.
    """
    return _verdict([*coverage_problems(figures, rules, dims), *_error_reasons(figures, rules)])


def _verdict(reasons: Iterator[str] | Sequence[str]) -> GateVerdict:
    found = tuple(reasons)
    return GateVerdict(passed=not found, reasons=found)


def coverage_problems(
    figures: Figures, rules: GateRules, dims: Mapping[str, int]
) -> tuple[str, ...]:
    """Why ``figures`` do not speak for the whole output, or contradict themselves.

    Elements and rows must be those of the manifest's formulas; the bands must cut the band
    axis from index 0 to its end into pieces of ``band_rows`` (the last may be shorter), in
    order, without gap or overlap, each with its share of the rows.
    """
    return (*_coverage(figures, rules, dims), *_contradictions(figures))


def _coverage(figures: Figures, rules: GateRules, dims: Mapping[str, int]) -> Iterator[str]:
    output = rules.output
    elements = formula.evaluate(output.elements, dims)
    rows = formula.evaluate(output.rows, dims)
    extent = dims[output.band_axis]
    if figures.elements != elements:
        yield f"elements: {figures.elements} were checked, the output has {elements}"
    if figures.rows != rows:
        yield f"rows: {figures.rows} were checked, the output has {rows}"
    count = -(-extent // output.band_rows)
    if len(figures.bands) != count:
        yield f"bands: {len(figures.bands)} were measured, {output.band_axis} has {count}"
        return
    wanted = [
        (first, min(first + output.band_rows, extent) - 1)
        for first in range(0, extent, output.band_rows)
    ]
    found = [(band.first, band.last) for band in figures.bands]
    if found != wanted:
        yield (f"bands: must be {_spans(wanted)} of {output.band_axis}, found {_spans(found)}")
    for i, (band, (first, last)) in enumerate(zip(figures.bands, wanted, strict=True)):
        share = rows * (last - first + 1) / extent
        if band.rows != share:
            yield f"bands[{i}].rows: {band.rows} were checked, the band has {share}"


def _contradictions(figures: Figures) -> Iterator[str]:
    for name in ("nonfinite", "outside_tolerance"):
        count = getattr(figures, name)
        if not 0 <= count <= figures.elements:
            yield f"{name}: {count} of {figures.elements} elements cannot be"
    if figures.nonfinite > figures.outside_tolerance:
        yield (
            f"outside_tolerance: {figures.outside_tolerance} is less than the "
            f"{figures.nonfinite} elements that are not finite, which all lie outside"
        )
    for i, band in enumerate(figures.bands):
        for small, large, name in (
            (band.e_rms, band.e_max, "e_rms: is larger than e_max"),
            (band.e0_rms, band.e0_max, "e0_rms: is larger than e0_max"),
            (band.e_max, figures.max_abs, "e_max: is larger than the output's max_abs"),
            (band.e0_max, figures.max_abs0, "e0_max: is larger than the output's max_abs0"),
        ):
            if _is_error(small) and _is_error(large) and small > large * (1 + _ROUNDING):
                yield f"bands[{i}].{name}, which cannot be ({small:.4g} > {large:.4g})"


def _error_reasons(figures: Figures, rules: GateRules) -> Iterator[str]:
    if figures.nonfinite != 0:
        yield f"nonfinite: {figures.nonfinite} elements are NaN or infinite"
    factor = rules.strict.factor
    yield from _exceeds("max_abs", figures.max_abs, figures.max_abs0, factor)
    for i, band in enumerate(figures.bands):
        where = f"bands[{i}] ({band.first}-{band.last})"
        yield from _exceeds(f"{where}.e_max", band.e_max, band.e0_max, factor)
        yield from _exceeds(f"{where}.e_rms", band.e_rms, band.e0_rms, factor)


def _exceeds(place: str, error: float | None, plain: float | None, factor: float) -> Iterator[str]:
    if not _is_error(error):
        yield f"{place}: {shown_error(error)} is no error"
    if not _is_error(plain) or not math.isfinite(factor * plain):
        yield f"{place}: the plain implementation's {shown_error(plain)} is no error"
    elif _is_error(error) and not error <= factor * plain:
        times = f"{error / plain:.2f} times" if plain > 0 else "more than"
        yield (
            f"{place}: {error:.4g} is {times} the plain implementation's {plain:.4g} "
            f"(allowed: {factor:g} times)"
        )


def judge(
    backend: str,
    shape: str,
    inputs: Mapping[str, str],
    checked: Checked,
    rules: GateRules,
    dims: Mapping[str, int],
) -> CheckRecord:
    """Every verdict over one backend and shape, as results.json keeps it. Raises nothing.

    A control counts as rejected only if the strict gate rejects its *errors*, and its
    figures cover the whole output: one that was not measured proves nothing.
    """
    return judge_figures(backend, shape, inputs, checked.figures, checked.controls, rules, dims)


def judge_figures(
    backend: str,
    shape: str,
    inputs: Mapping[str, str],
    figures: Figures,
    controls: Sequence[ControlFigures | ControlRecord],
    rules: GateRules,
    dims: Mapping[str, int],
) -> CheckRecord:
    """:func:`judge`, from the figures alone: as a worker answers them, or as a run kept them."""
    elements = formula.evaluate(rules.output.elements, dims)
    return CheckRecord(
        backend=backend,
        shape=shape,
        inputs=dict(inputs),
        published=published_verdict(figures, elements),
        strict=strict_verdict(figures, rules, dims),
        figures=figures,
        controls=tuple(
            judge_control(control.name, control.position, control.figures, rules, dims)
            for control in controls
        ),
        checked_elements=figures.elements,
        max_abs_error=figures.max_abs if _is_error(figures.max_abs) else None,
    )


def judge_control(
    name: str,
    position: Position | None,
    figures: Figures,
    rules: GateRules,
    dims: Mapping[str, int],
) -> ControlRecord:
    """Whether the gates reject one known-wrong output."""
    elements = formula.evaluate(rules.output.elements, dims)
    measured = not coverage_problems(figures, rules, dims)
    return ControlRecord(
        name=name,
        position=position,
        rejected=measured and any(_error_reasons(figures, rules)),
        by_published=measured and not published_verdict(figures, elements).passed,
        figures=figures,
    )


def require_passed(record: CheckRecord) -> None:
    """Accept an output that passed the published and the strict gate.

    Raises:
        GateFailed: naming the gate that did not pass it, with every reason of both.
    """
    strict = record.strict or GateVerdict(passed=False, reasons=("did not judge it",))
    gates = {"published": record.published, "strict": strict}
    failed = {name: verdict for name, verdict in gates.items() if not verdict.passed}
    if not failed:
        return
    details = tuple(f"{name} gate: {reason}" for name, v in failed.items() for reason in v.reasons)
    raise GateFailed(
        f"{record.backend} computed a wrong answer: the {' and the '.join(failed)} gate "
        f"{'reject it' if len(failed) > 1 else 'rejects it'}",
        where=f"backend {record.backend}, shape {record.shape}",
        expected="every element finite, within the published tolerance, and no band's error "
        "beyond the manifest's factor of the plain implementation's",
        found=details[0] if details else "no reason",
        cause="a defect of the kernel, or another kernel than the artifact's",
        next="the figures stand under `checks` in the run's results.json",
        details=details if len(details) > 1 else (),
    )


def require_rejected(record: CheckRecord, rules: GateRules, dims: Mapping[str, int]) -> None:
    """Accept a gate that rejected every known-wrong output.

    Raises:
        GateFailed: where the worker left a control out, added one, did not measure one
            whole, or the strict gate lets one pass: then no verdict of it means anything.
    """
    problems = control_problems(record, rules, dims)
    if not problems:
        return
    raise GateFailed(
        "the strict gate is broken: it is not shown to reject every known-wrong output",
        where=f"backend {record.backend}, shape {record.shape}, negative controls",
        expected=f"{len(expected_controls(rules))} controls, each measured once over the whole "
        "output and rejected",
        found=problems[0] if len(problems) == 1 else f"{len(problems)} problems",
        cause="the manifest's factor is too wide for this shape, or the worker builds a "
        "control that is no fault here",
        next="the figures stand under `checks[].controls` in the run's results.json",
        details=problems if len(problems) > 1 else (),
    )


def control_problems(
    record: CheckRecord, rules: GateRules, dims: Mapping[str, int]
) -> tuple[str, ...]:
    """Why the controls of ``record`` do not prove the strict gate."""
    return tuple(_control_problems(record, rules, dims))


def _control_problems(
    record: CheckRecord, rules: GateRules, dims: Mapping[str, int]
) -> Iterator[str]:
    wanted = expected_controls(rules)
    found = Counter((control.name, control.position) for control in record.controls)
    for key in wanted:
        if key not in found:
            yield f"{control_label(*key)}: was not measured"
    for key, count in found.items():
        if key not in wanted:
            yield f"{control_label(*key)}: is not in the manifest"
        elif count > 1:
            yield f"{control_label(*key)}: was measured {count} times"
    for control in record.controls:
        missing = coverage_problems(control.figures, rules, dims)
        label = control_label(control.name, control.position)
        if missing:
            yield f"{label}: was not measured whole: {'; '.join(missing)}"
        elif not control.rejected:
            yield f"{label}: is wrong, but passes the strict gate"


def _is_error(value: float | None) -> TypeGuard[float]:
    """Whether ``value`` can be the size of an error: a finite number that is not negative."""
    return value is not None and math.isfinite(value) and value >= 0


def shown_error(value: float | None) -> str:
    """The size of an error as messages write it."""
    return "null (not finite)" if value is None else f"{value!r}"


def control_label(name: str, position: str | None) -> str:
    """How messages name one known-wrong output."""
    return f"control {name}" + (f" ({position})" if position else "")


def _spans(spans: Sequence[tuple[int, int]]) -> str:
    shown = [f"{first}-{last}" for first, last in spans]
    if len(shown) > 6:
        shown = [*shown[:3], f"... ({len(shown)} bands)", shown[-1]]
    return ", ".join(shown)
