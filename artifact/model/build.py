"""What a build made: of which bytes, with which tools, and what came of it.

A build record (``build/<backend>.json``) holds one :class:`KernelBuild`. It names no place of
a machine, so that a build may be carried to another one together with its tree.
"""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from artifact.model.base import GeneratedFrom, Hex64, Model, Name, RelPath, Text

TOOLKIT = "CUDA Toolkit"
"""The manifest's dependency that pins nvcc."""

HEADERS = "CUTLASS"
"""The manifest's dependency that pins the headers from outside of the tree."""


class EntryResources(Model):
    """What the assembler says of one kernel entry of a translation unit."""

    symbol: Text
    measured: bool
    """Whether it is the backend's own kernel, told by the manifest's ``witness.symbol``; other
    entries (inputs, oracle) are recorded and not judged."""
    registers: NonNegativeInt
    stack_bytes: NonNegativeInt
    spill_store_bytes: NonNegativeInt
    spill_load_bytes: NonNegativeInt
    static_shared_bytes: NonNegativeInt
    warnings: tuple[Text, ...] = ()
    """What the assembler warns of in this entry."""


class LibraryHeaders(Model):
    """Headers from outside of the tree that were opened, put together."""

    name: Name
    """``toolkit``, ``cutlass``, ``compiler`` or ``system``."""
    version: Text | None
    files: PositiveInt
    blake3: Hex64
    """Over the sorted list of their names and digests."""


class KernelBuild(GeneratedFrom):
    """One executable, and everything that it was made of."""

    backend: Name
    compiler_flags: tuple[str, ...]
    nvcc: Text
    """The version of nvcc, such as ``13.0.88``."""
    front_end: Text | None
    """The version of the front end that nvcc started; null where its code does not say."""
    nvcc_flags: tuple[str, ...]
    headers: dict[RelPath, Hex64]
    """BLAKE3 of every header of the tree that was opened."""
    libraries: tuple[LibraryHeaders, ...]
    entries: tuple[EntryResources, ...]
    sass: dict[str, NonNegativeInt] | None
    """How often each expected instruction stands in the kernel; null: none is expected."""
    cubin_sha256: Hex64
    """Of the machine code that the executable holds."""
    executable_sha256: Hex64
    executable_bytes: PositiveInt
    seconds: NonNegativeFloat
    """Wall time of nvcc."""
    differences: tuple[Text, ...] = ()
    """How the tools differ from those that the manifest pins."""


class BuildRecord(Model):
    """``build/<backend>.json``."""

    record_version: Literal[1]
    key: Hex64
    """Digest of everything that a build depends on; another key is another build."""
    build: KernelBuild
    log_sha256: Hex64
    """Of what the compiler said: a failed build leaves its own words in the same file."""


class BuiltKernel(Model):
    """A build as a run used it."""

    build: KernelBuild
    how: Literal["built", "up to date", "as recorded"]
    """``as recorded``: ``--skip-build`` took what an earlier build left."""
    bit_identical: bool | None
    """Whether the machine code is the pinned one; null where the lock pins none."""
    log: RelPath | None = None
    """The compiler's words, below the run folder."""


class Toolkit(Model):
    """What compiled the kernels of a run; null where nothing was compiled by it."""

    nvcc: Text
    origin: Text
    """Where nvcc was found: ``--nvcc``, ``CUDA_HOME``, ``PATH`` or ``PyPI``."""
    headers: Text | None
    """The CUTLASS headers and where they were found; null where no kernel includes one."""
    passed_over: tuple[Text, ...] = ()
    """Variables that were set to name either and lead nowhere, a sentence each."""


class BuildFacts(Model):
    """The build phase of a run."""

    toolkit: Toolkit | None
    kernels: tuple[BuiltKernel, ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """How the tools of its builds differ from the pinned ones, each once."""
        return tuple(dict.fromkeys(d for kernel in self.kernels for d in kernel.build.differences))
