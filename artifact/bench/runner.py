"""A run from its first check to its last byte: verify, prepare, gates, timing, report.

Whatever ends a run early (an error, a signal, a full disk), its workers are stopped, what
was measured is kept, and results.json says ``complete: false``, where and why.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from artifact.bench import agreement, caches, ending, gates, interpreters, witness
from artifact.bench.childenv import make_scratch
from artifact.bench.contents import Contents
from artifact.bench.device import Watch
from artifact.bench.exclusive import exclusive
from artifact.bench.gpuwatch import GpuWatch
from artifact.bench.interpreters import Chosen
from artifact.bench.opening import first_document
from artifact.bench.plan import Options, Plan, make_plan
from artifact.bench.progress import Progress
from artifact.bench.reaper import Reaper
from artifact.bench.rundir import RunDir, create, stamp, utc_now
from artifact.bench.schedule import schedule, suite_order
from artifact.bench.scrub import Scrubber
from artifact.bench.session import Session
from artifact.bench.signals import deferred, ignored
from artifact.bench.starting import Starter
from artifact.bench.summary import summarise
from artifact.bench.times import Times
from artifact.bench.timing import take_samples
from artifact.errors import EnvironmentUnmet
from artifact.integrity.atomic import write_atomic
from artifact.model.backend import Backend
from artifact.model.manifest import Manifest
from artifact.model.results import (
    Mark,
    Phase,
    RunResults,
    State,
)
from artifact.model.unlocked import unlocked_libraries
from artifact.model.workload import Shape


@dataclass(frozen=True)
class Outcome:
    """A run that is complete."""

    results: RunResults
    folder: Path


def run(
    options: Options, root: Path, manifest: Manifest, progress: Progress, nvml: Any = None
) -> Outcome:
    """Do what ``options`` ask for, and write it into a new run folder.

    Args:
        options: What was asked for.
        root: The artifact's root.
        manifest: Its manifest, as it was read from ``root``.
        progress: Shows how far the run is.
        nvml: Stands for the module ``pynvml`` in tests.

    Raises:
        ArtifactError: what ended the run. Where there was a run folder already, it keeps
            what was measured and says the same.
    """
    plan = make_plan(options, root, manifest, nvml)
    chosen = interpreters.choose(plan)
    for option in interpreters.unused(plan):
        progress.message(f"note: no backend of this run uses {option}")
    moment = utc_now()
    holder = {"workload": plan.workload.name, "since": stamp(moment)}
    with (
        exclusive(plan.lock_name, holder),
        contextlib.closing(_watch(plan, progress, nvml)) as watch,
        contextlib.ExitStack() as held,
    ):
        # From the making of the folder on, a signal waits until the run can take note of it.
        held.enter_context(deferred())
        device = plan.device.target or plan.device.kind
        folder = create(plan.results_dir, device, manifest.report.suffix, moment)
        return _Run(plan, chosen, folder, moment, progress, watch).complete(held)


def _watch(plan: Plan, progress: Progress, nvml: Any) -> Watch:
    if plan.gpu is None:
        return Watch()
    return GpuWatch(plan.gpu, plan.protocol, nvml, say=progress.message)


class _Run:
    """The state of one run, whose phases are its methods."""

    def __init__(
        self,
        plan: Plan,
        chosen: dict[str, Chosen],
        folder: Path,
        moment: datetime,
        progress: Progress,
        watch: Watch,
    ) -> None:
        self.plan = plan
        self.chosen = chosen
        self.folder = folder
        self.progress = progress
        self.times = Times()
        self.watch = watch
        self.scrub = Scrubber(
            [
                ("$RUN", folder),
                ("$ROOT", plan.root),
                *((c.token, c.path) for c in chosen.values()),
                ("$HOME", os.environ.get("HOME", "")),
                ("$CUDA_HOME", os.environ.get("CUDA_HOME", "")),
            ]
        )
        if plan.gpu is not None:
            for name in (plan.gpu.uuid, plan.gpu.card, plan.options.gpu or ""):
                if name.startswith(("GPU-", "MIG-")):
                    self.scrub.name("$GPU", name)
        self.sessions: list[Session] = []
        self.contents = Contents(plan, folder, self.scrub)
        self.starter = Starter(plan, chosen, self.contents, folder, self.scrub, self.times)
        self.at: tuple[Backend | None, Shape | None] = (None, None)
        self.rundir = RunDir(folder, first_document(plan, folder.name, moment, self.scrub))
        self._note_device()

    def complete(self, held: contextlib.ExitStack) -> Outcome:
        """Go through every phase; on the way out nothing is left running or half-said.

        Args:
            held: Holds signals back until it is closed here.
        """
        try:
            held.close()
            with self._guarded() as (reaper, scratch):
                self._verify()
                self._build()
                self._prepare(reaper, scratch)
                self._gates()
                self._timing()
                self._keep_caches(scratch)
            results = self._report()
        except BaseException as error:
            with ignored():
                known = self._failed(error)
            if known is error:
                raise
            raise known from error
        finally:
            self.progress.close()
        return Outcome(results, self.folder)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[tuple[Reaper, Path]]:
        """A reaper and a scratch folder; workers that still run at the end are killed."""
        reaper = Reaper()
        try:
            with deferred():
                scratch = Path(tempfile.mkdtemp(prefix="artifact-run-"))
                reaper.folder(scratch)
            self.scrub.add("$SCRATCH", scratch)
            yield reaper, scratch
        finally:
            with ignored():
                for session in self.sessions:
                    session.worker.kill()
                self.watch.close()
                reaper.close()

    def _note_device(self) -> None:
        """Let results.json say what the watch knows of the device by now."""
        device = self.plan.device
        facts = {**device.facts, **self.watch.facts()}
        self.rundir.set(device=device.model_copy(update={"facts": facts}))

    # --- phases

    def _enter(self, phase: Phase, steps: int) -> None:
        self.times.enter(phase)
        self.at = (None, None)
        self.rundir.set(state=State(phase=phase))
        self.rundir.save()
        self.progress.phase(phase, steps)

    def _verify(self) -> None:
        """Nothing of the artifact is executed before this has passed."""
        self._enter("verify", 1)
        self.progress.step("every byte against manifests/lock.json")
        with self.times.measure("hash and compare the tree"):
            self.contents.verify()
        self._note_tree()

    def _note_tree(self) -> None:
        """Let results.json say what is run: the tree, and what of it is not as locked."""
        reference = self.contents.reference(self.rundir.get("artifact"))
        self.rundir.set(artifact=reference)
        if reference.modified:
            self._mark("MODIFIED")

    def _mark(self, mark: Mark) -> None:
        self.rundir.set(marks=tuple(dict.fromkeys((mark, *self.rundir.get("marks")))))

    def _build(self) -> None:
        """Make the executables of native backends, or take those that are there."""
        if not self.plan.units:
            return
        self._enter("build", len(self.plan.units))
        with self.times.measure("build"):
            facts = self.contents.build(
                step=self.progress.step, failed=self._not_built, say=self.progress.message
            )
        self._note_tree()
        self.rundir.set(build=facts)
        if facts.differences:
            self._mark("UNLOCKED")

    def _not_built(self, name: str) -> None:
        self.at = (next(b for b in self.plan.backends if b.name == name), None)

    def _prepare(self, reaper: Reaper, scratch: Path) -> None:
        plan = self.plan
        self._enter("prepare", bool(self.chosen) + 2 * len(plan.backends))
        make_scratch(scratch)
        self._seed_caches(scratch)
        if self.chosen:
            self.progress.step(f"interpreters: {', '.join(self.chosen)}")
            with self.times.measure("check the interpreters"):
                found = interpreters.inspect_all(plan, self.chosen.values(), self.scrub)
            for interpreter in found:
                self.rundir.add("interpreters", interpreter)
            if any(interpreter.locked is False for interpreter in found):
                self._mark("UNLOCKED")
        for backend in plan.backends:
            self.at = (backend, None)
            self.progress.step(f"{backend.name}: start")
            self._start(backend, reaper, scratch)
        first = plan.workload.shapes[0]
        for session in self.sessions:
            self.at = (session.backend, first)
            self.progress.step(f"{session.backend.name}: prepare {first.name}")
            session.prepare(first)

    def _seed_caches(self, scratch: Path) -> None:
        options = self.plan.options
        if options.cache_from is None or options.cache_digest is None:
            return
        with self.times.measure("seed the caches"):
            seeded = caches.seed(scratch, options.cache_from, options.cache_digest)
        tool = self.rundir.get("tool")
        self.rundir.set(tool=tool.model_copy(update={"seeded_cache": seeded}))

    def _keep_caches(self, scratch: Path) -> None:
        target = self.plan.options.keep_cache
        if target is None:
            return
        with self.times.measure("keep the caches"):
            kept = caches.keep(scratch, target)
        self.progress.message(
            f"caches kept: {target}, {kept.files} files, {kept.bytes} bytes\n"
            f"to begin with them: --cache-from {target} --cache-digest blake3:{kept.blake3}"
        )

    def _start(self, backend: Backend, reaper: Reaper, scratch: Path) -> None:
        session, run_ = self.starter.session(backend, reaper, scratch)
        self.sessions.append(session)
        hello = session.start()
        run_ = run_.model_copy(update={"versions": self.scrub.mapping(hello.versions)})
        self.rundir.add("backends", run_)
        if note := unlocked_libraries(run_, self.rundir.get("interpreters")):
            self.rundir.set(notes=(*self.rundir.get("notes"), note))

    def _gates(self) -> None:
        """Every backend at every shape: right outputs pass, wrong ones do not."""
        plan, rules = self.plan, self.plan.manifest.gates
        self._enter("gates", len(self.sessions) * len(plan.workload.shapes))
        for shape in plan.workload.shapes:
            for session in self.sessions:
                backend = session.backend
                self.at = (backend, shape)
                self.progress.step(f"{backend.name}, {shape.name}")
                session.prepare(shape)
                record = session.check(shape)
                self.rundir.add("checks", record)
                witnessed = session.witness(shape)
                self.rundir.add("witnesses", witnessed)
                self.rundir.save_soon()
                # A kernel that is another one is told as such, not as one that errs.
                expected = plan.witness(backend, shape)
                witness.require(backend.name, shape.name, expected, witnessed.facts)
                agreement.require_same_inputs(self.rundir.get("checks"))
                agreement.require_same_baseline(self.rundir.get("checks"))
                gates.require_passed(record)
                gates.require_rejected(record, rules, shape.dims)

    def _timing(self) -> None:
        plan = self.plan
        names = [session.backend.name for session in self.sessions]
        shapes = [shape.name for shape in plan.workload.shapes]
        windows = schedule(plan.protocol, names, shapes, plan.anchor)
        self.rundir.set(order=suite_order(windows))
        self._enter("timing", len(windows))
        take_samples(
            plan,
            self.sessions,
            windows,
            rundir=self.rundir,
            watch=self.watch,
            times=self.times,
            progress=self.progress,
            at=self._turn,
        )

    def _turn(self, backend: Backend, shape: Shape | None) -> None:
        self.at = (backend, shape)

    def _report(self) -> RunResults:
        from artifact.report.base import write_reports

        plan = self.plan
        self._enter("report", 4)
        self.progress.step("every byte against manifests/lock.json again")
        with self.times.measure("hash and compare the tree"):
            self.contents.verify_again()
        self._note_watch()
        self.progress.step("summary")
        with self.times.measure("summary"):
            rows, comparisons = summarise(
                self.rundir.get("samples"),
                plan.workload,
                [backend.name for backend in plan.backends],
                plan.anchor,
                plan.manifest.metric,
                plan.manifest.statistics,
                plan.protocol,
            )
        self.rundir.set(summary=rows, comparisons=comparisons)
        self.rundir.save()
        # The pages show where the time went, so what making them takes is not in it.
        self.rundir.set(times=self.times.records())
        done = self.rundir.results(
            state=State(phase="done"), complete=True, finished=stamp(utc_now())
        )
        self.progress.step("tables, plots and page")
        write_reports(done, self.folder)
        self.progress.step("pins")
        # A signal that comes now finds a run that is done.
        with ignored():
            return self.rundir.finish(done)

    def _note_watch(self) -> None:
        self._note_device()
        for name, data in self.watch.files().items():
            write_atomic(self.folder / name, data)

    # --- the way out

    def _failed(self, error: BaseException) -> BaseException:
        """Note ``error`` in results.json, and return what is to be raised for it."""
        backend, shape = self.at
        known, record = ending.explain(
            error,
            phase=self.rundir.phase,
            backend=None if backend is None else backend.name,
            shape=None if shape is None else shape.name,
            folder=self.folder,
            command=self.plan.options.command,
            scrub=self.scrub,
        )
        ending.discard_pages(self.folder)
        # On a full disk the trace is lost, and the error that is told stays the first one.
        with contextlib.suppress(EnvironmentUnmet):
            self._note_watch()
        self.rundir.set(times=self.times.records())
        self.rundir.fail(record, utc_now())
        return known
