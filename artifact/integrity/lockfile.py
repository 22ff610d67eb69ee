"""Write the lock of a tree, and say what changed.

``artifact lock`` writes three things, the lock last: the exported JSON Schemas, the tree's
provenance, and the lock that pins them with everything else. All bytes are known before
the first is written, and nothing holds a time, so doing it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from artifact import __version__
from artifact.errors import VerificationError
from artifact.integrity.atomic import write_atomic
from artifact.integrity.built import pin_builds
from artifact.integrity.contentid import content_id
from artifact.integrity.documents import load_lock, load_manifest, trust
from artifact.integrity.pinning import make_lock, pin_bytes
from artifact.integrity.seal import seal_of, sealed
from artifact.model.load import dump_json
from artifact.model.lock import ChainPin, DeflatePin, FilePin, Lock
from artifact.model.root import LOCK, PROVENANCE, SCHEMAS

_SHORT = 16

if TYPE_CHECKING:
    from artifact.model.manifest import Manifest
    from artifact.model.provenance import TreeProvenance


@dataclass(frozen=True, slots=True)
class LockOutcome:
    """What :func:`write_lock` did."""

    lock: Lock
    content_id: str
    """Of the tree as it is now."""
    changes: tuple[str, ...]
    """What differs from the lock before, a line each; empty where nothing does."""
    written: tuple[str, ...]
    """Paths whose bytes changed on disk."""
    unbuilt: tuple[str, ...] = ()
    """Why the machine code of native backends is not pinned, a sentence each."""


def write_lock(root: Path) -> LockOutcome:
    """Pin the tree at ``root`` as it is now: schemas, provenance, lock.

    Raises:
        VerificationError: as :func:`~artifact.integrity.pinning.make_lock`, and where the
            manifest is not valid.
        EnvironmentUnmet: where something cannot be read or written.
    """
    manifest = load_manifest(root)
    produced = _schemas()
    # The provenance repeats the chain, which only a lock knows; the lock pins the provenance.
    draft = make_lock(root, manifest, {**produced, PROVENANCE: b""})
    old, old_data = _old_lock(root)
    draft, unbuilt = pin_builds(root, manifest, draft, old)
    provenance = _provenance(manifest, draft)
    produced[PROVENANCE] = dump_json("provenance", provenance, PROVENANCE)
    lock = _with_pin(draft, PROVENANCE, produced[PROVENANCE])
    data = sealed(dump_json("lock", lock, LOCK))
    written = [
        path
        for path, contents in (*produced.items(), (LOCK, data))
        if _write_if_new(root / path, contents)
    ]
    trust("lock", data)
    lines = changes(old, lock)
    if not lines and old_data != data:
        lines = ["the lock is written in another form; it pins the same"]
    rows = [(pin.path, pin.executable, pin.size, pin.blake3) for pin in lock.files]
    rows.append((LOCK, False, len(data), blake3(data).hexdigest()))
    lock = lock.model_copy(update={"seal": seal_of(data)})
    return LockOutcome(lock, content_id(rows), tuple(lines), tuple(written), unbuilt)


def changes(old: Lock | None, new: Lock) -> list[str]:
    """What ``new`` pins otherwise than ``old``, a line each."""
    if old is None:
        return [f"new lock: {len(new.files)} files"]
    lines = []
    for name in ("artifact", "version"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            lines.append(f"{name}: {before} -> {after}")
    for name in DeflatePin.model_fields:
        before, after = getattr(old.deflate, name), getattr(new.deflate, name)
        if before != after:
            lines.append(f"deflate.{name}: {before} -> {after}")
    before_pins, after_pins = old.pins(), new.pins()
    for path in sorted(before_pins.keys() | after_pins.keys(), key=str.encode):
        lines.extend(_pin_change(path, before_pins.get(path), after_pins.get(path)))
    before_chain = {link.kernel: link for link in old.chain}
    after_chain = {link.kernel: link for link in new.chain}
    for kernel in sorted(before_chain.keys() | after_chain.keys()):
        if before_chain.get(kernel) != after_chain.get(kernel):
            lines.append(f"chain: {kernel}: {_link_words(after_chain.get(kernel))}")
    return lines


def _pin_change(path: str, before: FilePin | None, after: FilePin | None) -> Iterator[str]:
    if before is None:
        assert after is not None
        yield f"added: {path} ({after.size} bytes)"
    elif after is None:
        yield f"removed: {path}"
    else:
        if before.blake3 != after.blake3:
            yield f"changed: {path} ({before.size} -> {after.size} bytes)"
        if before.executable != after.executable:
            yield f"mode: {path} is {'now' if after.executable else 'no longer'} executable"


def _link_words(link: ChainPin | None) -> str:
    if link is None:
        return "no longer linked"
    text = f"{link.source} -> {link.generated} by {link.compiler}"
    if link.build is None:
        return text
    return f"{text} -> cubin sha256:{link.build.cubin_sha256[:_SHORT]} by nvcc {link.build.nvcc}"


def _with_pin(lock: Lock, path: str, data: bytes) -> Lock:
    pin = pin_bytes(path, data)
    files = tuple(pin if old.path == path else old for old in lock.files)
    return lock.model_copy(update={"files": files})


def _schemas() -> dict[str, bytes]:
    from artifact.model.canonical import pretty_json
    from artifact.model.schema import DOCUMENTS, schema_of

    return {f"{SCHEMAS}/{name}.schema.json": pretty_json(schema_of(name)) for name in DOCUMENTS}


def _provenance(manifest: Manifest, lock: Lock) -> TreeProvenance:
    from artifact.model.provenance import EnvironmentProvenance, TreeProvenance

    pins = lock.pins()
    return TreeProvenance(
        provenance_version=1,
        artifact=manifest.artifact.name,
        version=manifest.artifact.version,
        licence=manifest.artifact.licence,
        tool=f"artifact {__version__}",
        kernels=lock.chain,
        environments=tuple(
            EnvironmentProvenance(
                name=e.name,
                python=e.python,
                requirements=e.requirements,
                requirements_sha256=pins[e.requirements].sha256,
                conda_lock=e.conda_lock,
                conda_lock_sha256=pins[e.conda_lock].sha256 if e.conda_lock else None,
                departures=e.departures,
            )
            for e in manifest.environments
        ),
        dependencies=manifest.dependencies,
        deflate=lock.deflate,
    )


def _old_lock(root: Path) -> tuple[Lock | None, bytes | None]:
    """The lock before, and its bytes. One that is no lock any more is simply replaced."""
    path = root / LOCK
    if not path.is_file() or path.is_symlink():
        return None, None
    data = path.read_bytes()
    try:
        return load_lock(root), data
    except VerificationError:
        return None, data


def _write_if_new(path: Path, data: bytes) -> bool:
    """Write a file that is pinned as not executable; returns whether it had to be."""
    if path.is_file() and not path.is_symlink():
        executable = path.stat().st_mode & 0o100
        if not executable and path.read_bytes() == data:
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)
    return True
