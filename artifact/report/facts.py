"""The tables around the times: what ran, where, under which gates, and what is not known."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from artifact.model.results import CheckRecord, ErrorRecord, GateVerdict, RunResults, Scalar
from artifact.report import tables, words
from artifact.report.builds import builds
from artifact.report.tables import Cell, Table, shapes, table, titles
from artifact.report.words import NOTHING, visible


def every_table(results: RunResults) -> tuple[Table, ...]:
    """The tables of a report in their order, without those that would be empty."""
    made = (
        tables.times(results),
        tables.ratios(results),
        tables.anchor_drift(results),
        tables.ranges(results),
        tables.verdicts(results),
        gates(results),
        environment(results),
        backends(results),
        builds(results),
        dependencies(results),
        variables(results),
        witnesses(results),
        inputs(results),
        conditions(results),
        shares(results),
        phases(results),
        absent(results),
    )
    return tuple(table for table in made if table is not None)


_EXPLANATIONS = {
    "INCOMPLETE": "The run did not reach its end: what is missing is missing, and what is here "
    "has not passed every check.",
    "UNLOCKED": "An interpreter or a toolkit differed from its lock.",
    "MODIFIED": "Kernels differed from the pinned ones.",
    "NOT COMPARABLE": "These figures may not be compared with published ones.",
    "CUSTOM PROTOCOL": "The timing protocol was changed on the command line.",
}


def explained(results: RunResults) -> tuple[str, ...]:
    """A sentence for each mark, the workload's note, and the run's own notes."""
    said = [f"{mark}: {_EXPLANATIONS[mark]}" for mark in words.marks(results)]
    if results.workload.note:
        said.append(visible(results.workload.note))
    said += map(visible, results.notes)
    return tuple(said)


def checks(results: RunResults) -> tuple[tuple[str, str], ...]:
    """What a reader can do to check a report: a sentence and a command each."""
    run = f"results/{shlex.quote(results.run_id)}"
    return (
        ("Check every file of the run folder against results.json", f"artifact verify {run}"),
        ("Render the tables again from results.json", f"artifact report {run}"),
        (
            "Draw the figures from summary.csv alone",
            f"python -m artifact.report.plots {run}/summary.csv --output .",
        ),
    )


def environment(results: RunResults) -> Table | None:
    """Run, artifact, protocol, device, machine and interpreters, a row each."""
    return table(
        results, "environment", "Run, device and machine", ("Fact", "Value"), "ll",
        _environment(results),
    )  # fmt: skip


def _environment(results: RunResults) -> Iterator[tuple[str, Cell | str]]:
    yield "Run", visible(results.run_id)
    if results.origin == "published":
        yield "Origin", "figures published earlier; not measured by this tool"
    yield "Started", results.started
    yield (
        "Finished",
        results.finished or (NOTHING if results.complete else Cell("not finished", "bad")),
    )
    artifact = results.artifact
    yield "Artifact", f"{artifact.name} {visible(artifact.version or NOTHING)}"
    yield "Content id", artifact.content_id or NOTHING
    if artifact.modified:
        yield "Modified", Cell(", ".join(map(visible, artifact.modified)), "warn")
    workload = results.workload
    yield "Workload", f"{visible(workload.title)} ({workload.name}, seed {workload.seed})"
    yield "Protocol", words.protocol_line(results).removeprefix("protocol ")
    device = results.device
    target = f", target {device.target}" if device.target else ""
    yield "Device", f"{visible(device.name)} ({device.kind.upper()}{target})"
    for key, value in device.facts.items():
        yield f"Device: {visible(key)}", words.scalar(value)
    if results.machine is not None:
        machine = results.machine
        memory = machine.memory_bytes
        shown = "" if memory is None else f", {words.gibibytes(memory)} memory"
        yield "Machine", f"{visible(machine.cpu)}, {words.plural(machine.cores, 'core')}{shown}"
        yield "System", visible(f"{machine.system} {machine.release} {machine.architecture}")
    tool = results.tool
    python = "" if tool.python is None else f", Python {visible(tool.python)}"
    yield (
        "Tool" if results.origin == "measured" else "Imported by",
        f"{visible(tool.name)} {visible(tool.version)}{python}",
    )
    yield "Command", visible(shlex.join(tool.command)) or NOTHING
    if tool.seeded_cache is not None:
        seeded = tool.seeded_cache
        yield (
            "Compile caches",
            f"began with {words.plural(seeded.files, 'file')} of an earlier run, "
            f"blake3:{seeded.blake3}",
        )
    for interpreter in results.interpreters:
        label = f"Interpreter: {interpreter.environment}"
        text = f"{visible(interpreter.implementation)} {visible(interpreter.python)}"
        if interpreter.locked is None:
            yield label, f"{text}, the tool's own"
        elif interpreter.locked:
            yield label, f"{text}, as locked"
        else:
            differs = "; ".join(map(visible, interpreter.differences)) or "differences not listed"
            yield label, Cell(f"{text}, NOT as locked: {differs}", "warn")


def backends(results: RunResults) -> Table | None:
    """The worker of each backend, its environment and libraries."""
    return table(
        results,
        "backends",
        "Implementations",
        ("Implementation", "Name", "Environment", "Worker", "Worker BLAKE3", "Versions"),
        "llllll",
        (
            (
                visible(b.title),
                b.name,
                b.environment or NOTHING,
                visible(b.worker or NOTHING),
                b.worker_blake3[: words.SHORT] if b.worker_blake3 else NOTHING,
                ", ".join(visible(f"{k} {v}") for k, v in b.versions.items()) or NOTHING,
            )
            for b in results.backends
        ),
    )


def dependencies(results: RunResults) -> Table | None:
    """What a published run was built on and taken from."""
    return table(
        results,
        "dependencies",
        "What it was built on and taken from",
        ("Name", "Version", "Revision or SHA-256", "Role"),
        "llll",
        (
            (
                visible(d.name),
                visible(d.version or NOTHING),
                visible(d.revision or d.sha256 or NOTHING),
                visible(d.role),
            )
            for d in results.dependencies
        ),
    )


def variables(results: RunResults) -> Table | None:
    """The environment variables of the workers, those that are alike together."""
    alike: dict[str, list[str]] = {}
    for backend in results.backends:
        said = "; ".join(visible(f"{key}={value}") for key, value in backend.env.items())
        if said:
            alike.setdefault(said, []).append(visible(backend.title))
    return table(
        results,
        "variables",
        "Environment variables of the workers",
        ("Implementations", "Variables"),
        "ll",
        ((", ".join(titles_), said) for said, titles_ in alike.items()),
    )


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


def absent(results: RunResults) -> Table | None:
    """What results.json does not hold, and why."""
    return table(
        results, "absent", "What is not known, and why", ("Place in results.json", "Reason"), "ll",
        ((visible(place), visible(reason)) for place, reason in results.absent.items()),
    )  # fmt: skip


def error_rows(error: ErrorRecord) -> tuple[tuple[str, str], ...]:
    """The error of a run that ended early: what a person needs to act on it, in order."""
    pairs = (
        ("What", error.what),
        ("Phase", error.phase),
        ("Backend", error.backend),
        ("Shape", error.shape),
        ("Where", error.where),
        ("Expected", error.expected),
        ("Found", error.found),
        ("Likely cause", error.cause),
        ("Next", error.next),
        ("Log", error.log),
        ("Error", f"{error.error}, exit code {error.exit_code}"),
    )
    return tuple((name, words.visible_lines(value)) for name, value in pairs if value)
