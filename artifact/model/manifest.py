"""The manifest: everything about an artifact that a person decides (manifests/artifact.toml)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from artifact.errors import UsageError
from artifact.model import formula
from artifact.model.backend import Backend, BuildRules, Dependency, Environment, Kernel
from artifact.model.base import Model, Name, RelPath, RunName, Text, UtcTime
from artifact.model.formula import Formula
from artifact.model.protocol import Protocol
from artifact.model.workload import Dimension, Target, Workload


class ArtifactInfo(Model):
    """Who it is."""

    name: Name
    """Also the one top directory of its archives."""
    title: Text
    version: Text
    licence: Text
    """An SPDX expression."""
    description: Text
    homepage: Text | None = None


class InventoryRules(Model):
    """Which files belong to the artifact.

    Patterns are matched against the path below the root. ``name/`` matches a directory of
    that name at the root, ``**/name/`` at any depth, ``**/*.pyc`` a file at any depth;
    ``*`` does not cross a ``/``. Everything that no pattern sets outside is pinned.
    """

    outside: tuple[Text, ...]
    """Stands outside: listed by ``verify --verbose``, never packed, never a failure."""
    results: RelPath
    """The folder of run folders. Each of them stands outside unless ``published`` names it."""
    published: tuple[RunName, ...]
    """The run folders that are part of the artifact."""


class DeflateRules(Model):
    """Which compressor makes archives. Its runtime version is pinned in the lock."""

    implementation: Literal["zlib", "zlib-ng"]
    package_version: Text | None = None
    """The version of the PyPI distribution that provides it; null for stdlib zlib."""
    level: Annotated[int, Field(ge=1, le=9)] = 6
    block_bytes: Annotated[int, Field(ge=65536, le=1 << 26)] = 1 << 20
    """Uncompressed bytes in one block. Blocks are compressed side by side, so it is a
    part of the format: another size gives other bytes."""


class ArchiveRules(Model):
    """How archives are made."""

    mtime: UtcTime
    """The time of every member: an even second, 1980 or later (ZIP holds no other)."""
    deflate: DeflateRules


class Metric(Model):
    """The rate that tables show: ``work / seconds / per_second``."""

    name: Text
    """Its unit, such as ``TFLOPS``."""
    work: Formula
    """Useful operations of one launch."""
    per_second: PositiveFloat
    """How many operations a second make one unit (1e12 for TFLOPS)."""
    explanation: str = ""
    """What the formula counts and leaves out; printed under tables."""


class OutputRules(Model):
    """What a worker's check must have covered: every element, in every band."""

    elements: Formula
    rows: Formula
    band_axis: Dimension
    """The dimension along which rows are banded."""
    band_rows: PositiveInt
    """Indices of that dimension in one band; the last band may be shorter."""


class PublishedGate(Model):
    """``abs(err) <= atol + rtol * abs(reference)`` for every element."""

    atol: NonNegativeFloat
    rtol: NonNegativeFloat


class StrictGate(Model):
    """Error against that of the plain low-precision implementation, in every band."""

    factor: PositiveFloat
    """Row RMS error (maximum and RMS over a band) and the largest absolute error may be
    at most this many times those of the plain implementation."""


class Control(Model):
    """A known-wrong output that the strict gate must reject."""

    name: Name
    positions: Annotated[tuple[Literal["first", "middle", "last"], ...], Field(max_length=3)] = ()
    """Where in the work the fault is put; none: the fault has no place."""
    description: Text


class GateRules(Model):
    """The gates that stand before timing."""

    output: OutputRules
    published: PublishedGate
    strict: StrictGate
    controls: Annotated[tuple[Control, ...], Field(min_length=1)]


class StatisticsRules(Model):
    """When a difference is one."""

    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    tie: Annotated[float, Field(ge=0, lt=1)]
    """Relative difference below which two backends are called tied."""
    max_drift: Annotated[float, Field(ge=0, lt=1)]
    """Relative change of the anchor over a run beyond which nothing is decided. It binds in
    paper order; in interleaved order each round is compared with the anchor of its own."""


class ClaimRules(Model):
    """Tolerances of ``compare``, fixed before anybody measures."""

    ratio: Annotated[float, Field(gt=0, lt=1)]
    """Allowed relative difference of a ratio to the anchor."""
    absolute: Annotated[float, Field(gt=0, lt=1)]
    """Allowed relative difference of a median time, on the same target."""
    resolution: Annotated[float, Field(gt=0)] | None = None
    """The furthest that the interval of a figure may reach from it, relatively, for an
    agreement to say anything; a figure without an interval then decides nothing. Null: the
    figures alone decide."""


class ReportRules(Model):
    """How tables and plots are headed."""

    title: Text
    caption: str = ""
    axis: Text
    """What the columns are, such as ``Sequence length``."""
    suffix: Name
    """The end of every run folder's name, such as ``bf16``: ``<UTC>-<device>-<suffix>``."""


class Caveat(Model):
    """What whoever reads the figures of a workload has to know about them."""

    workloads: Annotated[tuple[Name, ...], Field(min_length=1)]
    backends: tuple[Name, ...] = ()
    """It is about these, and stands in runs that have one of them; none: in every run."""
    text: Text


class Manifest(Model):
    """manifests/artifact.toml as a whole."""

    manifest_version: Literal[1]
    artifact: ArtifactInfo
    inventory: InventoryRules
    archive: ArchiveRules
    metric: Metric
    gates: GateRules
    statistics: StatisticsRules
    claims: ClaimRules
    report: ReportRules
    default_workload: Name
    workloads: Annotated[tuple[Workload, ...], Field(min_length=1)]
    protocols: Annotated[tuple[Protocol, ...], Field(min_length=1)]
    backends: Annotated[tuple[Backend, ...], Field(min_length=1)]
    targets: tuple[Target, ...] = ()
    environments: tuple[Environment, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    build: BuildRules = BuildRules()
    caveats: tuple[Caveat, ...] = ()
    """Written into results.json of each run that they are about, and shown on its pages."""
    dependencies: tuple[Dependency, ...] = ()
    downloads: dict[Name, RelPath] = {}
    """Single files that ``pack --individual`` writes beside the archive."""

    @model_validator(mode="after")
    def _names_refer(self) -> Manifest:
        problems = list(_problems(self))
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def workload(self, name: str) -> Workload | None:
        """The workload called ``name``."""
        return next((w for w in self.workloads if w.name == name), None)

    def chosen_workload(self, name: str | None) -> Workload:
        """The workload that ``--workload`` names; the default one for None.

        Raises:
            UsageError: where there is none of that name; it lists those that there are.
        """
        wanted = self.default_workload if name is None else name
        workload = self.workload(wanted)
        if workload is None:
            raise UsageError(
                "the manifest has no such workload",
                where=f"--workload {wanted}",
                expected=f"one of: {', '.join(w.name for w in self.workloads)}",
                found=wanted,
            )
        return workload

    def caveats_of(self, workload: str, backends: Iterable[str]) -> tuple[str, ...]:
        """What is to be known about a run of ``backends``, in the order of the manifest."""
        running = set(backends)
        return tuple(
            c.text
            for c in self.caveats
            if workload in c.workloads and (not c.backends or running & set(c.backends))
        )

    def protocol(self, name: str) -> Protocol | None:
        """The protocol called ``name``."""
        return next((p for p in self.protocols if p.name == name), None)

    def kernel(self, name: str) -> Kernel | None:
        """The kernel called ``name``."""
        return next((k for k in self.kernels if k.name == name), None)

    def compiler_flags(self, kernel: Kernel) -> tuple[str, ...]:
        """The flags that ``kernel`` is generated with."""
        return (*self.build.compiler_flags, *kernel.compiler_flags)

    def nvcc_flags(self, kernel: Kernel) -> tuple[str, ...]:
        """The flags that ``kernel`` is compiled with."""
        return (*self.build.nvcc_flags, *kernel.nvcc_flags)

    def backends_of(self, workload: str) -> tuple[Backend, ...]:
        """The backends that run ``workload``, in the order of the manifest."""
        return tuple(b for b in self.backends if workload in b.workloads)


def _problems(manifest: Manifest) -> Iterable[str]:
    """Every name that refers to nothing, or that two things share, with its dotted place."""
    lists: dict[str, tuple[str, ...]] = {
        "workloads": tuple(w.name for w in manifest.workloads),
        "protocols": tuple(p.name for p in manifest.protocols),
        "backends": tuple(b.name for b in manifest.backends),
        "targets": tuple(t.name for t in manifest.targets),
        "environments": tuple(e.name for e in manifest.environments),
        "kernels": tuple(k.name for k in manifest.kernels),
        "gates.controls": tuple(c.name for c in manifest.gates.controls),
    }
    for place, found in lists.items():
        for name, count in Counter(found).items():
            if count > 1:
                yield f"{place}: the name {name!r} stands {count} times"

    def unknown(place: str, name: str, kind: str) -> Iterable[str]:
        if name not in lists[kind]:
            yield f"{place}: found {name!r}, allowed: {', '.join(lists[kind]) or 'none'}"

    yield from unknown("default_workload", manifest.default_workload, "workloads")
    for i, workload in enumerate(manifest.workloads):
        if workload.default_order not in workload.protocols:
            yield f"workloads[{i}].default_order: no protocol for {workload.default_order!r}"
        for order, name in workload.protocols.items():
            place = f"workloads[{i}].protocols.{order}"
            yield from unknown(place, name, "protocols")
            protocol = manifest.protocol(name)
            if protocol is not None and protocol.order != order:
                yield f"{place}: {name!r} has the order {protocol.order!r}"
        anchors = [b.name for b in manifest.backends_of(workload.name) if b.anchor]
        if len(anchors) > 1:
            yield f"workloads[{i}]: more than one anchor: {', '.join(anchors)}"
        for j, shape in enumerate(workload.shapes):
            yield from _shape_problems(manifest, f"workloads[{i}].shapes[{j}]", shape.dims)
    for i, caveat in enumerate(manifest.caveats):
        for j, name in enumerate(caveat.workloads):
            yield from unknown(f"caveats[{i}].workloads[{j}]", name, "workloads")
        for j, name in enumerate(caveat.backends):
            yield from unknown(f"caveats[{i}].backends[{j}]", name, "backends")
    for i, backend in enumerate(manifest.backends):
        for j, name in enumerate(backend.workloads):
            yield from unknown(f"backends[{i}].workloads[{j}]", name, "workloads")
            workload_ = manifest.workload(name)
            if workload_ is not None and workload_.device != backend.device:
                yield (
                    f"backends[{i}].device: found {backend.device!r}, but the workload "
                    f"{name!r} runs on {workload_.device!r}"
                )
        if backend.environment is not None:
            yield from unknown(f"backends[{i}].environment", backend.environment, "environments")
        if backend.kernel is not None:
            yield from unknown(f"backends[{i}].kernel", backend.kernel, "kernels")
        yield from _native_problems(manifest, f"backends[{i}]", backend)
        yield from _grid_problems(manifest, f"backends[{i}]", backend)


def _native_problems(manifest: Manifest, place: str, backend: Backend) -> Iterable[str]:
    """What a native backend lacks, or what only a native one may have."""
    if backend.kind != "native":
        if backend.direct:
            yield f"{place}.direct: only a native backend is started by hand"
        return
    if backend.kernel is None:
        yield f"{place}.kernel: a native backend is built from a kernel of the manifest"
    elif (kernel := manifest.kernel(backend.kernel)) and kernel.generated != backend.worker:
        yield f"{place}.worker: found {backend.worker!r}, the kernel has {kernel.generated!r}"
    if backend.environment is not None:
        yield f"{place}.environment: a native backend runs in no Python environment"
    known = [shape.dims.keys() for w in manifest.workloads if w.name in backend.workloads
             for shape in w.shapes]  # fmt: skip
    for variable, text in backend.direct.items():
        for name in sorted(formula.names(text)):
            if any(name not in dims for dims in known):
                yield f"{place}.direct.{variable}: uses {name!r}, which a shape lacks"


def _grid_problems(manifest: Manifest, place: str, backend: Backend) -> Iterable[str]:
    """A grid that a shape or a target does not give a number for: the first one."""
    targets = [(t.name, t.parameters) for t in manifest.targets if backend.device == "gpu"]
    for workload in manifest.workloads:
        for shape in workload.shapes if workload.name in backend.workloads else ():
            for target, parameters in targets or [("any target", {})]:
                try:
                    backend.witness.at(shape.dims, parameters)
                except ValueError as error:
                    yield (
                        f"{place}.witness.grid: a number at every shape and target; "
                        f"at {shape.name}, {target}: {error}"
                    )
                    return


def _shape_problems(manifest: Manifest, place: str, dims: dict[str, int]) -> Iterable[str]:
    """Dimensions that a formula needs and the shape lacks."""
    output = manifest.gates.output
    needed = {
        "metric.work": formula.names(manifest.metric.work),
        "gates.output.elements": formula.names(output.elements),
        "gates.output.rows": formula.names(output.rows),
        "gates.output.band_axis": frozenset({output.band_axis}),
    }
    for user, used in needed.items():
        for name in sorted(used - dims.keys()):
            yield f"{place}.dims: lacks {name!r}, which {user} uses"
