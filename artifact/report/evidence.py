"""The tables of what was recorded while a run went on: gates, kernels, inputs, GPU and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from artifact.model.results import CheckRecord, GateVerdict, RunResults, Scalar
from artifact.report import words
from artifact.report.tables import Cell, Table, shapes, table, titles
from artifact.report.words import NOTHING, visible


def gates(results: RunResults) -> Table | None:
    """One row a check: what was covered, how far off it was, what the gates said."""
    labels, columns = titles(results), shapes(results)
    return table(
        results,
        "gates",
        "Numerical gates",
        (
            "Implementation",
            "Shape",
            "Elements checked",
            "Largest error",
            "Published gate",
            "Strict gate",
            "Controls rejected",
            "Published gate alone",
        ),
        "llrrllrr",
        (
            (
                labels.get(c.backend, visible(c.backend)),
                columns.get(c.shape, visible(c.shape)),
                _checked(c),
                _largest(c),
                _verdict(c.published),
                _verdict(c.strict),
                _controls(c),
                f"{sum(k.by_published for k in c.controls)}/{len(c.controls)}"
                if c.controls
                else NOTHING,
            )
            for c in results.checks
        ),
        _thresholds(results),
        "A control is a known-wrong output. The strict gate must reject every one of them; the "
        "last column says how many the published gate would have rejected.",
    )


def _thresholds(results: RunResults) -> str:
    if results.gates is None:
        return ""
    published, strict = results.gates.published, results.gates.strict
    return (
        f"Published gate: abs(error) <= {published.atol:g} + {published.rtol:g} * abs(reference). "
        f"Strict gate: in every band of rows, no more than {strict.factor:g} times the error of "
        "the plain low-precision implementation."
    )


def _checked(check: CheckRecord) -> str:
    known = check.checked_elements
    if known is None and check.figures is not None:
        known = check.figures.elements
    return NOTHING if known is None else words.count(known)


def _largest(check: CheckRecord) -> Cell:
    known = check.max_abs_error
    if known is None and check.figures is not None:
        known = check.figures.max_abs
        if known is None or check.figures.nonfinite:
            return Cell("not finite", "bad")
    return Cell(NOTHING if known is None else words.significant(known, 3))


def _verdict(verdict: GateVerdict | None) -> Cell:
    if verdict is None:
        return Cell("not run", "quiet")
    if verdict.passed:
        return Cell("passed", "good")
    return Cell(": ".join(("FAILED", "; ".join(map(visible, verdict.reasons)))).rstrip(": "), "bad")


def _controls(check: CheckRecord) -> Cell:
    if not check.controls:
        return Cell(NOTHING, "quiet")
    missed = [c for c in check.controls if not c.rejected]
    text = f"{len(check.controls) - len(missed)}/{len(check.controls)}"
    if not missed:
        return Cell(text, "good")
    names = ", ".join(f"{c.name} {c.position or ''}".rstrip() for c in missed)
    return Cell(f"{text}; NOT rejected: {names}", "bad")


def witnesses(results: RunResults) -> Table | None:
    """What each worker said of the kernel that ran, beside what the manifest expects."""
    labels, columns = titles(results), shapes(results)

    def listed(facts: dict[str, Scalar]) -> str:
        said = (f"{visible(key)}: {words.scalar(value)}" for key, value in facts.items())
        return "; ".join(said) or NOTHING

    alike: dict[tuple[str, str, str], list[str]] = {}
    for w in results.witnesses:
        place = (w.backend, listed(w.facts), listed(w.expected))
        alike.setdefault(place, []).append(columns.get(w.shape, visible(w.shape)))
    return table(
        results,
        "witnesses",
        "The kernels that ran",
        ("Implementation", "Shapes", "Facts", "Expected"),
        "llll",
        (
            (labels.get(backend, visible(backend)), ", ".join(where), facts, expected)
            for (backend, facts, expected), where in alike.items()
        ),
        "Expected is what the manifest demands; a fact that it does not name is recorded only.",
    )


def tensors(results: RunResults) -> dict[tuple[str, str, str], list[str]]:
    """(shape, tensor, SHA-256) -> the backends that were given it."""
    had: dict[tuple[str, str, str], list[str]] = {}
    for check in results.checks:
        for tensor, digest in check.inputs.items():
            had.setdefault((check.shape, tensor, digest), []).append(check.backend)
    return had


def inputs(results: RunResults) -> Table | None:
    """The digest of each input tensor, and which backends had it."""
    columns = shapes(results)
    return table(
        results,
        "inputs",
        "Inputs",
        ("Shape", "Tensor", "SHA-256 of its bytes", "Given to"),
        "llll",
        (
            (columns.get(shape, visible(shape)), visible(tensor), digest, ", ".join(names))
            for (shape, tensor, digest), names in tensors(results).items()
        ),
    )


def conditions(results: RunResults) -> Table | None:
    """Clocks, temperature, power and clock events of a GPU over the windows of each row."""
    labels, columns = titles(results), shapes(results)
    rows = []
    watched = [sample for sample in results.samples if "sm_mhz_mean" in sample.device]
    places = dict.fromkeys((sample.backend, sample.shape) for sample in watched)
    for backend, shape in places:
        of = [s.device for s in watched if (s.backend, s.shape) == (backend, shape)]
        rows.append(
            (
                labels.get(backend, visible(backend)),
                columns.get(shape, visible(shape)),
                str(len(of)),
                _range(of, "sm_mhz_min", "sm_mhz_max"),
                _range(of, "memory_mhz_min", "memory_mhz_min"),
                _range(of, "temperature_c_min", "temperature_c_max"),
                _range(of, "power_w_mean", "power_w_mean"),
                _range(of, "power_w_max", "power_w_max"),
                _events(of),
            )
        )
    return table(
        results,
        "conditions",
        "The GPU while it was measured",
        (
            "Implementation",
            "Shape",
            "Windows",
            "SM clock, MHz",
            "Memory clock, MHz",
            "Temperature, C",
            "Mean power, W",
            "Highest power, W",
            "Clock events",
        ),
        "llrrrrrrl",
        rows,
        "Read twenty times a second from the beginning of the warm-ups to the end of each window; "
        "trace.csv has every reading. A hardware slowdown, a thermal slowdown or a power brake "
        "makes a sample invalid; a software power cap is recorded.",
    )


def _range(of: Sequence[Mapping[str, Scalar]], low: str, high: str) -> str:
    values = [
        v for facts in of for name in (low, high) if isinstance(v := facts.get(name), int | float)
    ]
    if not values:
        return NOTHING
    ends = [f"{round(end)}" for end in (min(values), max(values))]
    return ends[0] if ends[0] == ends[1] else "\u2013".join(ends)


def _events(of: Sequence[Mapping[str, Scalar]]) -> Cell | str:
    told = [facts.get("clock_events") for facts in of]
    names = dict.fromkeys(name for text in told if text for name in str(text).split(", "))
    if not names:
        return Cell("not told", "quiet")
    return ", ".join(visible(name) for name in names if name != "none") or "none"


_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Build", ("build",)),
    ("Start, import, JIT and autotune of the workers, and their end",
     ("start and import", "setup: ", "stop")),
    ("Inputs and oracle", ("setup: inputs", "setup: oracle")),
    ("Gates and controls", ("check and controls", "witness")),
    ("Waits for the temperature", ("wait for the device",)),
    ("Warm-ups", ("warm-ups",)),
    ("Timed windows", ("timed windows",)),
)  # fmt: skip
"""What the run was waiting for, by the beginnings of activities; the longest one decides."""


def shares(results: RunResults) -> Table | None:
    """The wall time in a few words, and what of it was the runner's own."""
    wall = sum(time.seconds for time in results.times)
    spent = dict.fromkeys((name for name, _ in _GROUPS), 0.0)
    for time in results.times:
        name = _group(time.activity)
        if name is not None:
            spent[name] += time.seconds
    own = wall - sum(spent.values())
    rows = [*spent.items(), ("The runner's own share", own), ("Together", wall)]
    return table(
        results,
        "shares",
        "Where the time went, put together",
        ("For what", "Wall time", "Share"),
        "lrr",
        (
            (name, words.seconds(seconds), words.percent(seconds / wall, signed=False))
            for name, seconds in rows
            if wall > 0 and (seconds > 0 or name not in spent)
        ),
        "The runner's own share is the wall time less everything that it waited for: it holds the "
        "verification of the tree and of the interpreters. Writing these pages comes after it.",
    )


def _group(activity: str) -> str | None:
    best, found = "", None
    for name, starts in _GROUPS:
        for start in starts:
            if activity.startswith(start) and len(start) > len(best):
                best, found = start, name
    return found


def phases(results: RunResults) -> Table | None:
    """Where the wall time went, what was done more than once put together."""
    labels = titles(results)
    spent: dict[tuple[str, str, str], list[float]] = {}
    for time in results.times:
        who = NOTHING if time.backend is None else labels.get(time.backend, visible(time.backend))
        spent.setdefault((time.phase, visible(time.activity), who), []).append(time.seconds)
    return table(
        results,
        "phases",
        "Where the time went",
        ("Phase", "Activity", "Implementation", "Times", "Wall time"),
        "lllrr",
        ((*place, str(len(times_)), words.seconds(sum(times_))) for place, times_ in spent.items()),
    )
