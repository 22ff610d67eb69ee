"""What stands around the times: what ran and where, what figures do not say, what is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from artifact.model.results import ErrorRecord, RunResults
from artifact.report import evidence, tables, words
from artifact.report.builds import builds
from artifact.report.tables import Cell, Table, shapes, table
from artifact.report.words import NOTHING, visible


def every_table(results: RunResults) -> tuple[Table, ...]:
    """The tables of a report in their order, without those that would be empty."""
    made = (
        tables.times(results),
        tables.ratios(results),
        tables.anchor_drift(results),
        tables.ranges(results),
        tables.verdicts(results),
        evidence.gates(results),
        environment(results),
        backends(results),
        builds(results),
        dependencies(results),
        variables(results),
        evidence.witnesses(results),
        evidence.inputs(results),
        evidence.conditions(results),
        evidence.shares(results),
        evidence.phases(results),
        differences(results),
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
    """A sentence for each mark, and the workload's note."""
    said = [f"{mark}: {_EXPLANATIONS[mark]}" for mark in words.marks(results)]
    if results.workload.note:
        said.append(visible(results.workload.note))
    return tuple(said)


def notes(results: RunResults) -> tuple[str, ...]:
    """The run's own notes: what limits its times, and any comparison of them."""
    return tuple(map(visible, results.notes))


def spread(results: RunResults) -> str | None:
    """How far apart the anchor's samples lie where they lie furthest apart; None for no anchor.

    No difference smaller than that means much without an interval.
    """
    anchor = results.anchor
    rows = [row for row in results.summary if row.backend == anchor and row.samples > 1]
    if not rows:
        return None
    row = max(rows, key=lambda row: row.max_ms / row.min_ms)
    title = tables.labels(results).get(row.backend, visible(row.backend))
    return (
        f"At {shapes(results).get(row.shape, visible(row.shape))} the {row.samples} samples of "
        f"{title} reach from {words.milliseconds(row.min_ms)} to {words.milliseconds(row.max_ms)} "
        f"ms, {words.percent(row.max_ms / row.min_ms - 1)}. Short launches scatter most: a gap "
        "of a few percent is no win where its verdict does not say so."
    )


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


#: As many differences of an interpreter as are said in the row that names it.
_FEW = 3


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
            lines = interpreter.differences
            if len(lines) > _FEW:
                differs = f"{len(lines)} differences, in a table of their own"
            else:
                differs = "; ".join(map(visible, lines)) or "differences not listed"
            unread = "; its files were not compared" if interpreter.digests is False else ""
            yield label, Cell(f"{text}, NOT as locked: {differs}{unread}", "warn")


def differences(results: RunResults) -> Table | None:
    """How each interpreter differs from its lock, a row a difference; those of two together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for interpreter in results.interpreters:
        for line in interpreter.differences:
            subject, _, found = line.partition(": ")
            place = (visible(subject) or NOTHING, visible(found) or NOTHING)
            alike.setdefault(place, []).append(interpreter.environment)
    return table(
        results,
        "differences",
        "How interpreters differ from their locks",
        ("What", "Difference", "Environments"),
        "lll",
        ((*place, ", ".join(dict.fromkeys(where))) for place, where in alike.items()),
    )


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
        ("In detail", "\n".join(error.details)),
        ("Likely cause", error.cause),
        ("Next", error.next),
        ("Log", error.log),
        ("Error", f"{error.error}, exit code {error.exit_code}"),
    )
    return tuple((name, words.visible_lines(value)) for name, value in pairs if value)
