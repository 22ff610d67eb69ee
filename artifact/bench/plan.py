"""What a run will do: the command's options held against the manifest, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artifact.bench.buildphase import BuildOptions
from artifact.bench.caches import check_options
from artifact.bench.childenv import parse_options
from artifact.bench.device import Gpu, cpu_device, find_gpu, target_of
from artifact.bench.named import resolve
from artifact.build.plan import Unit, make_units
from artifact.errors import EnvironmentUnmet, UsageError
from artifact.integrity.rules import Rules
from artifact.model.backend import Backend, Witness
from artifact.model.manifest import Manifest
from artifact.model.protocol import Protocol
from artifact.model.results import Device, Mark
from artifact.model.workload import Order, Shape, Workload


@dataclass(frozen=True)
class Options:
    """What ``artifact run`` was asked for; None stands for what was left out."""

    workload: str | None = None
    gpu: str | None = None
    backends: tuple[str, ...] | None = None
    interpreters: Mapping[str, Path] = field(default_factory=dict)
    """By option: ``{"--python": Path(...)}``."""
    named: tuple[str, ...] = ()
    """By environment: ``("main=PATH", ...)``, as ``--interpreter`` takes them."""
    order: Order | None = None
    warmup: int | None = None
    repeat: int | None = None
    rounds: int | None = None
    results_dir: Path | None = None
    worker_env: tuple[str, ...] = ()
    unlocked_env: bool = False
    cache_from: Path | None = None
    """Compile caches to begin with; needs ``cache_digest``, the content id of its files."""
    cache_digest: str | None = None
    keep_cache: Path | None = None
    """A new folder that gets the run's compile caches at its end."""
    build: BuildOptions = field(default_factory=BuildOptions)
    """How the executables of native backends are made."""
    command: tuple[str, ...] = ("artifact", "run")
    """The command line as it was typed."""


@dataclass(frozen=True)
class Plan:
    """A run that the manifest allows."""

    root: Path
    manifest: Manifest
    options: Options
    workload: Workload
    protocol: Protocol
    backends: tuple[Backend, ...]
    """In the order of the manifest."""
    units: tuple[Unit, ...]
    """What native backends are built from."""
    device: Device
    gpu: Gpu | None
    parameters: dict[str, int]
    """Launch arguments of the target."""
    worker_env: dict[str, dict[str, str]]
    marks: tuple[Mark, ...]
    interpreters: Mapping[str, Path]
    """Those that the options name, by environment."""

    @property
    def anchor(self) -> str | None:
        """The backend of this run that ratios are taken to."""
        return next((backend.name for backend in self.backends if backend.anchor), None)

    def witness(self, backend: Backend, shape: Shape) -> Witness:
        """What a backend of this run must show of itself at ``shape``."""
        return backend.witness.at(shape.dims, self.parameters)

    @property
    def lock_name(self) -> str:
        """What two runs must not use at once."""
        # Instances of one GPU share its clocks and power, so one of them takes it whole.
        return "cpu" if self.gpu is None else self.gpu.card

    @property
    def results_dir(self) -> Path:
        """Where the run folder is made: an absolute path."""
        default = self.root / self.manifest.inventory.results
        chosen = self.options.results_dir
        return default if chosen is None else Path.cwd() / chosen


def make_plan(options: Options, root: Path, manifest: Manifest, nvml: Any = None) -> Plan:
    """Hold ``options`` against ``manifest`` and the machine's devices.

    Args:
        options: What was asked for.
        root: The artifact's root.
        manifest: Its manifest.
        nvml: Stands for the module ``pynvml`` in tests.

    Raises:
        UsageError: for a name that the manifest does not have, or options that do not go
            together; it lists what is allowed.
        EnvironmentUnmet: where a workload for a GPU finds none.
    """
    workload = _workload(options, manifest)
    check_options(options.cache_from, options.cache_digest, options.keep_cache)
    options.build.check()
    _check_names(options, manifest, workload)
    _check_results(options, root, manifest)
    interpreters = resolve(options.interpreters, options.named, manifest.environments)
    gpu, device, parameters = _device(options, manifest, workload, nvml)
    backends = _backends(options, manifest, workload)
    units = make_units(manifest, backends)
    if options.build.regenerate and not units:
        raise UsageError(
            "no backend of this run is made of a kernel",
            where="--regenerate",
            expected="native backends",
            found=", ".join(backend.name for backend in backends),
        )
    protocol = _protocol(options, manifest, workload)
    marks: list[Mark] = []
    if not workload.comparable:
        marks.append("NOT COMPARABLE")
    if protocol.custom:
        marks.append("CUSTOM PROTOCOL")
    return Plan(
        root=root,
        manifest=manifest,
        options=options,
        workload=workload,
        protocol=protocol,
        backends=backends,
        units=units,
        device=device,
        gpu=gpu,
        parameters=parameters,
        worker_env=parse_options(options.worker_env, [backend.name for backend in backends]),
        marks=tuple(marks),
        interpreters=interpreters,
    )


def _workload(options: Options, manifest: Manifest) -> Workload:
    workload = manifest.chosen_workload(options.workload)
    if workload.device == "cpu" and options.gpu is not None:
        raise UsageError(
            "this workload runs on the processor",
            where=f"--gpu {options.gpu}",
            found=f"--workload {workload.name}",
            next=f"artifact run --workload {workload.name}",
        )
    return workload


def _check_names(options: Options, manifest: Manifest, workload: Workload) -> None:
    if options.backends is not None:
        known = [backend.name for backend in manifest.backends]
        unknown = [name for name in options.backends if name not in known]
        if unknown or not options.backends:
            raise _bad_backends("the manifest has no such backend", options, known, unknown)
        allowed = [backend.name for backend in manifest.backends_of(workload.name)]
        others = [name for name in options.backends if name not in allowed]
        if others and allowed:
            what = f"a backend does not run the workload {workload.name!r}"
            raise _bad_backends(what, options, allowed, others)


def _check_results(options: Options, root: Path, manifest: Manifest) -> None:
    """Refuse a folder in which a run would be a file too many of the pinned tree."""
    if options.results_dir is None:
        return
    inventory = manifest.inventory
    folder, tree = (Path.cwd() / options.results_dir).resolve(), root.resolve()
    if not folder.is_relative_to(tree) or folder == tree / inventory.results:
        return
    rules = Rules(inventory.outside, inventory.results, inventory.published)
    if rules.place(folder.relative_to(tree).as_posix(), is_dir=True) == "pinned":
        raise UsageError(
            "the run would become a part of the pinned tree",
            where=f"--results-dir {options.results_dir}",
            expected=f"a folder outside of the tree, or {tree / inventory.results}",
            found=str(folder),
            next="leave --results-dir out, or name a folder outside of the tree",
        )


def _bad_backends(
    what: str, options: Options, allowed: Sequence[str], found: Sequence[str]
) -> UsageError:
    return UsageError(
        what,
        where=f"--backends {','.join(options.backends or ())}",
        expected=f"some of: {', '.join(allowed)}",
        found=", ".join(found) or "none",
    )


def _device(
    options: Options, manifest: Manifest, workload: Workload, nvml: Any
) -> tuple[Gpu | None, Device, dict[str, int]]:
    if workload.device == "cpu":
        return None, cpu_device(), {}
    try:
        gpu = find_gpu(options.gpu, nvml)
    except EnvironmentUnmet as error:
        error.where = f"workload {workload.name}, which runs on a GPU"
        error.next = _without_gpu(manifest)
        raise
    target = target_of(gpu, manifest.targets)
    device = gpu.device().model_copy(update={"target": target.name})
    return gpu, device, dict(target.parameters)


def _without_gpu(manifest: Manifest) -> str:
    """What can be done on a machine without a GPU. Nothing of it is done unasked."""
    advice = "run this on a machine with an NVIDIA GPU and its driver (nvidia-smi lists it)"
    for workload in manifest.workloads:
        if workload.device == "cpu":
            name = workload.name
            return (
                f"{advice},\nor see the pipeline at work on the processor: "
                f"artifact run --workload {name}\n"
                f"(from a checkout: bash run.sh --workload {name})"
            )
    return advice


def _backends(options: Options, manifest: Manifest, workload: Workload) -> tuple[Backend, ...]:
    of_workload = manifest.backends_of(workload.name)
    if not of_workload:
        others = [w.name for w in manifest.workloads if manifest.backends_of(w.name)]
        raise UsageError(
            f"the manifest lists no backend for the workload {workload.name!r} yet",
            where=f"workload {workload.name}",
            expected=f"a workload that has backends: {', '.join(others) or 'there is none'}",
            found="0 backends",
            next=f"artifact run --workload {others[0]}" if others else None,
        )
    return tuple(
        backend
        for backend in of_workload
        if options.backends is None or backend.name in options.backends
    )


def _protocol(options: Options, manifest: Manifest, workload: Workload) -> Protocol:
    order = options.order or workload.default_order
    name = workload.protocols.get(order)
    if name is None:
        raise UsageError(
            f"the workload {workload.name!r} has no protocol of this order",
            where=f"--order {order}",
            expected=f"one of: {', '.join(workload.protocols)}",
            found=order,
        )
    protocol = manifest.protocol(name)
    assert protocol is not None, "a manifest names only protocols that it has"
    counts = {"warmup": options.warmup, "repeat": options.repeat, "rounds": options.rounds}
    changes = {
        field: value
        for field, value in counts.items()
        if value is not None and value != getattr(protocol, field)
    }
    if not changes:
        return protocol
    for field_, least in (("warmup", 0), ("repeat", 1), ("rounds", 1)):
        if changes.get(field_, least) < least:
            raise UsageError(
                "a count is too small",
                where=f"--{field_} {changes[field_]}",
                expected=f"at least {least}",
            )
    custom = {"name": f"{protocol.name}+custom", "custom": True}
    return protocol.model_copy(update={**changes, **custom})
