"""All checks of one artifact on one machine, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifact.bench.device import nvml_library
from artifact.bench.named import resolve
from artifact.doctor import contents, environments, gpu, host, toolkit
from artifact.doctor.base import (
    ADVICE,
    ALWAYS,
    BUILD,
    GPU,
    Check,
    Options,
    Subject,
    from_error,
    of_environment,
)
from artifact.doctor.gpustate import read_gpu
from artifact.errors import ArtifactError, EnvironmentUnmet, UsageError
from artifact.model.manifest import Manifest
from artifact.model.workload import Workload


@dataclass(frozen=True)
class Diagnosis:
    """What was found."""

    subject: Subject
    checks: tuple[Check, ...]

    def failing(self, workload: Workload) -> tuple[Check, ...]:
        """The checks that a run of ``workload`` needs and that do not pass."""
        scopes = self.subject.needs(workload)
        return tuple(c for c in self.checks if c.scope in scopes and not c.passed)

    def needed(self, check: Check) -> bool:
        """Whether the workload that was asked about needs ``check``."""
        return check.scope in self.subject.needs(self.subject.workload)

    @property
    def ready(self) -> bool:
        """Whether the workload that was asked about can run."""
        return not self.failing(self.subject.workload)

    @property
    def runnable(self) -> tuple[Workload, ...]:
        """The workloads of the manifest that can run here."""
        manifest = self.subject.manifest
        # The check "workload" is about the one that was asked about.
        return tuple(
            workload
            for workload in manifest.workloads
            if manifest.backends_of(workload.name)
            and not [c for c in self.failing(workload) if c.name != "workload"]
        )

    def as_json(self) -> dict[str, Any]:
        """The diagnosis as ``--json`` prints it."""
        return {
            "artifact": self.subject.manifest.artifact.name,
            "workload": self.subject.workload.name,
            "ready": self.ready,
            "runnable": [workload.name for workload in self.runnable],
            "checks": [{**c.as_json(), "needed": self.needed(c)} for c in self.checks],
        }


def examine(options: Options, root: Path, manifest: Manifest, nvml: Any = None) -> Diagnosis:
    """Make every check.

    Args:
        options: What was asked for.
        root: The artifact's root.
        manifest: Its manifest.
        nvml: Stands for the module ``pynvml`` in tests.

    Raises:
        UsageError: for a workload that the manifest does not have, or an interpreter's
            option that no environment takes.
    """
    workload = manifest.chosen_workload(options.workload)
    interpreters = resolve(options.interpreters, options.named, manifest.environments)
    subject = Subject(root, manifest, workload, options, dict(os.environ), interpreters)
    return Diagnosis(subject, tuple(_checks(subject, nvml)))


def _checks(subject: Subject, nvml: Any) -> Iterator[Check]:
    for look in (contents.tree, contents.workload, host.python, host.packages):
        yield _safely(look, ALWAYS, subject)
    yield from _gpu(subject, nvml)
    nvcc_check, nvcc = toolkit.compiler(subject)
    yield nvcc_check
    yield _safely(toolkit.compilation, BUILD, subject, nvcc)
    yield _safely(toolkit.headers, BUILD, subject)
    yield _safely(toolkit.disassemblers, BUILD, subject, nvcc)
    yield _safely(toolkit.profiler, ADVICE, subject, nvcc)
    for wanted in subject.manifest.environments:
        yield _safely(environments.environment, of_environment(wanted.name), subject, wanted)
    for look in (host.disk, host.permissions, host.encoding):
        yield _safely(look, ALWAYS, subject)
    for look in (host.cache, contents.run_folders, contents.checkout):
        yield _safely(look, ADVICE, subject)


def _gpu(subject: Subject, nvml: Any) -> Iterator[Check]:
    try:
        library = nvml_library() if nvml is None else nvml
        state = read_gpu(subject.options.gpu, subject.environ, library)
    except EnvironmentUnmet as error:
        yield from gpu.absent(from_error("gpu", error, "absent", GPU))
        return
    except UsageError as error:
        yield from gpu.absent(from_error("gpu", error, "bad", GPU))
        return
    for look in gpu.CHECKS:
        yield _safely(look, GPU, subject, state)
    yield _safely(gpu.visible_devices, GPU, subject, library)


def _safely(look: Callable[..., Check], scope: str, *arguments: Any) -> Check:
    """The check, or a bad one where looking itself fails: the others are still made."""
    try:
        return look(*arguments)
    except (ArtifactError, OSError) as error:
        return from_error(look.__name__.replace("_", " "), error, "bad", scope)
