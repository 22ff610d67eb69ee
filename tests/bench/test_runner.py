"""Whole runs with fake workers: what is recorded when they succeed, and when they do not."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifact.bench import failures, interpreters, runner
from artifact.bench.check import verify_run
from artifact.bench.plan import Options
from artifact.bench.progress import Progress
from artifact.bench.runner import Outcome
from artifact.errors import (
    ArtifactError,
    EnvironmentUnmet,
    ExitCode,
    FallbackRefused,
    GateFailed,
    MeasurementInvalid,
    VerificationError,
)
from artifact.integrity.documents import load_manifest
from artifact.integrity.lockfile import write_lock
from artifact.model import unlocked
from artifact.model.load import check_schema


class Recorder(Progress):
    """Keeps what a run says, and lets a test act at a step."""

    def __init__(self, at: Callable[[str, str], None] | None = None) -> None:
        self.phases: dict[str, int] = {}
        self.steps: list[tuple[str, str, float | None]] = []
        self.messages: list[str] = []
        self.closed = False
        self._at = at

    def phase(self, phase: str, steps: int) -> None:
        self.phases[phase] = steps

    def step(self, label: str, remaining: float | None = None) -> None:
        phase = list(self.phases)[-1]
        self.steps.append((phase, label, remaining))
        if self._at is not None:
            self._at(phase, label)

    def message(self, text: str) -> None:
        self.messages.append(text)

    def close(self) -> None:
        self.closed = True


def run(root: Path, progress: Progress | None = None, **options: Any) -> Outcome:
    return runner.run(Options(**options), root, load_manifest(root), progress or Recorder())


def results_of(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "results.json").read_bytes())
    check_schema("results", document, "x")
    return document


def only_run(root: Path) -> Path:
    (folder,) = (root / "results").iterdir()
    return folder


def workers_of(root: Path) -> list[int]:
    """Processes whose command names a worker below ``root``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(root / "workers") in command:
                found.append(int(entry.name))
    return found


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all else; tests that look at no page go without."""
    monkeypatch.setattr("artifact.report.base.write_reports", lambda results, folder: ())


@pytest.fixture(scope="module")
def good(fake_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Recorder]:
    """One complete run in paper order, away from the tree."""
    folder = tmp_path_factory.mktemp("good")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        patch.setenv("CHOREO_SCHED_FIXED_COST", "9")
        patch.setenv("CUDA_HOME", f"{folder}/toolkit")
        patch.chdir(folder)
        progress = Recorder()
        outcome = run(
            fake_tree,
            progress,
            results_dir=Path("out"),
            worker_env=(
                "beta:CHOSEN=by-hand",
                f"alpha:WHERE={fake_tree}/x",
                f"alpha:PTXAS={folder}/toolkit/bin/ptxas",
                "beta:PTXAS=/opt/toolkit/bin/ptxas",
            ),
            command=("artifact", "run", "--root", str(fake_tree)),
        )
    return outcome, progress


def test_a_complete_run_agrees_with_itself(good: tuple[Outcome, Recorder]) -> None:
    outcome, _ = good
    report = verify_run(outcome.folder)
    assert report.findings == ()
    assert report.complete
    document = results_of(outcome.folder)
    assert document == outcome.results.model_dump(mode="json")
    assert document["state"] == {"phase": "done", "error": None}
    assert document["marks"] == []
    assert {pin["path"] for pin in document["files"]} >= {
        "lock.json", "logs/alpha.log", "logs/beta.log", "summary.csv", "summary.md", "report.html",
    }  # fmt: skip
    assert not [path for path in outcome.folder.rglob("*") if path.name.endswith(".partial")]


def test_the_suite_is_that_of_the_protocol(good: tuple[Outcome, Recorder]) -> None:
    results = good[0].results
    assert results.order == ("alpha", "beta", "alpha")
    taken = [(s.position, s.backend, s.shape, s.round) for s in results.samples]
    suite = enumerate(("alpha", "beta", "alpha"))
    assert taken == [
        (position, backend, shape, round_)
        for position, backend in suite
        for shape in ("N=8", "N=10")
        for round_ in range(3)
    ]
    assert [(c.backend, c.shape) for c in results.checks] == [
        ("alpha", "N=8"), ("beta", "N=8"), ("alpha", "N=10"), ("beta", "N=10"),
    ]  # fmt: skip
    assert all(len(check.controls) == 3 for check in results.checks)
    assert len(results.witnesses) == 4
    assert all(s.seconds is not None and s.ms * 2 / 1000 <= s.seconds for s in results.samples)


def test_nothing_of_the_machine_is_written_down(good: tuple[Outcome, Recorder]) -> None:
    outcome, _ = good
    results = outcome.results
    alpha, beta = results.backends
    assert alpha.env["FROM_MANIFEST"] == "yes"
    assert alpha.env["WHERE"] == "$ROOT/x"
    assert (alpha.env["PTXAS"], beta.env["PTXAS"]) == ("$CUDA_HOME/bin/ptxas", ".../ptxas")
    assert beta.env["CHOSEN"] == "by-hand"
    assert "CHOREO_SCHED_FIXED_COST" not in alpha.env
    assert results.tool.command == ("artifact", "run", "--root", ".")
    root = os.fsencode(Path(results.artifact.name).anchor)
    assert root == b""
    written = b"".join(path.read_bytes() for path in outcome.folder.rglob("*.[jlcm]*"))
    assert b"$PYTHON -I $ROOT/workers/fake.py --backend alpha" in written
    for name in (str(outcome.folder.parent), os.sep + "pytest-of-"):
        assert os.fsencode(name) not in written


def test_where_the_time_went_adds_up(good: tuple[Outcome, Recorder]) -> None:
    times = good[0].results.times
    assert [t.phase for t in times] == sorted(
        (t.phase for t in times),
        key=["verify", "prepare", "gates", "timing", "report"].index,
    )
    activities = {(t.phase, t.activity) for t in times}
    assert activities >= {
        ("verify", "hash and compare the tree"), ("prepare", "start and import"),
        ("prepare", "setup: inputs"), ("gates", "check and controls"), ("gates", "witness"),
        ("timing", "timed windows"), ("timing", "warm-ups"), ("timing", "wait for the device"),
        ("timing", "runner"), ("report", "summary"),
    }  # fmt: skip
    begin, end = good[0].results.started, good[0].results.finished
    assert end is not None
    parse = lambda text: time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))  # noqa: E731
    assert sum(t.seconds for t in times) <= parse(end) - parse(begin) + 2


def test_progress_counts_every_step(good: tuple[Outcome, Recorder]) -> None:
    progress = good[1]
    assert progress.closed
    for phase, steps in progress.phases.items():
        assert len([step for step in progress.steps if step[0] == phase]) == steps, phase
    timing = [remaining for phase, _, remaining in progress.steps if phase == "timing"]
    assert timing[0] is None
    assert all(left is not None and left > 0 for left in timing[1:])


@pytest.mark.usefixtures("no_pages")
def test_interleaved_order_holds_every_backend_in_each_block(fake_artifact: Path) -> None:
    outcome = run(fake_artifact, order="interleaved")
    results = outcome.results
    assert results.protocol.name == "mixed"
    assert not results.protocol.custom
    blocks: dict[tuple[str, int], list[str]] = {}
    for sample in results.samples:
        blocks.setdefault((sample.shape, sample.round), []).append(sample.backend)
    assert len(blocks) == 6
    assert all(sorted(block) == ["alpha", "beta"] for block in blocks.values())
    assert sorted(results.order) == ["alpha", "beta"]
    log = (outcome.folder / "logs/alpha.log").read_text()
    # Once for the gates and once for the timing of each shape, but N=8 first of all.
    assert log.count('> {"op": "prepare"') == 4
    assert workers_of(fake_artifact) == []


@pytest.mark.usefixtures("no_pages")
def test_marks(fake_artifact: Path) -> None:
    outcome = run(fake_artifact, workload="demo", backends=("alpha",), rounds=4, warmup=0)
    results = outcome.results
    assert results.marks == ("NOT COMPARABLE", "CUSTOM PROTOCOL")
    assert results.protocol.name == "quick+custom"
    assert (results.protocol.rounds, results.protocol.warmup, results.protocol.repeat) == (4, 0, 2)
    assert len(results.samples) == 4


@pytest.mark.usefixtures("no_pages")
def test_an_interpreter_that_differs_marks_the_run(fake_artifact: Path) -> None:
    outcome = run(
        fake_artifact,
        workload="demo",
        interpreters={"--ws-python": Path(sys.executable)},
        unlocked_env=True,
        rounds=1,
    )
    results = outcome.results
    assert results.marks == ("UNLOCKED", "NOT COMPARABLE", "CUSTOM PROTOCOL")
    runner_, other = results.interpreters
    assert (runner_.environment, runner_.locked) == ("runner", None)
    assert (other.environment, other.locked) == ("other", False)
    assert any("pytest" in line for line in other.differences)
    assert results.backends[2].environment == "other"
    assert sys.prefix not in (outcome.folder / "results.json").read_text()
    command = (outcome.folder / "logs/gamma.log").read_text()
    assert "# $ $PYTHON -I $ROOT/workers/fake.py --backend gamma" in command


@pytest.mark.usefixtures("no_pages")
def test_a_library_that_is_not_as_locked_is_noted_for_its_backend_alone(
    fake_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "fake: expected 2.0, found 1.0"
    monkeypatch.setattr(
        interpreters,
        "_differences",
        lambda plan, named, digests: [("x: found 3", line)] * len(named),
    )
    results = run(
        fake_artifact,
        workload="demo",
        interpreters={"--ws-python": Path(sys.executable)},
        unlocked_env=True,
        rounds=1,
    ).results
    title = results.backends[2].title
    assert [note for note in results.notes if "locked: " in note] == [
        f"{title} did not run as locked: {line}."
    ]
    assert [unlocked.is_unlocked(results, b) for b in results.backends] == [False, False, True]


@pytest.mark.usefixtures("no_pages")
def test_an_interpreter_that_nothing_needs_is_noted(fake_artifact: Path) -> None:
    progress = Recorder()
    run(fake_artifact, progress, interpreters={"--ws-python": Path("/no/such")}, rounds=1)
    assert progress.messages == ["note: no backend of this run uses --ws-python"]


def test_an_interpreter_that_differs_is_refused_before_any_worker(fake_artifact: Path) -> None:
    with pytest.raises(EnvironmentUnmet, match="is not what the lock"):
        run(fake_artifact, workload="demo", interpreters={"--ws-python": Path(sys.executable)})
    folder = only_run(fake_artifact)
    assert list((folder / "logs").iterdir()) == []
    assert results_of(folder)["state"]["phase"] == "prepare"


FAULTS: list[tuple[str, type[ArtifactError], type[ArtifactError], str, str]] = [
    # fault, class, its root, phase, part of what is said
    ("protocol@hello", failures.WrongProtocol, MeasurementInvalid, "prepare", "version 2"),
    ("clock@hello", failures.WrongClock, FallbackRefused, "prepare", "cuda-events"),
    ("exit@hello", failures.WorkerDied, MeasurementInvalid, "prepare", "status 3"),
    ("missing_module@hello", failures.MissingModule, EnvironmentUnmet, "prepare", "lacks a module"),
    ("out_of_memory@prepare:2", failures.OutOfMemory, EnvironmentUnmet, "gates", "memory"),
    ("none@prepare", failures.WorkerGarbage, MeasurementInvalid, "prepare", "inputs: "),
    ("inputs@prepare", GateFailed, GateFailed, "gates", "different inputs"),
    ("inputs@prepare:3", GateFailed, GateFailed, "timing", "other inputs"),
    ("error@check", GateFailed, GateFailed, "gates", "wrong answer"),
    ("control@check:2", GateFailed, GateFailed, "gates", "strict gate is broken"),
    ("garbage@check", failures.WorkerGarbage, MeasurementInvalid, "gates", "worker protocol"),
    ("facts@witness", FallbackRefused, FallbackRefused, "gates", "not what the manifest names"),
    ("facts@witness:3", failures.KernelChanged, FallbackRefused, "timing", "was checked"),
    ("crash@time:2", failures.WorkerDied, MeasurementInvalid, "timing", "SIGSEGV"),
    ("clock@time", failures.WrongClock, FallbackRefused, "timing", "cuda-events"),
    ("counts@time", failures.WorkerMistimed, MeasurementInvalid, "timing", "1 launches"),
    ("mistimed@time", failures.WorkerMistimed, MeasurementInvalid, "timing", "more time than"),
    ("backend@time", failures.WrongBackend, FallbackRefused, "timing", "someone-else"),
    ("fallback@time", failures.WorkerFallback, FallbackRefused, "timing", "something else"),
    ("status@quit", failures.WorkerDied, MeasurementInvalid, "timing", "status 7"),
]


@pytest.mark.parametrize(
    ("fault", "kind", "root_kind", "phase", "said"), FAULTS, ids=[f[0] for f in FAULTS]
)
def test_a_fault_ends_the_suite_and_says_all_that_helps(
    fake_artifact: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    kind: type[ArtifactError],
    root_kind: type[ArtifactError],
    phase: str,
    said: str,
) -> None:
    monkeypatch.chdir(fake_artifact)
    progress = Recorder()
    command = ("artifact", "run", "--worker-env", f"beta:FAULT={fault}")
    with pytest.raises(kind) as caught:
        run(fake_artifact, progress, worker_env=command[3:], command=command)
    error = caught.value
    assert isinstance(error, root_kind)
    assert said in error.render()
    folder = only_run(fake_artifact)
    lines = str(error.where).splitlines()
    assert lines[0].startswith(f"backend beta, phase {phase}")
    assert lines[-1] == f"raw log: results/{folder.name}/logs/beta.log"
    assert error.next
    document = results_of(folder)
    assert document["complete"] is False
    record = document["state"]["error"]
    assert record["error"] == kind.__name__
    assert record["exit_code"] == int(error.exit_code)
    assert (record["phase"], record["backend"]) == (phase, "beta")
    assert record["log"] == "logs/beta.log"
    assert str(fake_artifact) not in json.dumps(document)
    assert document["finished"] is not None
    if phase == "timing":
        assert document["samples"]
    assert {path.name for path in folder.iterdir()} == {"results.json", "lock.json", "logs"}
    assert progress.closed
    assert workers_of(fake_artifact) == []
    assert verify_run(folder).findings


def test_the_grid_of_a_shape_is_held_against_the_facts(fake_artifact: Path) -> None:
    path = fake_artifact / "manifests/artifact.toml"
    witness = 'witness = { implementation = "fake" }'
    path.write_text(
        path.read_text().replace(witness, witness.replace(" }", ', grid = ["N/2", "M"] }'), 1)
    )
    write_lock(fake_artifact)
    with pytest.raises(FallbackRefused) as caught:
        run(fake_artifact, workload="tiny")
    assert caught.value.found == "grid: expected '4x2x1', but it is not reported"
    (record,) = results_of(only_run(fake_artifact))["witnesses"]
    assert record["expected"]["grid"] == "4x2x1"


def test_a_changed_worker_is_never_executed(fake_artifact: Path) -> None:
    worker = fake_artifact / "workers/fake.py"
    worker.write_text(f"open({str(fake_artifact / 'executed')!r}, 'w')\n" + worker.read_text())
    with pytest.raises(VerificationError) as caught:
        run(fake_artifact)
    assert caught.value.exit_code == ExitCode.VERIFICATION
    assert "workers/fake.py" in caught.value.render()
    assert not (fake_artifact / "executed").exists()
    document = results_of(only_run(fake_artifact))
    assert document["state"]["phase"] == "verify"
    assert document["artifact"]["content_id"] is None


def test_an_extra_file_stops_the_run(fake_artifact: Path) -> None:
    (fake_artifact / "workers/sitecustomize.py").touch()
    with pytest.raises(VerificationError, match="not what the lock pins"):
        run(fake_artifact)


def test_a_manifest_that_changes_after_it_was_read(fake_artifact: Path) -> None:
    manifest = load_manifest(fake_artifact)
    other = manifest.model_copy(update={"default_workload": "demo"})
    with pytest.raises(VerificationError, match="changed while it was verified"):
        runner.run(Options(workload="tiny"), fake_artifact, other, Recorder())


def test_an_error_that_nobody_foresaw_is_recorded_and_seen(
    fake_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("artifact.bench.gates.require_passed", broken)
    with pytest.raises(ZeroDivisionError):
        run(fake_artifact)
    record = results_of(only_run(fake_artifact))["state"]["error"]
    assert (record["error"], record["what"], record["phase"]) == (
        "ZeroDivisionError",
        "oops",
        "gates",
    )
    assert workers_of(fake_artifact) == []


def test_a_signal_while_the_folder_is_made_is_recorded_in_it(
    fake_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = runner.create

    def create(*args: Any) -> Path:
        folder = real(*args)
        os.kill(os.getpid(), signal.SIGINT)
        return folder

    monkeypatch.setattr(runner, "create", create)
    with pytest.raises(ArtifactError) as caught:
        run(fake_artifact)
    assert caught.value.exit_code == ExitCode.INTERRUPTED
    document = results_of(only_run(fake_artifact))
    assert document["state"]["error"]["error"] == "Interrupted"


@pytest.mark.parametrize("phase", ["verify", "prepare", "gates", "timing", "report"])
def test_an_interrupt_in_each_phase(fake_artifact: Path, phase: str) -> None:
    def interrupt(at: str, label: str) -> None:
        if at == phase and (phase != "timing" or "round 3" in label):
            raise KeyboardInterrupt

    with pytest.raises(ArtifactError) as caught:
        run(fake_artifact, Recorder(interrupt))
    assert caught.value.exit_code == ExitCode.INTERRUPTED
    folder = only_run(fake_artifact)
    document = results_of(folder)
    assert document["complete"] is False
    assert document["state"]["error"]["error"] == "Interrupted"
    assert document["state"]["phase"] == phase
    assert len(document["samples"]) == {"timing": 2, "report": 18}.get(phase, 0)
    assert workers_of(fake_artifact) == []


def test_pages_of_a_run_that_fails_late_are_removed(
    fake_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(results: object, folder: Path) -> None:
        (folder / "summary.md").write_text("complete: yes")
        raise OSError(28, "No space left on device", str(folder / "report.html"))

    monkeypatch.setattr("artifact.report.base.write_reports", half)
    with pytest.raises(EnvironmentUnmet) as caught:
        run(fake_artifact)
    assert caught.value.found == "No space left on device"
    folder = only_run(fake_artifact)
    assert not (folder / "summary.md").exists()
    assert len(results_of(folder)["samples"]) == 18
    assert results_of(folder)["complete"] is False


def test_scratch_is_removed(
    fake_artifact: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with pytest.raises(MeasurementInvalid):
        run(fake_artifact, worker_env=("beta:FAULT=exit@check",))
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("no_pages")
def test_results_are_written_during_the_timing(
    fake_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long a write takes on a busy machine, it is not put off.
    monkeypatch.setattr("artifact.bench.rundir._MAX_SHARE", float("inf"))
    seen: list[int] = []

    def look(phase: str, label: str) -> None:
        if phase == "timing":
            document = results_of(only_run(fake_artifact))
            assert document["complete"] is False
            seen.append(len(document["samples"]))

    run(fake_artifact, Recorder(look))
    assert len(seen) > 6
    assert seen == list(range(len(seen)))


@pytest.mark.usefixtures("no_pages")
def test_a_sample_that_is_not_valid_ends_the_run_and_is_kept(
    fake_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "artifact.bench.device.Watch.end", lambda self: ({}, ("another process on the device",))
    )
    with pytest.raises(MeasurementInvalid) as caught:
        run(fake_artifact)
    assert caught.value.found == "another process on the device"
    (sample,) = results_of(only_run(fake_artifact))["samples"]
    assert sample["valid"] is False


class Meddler(Recorder):
    """Somebody who writes into the tree while it is measured."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def phase(self, phase: Any, steps: int) -> None:
        super().phase(phase, steps)
        if phase == "timing":
            self.path.write_text("changed meanwhile\n")


def test_a_tree_that_changed_while_it_was_measured_is_no_result(
    fake_artifact: Path, no_pages: None
) -> None:
    with pytest.raises(VerificationError) as caught:
        run(fake_artifact, Meddler(fake_artifact / "other.lock"))
    assert "other.lock" in caught.value.render()
    document = results_of(only_run(fake_artifact))
    assert document["complete"] is False
    assert document["state"]["phase"] == "report"
    assert len(document["samples"]) == 18
