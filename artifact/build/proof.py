"""Before anything is pinned: what names our compiler as its maker is what our compiler makes."""

from __future__ import annotations

from pathlib import Path

from artifact.build.compiler import find_compiler
from artifact.build.regenerate import generate, require_same
from artifact.integrity.chain import STAMP_BYTES, read_stamp
from artifact.integrity.documents import load_manifest


def require_generated(root: Path) -> None:
    """Hold every generated file that our compiler made against its source.

    A stamp is text: a file that was edited by hand below an intact stamp would be pinned as the
    compiler's work. What another compiler made cannot be proved without it and is left alone, as
    is a file without a readable stamp, which pinning refuses by itself.

    Raises:
        VerificationError: for a file that the compiler of its stamp, this one, does not make.
        CompileError: where a source does not compile.
    """
    manifest = load_manifest(root)
    if not manifest.kernels:
        return
    ours = find_compiler()
    made = []
    for kernel in manifest.kernels:
        try:
            stamp = read_stamp((root / kernel.generated).read_bytes()[:STAMP_BYTES])
        except (OSError, ValueError):
            continue
        if stamp.compiler == ours.name:
            made.append(generate(root, manifest, kernel, ours))
    require_same(*made)
