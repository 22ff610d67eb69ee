"""``artifact build``: the executables of native backends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artifact.cli.options import (
    Choreo,
    ChoreoInclude,
    Cutlass,
    Json,
    NoColor,
    Nvcc,
    Quiet,
    Regenerate,
    Root,
    UnlockedEnv,
    Verbose,
)
from artifact.cli.output import Output
from artifact.errors import UsageError
from artifact.model.root import BUILD, find_root

if TYPE_CHECKING:
    from artifact.bench.buildphase import BuildOptions, Verified
    from artifact.bench.plan import Options
    from artifact.model.backend import Backend
    from artifact.model.build import BuildFacts, BuiltKernel
    from artifact.model.manifest import Manifest


def command(
    backends: Annotated[
        list[str] | None,
        typer.Argument(metavar="[BACKEND]...", help="What to build (default: every native one)."),
    ] = None,
    regenerate: Regenerate = False,
    choreo: Choreo = None,
    choreo_include: ChoreoInclude = None,
    nvcc: Nvcc = None,
    cutlass: Cutlass = None,
    unlocked_env: UnlockedEnv = False,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Build the native backends into build/: the same as `artifact run --build-only`.

    Nothing is compiled whose digest does not match the lock. The machine code must have no
    spills and the instructions that the manifest expects; where the lock pins it, it is
    compared. What was built of the same bytes by the same tools is not built again.

    Examples:  artifact build    artifact build NAME --nvcc /usr/local/cuda/bin/nvcc

    Exit codes: 1 the tree is not as locked or a build failed, 3 no toolkit, or another one.
    """
    from artifact.bench.buildphase import BuildOptions
    from artifact.build.plan import choose
    from artifact.integrity.documents import load_manifest

    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    place = find_root(Path.cwd(), root)
    manifest = load_manifest(place)
    options = BuildOptions(
        regenerate=regenerate,
        choreo=choreo,
        choreo_include=choreo_include,
        nvcc=nvcc,
        cutlass=cutlass,
    )
    chosen = choose(manifest, backends or None)
    build_backends(out, place, manifest, chosen, options, unlocked_env)


def of_run(manifest: Manifest, options: Options) -> tuple[Backend, ...]:
    """The native backends that ``artifact run`` with ``options`` would build.

    Raises:
        UsageError: where there is none.
    """
    from artifact.build.plan import choose

    of_workload = manifest.backends_of(manifest.chosen_workload(options.workload).name)
    names = options.backends
    if names is None:
        names = tuple(b.name for b in of_workload if b.kind == "native")
    else:
        # Python backends of the command line have nothing that is built beforehand.
        known = {b.name: b.kind for b in of_workload}
        names = tuple(n for n in names if known.get(n) != "python")
    return choose(manifest, names)


def build_backends(
    out: Output,
    root: Path,
    manifest: Manifest,
    backends: tuple[Backend, ...],
    options: BuildOptions,
    unlocked: bool,
) -> None:
    """Verify the tree, build ``backends``, and print what came of it.

    Raises:
        ArtifactError: what failed.
    """
    from artifact.bench import buildphase
    from artifact.build.plan import make_units

    options.check()
    if options.skip:
        raise UsageError(
            "two options contradict each other",
            where="--build-only --skip-build",
            expected="one of them",
            next="leave one of them out",
        )
    units = make_units(manifest, backends)
    verified = buildphase.verify_tree(root, manifest, units, options, unlocked)
    facts, verified = buildphase.make(
        root,
        manifest,
        units,
        options,
        verified,
        unlocked=unlocked,
        done=lambda _, kernel: out.note(buildphase.words(kernel)),
        failed=lambda unit: out.note(f"{unit.backend}: failed"),
        say=out.note,
    )
    _print(out, facts, verified)
    out.document(lambda: _document(facts, verified))


def _print(out: Output, facts: BuildFacts, verified: Verified) -> None:
    toolkit = facts.toolkit
    assert toolkit is not None
    out.say(f"nvcc:       {toolkit.nvcc} (found by {toolkit.origin})")
    out.say(f"headers:    CUTLASS {toolkit.headers or 'not needed: no kernel includes one'}")
    for kernel in facts.kernels:
        build = kernel.build
        out.always(f"built:      {BUILD}/{build.backend} ({kernel.how})")
        for entry in build.entries:
            text = (
                f"            {entry.symbol}: {entry.registers} registers, "
                f"{entry.spill_store_bytes + entry.spill_load_bytes} bytes of spills, "
                f"{entry.static_shared_bytes} bytes of static shared memory"
            )
            (out.say if entry.measured else out.detail)(text)
        if build.sass is not None:
            out.say("            " + ", ".join(f"{n} x {name}" for name, n in build.sass.items()))
        out.say(f"            cubin sha256:{build.cubin_sha256}, {_identity(out, kernel)}")
    for difference in facts.differences:
        out.say(f"UNLOCKED:   {out.mark(difference)}")
    for path in verified.accepted.paths:
        out.say(f"MODIFIED:   {out.mark(path)}")
    if verified.accepted.paths:
        names = ",".join(kernel.build.backend for kernel in facts.kernels)
        out.say(f"next:       artifact run --skip-build --backends {names}")
        out.say("            `artifact verify` stays red until: artifact lock")


def _identity(out: Output, kernel: BuiltKernel) -> str:
    if kernel.bit_identical is None:
        return "none is pinned"
    if kernel.bit_identical:
        return out.good("bit-identical build")
    return out.bad("NOT the pinned one")


def _document(facts: BuildFacts, verified: Verified) -> dict[str, Any]:
    return {
        "content_id": f"blake3:{verified.report.content_id}",
        "modified": list(verified.accepted.paths),
        "differences": list(facts.differences),
        **facts.model_dump(mode="json"),
    }
