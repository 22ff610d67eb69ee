"""One unit from its generated file to an executable, and what is known of it."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from artifact.build import driverstub, record, resources, sass
from artifact.build.closure import CUTLASS, Closure, read_closure
from artifact.build.failures import BuildFailed
from artifact.build.place import staged
from artifact.build.plan import Unit
from artifact.build.process import Processes, tool_environment
from artifact.build.toolchain import version_in
from artifact.build.tools import Tools, require_pinned
from artifact.integrity.atomic import write_atomic
from artifact.integrity.chain import STAMP_BYTES, Stamp, read_stamp
from artifact.model.build import BuildRecord, KernelBuild
from artifact.model.canonical import pretty_json
from artifact.model.manifest import Manifest
from artifact.model.root import BUILD

_TIMEOUT_S = 1800.0
_KEEP = "keep"
_PROGRAM = "program"
_STUB = "stub"
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Context:
    """What every unit of one build shares."""

    root: Path
    manifest: Manifest
    tools: Tools
    pins: Mapping[str, str]
    """BLAKE3 of every file that may be compiled, by path: the lock's, and of a regenerated
    kernel those of its present files."""
    unlocked: bool
    processes: Processes


def compile_unit(context: Context, unit: Unit) -> tuple[KernelBuild, bool]:
    """The build of ``unit``, and whether it had to be made.

    Where build/ holds the build of these very inputs, nothing is compiled.

    Raises:
        BuildFailed: where nvcc fails, or its result is not what the manifest asks for.
        ToolchainDiffers: where the tools are not the pinned ones.
        EnvironmentUnmet: where a tool is missing.
    """
    root, tools = context.root, context.tools
    found = _closure(context, unit)
    _require_pins(unit, found, context.pins)
    stamp = _stamp(unit, found.tree[unit.kernel.generated], context.pins)
    differences = tools.differences(context.manifest, cutlass=found.has(CUTLASS))
    require_pinned(differences, context.unlocked)
    assert tools.nvcc.version is not None
    key = record.key_of(unit, found, tools.nvcc.version, tools.link_flags)
    known = record.find(root, unit)
    if (
        known is not None
        and known.key == key
        # Tools that differ show in part only when they have run (the front end): a build that
        # was accepted with others is never one of these.
        and known.build.differences == differences
        and not any(record.made_differences(root, unit, known))
    ):
        return known.build, False
    return _compile(context, unit, found, stamp, key, differences), True


def _closure(context: Context, unit: Unit) -> Closure:
    tools = context.tools
    with tempfile.TemporaryDirectory(prefix="artifact-headers-") as folder:
        rule = Path(folder, "rule.d")
        command = [
            str(tools.nvcc.path), "-M", "-MF", str(rule), *unit.nvcc_flags,
            *tools.include_flags(), unit.kernel.generated,
        ]  # fmt: skip
        status, printed = context.processes.run(
            command,
            cwd=context.root,
            environment=tool_environment(tools.environ),
            timeout=_TIMEOUT_S,
        )
        if status != 0:
            if tools.missing is not None and ("cute/" in printed or "cutlass/" in printed):
                raise tools.missing
            _log(context, unit, command, printed)
            what = "nvcc does not find what the generated file includes"
            raise _failed(unit, what, status, printed)
        text = _output(rule, unit).decode("utf-8", "surrogateescape")
    return read_closure(context.root, unit.kernel.generated, text, tools.libraries(), BUILD)


def _require_pins(unit: Unit, found: Closure, pins: Mapping[str, str]) -> None:
    """Nothing is compiled that is not pinned."""
    problems = [
        f"{path} is {'not pinned' if path not in pins else 'not as pinned'}"
        for path, data in found.tree.items()
        if pins.get(path) != _blake3(data)
    ]
    if problems:
        raise BuildFailed(
            "a file that nvcc opens is not one that the lock pins",
            where=f"backend {unit.backend}",
            expected="every header of the tree as manifests/lock.json has it",
            found=problems[0] if len(problems) == 1 else f"{len(problems)} files",
            next="artifact verify; after an intended change: artifact lock",
            details=tuple(problems) if len(problems) > 1 else (),
        )


def _stamp(unit: Unit, data: bytes, pins: Mapping[str, str]) -> Stamp:
    """What the generated file was made of: the source and the flags of now, no others."""
    kernel = unit.kernel
    again = f"artifact run --build-only --regenerate --backends {unit.backend}"
    try:
        stamp = read_stamp(data[:STAMP_BYTES])
    except ValueError as error:
        raise BuildFailed(
            "the generated file does not say what it was made of",
            where=kernel.generated,
            found=str(error),
            next=again,
        ) from error
    if (stamp.source, stamp.source_blake3) != (kernel.source, pins.get(kernel.source)):
        raise BuildFailed(
            "the generated file was made of another source than the one that is here",
            where=kernel.generated,
            expected=f"{kernel.source} blake3:{pins.get(kernel.source)}",
            found=f"{stamp.source} blake3:{stamp.source_blake3}",
            cause="somebody edits it, or the compiler does",
            next=again,
        )
    if stamp.flags != unit.compiler_flags:
        raise BuildFailed(
            "the generated file was made with other flags than the manifest's",
            where=kernel.generated,
            expected=shlex.join(unit.compiler_flags) or "no flags",
            found=shlex.join(stamp.flags) or "no flags",
            next=again,
        )
    return stamp


def _compile(
    context: Context,
    unit: Unit,
    found: Closure,
    stamp: Stamp,
    key: str,
    differences: tuple[str, ...],
) -> KernelBuild:
    root, tools = context.root, context.tools
    # What reads the result is found before the result is made.
    wanted = unit.kernel.expect.sass
    lister = sass.require_disassembler(tools.nvcc, tools.environ) if wanted else None
    used = {library.name for library in found.libraries}
    includes = [f"-I{lib.folder}" for lib in tools.libraries()[1:] if lib.name in used]
    with staged(found.tree) as (place, lock):
        (place / _KEEP).mkdir()
        links = list(tools.link_flags)
        if driverstub.needed(unit.nvcc_flags, tools, context.processes):
            links.append(driverstub.make(place / _STUB, tools, context.processes))
        command = [
            str(tools.nvcc.path), *unit.nvcc_flags, *includes, *links,
            "--keep", "--keep-dir", _KEEP, unit.kernel.generated, "-o", _PROGRAM,
        ]  # fmt: skip
        begin = time.monotonic()
        status, printed = context.processes.run(
            command,
            cwd=place,
            environment=tool_environment(tools.environ),
            timeout=_TIMEOUT_S,
            keep_open=(lock,),
        )
        seconds = time.monotonic() - begin
        log = _log(context, unit, command, printed)
        if status != 0:
            raise _failed(unit, "nvcc does not compile the generated file", status, printed)
        executable = _output(place / _PROGRAM, unit)
        cubin = _output(_only_cubin(place / _KEEP, unit), unit)
        front_end = _front_end(place / _KEEP)
    if front_end is not None and front_end != tools.nvcc.version:
        text = f"the front end that nvcc starts is {front_end}, nvcc is {tools.nvcc.version}"
        differences = (*differences, text)
        require_pinned(differences, context.unlocked)
    entries = resources.parse(printed, unit.symbol)
    resources.judge(unit.backend, entries, unit.symbol)
    write_atomic(unit.cubin(root), cubin)
    counts = None
    if lister is not None:
        counts = sass.count(lister, unit.cubin(root), wanted, unit.symbol)
        sass.judge(unit.backend, counts)
    generated, kernel = found.tree[unit.kernel.generated], unit.kernel
    build = KernelBuild(
        backend=unit.backend,
        kernel=kernel.name,
        source=kernel.source,
        source_blake3=stamp.source_blake3,
        generated=kernel.generated,
        generated_blake3=_blake3(generated),
        compiler=stamp.compiler,
        compiler_flags=stamp.flags,
        nvcc=tools.nvcc.version or "",
        front_end=front_end,
        nvcc_flags=unit.nvcc_flags,
        headers={
            path: _blake3(data)
            for path, data in sorted(found.tree.items())
            if path != kernel.generated
        },
        libraries=found.libraries,
        entries=entries,
        sass=counts,
        cubin_sha256=_sha256(cubin),
        executable_sha256=_sha256(executable),
        executable_bytes=len(executable),
        seconds=round(seconds, 3),
        differences=differences,
    )
    write_atomic(unit.file(root), executable, mode=0o755)
    made = BuildRecord(record_version=1, key=key, build=build, log_sha256=_sha256(log))
    # The last one: a record never speaks of a file that is not there yet.
    write_atomic(unit.record(root), pretty_json(made.model_dump(mode="json")))
    return build


def _log(context: Context, unit: Unit, command: Sequence[str], printed: str) -> bytes:
    text = context.tools.portable(f"$ {shlex.join(command)}\n{printed}").encode("utf-8")
    write_atomic(unit.log(context.root), text)
    return text


def _failed(unit: Unit, what: str, status: int | None, printed: str) -> BuildFailed:
    lines = [line for line in printed.splitlines() if "ptxas info" not in line and line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines
    return BuildFailed(
        what,
        where=f"backend {unit.backend}, {unit.kernel.generated}",
        expected="status 0",
        found=f"no end within {_TIMEOUT_S:g} s; it was killed"
        if status is None
        else f"status {status}",
        next=f"read {BUILD}/{unit.backend}-nvcc.log",
        details=tuple(errors[:_SHOWN]),
    )


def _output(path: Path, unit: Unit) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BuildFailed(
            "nvcc ended well and left nothing",
            where=f"backend {unit.backend}: {path.name}",
            found=error.strerror or str(error),
            next=f"df -h; read {BUILD}/{unit.backend}-nvcc.log",
        ) from error


def _only_cubin(folder: Path, unit: Unit) -> Path:
    """The machine code of the unit's one architecture; that of the device link is not it."""
    cubins = [p for p in sorted(folder.glob("*.cubin")) if not p.stem.endswith("_dlink")]
    if len(cubins) != 1:
        raise BuildFailed(
            "a build has the machine code of one architecture",
            where=f"backend {unit.backend}",
            expected="one cubin among what nvcc --keep leaves",
            found=", ".join(path.name for path in cubins) or "none",
            cause="the manifest's nvcc flags name several architectures, or none",
            next="correct -gencode in the flags of the manifest, then: artifact lock",
        )
    return cubins[0]


def _front_end(folder: Path) -> str | None:
    for path in sorted(folder.glob("*.ptx")):
        with path.open(encoding="utf-8", errors="replace") as file:
            return version_in(file.read(2000))
    return None


def _blake3(data: bytes) -> str:
    return blake3(data).hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
