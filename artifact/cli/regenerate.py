"""``artifact regenerate``: the CUDA of kernel sources."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from artifact.cli.options import Choreo, Json, NoColor, Quiet, Root, Verbose
from artifact.cli.output import Output
from artifact.model.root import find_root


def command(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KERNEL]...", help="Which (default: every one)."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare only: write nothing, fail where any differs.")
    ] = False,
    choreo: Choreo = None,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Compile kernel sources to generated/, or prove that it holds what they compile to.

    Each generated file begins with a stamp: the digest of its source, the compiler and its
    flags. All kernels compile before the first file is written.

    Examples:  artifact regenerate NAME    artifact regenerate --check

    Exit code 1 where a source does not compile or, with --check, files are not what the
    compiler makes of their sources: each is named, with its first differing lines.
    """
    from artifact.build import regenerate
    from artifact.build.compiler import find_compiler
    from artifact.errors import VerificationError
    from artifact.integrity.documents import load_lock, load_manifest

    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    place = find_root(Path.cwd(), root)
    manifest = load_manifest(place)
    compiler = find_compiler(choreo)
    made, seconds = [], []
    for kernel in regenerate.choose_kernels(manifest, kernels or None):
        begin = time.perf_counter()
        made.append(regenerate.generate(place, manifest, kernel, compiler))
        seconds.append(time.perf_counter() - begin)
        for text in made[-1].said:
            out.note(text)
    if check:
        regenerate.require_same(*made)
    else:
        try:
            pins = {pin.path: pin.blake3 for pin in load_lock(place).files}
        except VerificationError:
            pins = {}
        for generated in made:
            path = generated.kernel.generated
            copy = regenerate.write(place, generated, [pins[path]] if path in pins else [])
            if copy is not None:
                out.note(f"note: {path} was not as locked; it is kept: {copy.relative_to(place)}")
    for generated, took in zip(made, seconds, strict=True):
        path = generated.kernel.generated
        state = "is what its source compiles to" if generated.same else "written"
        out.always(f"{path}: {state}")
        out.detail(f"            {compiler.name}, {took:.3f} s")
    if not check and not all(generated.same for generated in made):
        out.say("next:       artifact build, then: artifact lock")
    out.document(
        lambda: {
            "compiler": compiler.name,
            "kernels": [
                {
                    "kernel": generated.kernel.name,
                    "source": generated.kernel.source,
                    "source_digest": f"blake3:{generated.source_blake3}",
                    "generated": generated.kernel.generated,
                    "generated_digest": f"blake3:{generated.blake3}",
                    "written": not generated.same and not check,
                    "seconds": round(took, 3),
                    "said": list(generated.said),
                }
                for generated, took in zip(made, seconds, strict=True)
            ],
        }
    )
