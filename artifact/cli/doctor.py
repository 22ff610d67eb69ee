"""``artifact doctor``: whether this machine can run the artifact, and how it is made to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from artifact.cli.options import (
    Cutlass,
    Gpu,
    Interpreter,
    Json,
    NoColor,
    Nvcc,
    Python,
    Quiet,
    ResultsDir,
    Root,
    UnlockedEnv,
    Verbose,
    Workload,
    WsPython,
    by_option,
)
from artifact.cli.output import Output
from artifact.errors import ExitCode
from artifact.model.portable import shown
from artifact.model.root import find_root

if TYPE_CHECKING:
    from artifact.doctor.base import Check
    from artifact.doctor.examine import Diagnosis


def command(
    workload: Workload = None,
    gpu: Gpu = None,
    python: Python = None,
    ws_python: WsPython = None,
    interpreter: Interpreter = None,
    nvcc: Nvcc = None,
    cutlass: Cutlass = None,
    results_dir: ResultsDir = None,
    unlocked_env: UnlockedEnv = False,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Look at everything a run needs, and print a verdict and the commands that mend it.

    Looks at the tree, the tool's packages, GPU, driver, clocks and other processes, CUDA
    toolkit and headers, Python environments, disk, permissions and git. It changes nothing.

    Verdicts: ok; warn, a run goes on; bad, a run is refused or not valid; absent.

    Examples:  artifact doctor    artifact doctor --gpu 0 --python P --ws-python P

    Exit code 3 where the workload cannot run as this machine is.
    """
    from artifact.doctor.base import Options
    from artifact.doctor.examine import examine
    from artifact.integrity.documents import load_manifest

    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    place = find_root(Path.cwd(), root)
    options = Options(
        workload=workload,
        gpu=gpu,
        interpreters=by_option(python, ws_python),
        named=tuple(interpreter or ()),
        nvcc=nvcc,
        cutlass=cutlass,
        results_dir=results_dir,
        unlocked_env=unlocked_env,
    )
    diagnosis = examine(options, place, load_manifest(place))
    _print(out, diagnosis)
    out.document(diagnosis.as_json)
    if not diagnosis.ready:
        raise typer.Exit(int(ExitCode.ENVIRONMENT))


def _print(out: Output, diagnosis: Diagnosis) -> None:
    width = max(len(check.name) for check in diagnosis.checks)
    for check in diagnosis.checks:
        needed = diagnosis.needed(check)
        note = "" if needed or check.passed else "   (this workload does not need it)"
        out.say(f"{_verdict(out, check)}  {check.name:<{width}}  {shown(check.found)}{note}")
        if check.verdict == "ok":
            continue
        indent = " " * (8 + width + 2)
        if check.expected is not None:
            out.say(f"{indent}expected: {shown(check.expected)}")
        for line in check.mend:
            out.say(f"{indent}mend:     {shown(line)}")
    out.say()
    name = diagnosis.subject.workload.name
    failing = diagnosis.failing(diagnosis.subject.workload)
    if not failing:
        out.always(f"ready: {out.good(f'the workload {name} can run')}")
    else:
        # What cannot be asked before something else is mended has no mend of its own.
        listed = ", ".join(check.name for check in failing if check.mend or len(failing) == 1)
        out.always(f"not ready: {out.bad(f'the workload {name} cannot run')}: {listed}")
    others = [w for w in diagnosis.runnable if w.name != name]
    for other in others:
        on = "processor" if other.device == "cpu" else "GPU"
        out.say(f"can run on the {on}: artifact run --workload {other.name}")


def _verdict(out: Output, check: Check) -> str:
    colour = {"ok": out.good, "warn": out.mark, "bad": out.bad, "absent": out.bad}[check.verdict]
    return colour(f"{check.verdict:<6}")
