"""Build records in the tree's ``build`` folder, and what a lock takes from them.

A record is no pinned file and proves nothing by itself. It becomes a pin only where every
digest in it is that of the file that stands there now.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from artifact.errors import VerificationError
from artifact.model.build import HEADERS, TOOLKIT, BuildRecord
from artifact.model.load import parse_json, parse_model, read_bytes
from artifact.model.lock import BuildPin, ChainPin, Lock
from artifact.model.root import BUILD, PROVENANCE

if TYPE_CHECKING:
    from artifact.model.backend import Dependency
    from artifact.model.manifest import Manifest

_REACH_NOT = "system"
"""Headers of the C and C++ libraries are each machine's own."""


def read_record(root: Path, backend: str) -> BuildRecord | None:
    """The build record of ``backend``; None where there is none.

    Raises:
        VerificationError: where it is not valid.
        EnvironmentUnmet: where it cannot be read.
    """
    path = root / BUILD / f"{backend}.json"
    if not path.is_file():
        return None
    return parse_model(BuildRecord, parse_json(read_bytes(path), str(path)), str(path))


def pin_builds(
    root: Path, manifest: Manifest, lock: Lock, old: Lock | None
) -> tuple[Lock, tuple[str, ...]]:
    """``lock`` with a pin of every build that is one of its files.

    A build that is not here any more keeps the pin that the lock before has of it, as long
    as nothing has changed that it was made of, nor what the manifest pins of its tools.

    Args:
        root: The tree.
        manifest: Its manifest.
        lock: The lock of the tree as it is now.
        old: The lock before.

    Returns:
        The lock, and a sentence for each native backend whose build is not pinned.
    """
    notes: list[str] = []
    chain = []
    same_tools = old is not None and _tools_then(root, old) == _tools(manifest.dependencies)
    for link in lock.chain:
        users = [
            b.name for b in manifest.backends if b.kind == "native" and b.kernel == link.kernel
        ]
        pin: BuildPin | None = None
        reasons = []
        for backend in users:
            found = _pin_of(root, manifest, lock, link, backend)
            if isinstance(found, BuildPin):
                pin = pin or found
            else:
                reasons.append(f"the machine code of {backend} is not pinned: {found}")
        if pin is None:
            pin = _kept(manifest, lock, link, old) if same_tools else None
            notes += reasons if pin is None else ()
        chain.append(link.model_copy(update={"build": pin}))
    return lock.model_copy(update={"chain": tuple(chain)}), tuple(notes)


def _pin_of(
    root: Path, manifest: Manifest, lock: Lock, link: ChainPin, backend: str
) -> BuildPin | str:
    """The pin of a recorded build, or why it is none of the tree as it is now."""
    try:
        record = read_record(root, backend)
    except VerificationError:
        return f"{BUILD}/{backend}.json is no build record"
    if record is None:
        return "it was not built here"
    build = record.build
    if build.differences:
        return f"it was built with other tools than the manifest pins: {build.differences[0]}"
    digests = {pin.path: pin.blake3 for pin in lock.files}
    named = {
        build.source: build.source_blake3,
        build.generated: build.generated_blake3,
        **build.headers,
    }
    for path, wanted in named.items():
        if digests.get(path) != wanted:
            return f"{path} is not the one that it was built of"
    if (build.kernel, build.compiler, build.compiler_flags, build.nvcc_flags) != (
        link.kernel,
        link.compiler,
        link.flags,
        _nvcc_flags(manifest, link),
    ):
        return "the flags are not those that it was built with"
    cubin = root / BUILD / f"{backend}.cubin"
    if not cubin.is_file() or (
        hashlib.sha256(cubin.read_bytes()).hexdigest() != build.cubin_sha256
    ):
        return f"{BUILD}/{backend}.cubin is not what was built"
    return BuildPin(
        nvcc=build.nvcc,
        nvcc_flags=build.nvcc_flags,
        headers=tuple(sorted(build.headers)),
        libraries={
            library.name: library.blake3
            for library in build.libraries
            if library.name != _REACH_NOT
        },
        cubin_sha256=build.cubin_sha256,
    )


_ToolPins = tuple[tuple[str, str | None, str | None], ...]


def _tools(dependencies: Iterable[Dependency]) -> _ToolPins:
    """Name, version and commit of what compiles, as a manifest's dependencies pin it."""
    return tuple(
        (item.name, item.version, item.revision)
        for item in dependencies
        if item.name in (TOOLKIT, HEADERS)
    )


def _tools_then(root: Path, old: Lock) -> _ToolPins | None:
    """What the manifest of the lock before pinned of the tools; None where nothing says it.

    The provenance repeats the dependencies, and was written together with that lock.
    """
    from artifact.model.provenance import TreeProvenance

    path, pin = root / PROVENANCE, old.pins().get(PROVENANCE)
    if pin is None or not path.is_file():
        return None
    data = read_bytes(path)
    if blake3(data).hexdigest() != pin.blake3:
        return None
    before = parse_model(TreeProvenance, parse_json(data, PROVENANCE), PROVENANCE)
    return _tools(before.dependencies)


def _kept(manifest: Manifest, lock: Lock, link: ChainPin, old: Lock | None) -> BuildPin | None:
    """The pin that the lock before has of the same build, if it is still one of these files."""
    before = next((one for one in old.chain if one.kernel == link.kernel), None) if old else None
    if old is None or before is None or before.build is None:
        return None
    pin, then, now = before.build, old.pins(), lock.pins()
    same = (
        before.generated_blake3 == link.generated_blake3
        and pin.nvcc_flags == _nvcc_flags(manifest, link)
        and all(
            path in then and path in now and then[path].blake3 == now[path].blake3
            for path in pin.headers
        )
    )
    return pin if same else None


def _nvcc_flags(manifest: Manifest, link: ChainPin) -> tuple[str, ...]:
    kernel = manifest.kernel(link.kernel)
    return () if kernel is None else manifest.nvcc_flags(kernel)
