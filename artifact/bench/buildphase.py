"""The build of a run: what may be executed, and the executables that are.

``artifact build`` is this and nothing after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blake3 import blake3

from artifact.build import accept, regenerate
from artifact.build.accept import NOTHING, Accepted
from artifact.build.building import build
from artifact.build.compiler import Compiler, find_compiler, named_headers
from artifact.build.plan import Unit
from artifact.build.record import find
from artifact.build.tools import ToolOptions, find_tools
from artifact.errors import UsageError, VerificationError
from artifact.integrity.documents import load_lock, load_manifest
from artifact.integrity.tree import Tree
from artifact.integrity.verify import Report, verify
from artifact.model.build import BuildFacts, BuiltKernel
from artifact.model.lock import Lock
from artifact.model.manifest import Manifest
from artifact.model.root import LOCK, MANIFEST, at_root


@dataclass(frozen=True)
class BuildOptions:
    """What a command line says of the build."""

    skip: bool = False
    regenerate: bool = False
    choreo: Path | None = None
    choreo_include: Path | None = None
    nvcc: Path | None = None
    cutlass: Path | None = None

    def check(self) -> None:
        """Do nothing where they go together.

        Raises:
            UsageError: where they do not.
        """
        if self.skip and self.regenerate:
            raise UsageError(
                "two options contradict each other",
                where="--skip-build --regenerate",
                expected="one of them: what is regenerated is built",
                next="first --build-only --regenerate, then --skip-build",
            )
        if self.choreo is not None and not self.regenerate:
            raise UsageError(
                "an option names a compiler, and nothing is to be generated",
                where=f"--choreo {self.choreo}",
                expected="--regenerate with it",
                next="add --regenerate, or leave --choreo out",
            )


@dataclass(frozen=True)
class Verified:
    """A tree whose every byte is as pinned, or accepted for a reason."""

    report: Report
    lock: Lock
    lock_data: bytes
    accepted: Accepted
    facts: BuildFacts | None
    """The builds that ``--skip-build`` found."""


def verify_tree(
    root: Path, manifest: Manifest, units: Sequence[Unit], options: BuildOptions, unlocked: bool
) -> Verified:
    """Hold the tree against its lock, with the exceptions that ``options`` make.

    Raises:
        VerificationError: where anything else differs.
        NotBuilt: where ``--skip-build`` finds no build.
    """
    report = verify(Tree(root))
    files = [path for unit in units for path in (unit.kernel.source, unit.kernel.generated)]
    if units and (options.skip or options.regenerate):
        report = accept.except_for(report, files)
    _require(root, report, units, files)
    data = (root / LOCK).read_bytes()
    lock = load_lock(root)
    if blake3(data).hexdigest() != report.lock_blake3 or load_manifest(root) != manifest:
        raise VerificationError(
            "the tree changed while it was verified",
            where=f"{MANIFEST} or {LOCK}",
            cause="another process writes to it",
            next=at_root("artifact verify", root),
        )
    facts, accepted = None, NOTHING
    if units and options.skip:
        facts, accepted = accept.recorded(root, units, lock, unlocked=unlocked)
    return Verified(report, lock, data, accepted, facts)


def _require(root: Path, report: Report, units: Sequence[Unit], files: Sequence[str]) -> None:
    try:
        report.require()
    except VerificationError as error:
        if report.findings and all(finding.path in files for finding in report.findings):
            names = ",".join(
                unit.backend
                for unit in units
                if {unit.kernel.source, unit.kernel.generated} & {f.path for f in report.findings}
            )
            build = at_root(f"artifact run --build-only --regenerate --backends {names}", root)
            run = at_root(f"artifact run --skip-build --backends {names} ...", root)
            error.next = f"after an edit of the kernel: {build}\nthen: {run}"
        raise


def verify_again(root: Path, accepted: Accepted) -> Report:
    """Hold the tree against its lock once more; what was accepted must be as it was.

    Raises:
        VerificationError: where anything differs.
    """
    report = accept.except_for(verify(Tree(root)), accepted.paths)
    report.require()
    accept.require_unchanged(root, accepted)
    return report


def make(
    root: Path,
    manifest: Manifest,
    units: Sequence[Unit],
    options: BuildOptions,
    verified: Verified,
    *,
    unlocked: bool,
    done: Callable[[Unit, BuiltKernel], None],
    failed: Callable[[Unit], None],
    say: Callable[[str], None],
) -> tuple[BuildFacts, Verified]:
    """Regenerate what is to be, and build ``units``.

    Args:
        root: The artifact's root.
        manifest: Its manifest.
        units: What to build: one unit or more.
        options: The command's.
        verified: What :func:`verify_tree` said.
        unlocked: Whether tools other than the pinned ones were accepted.
        done: Told of each unit when it is ready.
        failed: Told of the unit that could not be made.
        say: Takes a sentence for the person at the terminal.

    Returns:
        The builds, and ``verified`` as it is with the files that were regenerated.

    Raises:
        ArtifactError: what failed.
    """
    include = named_headers(options.choreo_include)
    if options.regenerate:
        compiler = find_compiler(options.choreo, options.choreo_include)
        include = compiler.include
        _regenerate(root, manifest, units, compiler, verified.lock, say)
        files = [p for unit in units for p in (unit.kernel.source, unit.kernel.generated)]
        accepted = accept.changed_files(root, verified.lock, files)
        verified = replace(verified, accepted=accepted, report=verify_again(root, accepted))
    tools = find_tools(ToolOptions(options.nvcc, options.cutlass, include))
    for text in tools.passed_over:
        say(f"note: {text}, and was passed over")
    facts = build(
        root,
        manifest,
        units,
        tools,
        lock=verified.lock,
        changed=verified.accepted.digests,
        unlocked=unlocked,
        done=done,
        failed=failed,
    )
    return facts, verified


def words(kernel: BuiltKernel) -> str:
    """A build in one line."""
    build = kernel.build
    said = [f"{build.backend}: {kernel.how}"]
    if kernel.how == "built":
        said.append(f"nvcc {build.seconds:.1f} s")
    for entry in build.entries:
        if entry.measured:
            said.append(f"{entry.registers} registers, {entry.spill_store_bytes} bytes spilled")
    if kernel.bit_identical is not None:
        said.append("bit-identical build" if kernel.bit_identical else "NOT the pinned cubin")
    return ", ".join(said)


def _regenerate(
    root: Path,
    manifest: Manifest,
    units: Sequence[Unit],
    compiler: Compiler,
    lock: Lock,
    say: Callable[[str], None],
) -> None:
    pins = lock.pins()
    # Every kernel compiles before the first file is written.
    made = [(unit, regenerate.generate(root, manifest, unit.kernel, compiler)) for unit in units]
    for unit, generated in made:
        for text in generated.said:
            say(text)
        path = unit.kernel.generated
        record = find(root, unit)
        known = [pins[path].blake3] if path in pins else []
        known += [record.build.generated_blake3] if record is not None else []
        copy = regenerate.write(root, generated, known)
        if copy is not None:
            where = copy.relative_to(root)
            say(f"note: {path} was neither locked nor built; what it held is in {where}")
        state = "unchanged" if generated.same else "written"
        say(f"{path}: {state}, by {compiler.name}")
