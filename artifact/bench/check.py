"""A run folder against itself: everything in it that follows from something else in it.

Its files must be those that results.json pins, every backend and shape must have what the
protocol asks for, every verdict must follow from its figures, every median, interval and
table from the samples. What this cannot show is who measured: for that, results.json itself
has to be pinned from outside, as a published run is by the artifact's lock.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from artifact.bench.buildcheck import build_findings
from artifact.bench.rejudge import (
    finding,
    gate_findings,
    statistics_findings,
    witness_findings,
)
from artifact.bench.rundir import RESULTS
from artifact.bench.runfiles import file_findings, lock_findings
from artifact.bench.schedule import schedule, suite_order
from artifact.bench.tablecheck import table_findings, table_notes
from artifact.errors import VerificationError
from artifact.integrity.pin import Finding
from artifact.integrity.verify import findings_error
from artifact.model.load import load_json, read_bytes
from artifact.model.results import RUNNER, CheckRecord, RunResults, WitnessRecord
from artifact.model.unlocked import misnoted


@dataclass(frozen=True, slots=True)
class RunReport:
    """What the verification of one run folder found."""

    label: str
    run_id: str
    complete: bool
    origin: str
    findings: tuple[Finding, ...]
    """Empty exactly if the run is complete and agrees with itself."""
    notes: tuple[str, ...]
    """What could not be checked, and why. No failures."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def require(self) -> None:
        """Do nothing where nothing was found.

        Raises:
            VerificationError: naming the findings otherwise.
        """
        if self.findings:
            what = "the run folder does not agree with itself"
            if not self.complete:
                what = "the run is not complete"
            command = f"artifact verify {shlex.quote(self.label)}"
            raise findings_error(VerificationError, what, self.label, self.findings, command)


def load_results(folder: Path) -> RunResults:
    """The results of a run folder, strictly: JSON Schema, then the model.

    Raises:
        VerificationError: where there are none, or they break their schema, their protocol
            digest or their state.
        EnvironmentUnmet: where they cannot be read.
    """
    path = folder / RESULTS
    data = read_bytes(path, next=f"name the folder of a run, which holds {RESULTS}")
    return load_json("results", RunResults, data, str(path))


def verify_run(folder: Path) -> RunReport:
    """Check the run in ``folder``; every finding in one pass.

    Of an incomplete run only what it has is checked: that it is not complete is a finding,
    which names the phase and the error, and what it lacks is no finding beside it.

    Raises:
        VerificationError: where results.json is missing or not valid, so that nothing can
            be compared.
        EnvironmentUnmet: where something cannot be read.
    """
    results = load_results(folder)
    findings = [*_state(results), *lock_findings(folder, results)]
    findings += [*_marks(results), *_locked(results)]
    if results.complete:
        findings += file_findings(folder, results)
        findings += _schedule(results)
        findings += _records(results)
        findings += statistics_findings(results)
        findings += _unlocked(results)
        findings += table_findings(folder, results)
    findings += _samples(results)
    findings += gate_findings(results)
    findings += witness_findings(results)
    findings += build_findings(folder, results)
    return RunReport(
        label=str(folder),
        run_id=results.run_id,
        complete=results.complete,
        origin=results.origin,
        findings=tuple(findings),
        notes=tuple(_notes(folder, results)),
    )


def _state(results: RunResults) -> Iterator[Finding]:
    if results.complete:
        return
    phase, error = results.state.phase, results.state.error
    if error is None:
        yield finding(
            f"the run is not complete: it stopped in the phase {phase}",
            "complete: true",
            "no error was recorded",
            "it is still running, or was killed",
        )
        return
    places = [p for p in (error.backend, error.shape) if p is not None]
    yield finding(
        f"the run is not complete: it ended in the phase {error.phase}"
        + (f" ({', '.join(places)})" if places else ""),
        "complete: true",
        f"{error.error}: {error.what}",
        "; ".join(filter(None, (error.found or error.cause, error.next))),
    )


def _marks(results: RunResults) -> Iterator[Finding]:
    """Tables show the marks; a fact of the run that calls for one must have it."""
    facts = {
        "UNLOCKED": any(interpreter.locked is False for interpreter in results.interpreters)
        or (results.build is not None and bool(results.build.differences)),
        "MODIFIED": bool(results.artifact.modified),
        "NOT COMPARABLE": not results.workload.comparable,
        "CUSTOM PROTOCOL": results.protocol.custom,
    }
    for mark, calls in facts.items():
        if calls and mark not in results.marks:
            yield finding(f"marks: lacks {mark}, which the run's own facts call for")


def _locked(results: RunResults) -> Iterator[Finding]:
    """Only what was compared in every byte and does not differ is as locked."""
    if results.origin != "measured":
        return
    for i, interpreter in enumerate(results.interpreters):
        place = f"interpreters[{i}] ({interpreter.environment})"
        if interpreter.locked and interpreter.differences:
            yield finding(
                f"{place}: is called locked, beside differences from its lock",
                "locked: false",
                interpreter.differences[0],
            )
        elif interpreter.locked and not interpreter.digests:
            yield finding(f"{place}: is called locked, and its files were not compared")
        elif interpreter.locked is None and interpreter.environment != RUNNER:
            yield finding(f"{place}: is neither called locked nor not")
    known = Counter(interpreter.environment for interpreter in results.interpreters)
    # A run that ended early may not have come to the interpreters of its backends.
    needed = {b.environment for b in results.backends if b.environment and results.complete}
    for name in sorted(needed | known.keys()):
        if known[name] != 1:
            yield finding(f"interpreters: {known[name]} of the environment {name}", "1")


def _unlocked(results: RunResults) -> Iterator[Finding]:
    """Tables mark the rows that notes speak of; each must follow from what was found installed."""
    for note in misnoted(results):
        said = note in results.notes
        yield finding(
            "notes: " + ("has one" if said else "lacks one") + " against the run's own facts",
            "no such note" if said else note,
            note if said else "none",
        )


def _schedule(results: RunResults) -> Iterator[Finding]:
    """Every window of the protocol has one valid sample, and no other has any."""
    order = tuple(dict.fromkeys(results.order))
    names = [backend.name for backend in results.backends]
    if sorted(order) != sorted(names):
        yield finding(
            "order: does not hold the backends of this run", ", ".join(names), ", ".join(order)
        )
        return
    shapes = [shape.name for shape in results.workload.shapes]
    if results.protocol.rounds > len(results.samples):
        # Also keeps a forged number of rounds from being counted out below.
        yield finding(
            "samples: there are fewer than rounds",
            f"{results.protocol.rounds} rounds of each backend and shape",
            f"{len(results.samples)} samples",
        )
        return
    try:
        windows = schedule(results.protocol, order, shapes, results.anchor)
    except ValueError as error:
        yield finding(f"backends: no protocol can time them: {error}")
        return
    if suite_order(windows) != results.order:
        yield finding(
            "order: is not that of the protocol",
            ", ".join(suite_order(windows)),
            ", ".join(results.order),
        )
    wanted = Counter((w.backend, w.shape, w.position, w.round) for w in windows)
    found = Counter((s.backend, s.shape, s.position, s.round) for s in results.samples if s.valid)
    for backend in names:
        for shape in shapes:
            asked, got = _counted(wanted, backend, shape), _counted(found, backend, shape)
            if asked != got:
                yield finding(
                    f"samples: {backend}, {shape}: not one valid sample for each window",
                    f"{sum(asked.values())} windows",
                    f"{sum(got.values())} valid samples",
                    _windows(asked - got, "without") or _windows(got - asked, "too many at"),
                )
    others = {(s.backend, s.shape) for s in results.samples} - {
        (w.backend, w.shape) for w in windows
    }
    for backend, shape in sorted(others):
        yield finding(f"samples: {backend}, {shape}: is not of this run")


def _counted(
    windows: Mapping[tuple[str, str, int, int], int], backend: str, shape: str
) -> Counter[tuple[int, int]]:
    return Counter(
        {(p, r): count for (b, s, p, r), count in windows.items() if (b, s) == (backend, shape)}
    )


def _windows(windows: Counter[tuple[int, int]], word: str) -> str | None:
    if not windows:
        return None
    shown = [f"position {position} round {round_}" for position, round_ in sorted(windows)]
    return f"{word} {', '.join(shown[:4])}" + (", ..." if len(shown) > 4 else "")


def _records(results: RunResults) -> Iterator[Finding]:
    """One check and one witness for each backend and shape, and none for another."""
    measured = results.origin == "measured"
    wanted = [(b.name, s.name) for b in results.backends for s in results.workload.shapes]
    places: dict[str, tuple[CheckRecord | WitnessRecord, ...]] = {
        "checks": results.checks,
        "witnesses": results.witnesses,
    }
    for place, records in places.items():
        found = Counter((record.backend, record.shape) for record in records)
        for key in wanted:
            if found[key] == 0 and measured:
                yield finding(f"{place}: {key[0]}, {key[1]}: is not there")
        for key, count in found.items():
            if key not in wanted:
                yield finding(f"{place}: {key[0]}, {key[1]}: is not of this run")
            elif count > 1:
                yield finding(f"{place}: {key[0]}, {key[1]}: stands {count} times")
    for name in ("gates", "statistics"):
        if measured and getattr(results, name) is None:
            yield finding(f"{name}: a measured run states the rules that it was judged by")


def _samples(results: RunResults) -> Iterator[Finding]:
    for i, sample in enumerate(results.samples):
        if sample.valid and sample.reasons:
            yield finding(
                f"samples[{i}]: is called valid, with reasons against it",
                found="; ".join(sample.reasons),
            )
        if not sample.valid and not sample.reasons:
            yield finding(f"samples[{i}]: is called invalid without a reason")


def _notes(folder: Path, results: RunResults) -> Iterator[str]:
    if folder.resolve().name != results.run_id:
        yield f"the folder is called {folder.resolve().name}, the run {results.run_id}"
    yield from table_notes(results)
    if results.artifact.lock_blake3 is None:
        yield "the run names no lock: which bytes were measured is not shown"
    if results.gates is None:
        yield "no gate rules: verdicts of checks cannot be made again"
    elif any(record.figures is None for record in results.checks):
        yield "some checks have no figures: their verdicts cannot be made again"
    if results.statistics is None:
        yield "no rules of statistics: summary and comparisons cannot be made again"
    for place, reason in results.absent.items():
        yield f"{place}: {reason}"
