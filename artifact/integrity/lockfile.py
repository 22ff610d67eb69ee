"""Make a lock from a tree, say what changed, and write it.

``artifact lock`` writes three things, the lock last: the exported JSON Schemas, the tree's
provenance, and the lock that pins them with everything else. All bytes are known before
the first is written, and nothing holds a time, so doing it twice changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from artifact import __version__
from artifact.errors import VerificationError
from artifact.integrity.atomic import is_partial, write_atomic
from artifact.integrity.chain import STAMP_BYTES, read_stamp, shared_generated, stale
from artifact.integrity.compressor import runtime_version
from artifact.integrity.contentid import content_id
from artifact.integrity.documents import KernelFiles, load_lock, load_manifest
from artifact.integrity.explain import first_bytes
from artifact.integrity.inventory import fold
from artifact.integrity.pin import Digests, Finding
from artifact.integrity.rules import Rules
from artifact.integrity.source import Entry
from artifact.integrity.tree import Tree
from artifact.model.lock import ChainPin, DeflatePin, FilePin, Lock
from artifact.model.portable import path_problem
from artifact.model.root import LOCK, PROVENANCE, SCHEMAS

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


def rules_of(manifest: Manifest) -> Rules:
    """The inventory rules of ``manifest``."""
    inventory = manifest.inventory
    return Rules(inventory.outside, inventory.results, inventory.published)


def make_lock(root: Path, manifest: Manifest) -> Lock:
    """The lock of the tree at ``root`` as it is now.

    Every file that the rules call pinned is in it, but the lock itself.

    Raises:
        VerificationError: listing everything that cannot be pinned: symlinks, special files,
            names that are not portable, names that collide where case or Unicode form is not
            kept, files that the manifest names and the tree lacks, stale generated files.
        EnvironmentUnmet: where something cannot be read, or the compressor is not installed.
    """
    return _lock_with(root, manifest, {})[0]


def write_lock(root: Path) -> LockOutcome:
    """Pin the tree at ``root`` as it is now: schemas, provenance, lock.

    Raises:
        VerificationError: as :func:`make_lock`, and where the manifest is not valid.
        EnvironmentUnmet: where something cannot be read or written.
    """
    from artifact.model.load import dump_json
    from artifact.model.provenance import TreeProvenance

    manifest = load_manifest(root)
    produced = _schemas()
    # The provenance repeats the chain, which the first pass finds out; its own pin is
    # computed from its bytes in the second.
    produced[PROVENANCE] = b""
    draft, _ = _lock_with(root, manifest, produced)
    provenance = _provenance(root, manifest, draft)
    assert isinstance(provenance, TreeProvenance)
    produced[PROVENANCE] = dump_json("provenance", provenance, PROVENANCE)
    lock = _replace_pin(draft, PROVENANCE, produced[PROVENANCE])
    data = dump_json("lock", lock, LOCK)
    old, old_bytes = _old_lock(root)
    written = [
        path
        for path, contents in (*produced.items(), (LOCK, data))
        if _write_if_new(root / path, contents)
    ]
    lines = changes(old, lock)
    if not lines and old_bytes != data:
        lines = ["the lock is written in another form; it pins the same"]
    rows = [(pin.path, pin.executable, pin.size, pin.blake3) for pin in lock.files]
    rows.append((LOCK, False, len(data), blake3(data).hexdigest()))
    return LockOutcome(lock, content_id(rows), tuple(lines), tuple(written))


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
    return f"{link.source} -> {link.generated} by {link.compiler}"


def _lock_with(
    root: Path, manifest: Manifest, produced: Mapping[str, bytes]
) -> tuple[Lock, dict[str, Digests]]:
    """The lock of the tree as it is once ``produced`` (path -> bytes) has been written."""
    tree = Tree(root)
    rules = rules_of(manifest)
    tree.prune(rules)
    entries = [
        entry
        for entry in tree.entries()
        if entry.path != LOCK
        and rules.place(entry.path, entry.kind == "directory") == "pinned"
        and not (entry.path in produced and entry.kind == "file")
    ]
    entries.extend(
        Entry(path, "file", len(data), False)
        for path, data in produced.items()
        if rules.place(path) == "pinned"
    )
    kernels = [KernelFiles(k.name, k.source, k.generated) for k in manifest.kernels]
    findings = [*_unfit(entries), *_absent(manifest, entries), *shared_generated(kernels)]
    if findings:
        raise _refused(root, findings)
    digests = dict(tree.digests([e.path for e in entries if e.path not in produced]))
    digests |= {path: _digests(data) for path, data in produced.items()}
    chain, findings = _link(tree, kernels, digests)
    if findings:
        raise _refused(root, findings)
    entries.sort(key=lambda entry: entry.path.encode("utf-8"))
    deflate = manifest.archive.deflate
    lock = Lock(
        lock_version=1,
        artifact=manifest.artifact.name,
        version=manifest.artifact.version,
        deflate=DeflatePin(
            implementation=deflate.implementation,
            package_version=deflate.package_version,
            runtime_version=runtime_version(deflate.implementation),
            level=deflate.level,
            block_bytes=deflate.block_bytes,
        ),
        chain=chain,
        files=tuple(_pin(entry, digests[entry.path]) for entry in entries),
    )
    return lock, digests


def _unfit(entries: Sequence[Entry]) -> Iterator[Finding]:
    """What cannot be pinned because of its kind or its name."""
    spellings: dict[str, str] = {fold(LOCK): LOCK}
    for entry in entries:
        if entry.kind == "symlink":
            yield Finding("symlink", entry.path, f"a symlink to {entry.target} cannot be pinned")
            continue
        if entry.kind != "file":
            yield Finding("special", entry.path, "a pipe, socket or device cannot be pinned")
            continue
        if problem := path_problem(entry.path):
            yield Finding("name", entry.path, f"the name {problem}")
        elif is_partial(entry.path.rpartition("/")[2]):
            yield Finding(
                "extra",
                entry.path,
                "left behind by a command that was killed",
                reason="delete it",
            )
        twin = spellings.setdefault(fold(entry.path), entry.path)
        if twin != entry.path:
            yield Finding(
                "case", entry.path, f"on other file systems it is the same file as {twin}"
            )


def _absent(manifest: Manifest, entries: Sequence[Entry]) -> Iterator[Finding]:
    """Files that the manifest names and the tree does not have where they would be pinned."""
    there = {entry.path for entry in entries if entry.kind == "file"}
    for place, path in _named_files(manifest):
        if path not in there:
            yield Finding("missing", path, f"the manifest names it ({place})")


def _named_files(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for i, backend in enumerate(manifest.backends):
        yield f"backends[{i}].worker", backend.worker
    for i, environment in enumerate(manifest.environments):
        for field in ("requirements", "conda_lock", "specification"):
            path = getattr(environment, field)
            if path is not None:
                yield f"environments[{i}].{field}", path
    for i, kernel in enumerate(manifest.kernels):
        yield f"kernels[{i}].source", kernel.source
        yield f"kernels[{i}].generated", kernel.generated
    for name, path in manifest.downloads.items():
        yield f"downloads.{name}", path


def _link(
    tree: Tree, kernels: Sequence[KernelFiles], digests: Mapping[str, Digests]
) -> tuple[tuple[ChainPin, ...], list[Finding]]:
    """The chain as the stamps say it, and every stamp that is unreadable or stale."""
    chain: list[ChainPin] = []
    findings: list[Finding] = []
    for kernel in kernels:
        try:
            stamp = read_stamp(first_bytes(tree.chunks(kernel.generated), STAMP_BYTES))
        except ValueError as error:
            findings.append(
                Finding("chain", kernel.generated, f"its stamp cannot be read: {error}")
            )
            continue
        findings.extend(stale(kernel, stamp, digests[kernel.source].blake3))
        chain.append(
            ChainPin(
                kernel=kernel.name,
                source=kernel.source,
                source_blake3=digests[kernel.source].blake3,
                generated=kernel.generated,
                generated_blake3=digests[kernel.generated].blake3,
                compiler=stamp.compiler,
                flags=stamp.flags,
            )
        )
    return tuple(chain), findings


def _refused(root: Path, findings: Sequence[Finding]) -> VerificationError:
    lines = tuple(
        f"{f.path}: {f.message}" + (f" ({f.reason})" if f.reason else "") for f in findings
    )
    return VerificationError(
        "the tree cannot be pinned as it is; the lock was not changed",
        where=f"{root}/{findings[0].path}",
        expected=findings[0].expected,
        found=findings[0].found or findings[0].message,
        next="put right what is listed, then run: artifact lock",
        details=lines,
    )


def _digests(data: bytes) -> Digests:
    return Digests(len(data), blake3(data).hexdigest(), hashlib.sha256(data).hexdigest())


def _pin(entry: Entry, digests: Digests) -> FilePin:
    assert digests.sha256 is not None
    return FilePin(
        path=entry.path,
        size=digests.size,
        executable=entry.executable,
        blake3=digests.blake3,
        sha256=digests.sha256,
    )


def _replace_pin(lock: Lock, path: str, data: bytes) -> Lock:
    pin = _pin(Entry(path, "file", len(data), False), _digests(data))
    files = tuple(pin if old.path == path else old for old in lock.files)
    return lock.model_copy(update={"files": files})


def _schemas() -> dict[str, bytes]:
    from artifact.model.canonical import pretty_json
    from artifact.model.schema import DOCUMENTS, schema_of

    return {f"{SCHEMAS}/{name}.schema.json": pretty_json(schema_of(name)) for name in DOCUMENTS}


def _provenance(root: Path, manifest: Manifest, lock: Lock) -> TreeProvenance:
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
    if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)
    return True
