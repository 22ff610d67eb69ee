"""What is measured against what: backends, what each must show of itself, and kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt

from artifact.model import formula
from artifact.model.base import Hex64, Model, Name, RelPath, Text
from artifact.model.formula import Formula

EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _checked_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {pattern!r}: {error}") from error
    return pattern


Pattern = Annotated[Text, AfterValidator(_checked_pattern)]
"""A regular expression in Python's syntax."""


_AXES = 3
"""Of a grid: x, y and z."""


class Witness(Model):
    """What the kernel that really ran must show; a field that is null is recorded only.

    A worker answers ``witness`` with the facts it read from the loaded kernel. A fact that
    differs from what stands here is a refused fallback (exit code 6).
    """

    implementation: Text | None = None
    """The implementation that a worker names, such as ``numpy``."""
    symbol: Pattern | None = None
    """A regular expression that the whole kernel symbol must match."""
    grid: Annotated[tuple[Formula, ...], Field(min_length=1, max_length=_AXES)] | None = None
    """Blocks of the launch along x, y and z, each a formula over the shape's dimensions and
    the target's launch arguments (with ``_`` for a dash in their names); an axis that is
    left out has one block."""
    threads: PositiveInt | None = None
    """Threads in a block."""
    cluster: PositiveInt | None = None
    """Blocks in a cluster."""
    registers_max: PositiveInt | None = None
    spills: NonNegativeInt | None = None
    """Bytes spilled to local memory."""
    dynamic_shared_bytes: NonNegativeInt | None = None
    cubin_sha256: Hex64 | None = None
    distribution: Text | None = None
    """``name==version`` of the distribution that provides the library."""
    module_sha256: Hex64 | None = None
    """Digest of the library's module file."""

    def at(self, dims: Mapping[str, int], parameters: Mapping[str, int]) -> Witness:
        """The witness at one shape on one target: ``grid`` is three numbers.

        Raises:
            ValueError: where an axis of the grid is no whole number of at least one block.
        """
        if self.grid is None:
            return self
        known = formula.values(dims, parameters)
        blocks = []
        for text in (*self.grid, *["1"] * (_AXES - len(self.grid))):
            count = formula.evaluate(text, known)
            if count.denominator != 1 or count < 1:
                raise ValueError(f"{text!r} is {count}, not a whole number of blocks")
            blocks.append(str(count))
        return self.model_copy(update={"grid": tuple(blocks)})


class Backend(Model):
    """One implementation, run as a worker process of its own."""

    name: Name
    title: Text
    """What tables print."""
    kind: Literal["python", "native"]
    device: Literal["cpu", "gpu"]
    worker: RelPath
    """A Python file that speaks the worker protocol, or the generated file of the kernel that
    a native backend is built from."""
    args: tuple[str, ...] = ()
    environment: Name | None = None
    """Which locked environment its interpreter comes from; null: the runner's own."""
    workloads: Annotated[tuple[Name, ...], Field(min_length=1)]
    anchor: bool = False
    """Whether ratios are taken to this backend. At most one a workload."""
    kernel: Name | None = None
    """The kernel that a native backend is built from."""
    env: dict[EnvName, str] = {}
    """Environment variables of the worker, beside the runner's allow-list."""
    direct: dict[EnvName, Formula] = {}
    """Variables that select a shape where a native executable is started by hand, each a
    formula over the shape's dimensions; workers never get them. So started it prints every
    dimension of what it launches as ``NAME=INTEGER``, its first launch first."""
    witness: Witness = Witness()


class KernelExpectations(Model):
    """What the machine code of a kernel must hold, or its build fails."""

    sass: tuple[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_.]*$")], ...] = ()
    """Instructions, such as ``HGMMA``: each stands at least once in the kernel."""


class Kernel(Model):
    """A source file and the file that a compiler made of it."""

    name: Name
    source: RelPath
    generated: RelPath
    compiler_flags: tuple[Text, ...] = ()
    """Flags of this kernel's generation, behind those of ``build.compiler_flags``."""
    nvcc_flags: tuple[Text, ...] = ()
    """Flags of this kernel's compilation, behind those of ``build.nvcc_flags``."""
    expect: KernelExpectations = KernelExpectations()


class BuildRules(Model):
    """How every kernel is generated and compiled."""

    compiler_flags: tuple[Text, ...] = ()
    """Flags of the kernel language's compiler. They stand in the stamp of what it makes."""
    compiler_output: tuple[Text, ...] = ("-es",)
    """What asks another compiler (``--choreo``) for CUDA source."""
    nvcc_flags: tuple[Text, ...] = ()


class Environment(Model):
    """A locked Python environment that backends run in."""

    name: Name
    title: Text
    python: Annotated[str, Field(pattern=r"^3\.\d+$")]
    option: Annotated[str, Field(pattern=r"^--[a-z-]+$")] = "--python"
    """The option of ``artifact run`` that names its interpreter."""
    requirements: RelPath
    """name==version with sha256, for the wheels."""
    conda_lock: RelPath | None = None
    specification: RelPath | None = None
    """The environment.yml that the locks were made from."""
    departures: tuple[Text, ...] = ()
    """Where it departs from the published environment, a sentence each. ``compare`` takes
    another version of a library for intended exactly if a sentence names both versions."""


class Dependency(Model):
    """Something outside the archive that the artifact builds on, for the provenance."""

    name: Text
    version: Text | None = None
    revision: Text | None = None
    """The commit, where there is one."""
    sha256: Hex64 | None = None
    uri: Text | None = None
    """A package URL (purl) such as ``pkg:pypi/torch@2.11.0``; no registry's host."""
    role: Text
    """What it is used for."""
    licence: Text | None = None
    """An SPDX expression."""
