"""A build of several units: side by side, one build at a time in a tree, nothing done twice."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from artifact.build.closure import CUTLASS
from artifact.build.compile import Context, compile_unit
from artifact.build.plan import Unit
from artifact.build.process import Processes
from artifact.build.tools import Tools
from artifact.errors import ArtifactError, EnvironmentUnmet
from artifact.integrity.digest import processors
from artifact.model.build import BuildFacts, BuiltKernel, KernelBuild
from artifact.model.lock import ChainPin, Lock
from artifact.model.manifest import Manifest
from artifact.model.root import BUILD

_LOCK = ".lock"


def build(
    root: Path,
    manifest: Manifest,
    units: Sequence[Unit],
    tools: Tools,
    *,
    lock: Lock,
    changed: Mapping[str, str],
    unlocked: bool,
    done: Callable[[Unit, BuiltKernel], None],
    failed: Callable[[Unit], None],
) -> BuildFacts:
    """Make the executables of ``units`` in ``build/``.

    Args:
        root: The artifact's root, which has been verified.
        manifest: Its manifest.
        units: What to build.
        tools: The tools to build with.
        lock: Its lock: no other bytes are compiled than it pins.
        changed: BLAKE3 of the files of regenerated kernels, by path, which stand for the
            lock's.
        unlocked: Whether tools other than the pinned ones were accepted.
        done: Told of each unit when it is ready, in this thread.
        failed: Told of the unit that could not be made, before its error is raised.

    Raises:
        ArtifactError: the first thing that failed; the builds beside it are stopped.
    """
    pins = {**{pin.path: pin.blake3 for pin in lock.files}, **changed}
    processes = Processes()
    context = Context(root, manifest, tools, pins, unlocked, processes)
    links = {link.kernel: link for link in lock.chain}
    made: dict[str, BuiltKernel] = {}
    with exclusive(root), ThreadPoolExecutor(max(1, min(processors(), len(units)))) as pool:
        waiting = {pool.submit(compile_unit, context, unit): unit for unit in units}
        try:
            for future in as_completed(waiting):
                unit = waiting[future]
                try:
                    kernel, new = future.result()
                except ArtifactError:
                    failed(unit)
                    raise
                made[unit.backend] = BuiltKernel(
                    build=kernel,
                    how="built" if new else "up to date",
                    bit_identical=bit_identical(kernel, links.get(kernel.kernel)),
                )
                done(unit, made[unit.backend])
        except BaseException:
            for future in waiting:
                future.cancel()
            processes.stop()
            raise
    kernels = tuple(made[unit.backend] for unit in units)
    cutlass = any(lib.name == CUTLASS for k in kernels for lib in k.build.libraries)
    return BuildFacts(toolkit=tools.facts(cutlass=cutlass), kernels=kernels)


def bit_identical(build: KernelBuild, link: ChainPin | None) -> bool | None:
    """Whether the machine code of ``build`` is the pinned one.

    Returns:
        None where none is pinned, or where another generated file was compiled.
    """
    if link is None or link.build is None or link.generated_blake3 != build.generated_blake3:
        return None
    return build.cubin_sha256 == link.build.cubin_sha256


@contextlib.contextmanager
def exclusive(root: Path) -> Iterator[None]:
    """Hold the lock of ``build/`` for the length of the block; another build is waited for.

    Raises:
        EnvironmentUnmet: where the folder cannot be made or written.
    """
    folder = root / BUILD
    try:
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EnvironmentUnmet(
            "nothing can be built here",
            where=str(folder),
            found=error.strerror or str(error),
            cause="the tree is read-only",
            next="copy the tree to a place that can be written",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
