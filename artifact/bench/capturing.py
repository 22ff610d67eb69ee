"""One launch of a backend below Nsight Compute, captured into a report.

Of a Python backend it is the launch of a sample: the worker prepares the shape as for a run,
and the profiler looks at a ``time`` request. Of a native one it is the first launch of its
executable, started by hand with the shape in its environment.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from artifact.bench.childenv import command_line, make_scratch
from artifact.bench.failures import reported
from artifact.bench.messages import PROTOCOL, Failed, answer_adapter
from artifact.bench.plan import Plan
from artifact.bench.starting import worker_environment
from artifact.build import profile as nsight
from artifact.build.toolchain import Tool
from artifact.errors import FallbackRefused, MeasurementInvalid, UsageError
from artifact.model import formula
from artifact.model.backend import Backend
from artifact.model.workload import Shape

_DRIVER = Path(__file__).with_name("profiledriver.py")

_REPLAYS = 4.0
"""A profiled launch is run some forty times, each with its memory restored: that much longer
than any answer of a run may the whole take."""


@dataclass(frozen=True)
class Captured:
    """A report, and what is known of its launch before it is read."""

    report: Path
    checked: tuple[str, ...]
    """What the manifest says and the program states, a phrase each."""


def capture_worker(
    plan: Plan,
    backend: Backend,
    shape: Shape,
    python: Path,
    ncu: Tool,
    look: nsight.Look,
    folder: Path,
) -> Captured:
    """The report of a ``time`` request of one launch, without warm-ups, below ``folder``.

    Raises:
        ArtifactError: where the worker fails, by its own class, or the profiler does.
    """
    scratch = folder / "scratch"
    make_scratch(scratch)
    environment = worker_environment(plan, backend, scratch)
    answers, log, report = folder / "answers", folder / "ncu.log", folder / "launch.ncu-rep"
    requests = json.dumps(
        [
            {"op": "hello", "protocol": PROTOCOL},
            {
                "op": "prepare",
                "shape": dict(shape.dims),
                "seed": plan.workload.seed,
                "parameters": plan.parameters,
            },
            {"op": "time", "warmup": 0, "repeat": 1},
        ]
    )
    interpreter, isolated, *worker = command_line(backend, python, plan.root)
    driver = [str(_DRIVER), requests, str(answers)]
    command = nsight.command_line(
        ncu,
        [interpreter, isolated, *driver, *worker],
        output=report,
        log=log,
        look=look,
        window=True,
    )
    try:
        nsight.capture(
            command,
            environment=environment.values,
            cwd=plan.root,
            log=log,
            printed=folder / "worker.log",
            output=report,
            timeout=_REPLAYS * plan.protocol.worker_timeout_s,
        )
    except MeasurementInvalid:
        # What the worker says of itself comes before what the profiler says of it.
        _require_answers(answers)
        raise
    answered = _require_answers(answers)
    if answered != len(json.loads(requests)):
        raise MeasurementInvalid(
            "the worker ended before its launch was timed",
            where=f"backend {backend.name}, shape {shape.name}",
            expected=f"{len(json.loads(requests))} answers",
            found=str(answered),
            next=f"artifact run --backends {backend.name}, which keeps all that the worker prints",
        )
    return Captured(report, ())


def capture_executable(
    plan: Plan,
    backend: Backend,
    shape: Shape,
    program: Path,
    ncu: Tool,
    look: nsight.Look,
    folder: Path,
) -> Captured:
    """The report of the first launch of an executable that is started by hand.

    Variables of the manifest select the shape (``backends.direct``), as a person would type
    them before ``ncu``, and ``--parameter NAME=VALUE`` gives the launch arguments of the target:
    the launch is then that of a run, not that of the executable's defaults. Whether the
    executable heeds them, it says itself (:func:`stated_shape`): the grid of a persistent
    kernel is the same at every shape.

    Raises:
        UsageError: where the manifest does not say how a shape is chosen.
        FallbackRefused: where another shape was launched.
        ArtifactError: where the executable or the profiler fails.
    """
    if not backend.direct:
        raise UsageError(
            "the manifest does not say how a shape is chosen by hand",
            where=f"backend {backend.name}, direct",
            expected="a variable for each dimension that the executable asks for",
            next=f"state backends.{backend.name}.direct in the manifest, then: artifact lock",
        )
    scratch = folder / "scratch"
    make_scratch(scratch)
    environment = worker_environment(plan, backend, scratch)
    direct = {
        name: str(formula.evaluate(text, shape.dims)) for name, text in backend.direct.items()
    }
    typed = [str(program)]
    for name, value in plan.parameters.items():
        typed += ["--parameter", f"{name}={value}"]
    log, report = folder / "ncu.log", folder / "launch.ncu-rep"
    printed = folder / "program.log"
    command = nsight.command_line(ncu, typed, output=report, log=log, look=look, window=False)
    nsight.capture(
        command,
        environment={**environment.values, **direct},
        cwd=plan.root,
        log=log,
        printed=printed,
        output=report,
        timeout=_REPLAYS * plan.protocol.worker_timeout_s,
    )
    said = printed.read_text(encoding="utf-8", errors="replace")
    by_hand = [*(f"{name}={value}" for name, value in direct.items()), shlex.join(typed)]
    return Captured(report, (stated_shape(backend, shape, said, " ".join(by_hand)),))


def _require_answers(path: Path) -> int:
    """How many answers there are, each of which is one.

    Raises:
        ArtifactError: what the worker reports, by its class.
        MeasurementInvalid: where it answers anything else.
    """
    lines = path.read_bytes().splitlines() if path.is_file() else []
    for line in lines:
        try:
            answer = answer_adapter().validate_json(line)
        except ValidationError as error:
            raise MeasurementInvalid(
                "the worker does not speak the worker protocol",
                expected="an answer as docs/worker-protocol.md says",
                found=line[:200].decode("utf-8", "backslashreplace"),
                next="artifact run with this backend alone, which keeps all that the worker prints",
            ) from error
        if isinstance(answer, Failed):
            failed = reported(answer)
            failed.next = f"artifact run --backends {answer.backend}, which keeps all it prints"
            raise failed
    return len(lines)


def stated_shape(backend: Backend, shape: Shape, said: str, by_hand: str) -> str:
    """The shape that an executable says it launches, where it is ``shape``.

    Started by hand it prints each dimension as ``NAME=INTEGER``. Where one stands more than
    once, for several launches, the first is that of the launch that was captured.

    Args:
        backend: Whose executable it is.
        shape: What it was asked for.
        said: All that it printed.
        by_hand: The command that was run below the profiler.

    Returns:
        A phrase for the list of what was checked.

    Raises:
        FallbackRefused: where it states another shape, or leaves a dimension out.
    """
    words = dict(reversed(re.findall(r"(?<![^\s:,;(])(\w+)=(\d+)(?![\w.])", said)))
    wanted = {name: str(value) for name, value in shape.dims.items()}
    stated = {name: words.get(name) for name in wanted}
    if stated != wanted:
        found = [f"{name}={value or '?'}" for name, value in stated.items()]
        raise FallbackRefused(
            f"{backend.name} was not launched at the shape that was asked for",
            where=f"backend {backend.name}, shape {shape.name}, its output",
            expected=" ".join(f"{name}={value}" for name, value in wanted.items()),
            found=" ".join(found) + ("" if all(stated.values()) else " (? is not stated)"),
            cause="the executable does not heed the variables of the manifest's "
            f"backends.{backend.name}.direct, or its defaults are not the shape's",
            next=by_hand,
        )
    return f"shape: {' '.join(f'{name}={value}' for name, value in wanted.items())}, as it says"
