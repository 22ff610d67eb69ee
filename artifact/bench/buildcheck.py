"""The builds of a run folder, against its lock, its backends and its witnesses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from artifact.bench.rejudge import finding
from artifact.bench.rundir import LOCK_COPY
from artifact.build.building import bit_identical
from artifact.errors import ArtifactError
from artifact.integrity.pin import Finding
from artifact.model.build import BuiltKernel
from artifact.model.load import load_json, read_bytes
from artifact.model.lock import Lock
from artifact.model.results import RunResults


def build_findings(folder: Path, results: RunResults) -> Iterator[Finding]:
    """Where a native backend was not the build that the results speak of.

    Args:
        folder: The run folder, whose copy of the lock is taken as it is.
        results: Its results.
    """
    lock = _lock(folder)
    built = {} if results.build is None else {k.build.backend: k for k in results.build.kernels}
    links = {} if lock is None else {link.generated: link for link in lock.chain}
    for i, backend in enumerate(results.backends):
        if backend.worker in links and backend.name not in built:
            yield finding(f"backends[{i}] ({backend.name}): build.kernels has no build of it")
    for i, (name, kernel) in enumerate(built.items()):
        place = f"build.kernels[{i}] ({name})"
        yield from _run(place, kernel, results)
        link = links.get(kernel.build.generated)
        if lock is None or link is None:
            continue
        build, modified = kernel.build, results.artifact.modified
        for path, digest, pinned in (
            (build.source, build.source_blake3, link.source_blake3),
            (build.generated, build.generated_blake3, link.generated_blake3),
        ):
            if digest != pinned and path not in modified:
                yield finding(
                    f"{place}: was made of another {path} than the lock pins",
                    f"blake3:{pinned}",
                    f"blake3:{digest}",
                    f"artifact.modified does not name {path}",
                )
        if kernel.bit_identical != bit_identical(build, link):
            yield finding(f"{place}.bit_identical: is not what its cubin and the lock say")


def _lock(folder: Path) -> Lock | None:
    try:
        return load_json("lock", Lock, read_bytes(folder / LOCK_COPY), LOCK_COPY)
    except ArtifactError:
        # That it is missing or none is a finding of its own.
        return None


def _run(place: str, kernel: BuiltKernel, results: RunResults) -> Iterator[Finding]:
    build = kernel.build
    ran = next((b for b in results.backends if b.name == build.backend), None)
    if ran is None:
        if results.complete:
            yield finding(f"{place}: is a build of no backend of this run")
        return
    if (ran.worker, ran.worker_blake3) != (build.generated, build.generated_blake3):
        yield finding(
            f"{place}.generated: is not what ran as {ran.name}",
            f"{ran.worker} blake3:{ran.worker_blake3}",
            f"{build.generated} blake3:{build.generated_blake3}",
        )
    known = {"cubin_sha256": build.cubin_sha256, "module_sha256": build.executable_sha256}
    for record in results.witnesses:
        for fact, value in known.items():
            if record.backend == build.backend and record.facts.get(fact) != value:
                yield finding(
                    f"witnesses ({record.backend}, {record.shape}): {fact} is not its build's",
                    value,
                    str(record.facts.get(fact)),
                )
    for entry in build.entries:
        if entry.measured and (entry.spill_store_bytes or entry.spill_load_bytes or entry.warnings):
            yield finding(f"{place}: {entry.symbol} spills, or the assembler warned of it")
