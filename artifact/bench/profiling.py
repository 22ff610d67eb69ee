"""Profile one launch of one backend at one shape, and check that it is the right one.

How it is captured is :mod:`artifact.bench.capturing`. ncu runs the
kernel again and again for its counters, by default with the clocks at their base, so no figure
of it is a benchmark's.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifact.bench import interpreters, witness
from artifact.bench.buildphase import BuildOptions, verify_tree
from artifact.bench.capturing import capture_executable, capture_worker
from artifact.bench.exclusive import exclusive
from artifact.bench.plan import Options, Plan, make_plan
from artifact.bench.scrub import Scrubber
from artifact.build import profile as nsight
from artifact.build.accept import require_executable
from artifact.build.profile import Launch
from artifact.build.toolchain import Tool
from artifact.errors import FallbackRefused, MeasurementInvalid, UsageError
from artifact.model.backend import Backend, Witness
from artifact.model.manifest import Manifest
from artifact.model.results import RUNNER, Mark, Scalar
from artifact.model.workload import Shape, Workload

_LISTED = 8


@dataclass(frozen=True)
class Program:
    """What runs a backend, and what the tables of a run of it would say."""

    path: Path
    marks: tuple[Mark, ...]
    modified: tuple[str, ...]
    """Files of kernels that are not as locked."""


@dataclass(frozen=True)
class Profile:
    """A launch that was captured and is the right one."""

    backend: str
    shape: str
    report: Path
    launch: Launch
    checked: tuple[str, ...]
    """What the manifest says and the launch meets, a phrase each."""
    others: tuple[str, ...]
    """Names of what else was launched in the window."""
    program: Program
    """What was run."""


def choose_shape(workload: Workload, name: str | None, value: int | None) -> Shape:
    """The shape that ``--shape NAME`` or ``--seq VALUE`` means.

    Args:
        workload: The workload.
        name: The name of a shape.
        value: The value of the one dimension in which its shapes differ.

    Raises:
        UsageError: where that is no shape, or several.
    """
    shapes = workload.shapes
    listing = ", ".join(shape.name for shape in shapes)
    if name is not None and value is not None:
        raise UsageError(
            "a shape is named once",
            expected="--shape or --seq",
            found=f"{name}, {value}",
            next="leave one of them out",
        )
    if name is None and value is None:
        if len(shapes) == 1:
            return shapes[0]
        raise UsageError(
            "no shape was named",
            where=f"workload {workload.name}",
            expected=f"--shape: {listing}",
            next=f"for instance: --shape {shlex.quote(shapes[0].name)}",
        )
    if name is not None:
        found = [shape for shape in shapes if shape.name == name]
    else:
        varying = _varying(workload)
        if len(varying) != 1:
            raise UsageError(
                "a value alone does not name a shape",
                where=f"--seq {value}",
                expected=f"--shape: {listing}",
                found=f"shapes that differ in {', '.join(varying) or 'nothing'}",
                next=f"for instance: --shape {shlex.quote(shapes[0].name)}",
            )
        found = [shape for shape in shapes if shape.dims[varying[0]] == value]
    if len(found) == 1:
        return found[0]
    raise UsageError(
        "the workload has no such shape",
        where=f"workload {workload.name}",
        expected=f"one of: {listing}",
        found=name if name is not None else str(value),
        next=f"for instance: --shape {shlex.quote(shapes[0].name)}",
    )


def _varying(workload: Workload) -> list[str]:
    """Dimensions in which the workload's shapes differ."""
    first = workload.shapes[0].dims
    same = all(shape.dims.keys() == first.keys() for shape in workload.shapes)
    if not same:
        return []
    return [d for d in first if len({shape.dims[d] for shape in workload.shapes}) > 1]


def report_name(backend: str, shape: str) -> str:
    """The file name of a report: ``v4-s8192.ncu-rep``."""
    words = re.sub(r"[^a-z0-9]+", "-", shape.lower().replace("=", "")).strip("-")
    return f"{backend}-{words or 'shape'}.ncu-rep"


def profile(
    options: Options,
    root: Path,
    manifest: Manifest,
    ncu: Tool,
    *,
    shape: str | None = None,
    value: int | None = None,
    look: nsight.Look = nsight.FULL,
    force: bool = False,
    nvml: Any = None,
) -> Profile:
    """Capture one launch into ``build/``, and check it against the manifest's witness.

    Args:
        options: As for a run, with exactly one backend.
        root: The artifact's root.
        manifest: Its manifest.
        ncu: The profiler.
        shape: The name of a shape.
        value: The value of the one dimension in which the shapes differ.
        look: What the profiler is asked for.
        force: Whether a report of the same name is replaced.
        nvml: Stands for the module ``pynvml`` in tests.

    Raises:
        ArtifactError: the tree is not as locked, the interpreter not its lock's, the device
            taken, the worker or the profiler fails, or another kernel was launched.
    """
    plan = make_plan(options, root, manifest, nvml)
    (backend,) = plan.backends
    if backend.device != "gpu":
        raise UsageError(
            "the profiler looks at kernels of a GPU",
            where=f"backend {backend.name}",
            found="it runs on the processor",
            next="artifact profile NAME, of a backend whose device is a GPU",
        )
    chosen_shape = choose_shape(plan.workload, shape, value)
    target = root / "build" / report_name(backend.name, chosen_shape.name)
    if target.exists() and not force:
        raise UsageError(
            "there is a report of this name already",
            where=str(target),
            next="move it away, or replace it: --force",
        )
    program = _program(plan, backend)
    with (
        exclusive(plan.lock_name, {"profile": backend.name}),
        tempfile.TemporaryDirectory(prefix="artifact-profile-") as folder,
    ):
        capture = capture_worker if backend.kind == "python" else capture_executable
        captured = capture(plan, backend, chosen_shape, program.path, ncu, look, Path(folder))
        launches = nsight.read_report(ncu, captured.report)
        expected = plan.witness(backend, chosen_shape)
        launch, checked = judge(backend.name, chosen_shape.name, expected, launches)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(captured.report, target)
    others = tuple(other.names[-1] for other in launches if other is not launch)
    checked = (*captured.checked, *checked)
    return Profile(backend.name, chosen_shape.name, target, launch, checked, others, program)


def _program(plan: Plan, backend: Backend) -> Program:
    """What runs ``backend``: nothing of the artifact is executed before this has returned.

    An executable is taken as it was built (``--skip-build``), also of an edited kernel.
    """
    options = BuildOptions(skip=True)
    unlocked = plan.options.unlocked_env
    verified = verify_tree(plan.root, plan.manifest, plan.units, options, unlocked)
    if backend.kind == "python":
        python = interpreters.choose(plan)[backend.environment or RUNNER]
        found = interpreters.inspect(plan, python, Scrubber())
        return Program(python.path, ("UNLOCKED",) if found.locked is False else (), ())
    (unit,) = plan.units
    assert verified.facts is not None
    (kernel,) = verified.facts.kernels
    require_executable(plan.root, unit, kernel.build.executable_sha256)
    modified = verified.accepted.paths
    marks: list[Mark] = ["UNLOCKED"] if verified.facts.differences else []
    if modified:
        marks.append("MODIFIED")
    return Program(unit.file(plan.root).relative_to(plan.root), tuple(marks), modified)


def judge(
    backend: str, shape: str, expected: Witness, launches: tuple[Launch, ...]
) -> tuple[Launch, tuple[str, ...]]:
    """The launch of the backend's kernel, and what of its witness was checked.

    Where the witness names no symbol it is the longest launch of the window.

    Args:
        backend: The backend's name.
        shape: The shape's.
        expected: The witness at this shape.
        launches: What was captured.

    Raises:
        MeasurementInvalid: where nothing was captured.
        FallbackRefused: where another kernel was launched, or this one otherwise.
    """
    if not launches:
        raise MeasurementInvalid(
            "the profiler saw no launch",
            where=f"backend {backend}, shape {shape}",
            expected="the kernel of one launch",
            cause="the kernel is launched by another process, or as a part of a CUDA graph",
            next=f"artifact run --backends {backend}, whose results say what was launched",
        )
    symbol = expected.symbol
    fitting = [
        launch
        for launch in launches
        if symbol is None or any(re.fullmatch(symbol, name) for name in launch.names)
    ]
    if not fitting:
        raise FallbackRefused(
            f"what was launched for {backend} is not what the manifest names",
            where=f"backend {backend}, shape {shape}, witness.symbol",
            expected=f"a kernel whose symbol matches {symbol!r}",
            found=f"{len(launches)} other kernels" if len(launches) > 1 else "another kernel",
            next="`artifact doctor` says what is installed; a wanted change belongs in the "
            "manifest's witness of this backend",
            details=tuple(launch.names[-1] for launch in launches[:_LISTED]),
        )
    launch = max(fitting, key=lambda one: one.duration)
    facts = captured_facts(launch)
    if symbol is not None:
        facts["symbol"] = next(name for name in launch.names if re.fullmatch(symbol, name))
    stated = witness.expectations(expected)
    seen = {name: ("registers" if name == "registers_max" else name) in facts for name in stated}
    unseen: Mapping[str, None] = {name: None for name, there in seen.items() if not there}
    visible = expected.model_copy(update=dict(unseen))
    witness.require(backend, shape, visible, facts)
    return launch, tuple(f"{n}: {v}" for n, v in witness.expectations(visible).items())


def captured_facts(launch: Launch) -> dict[str, Scalar]:
    """A launch as the facts that a worker's witness has the same names for."""
    facts: dict[str, Scalar] = {
        "grid": "x".join(map(str, launch.grid)),
        "block": "x".join(map(str, launch.block)),
        "threads": launch.threads,
    }
    for fact, metric in (
        ("registers", "launch__registers_per_thread"),
        ("dynamic_shared_bytes", "launch__shared_mem_per_block_dynamic"),
    ):
        if metric in launch.metrics:
            facts[fact] = int(launch.metrics[metric])
    return facts
