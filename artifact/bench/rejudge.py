"""What a run concluded, concluded again from what it measured.

Verdicts from figures, refused fallbacks from facts, medians and intervals from samples: all
of it is arithmetic on results.json, with the rules that stand in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from artifact.bench import agreement, gates, witness
from artifact.bench.rundir import RESULTS
from artifact.bench.summary import summarise
from artifact.errors import VerificationError
from artifact.integrity.pin import Finding
from artifact.model.backend import Witness
from artifact.model.manifest import GateRules
from artifact.model.results import (
    CheckRecord,
    Comparison,
    ControlRecord,
    GateVerdict,
    RunResults,
    SummaryRow,
)


def finding(
    message: str, expected: str | None = None, found: str | None = None, reason: str | None = None
) -> Finding:
    """A finding about results.json; ``message`` begins with the dotted place in it."""
    return Finding("results", RESULTS, message, expected, found, reason)


def gate_findings(results: RunResults) -> Iterator[Finding]:
    """Every verdict made again from its figures; in a complete run every gate must hold."""
    dims = {shape.name: shape.dims for shape in results.workload.shapes}
    rules = results.gates
    for i, record in enumerate(results.checks):
        place = f"checks[{i}] ({record.backend}, {record.shape})"
        if rules is not None and record.figures is not None and record.shape in dims:
            try:
                yield from _judged_again(place, record, rules, dims[record.shape])
                problems = gates.control_problems(record, rules, dims[record.shape])
            except (ValueError, KeyError, ArithmeticError) as error:
                yield finding(f"gates.output: says nothing about {record.shape}: {error}")
                continue
            if results.complete:
                for problem in problems:
                    yield finding(f"{place}.controls: {problem}")
        elif results.origin == "measured" and record.figures is None:
            yield finding(f"{place}.figures: a measured check has figures")
        if results.complete:
            for name, verdict in (("published", record.published), ("strict", record.strict)):
                if verdict is not None and not verdict.passed:
                    reason = "; ".join(verdict.reasons[:3]) or None
                    yield finding(
                        f"{place}.{name}: a complete run passed every gate", "passed", "not", reason
                    )
    for difference in (
        *agreement.input_differences(results.checks),
        *agreement.baseline_differences(results.checks),
    ):
        yield finding(f"checks: {difference}")


def _judged_again(
    place: str, record: CheckRecord, rules: GateRules, dims: Mapping[str, int]
) -> Iterator[Finding]:
    assert record.figures is not None
    again = gates.judge_figures(
        record.backend, record.shape, record.inputs, record.figures, record.controls, rules, dims
    )
    for name in ("published", "strict", "checked_elements", "max_abs_error"):
        ours, theirs = getattr(again, name), getattr(record, name)
        if ours != theirs:
            yield finding(
                f"{place}.{name}: does not follow from the figures", _shown(ours), _shown(theirs)
            )
    for k, (ours, theirs) in enumerate(zip(again.controls, record.controls, strict=True)):
        if ours != theirs:
            yield finding(
                f"{place}.controls[{k}] ({theirs.name}): does not follow from the figures",
                _shown(ours),
                _shown(theirs),
            )


def _shown(value: GateVerdict | ControlRecord | float | None) -> str:
    if isinstance(value, GateVerdict):
        return "passed" if value.passed else f"not passed: {'; '.join(value.reasons[:3])}"
    if isinstance(value, ControlRecord):
        return f"rejected: {value.rejected}, by the published gate: {value.by_published}"
    return repr(value)


def witness_findings(results: RunResults) -> Iterator[Finding]:
    """Facts against expectations once more; in a complete run every one was met."""
    for i, record in enumerate(results.witnesses):
        place = f"witnesses[{i}] ({record.backend}, {record.shape})"
        unknown = record.expected.keys() - Witness.model_fields.keys()
        if unknown:
            yield finding(f"{place}.expected: holds {', '.join(sorted(unknown))}")
            continue
        try:
            expected = witness.recorded(record.expected)
        except ValueError:
            yield finding(f"{place}.expected: is nothing that a manifest could state")
            continue
        if results.complete:
            for difference in witness.compare(expected, record.facts):
                yield finding(f"{place}: {difference}")


def statistics_findings(results: RunResults) -> Iterator[Finding]:
    """Summary and comparisons made again from the samples."""
    if results.statistics is None:
        return
    try:
        rows, comparisons = summarise(
            results.samples,
            results.workload,
            [backend.name for backend in results.backends],
            results.anchor,
            results.metric,
            results.statistics,
            results.protocol,
        )
    except (VerificationError, ValueError, ArithmeticError) as error:
        yield finding(f"samples: cannot be put together: {error}")
        return
    yield from _differences("summary", rows, results.summary)
    yield from _differences("comparisons", comparisons, results.comparisons)


def _differences(
    place: str,
    wanted: Sequence[SummaryRow | Comparison],
    found: Sequence[SummaryRow | Comparison],
) -> Iterator[Finding]:
    ours = [(item.backend, item.shape) for item in wanted]
    theirs = [(item.backend, item.shape) for item in found]
    if ours != theirs:
        yield finding(
            f"{place}: does not have one entry for each backend and shape, in their order",
            f"{len(ours)} entries",
            f"{len(theirs)} entries",
        )
        return
    for i, (again, record) in enumerate(zip(wanted, found, strict=True)):
        for name in type(again).model_fields:
            a, b = getattr(again, name), getattr(record, name)
            if not _agree(a, b):
                yield finding(
                    f"{place}[{i}] ({record.backend}, {record.shape}).{name}: does not follow "
                    "from the samples",
                    repr(a),
                    repr(b),
                )


def _agree(ours: object, theirs: object) -> bool:
    """Equal, but for the last digits of floats: logarithms differ between C libraries."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
    return ours == theirs
