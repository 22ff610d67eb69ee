"""Generated files from kernel sources: write them, or prove that they are what they should be."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from artifact.build.compiler import Compiler, compile_source
from artifact.errors import UsageError, VerificationError
from artifact.integrity.atomic import write_atomic
from artifact.integrity.chain import STAMP_BYTES, read_stamp
from artifact.model.backend import Kernel
from artifact.model.load import read_bytes
from artifact.model.manifest import Manifest
from artifact.model.root import BUILD

_DIFF_LINES = 20
_LINE = 160
_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Generated:
    """What a compiler made of one kernel."""

    kernel: Kernel
    source_blake3: str
    data: bytes
    """The whole file, with its stamp."""
    present: bytes | None
    """What stands in the tree now; None where nothing does."""
    said: tuple[str, ...] = ()
    """What the compiler said beside it, for the person who asked for it."""

    @property
    def same(self) -> bool:
        """Whether the tree has exactly this."""
        return self.present == self.data

    @property
    def blake3(self) -> str:
        """The digest of the whole file."""
        return blake3(self.data).hexdigest()


def choose_kernels(manifest: Manifest, names: Sequence[str] | None) -> tuple[Kernel, ...]:
    """The kernels called ``names``, or that backends of these names are built from.

    Raises:
        UsageError: for a name that is neither, or where there is no kernel.
    """
    by_backend = {b.name: b.kernel for b in manifest.backends if b.kernel is not None}
    known = {kernel.name for kernel in manifest.kernels}
    if not known:
        raise UsageError("the manifest has no kernel: nothing is generated", found="0 kernels")
    if names is None:
        return manifest.kernels
    wanted = {by_backend.get(name, name) for name in names}
    if unknown := sorted(wanted - known):
        raise UsageError(
            "no kernel has this name",
            expected=f"some of: {', '.join(sorted(known))}",
            found=", ".join(unknown),
        )
    return tuple(kernel for kernel in manifest.kernels if kernel.name in wanted)


def generate(root: Path, manifest: Manifest, kernel: Kernel, compiler: Compiler) -> Generated:
    """Compile the source of ``kernel`` as it stands in the tree; nothing is written.

    Raises:
        ArtifactError: where the source is missing, or the compiler does not take it.
    """
    text = read_bytes(root / kernel.source)
    flags = manifest.compiler_flags(kernel)
    digest = blake3(text).hexdigest()
    made = compile_source(
        compiler, root, kernel.source, text, flags, manifest.build.compiler_output
    )
    data = stamp(kernel.source, digest, compiler.name, flags) + made.cuda
    try:
        read_stamp(data[:STAMP_BYTES])
    except ValueError as error:
        raise VerificationError(
            "what the compiler wrote has a stamp of its own",
            where=kernel.generated,
            found=str(error),
            next="use a compiler that writes no line which begins with artifact-",
        ) from error
    path = root / kernel.generated
    present = path.read_bytes() if path.is_file() else None
    return Generated(kernel, digest, data, present, made.said)


def stamp(source: str, source_blake3: str, compiler: str, flags: Sequence[str]) -> bytes:
    """The comment lines that say what a generated file was made of (docs/architecture.md)."""
    return (
        f"// artifact-source: {source} blake3:{source_blake3}\n"
        f"// artifact-compiler: {compiler}\n"
        f"// artifact-flags: {shlex.join(flags)}\n"
    ).encode()


def write(root: Path, made: Generated, known: Sequence[str]) -> Path | None:
    """Write a generated file, where the tree does not have it already.

    Bytes that nobody could make again are kept: a file that was edited by hand is copied
    to build/ before it is replaced.

    Args:
        root: The artifact's root.
        made: What was generated.
        known: BLAKE3 of contents that may be replaced: the lock's, and those of a record.

    Returns:
        The copy; None where none was needed.
    """
    if made.same:
        return None
    path, copy = root / made.kernel.generated, None
    if made.present is not None and blake3(made.present).hexdigest() not in known:
        # Named by what it holds: a second edit does not take the place of the first.
        digest = blake3(made.present).hexdigest()[:_DIGITS]
        copy = root / BUILD / f"replaced-{digest}-{path.name}"
        copy.parent.mkdir(exist_ok=True)
        write_atomic(copy, made.present)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, made.data)
    return copy


def require_same(*made: Generated) -> None:
    """Do nothing where the tree has exactly what was generated.

    Raises:
        VerificationError: with the first differing lines of each file that differs.
    """
    different = [one for one in made if not one.same]
    if not different:
        return
    errors = [_difference(one) for one in different]
    if len(errors) == 1:
        raise errors[0]
    lines = [(f"{error.where}: {error.what}", *error.details) for error in errors]
    raise VerificationError(
        f"{len(errors)} generated files are not what the compiler makes of their sources",
        where=", ".join(one.kernel.generated for one in different),
        cause=errors[0].cause,
        next=f"artifact regenerate {' '.join(one.kernel.name for one in different)}",
        details=tuple(line for group in lines for line in group),
    )


def _difference(made: Generated) -> VerificationError:
    path, command = made.kernel.generated, f"artifact regenerate {made.kernel.name}"
    if made.present is None:
        return VerificationError("a generated file is missing", where=path, next=command)
    return VerificationError(
        "a generated file is not what the compiler makes of its source",
        where=f"{path}, of {made.kernel.source}",
        expected=f"blake3:{made.blake3}, by {_compiler(made.data)}",
        found=f"blake3:{blake3(made.present).hexdigest()}, by {_compiler(made.present)}",
        cause="its source, the compiler or its flags changed, or it was edited by hand",
        next=command,
        details=_diff(made.present, made.data, path),
    )


def _compiler(data: bytes) -> str:
    try:
        return read_stamp(data[:STAMP_BYTES]).compiler
    except ValueError:
        return "nobody that it names"


def _diff(present: bytes, made: bytes, path: str) -> tuple[str, ...]:
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (present, made))
    lines = difflib.unified_diff(old, new, path, "generated anew", lineterm="", n=1)
    shown = [line[:_LINE] for _, line in zip(range(_DIFF_LINES + 1), lines, strict=False)]
    return (*shown[:_DIFF_LINES], "...") if len(shown) > _DIFF_LINES else tuple(shown)
