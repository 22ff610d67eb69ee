"""The files of a run folder against the pins in its results.json, and its copy of the lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from artifact.bench.rundir import LOCK_COPY, RESULTS
from artifact.errors import ArtifactError, VerificationError
from artifact.integrity.contentid import content_id
from artifact.integrity.digest import hash_file
from artifact.integrity.explain import explain
from artifact.integrity.pin import Digests, Finding, Pin
from artifact.integrity.source import Entry
from artifact.integrity.tree import Tree
from artifact.model.load import load_json, read_bytes
from artifact.model.lock import FilePin, Lock
from artifact.model.results import RunResults
from artifact.model.root import LOCK


def file_findings(folder: Path, results: RunResults) -> Iterator[Finding]:
    """Every file of ``folder`` that is not as ``results.files`` pins it, both ways.

    Raises:
        EnvironmentUnmet: where something cannot be read.
    """
    tree = Tree(folder)
    entries = {entry.path: entry for entry in tree.entries()}
    pins = {pin.path: _plain(pin) for pin in results.files}
    for path, count in Counter(pin.path for pin in results.files).items():
        if count > 1:
            yield Finding("duplicate", path, f"is pinned {count} times in {RESULTS}")
    unread = [path for path, entry in entries.items() if entry.kind == "unreadable"]
    for path, entry in entries.items():
        if path in unread:
            yield Finding("unreadable", path, "the directory cannot be read", found=entry.target)
        elif path not in pins and path != RESULTS:
            yield Finding(
                "extra", path, "is not a file of this run", found=entry.kind, reason=_extra(entry)
            )
    regular = [path for path in pins if path in entries and entries[path].kind == "file"]
    outcomes = dict(tree.digests(regular))
    digests = {path: o for path, o in outcomes.items() if not isinstance(o, ArtifactError)}
    owners = {pin.blake3: pin.path for pin in pins.values()}
    for path, pin in pins.items():
        if path == RESULTS:
            yield Finding("results", path, "pins itself, which no file can")
        elif any(path.startswith(f"{directory}/") for directory in unread):
            continue
        elif path not in entries:
            yield Finding("missing", path, "a file of this run is not there")
        elif isinstance(outcome := outcomes.get(path), ArtifactError):
            yield Finding("unreadable", path, outcome.what, found=outcome.found)
        elif path not in digests:
            yield Finding(
                "symlink" if entries[path].kind == "symlink" else "special",
                path,
                "a file of this run is something else",
                expected="file",
                found=entries[path].kind,
            )
        else:
            yield from _contents(tree, pin, digests[path], owners)
            yield from _mode(pin, entries[path])


def _plain(pin: FilePin) -> Pin:
    return Pin(pin.path, pin.size, pin.executable, pin.blake3, pin.sha256)


def _extra(entry: Entry) -> str | None:
    if entry.kind == "symlink":
        return f"it points to {entry.target}"
    return None


def _contents(tree: Tree, pin: Pin, found: Digests, owners: dict[str, str]) -> Iterator[Finding]:
    if (found.size, found.blake3, found.sha256) != (pin.size, pin.blake3, pin.sha256):
        yield Finding(
            "changed",
            pin.path,
            "its contents are not what the run wrote",
            expected=f"{pin.size} bytes, blake3:{pin.blake3}",
            found=f"{found.size} bytes, blake3:{found.blake3}",
            reason=explain(tree, pin, found, owners),
        )


def _mode(pin: Pin, entry: Entry) -> Iterator[Finding]:
    if entry.executable != pin.executable:
        words = {True: "executable", False: "not executable"}
        yield Finding(
            "mode",
            pin.path,
            "its executable bit is not what the run wrote",
            expected=words[pin.executable],
            found=words[entry.executable],
        )


def lock_findings(folder: Path, results: RunResults) -> Iterator[Finding]:
    """The folder's copy of the lock: its digest, that it is a lock, and of which artifact.

    A lock gives the content id of the tree that it pins. A run of an unmodified tree must
    name that one.
    """
    artifact = results.artifact
    path = folder / LOCK_COPY
    if artifact.lock_blake3 is None:
        if results.complete and results.origin == "measured":
            yield Finding("results", RESULTS, "artifact.lock_blake3: names no lock")
        return
    if path.is_symlink() or not path.is_file():
        if results.complete:
            yield Finding("missing", LOCK_COPY, "the lock that the run was verified against")
        return
    found = hash_file(path)
    if found.blake3 != artifact.lock_blake3:
        yield Finding(
            "changed",
            LOCK_COPY,
            f"is not the lock that {RESULTS} names",
            expected=f"blake3:{artifact.lock_blake3}",
            found=f"blake3:{found.blake3}",
        )
    try:
        lock = load_json("lock", Lock, read_bytes(path), LOCK_COPY)
    except VerificationError as error:
        yield Finding(
            "results", LOCK_COPY, error.what, expected=error.expected, found=error.found,
            reason=error.where,
        )  # fmt: skip
        return
    for name in ("artifact", "version"):
        ours = artifact.name if name == "artifact" else artifact.version
        theirs = getattr(lock, name)
        if ours != theirs:
            yield Finding(
                "results", LOCK_COPY, f"locks another {name} than {RESULTS} names", ours, theirs
            )
    if artifact.content_id is not None and not artifact.modified:
        rows = [(pin.path, pin.executable, pin.size, pin.blake3) for pin in lock.files]
        locked = content_id([*rows, (LOCK, False, found.size, found.blake3)])
        if locked != artifact.content_id:
            yield Finding(
                "content-id",
                RESULTS,
                "artifact.content_id: is not that of the tree which the lock pins",
                expected=f"blake3:{locked}",
                found=f"blake3:{artifact.content_id}",
            )
