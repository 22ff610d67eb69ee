"""``artifact run``: verify, check and time the backends; write a run folder."""

from __future__ import annotations

import sys
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artifact.bench.progress import Lines, Progress, duration
from artifact.cli.options import (
    Choreo,
    ChoreoInclude,
    Cutlass,
    Gpu,
    Interpreter,
    Json,
    NoColor,
    Nvcc,
    Python,
    Quiet,
    Regenerate,
    ResultsDir,
    Root,
    UnlockedEnv,
    Verbose,
    WorkerEnv,
    Workload,
    WsPython,
    by_option,
)
from artifact.cli.output import Output
from artifact.model.root import find_root

if TYPE_CHECKING:
    from artifact.bench.runner import Outcome
    from artifact.model.results import Phase


class OrderName(str, Enum):
    """What ``--order`` takes."""

    paper = "paper"
    interleaved = "interleaved"


def command(
    workload: Workload = None,
    gpu: Gpu = None,
    backends: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these backends (default: all).")
    ] = None,
    python: Python = None,
    ws_python: WsPython = None,
    interpreter: Interpreter = None,
    order: Annotated[OrderName | None, typer.Option(help="The order of the samples.")] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Other than the protocol's launches before a sample."
        ),
    ] = None,
    repeat: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Other than the protocol's launches in a sample."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Other than the protocol's samples of each."),
    ] = None,
    results_dir: ResultsDir = None,
    worker_env: WorkerEnv = None,
    unlocked_env: UnlockedEnv = False,
    build_only: Annotated[
        bool, typer.Option("--build-only", help="Build the native backends, and run nothing.")
    ] = False,
    skip_build: Annotated[
        bool,
        typer.Option("--skip-build", help="Run what is built; refused where anything changed."),
    ] = False,
    regenerate: Regenerate = False,
    choreo: Choreo = None,
    choreo_include: ChoreoInclude = None,
    nvcc: Nvcc = None,
    cutlass: Cutlass = None,
    cache_from: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Begin with these compile caches (from --keep-cache); recorded."
        ),
    ] = None,
    cache_digest: Annotated[
        str | None,
        typer.Option(metavar="blake3:HEX", help="What the content id of --cache-from must be."),
    ] = None,
    keep_cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the run's compile caches in this new folder."),
    ] = None,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Verify the tree, check every backend's answers, time them, and write a new run folder.

    Nothing is executed whose digest does not match the lock. Every backend must pass the
    gates, and every known-wrong output must fail them, before anything is timed. A workload
    for a GPU is never run on the processor instead.

    Native backends are built first. --regenerate takes a changed kernel source of the chosen
    backends, generates its CUDA and builds that; --skip-build then runs exactly this build.
    Such a run says MODIFIED in every table, until `artifact lock`.

    Examples:  artifact run --workload NAME    artifact run --gpu 0 --backends A,B

    Exit codes: 1 the tree is not as locked or a build failed, 2 usage, 3 no GPU, interpreter,
    toolkit, room or free device, 4 a gate failed, 5 the measurement is not valid, 6 something
    else would have run.
    """
    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    began = time.monotonic()
    from artifact.bench.buildphase import BuildOptions
    from artifact.bench.plan import Options
    from artifact.bench.runner import run
    from artifact.cli.usage import not_unicode
    from artifact.integrity.documents import load_manifest

    # A run writes its command line down, at its end.
    if refused := not_unicode(sys.argv[1:]):
        raise refused
    place = find_root(Path.cwd(), root)
    options = Options(
        workload=workload,
        gpu=gpu,
        backends=None if backends is None else _names(backends),
        interpreters=by_option(python, ws_python),
        named=tuple(interpreter or ()),
        order=None if order is None else order.value,
        warmup=warmup,
        repeat=repeat,
        rounds=rounds,
        results_dir=results_dir,
        worker_env=tuple(worker_env or ()),
        unlocked_env=unlocked_env,
        cache_from=cache_from,
        cache_digest=cache_digest,
        keep_cache=keep_cache,
        build=BuildOptions(
            skip=skip_build,
            regenerate=regenerate,
            choreo=choreo,
            choreo_include=choreo_include,
            nvcc=nvcc,
            cutlass=cutlass,
        ),
        command=("artifact", *sys.argv[1:]),
    )
    manifest = load_manifest(place)
    if build_only:
        from artifact.cli.build import build_backends, of_run

        build_backends(out, place, manifest, of_run(manifest, options), options.build, unlocked_env)
        return
    progress = _progress(out)
    outcome = run(options, place, manifest, progress)
    _print(out, outcome, time.monotonic() - began)
    out.document(lambda: _document(outcome))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _progress(out: Output) -> Progress:
    if out.interactive:
        return _Live(color=out.color)
    # Under --quiet and --json notes are silent.
    return Lines(out.note, interval=0.0 if out.verbose else 5.0)


class _Live(Progress):
    """One line at the foot of a terminal.

    It is drawn between steps only: a thread that redraws it would run while samples are
    taken.
    """

    def __init__(self, color: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.fields[phase]:<8}", style="bold"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True, no_color=not color, highlight=False),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=None, phase="")
        self._bar.start()
        self._done = 0

    def phase(self, phase: Phase, steps: int) -> None:
        self._done = 0
        self._bar.reset(self._task, total=steps, phase=phase, description="")
        self._bar.refresh()

    def step(self, label: str, remaining: float | None = None) -> None:
        left = "" if remaining is None else f", about {duration(remaining)} left"
        self._bar.update(self._task, completed=self._done, description=label + left)
        self._done += 1
        self._bar.refresh()

    def message(self, text: str) -> None:
        self._bar.console.print(text, markup=False)

    def close(self) -> None:
        self._bar.stop()


def _print(out: Output, outcome: Outcome, seconds: float) -> None:
    from artifact.bench.ending import shown
    from artifact.report.text import summary_table

    results = outcome.results
    folder = shown(outcome.folder)
    if not (out.quiet or out.json):
        out.say(summary_table(results, out.width, color=out.answer_color))
        out.say()
    if out.verbose:
        for record in results.times:
            who = f" ({record.backend})" if record.backend else ""
            out.say(f"time:       {record.seconds:9.3f} s  {record.phase}: {record.activity}{who}")
    out.say(f"took:       {duration(seconds)}")
    out.always(f"run:        {folder}")
    out.say(f"next:       artifact verify {folder}")


def _document(outcome: Outcome) -> dict[str, Any]:
    from artifact.bench.ending import shown

    results = outcome.results
    plain = results.model_dump(mode="json")
    return {
        "run": results.run_id,
        "folder": shown(outcome.folder),
        "complete": results.complete,
        "marks": plain["marks"],
        "content_id": f"blake3:{results.artifact.content_id}",
        "workload": results.workload.name,
        "protocol": results.protocol.name,
        "protocol_digest": f"blake3:{results.protocol_digest}",
        "device": plain["device"],
        "build": plain["build"],
        "order": plain["order"],
        "summary": plain["summary"],
        "comparisons": plain["comparisons"],
        "times": plain["times"],
    }
