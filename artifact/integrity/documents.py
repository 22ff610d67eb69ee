"""Manifest and lock of a source, as plain records.

A document is validated (JSON Schema, then its model) unless a stamp says that these very
bytes have passed before: importing the validators takes longer than all else that
``artifact verify`` does. A stamp is an empty file in the user's cache whose name is a
digest of the document, the models and the tool's version. It says nothing about any
other file, and no digest is ever taken from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from blake3 import blake3

from artifact import __version__
from artifact.errors import VerificationError
from artifact.integrity.pin import Finding, Link, Pin
from artifact.integrity.rules import Rules
from artifact.integrity.seal import is_sealed
from artifact.model.load import parse_json, parse_toml, read_bytes
from artifact.model.root import LOCK, MANIFEST

if TYPE_CHECKING:
    from artifact.integrity.source import Source
    from artifact.model.lock import Lock
    from artifact.model.manifest import Manifest

Document = Literal["manifest", "lock"]

_NO_LOCK = "artifact lock"


@dataclass(frozen=True, slots=True)
class KernelFiles:
    """A kernel of the manifest: its source, and the file that is made of it."""

    name: str
    source: str
    generated: str


@dataclass(frozen=True, slots=True)
class Deflate:
    """The pinned compressor: what :class:`artifact.model.lock.DeflatePin` holds."""

    implementation: Literal["zlib", "zlib-ng"]
    package_version: str | None
    runtime_version: str
    level: int
    block_bytes: int


@dataclass(frozen=True, slots=True)
class Documents:
    """What the manifest and the lock of one source say."""

    artifact: str
    version: str
    mtime: str
    """The time of every archive member, in UTC."""
    rules: Rules
    kernels: tuple[KernelFiles, ...]
    pins: dict[str, Pin]
    """By path, in the order of the lock."""
    links: tuple[Link, ...]
    deflate: Deflate
    manifest_blake3: str
    lock_blake3: str
    lock_size: int
    disagreements: tuple[Finding, ...]
    """Where the lock does not follow the manifest that stands beside it."""
    trusted: bool
    """Whether both documents carried a stamp, so that no validator was loaded."""


def read_documents(source: Source) -> Documents:
    """The manifest and the lock of ``source``.

    Raises:
        VerificationError: where one is missing, is no document, or breaks its schema.
        EnvironmentUnmet: where one cannot be read.
    """
    manifest_bytes = source.read(MANIFEST)
    manifest, manifest_trusted = _plain("manifest", manifest_bytes, f"{source.label}/{MANIFEST}")
    lock_bytes = _read_lock(source)
    lock, lock_trusted = _plain("lock", lock_bytes, f"{source.label}/{LOCK}")
    inventory, deflate = manifest["inventory"], lock["deflate"]
    return Documents(
        artifact=manifest["artifact"]["name"],
        version=manifest["artifact"]["version"],
        mtime=manifest["archive"]["mtime"],
        rules=Rules(inventory["outside"], inventory["results"], inventory["published"]),
        kernels=tuple(
            KernelFiles(k["name"], k["source"], k["generated"]) for k in manifest.get("kernels", ())
        ),
        pins={
            f["path"]: Pin(f["path"], f["size"], f["executable"], f["blake3"], f["sha256"])
            for f in lock["files"]
        },
        links=tuple(
            Link(
                kernel=c["kernel"],
                source=c["source"],
                source_blake3=c["source_blake3"],
                generated=c["generated"],
                generated_blake3=c["generated_blake3"],
                compiler=c["compiler"],
                flags=tuple(c["flags"]),
                headers=tuple((c.get("build") or {}).get("headers", ())),
            )
            for c in lock["chain"]
        ),
        deflate=Deflate(
            implementation=deflate["implementation"],
            package_version=deflate["package_version"],
            runtime_version=deflate["runtime_version"],
            level=deflate["level"],
            block_bytes=deflate["block_bytes"],
        ),
        manifest_blake3=blake3(manifest_bytes).hexdigest(),
        lock_blake3=blake3(lock_bytes).hexdigest(),
        lock_size=len(lock_bytes),
        disagreements=(*_broken_seal(lock_bytes), *_disagreements(manifest, lock)),
        trusted=manifest_trusted and lock_trusted,
    )


def _broken_seal(lock: bytes) -> Iterator[Finding]:
    if not is_sealed(lock):
        yield Finding(
            "changed",
            LOCK,
            "it is not as `artifact lock` wrote it",
            reason="a byte of it was changed afterwards: its seal does not fit",
        )


def _disagreements(manifest: Any, lock: Any) -> Iterator[Finding]:
    artifact = manifest["artifact"]
    pairs = [
        ("artifact", artifact["name"], lock["artifact"]),
        ("version", artifact["version"], lock["version"]),
    ]
    # What the manifest leaves to a default has no key there.
    for key, value in manifest["archive"]["deflate"].items():
        pairs.append((f"deflate.{key}", value, lock["deflate"][key]))
    for place, wanted, locked in pairs:
        if wanted != locked:
            yield Finding(
                "changed",
                LOCK,
                f"{place} is not what the manifest says",
                expected=str(wanted),
                found=str(locked),
                reason="the lock was made for another manifest: artifact lock",
            )


def load_manifest(root: Path) -> Manifest:
    """The manifest of the artifact at ``root`` as its model.

    Raises:
        VerificationError: where it is missing or not valid.
        EnvironmentUnmet: where it cannot be read.
    """
    from artifact.model.load import check_schema, parse_model
    from artifact.model.manifest import Manifest

    where = str(root / MANIFEST)
    value = parse_toml(read_bytes(root / MANIFEST), where)
    check_schema("manifest", value, where)
    return parse_model(Manifest, value, where)


def load_lock(root: Path) -> Lock:
    """The lock of the artifact at ``root`` as its model.

    Raises:
        VerificationError: where it is missing or not valid.
        EnvironmentUnmet: where it cannot be read.
    """
    from artifact.model.load import load_json
    from artifact.model.lock import Lock

    data = read_bytes(root / LOCK, next=_NO_LOCK)
    known = is_trusted("lock", data)
    return load_json("lock", Lock, data, str(root / LOCK), trusted=known)


def _read_lock(source: Source) -> bytes:
    try:
        return source.read(LOCK)
    except VerificationError as error:
        if error.next is None and "missing" in error.what:
            error.next = _NO_LOCK
        raise


def _plain(document: Document, data: bytes, where: str) -> tuple[Any, bool]:
    """The document as plain values, and whether a stamp stood for its validation."""
    if is_trusted(document, data):
        if document == "manifest":
            return parse_toml(data, where), True
        return json.loads(data), True
    from artifact.model.load import check_schema, parse_model
    from artifact.model.schema import model_of

    value = parse_toml(data, where) if document == "manifest" else parse_json(data, where)
    check_schema(document, value, where)
    parse_model(model_of(document), value, where)
    trust(document, data)
    return value, False


def is_trusted(document: Document, data: bytes) -> bool:
    """Whether these very bytes passed schema and model before, for this user."""
    stamp = _stamp(document, data)
    return stamp is not None and _is_ours(stamp)


def trust(document: Document, data: bytes) -> None:
    """Note that these bytes have just passed schema and model."""
    stamp = _stamp(document, data)
    if stamp is not None:
        # A cache that cannot be written costs time at the next call and nothing else.
        with contextlib.suppress(OSError):
            stamp.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            stamp.touch(mode=0o600)


def _stamp(document: Document, data: bytes) -> Path | None:
    """Where the stamp of these bytes stands; None where there is no home for a cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not Path(base).is_absolute():
        home = os.environ.get("HOME", "")
        if not Path(home).is_absolute():
            return None
        base = f"{home}/.cache"
    hasher = blake3(derive_key_context="artifact validated document, version 1")
    fields = [__version__.encode(), sys.version.encode(), document.encode(), data]
    # The models themselves count: a stamp of yesterday's schema is worth nothing today.
    fields.extend(_models())
    for field in fields:
        hasher.update(len(field).to_bytes(8, "little"))
        hasher.update(field)
    return Path(base) / "artifact" / "validated" / hasher.hexdigest()


@cache
def _models() -> tuple[bytes, ...]:
    models = Path(__file__).parent.parent / "model"
    return tuple(path.read_bytes() for path in sorted(models.glob("*.py")))


def _is_ours(stamp: Path) -> bool:
    """Whether the stamp is there and nobody else could have put it there."""
    try:
        folder = stamp.parent.lstat()
        file = stamp.lstat()
    except OSError:
        return False
    return (
        stat.S_ISREG(file.st_mode)
        and folder.st_uid == file.st_uid == os.geteuid()
        and not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
