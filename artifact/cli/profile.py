"""``artifact profile``: one launch of one backend under Nsight Compute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artifact.cli.options import (
    Gpu,
    Interpreter,
    Json,
    NoColor,
    Python,
    Quiet,
    Root,
    UnlockedEnv,
    Verbose,
    WorkerEnv,
    Workload,
    WsPython,
    by_option,
)
from artifact.cli.output import Output
from artifact.model.portable import shown
from artifact.model.root import find_root

if TYPE_CHECKING:
    from artifact.bench.profiling import Profile


def command(
    backend: Annotated[str, typer.Argument(metavar="BACKEND", help="Whose kernel to look at.")],
    shape: Annotated[
        str | None, typer.Option(metavar="NAME", help="A shape of the workload, by its name.")
    ] = None,
    seq: Annotated[
        int | None,
        typer.Option(metavar="N", help="A shape by the one dimension in which shapes differ."),
    ] = None,
    workload: Workload = None,
    gpu: Gpu = None,
    python: Python = None,
    ws_python: WsPython = None,
    interpreter: Interpreter = None,
    ncu: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Nsight Compute's ncu (default: found).")
    ] = None,
    sections: Annotated[
        str, typer.Option("--set", metavar="NAME", help="ncu's set of sections.")
    ] = "full",
    keep_clocks: Annotated[
        bool,
        typer.Option("--keep-clocks", help="Do not let ncu hold the clocks at their base."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a report of this name.")] = False,
    worker_env: WorkerEnv = None,
    unlocked_env: UnlockedEnv = False,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Capture one timed launch with ncu into build/, and check which kernel it was.

    The worker prepares the shape as for a run, then ncu looks at one launch. Its name, grid
    and block must be what the manifest's witness says; an edited kernel or another environment
    is marked as in the tables of a run. ncu holds clocks at their base
    (not with --keep-clocks) and replays the kernel: its duration is no benchmark figure.

    Examples:  artifact profile BACKEND --shape NAME    artifact profile BACKEND --seq N

    Exit codes: 1 the tree is not as locked, 3 no ncu, GPU or interpreter, 5 nothing was
    captured, 6 another kernel ran.
    """
    from artifact.bench.plan import Options
    from artifact.bench.profiling import profile
    from artifact.build.profile import Look, find_ncu
    from artifact.integrity.documents import load_manifest

    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    place = find_root(Path.cwd(), root)
    options = Options(
        workload=workload,
        gpu=gpu,
        backends=(backend,),
        interpreters=by_option(python, ws_python),
        named=tuple(interpreter or ()),
        worker_env=tuple(worker_env or ()),
        unlocked_env=unlocked_env,
    )
    tool = find_ncu(ncu)
    for text in tool.passed_over:
        out.note(f"note: {text}, and was passed over")
    out.note(f"profiling {backend} with {tool.path}; this takes minutes")
    done = profile(
        options,
        place,
        load_manifest(place),
        tool,
        shape=shape,
        value=seq,
        look=Look(sections, keep_clocks),
        force=force,
    )
    _print(out, done)
    held = "left the clocks as they were" if keep_clocks else "held the clocks at their base"
    out.note(f"note: ncu {held}; its duration is no benchmark figure")
    out.document(lambda: _document(done))


def _print(out: Output, done: Profile) -> None:
    from artifact.build.profile import METRICS

    launch = done.launch
    out.say(f"kernel:     {shown(launch.names[-1])}")
    out.say(f"grid:       {'x'.join(map(str, launch.grid))}")
    out.say(f"block:      {'x'.join(map(str, launch.block))} ({launch.threads} threads)")
    for name, words in METRICS.items():
        if name in launch.metrics:
            out.say(f"            {launch.metrics[name]:>14,.6g}  {words}")
    for line in done.checked:
        out.say(f"checked:    {out.good(shown(line))}")
    if not done.checked:
        out.say("checked:    nothing: the manifest's witness says nothing that ncu sees")
    program = done.program
    if program.marks:
        said = f": {', '.join(map(shown, program.modified))}" if program.modified else ""
        out.always(f"marks:      {out.mark(', '.join(program.marks))}{said}")
    for name in done.others:
        out.detail(f"also ran:   {shown(name)}")
    out.always(f"report:     {done.report}")
    out.say(f"next:       ncu --import {done.report} --page details")


def _document(done: Profile) -> dict[str, Any]:
    launch = done.launch
    return {
        "backend": done.backend,
        "shape": done.shape,
        "report": str(done.report),
        "kernel": list(launch.names),
        "grid": list(launch.grid),
        "block": list(launch.block),
        "metrics": dict(launch.metrics),
        "checked": list(done.checked),
        "others": list(done.others),
        "marks": list(done.program.marks),
        "modified": list(done.program.modified),
    }
