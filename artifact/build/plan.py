"""What is to be built: one executable for each native backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from artifact.errors import UsageError
from artifact.model.backend import Backend, Kernel
from artifact.model.manifest import Manifest
from artifact.model.root import BUILD


@dataclass(frozen=True, slots=True)
class Unit:
    """One translation unit: the generated file of one native backend."""

    backend: str
    kernel: Kernel
    compiler_flags: tuple[str, ...]
    """What the generated file is to be made with."""
    nvcc_flags: tuple[str, ...]
    symbol: str | None
    """A regular expression: the entries of the unit that are measured."""

    def file(self, root: Path, ending: str = "") -> Path:
        """A file of its build: the executable, or one beside it."""
        return root / BUILD / f"{self.backend}{ending}"

    def log(self, root: Path) -> Path:
        """What the compiler said."""
        return self.file(root, "-nvcc.log")

    def record(self, root: Path) -> Path:
        """The build record."""
        return self.file(root, ".json")

    def cubin(self, root: Path) -> Path:
        """The machine code that the executable holds."""
        return self.file(root, ".cubin")


def make_units(manifest: Manifest, backends: Sequence[Backend]) -> tuple[Unit, ...]:
    """The units of the native ones of ``backends``, in their order."""
    units = []
    for backend in backends:
        if backend.kind != "native" or backend.kernel is None:
            continue
        kernel = manifest.kernel(backend.kernel)
        assert kernel is not None, "a manifest names only kernels that it has"
        symbol = backend.witness.symbol
        flags = manifest.compiler_flags(kernel), manifest.nvcc_flags(kernel)
        units.append(Unit(backend.name, kernel, *flags, symbol))
    return tuple(units)


def choose(manifest: Manifest, names: Sequence[str] | None) -> tuple[Backend, ...]:
    """The native backends called ``names``; None for all that the manifest has.

    Raises:
        UsageError: for a name that is no native backend, or where there is none at all.
    """
    native = tuple(backend for backend in manifest.backends if backend.kind == "native")
    listing = ", ".join(backend.name for backend in native) or "none"
    if not native:
        raise UsageError("the manifest has no native backend: nothing is built", found="0 backends")
    if names is None:
        return native
    unknown = [name for name in names if name not in {backend.name for backend in native}]
    if unknown or not names:
        raise UsageError(
            "no native backend has this name",
            expected=f"some of: {listing}",
            found=", ".join(unknown) or "no name",
        )
    return tuple(backend for backend in native if backend.name in names)
