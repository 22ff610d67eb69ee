"""Make a lock from a tree, or say everything that keeps it from being pinned."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from artifact.errors import ArtifactError, VerificationError
from artifact.integrity.atomic import is_partial
from artifact.integrity.chain import STAMP_BYTES, read_stamp, shared_generated, stale
from artifact.integrity.compressor import runtime_version
from artifact.integrity.documents import KernelFiles
from artifact.integrity.explain import first_bytes
from artifact.integrity.inventory import fold
from artifact.integrity.pin import Digests, Finding
from artifact.integrity.rules import Rules
from artifact.integrity.source import Entry
from artifact.integrity.tree import Tree
from artifact.model.lock import ChainPin, DeflatePin, FilePin, Lock
from artifact.model.portable import path_problem, shown
from artifact.model.root import LOCK, MANIFEST

if TYPE_CHECKING:
    from artifact.model.manifest import Manifest


def make_lock(root: Path, manifest: Manifest, produced: Mapping[str, bytes] | None = None) -> Lock:
    """The lock of the tree at ``root`` as it is now.

    Every file that the rules call pinned is in it, but the lock itself.

    Args:
        root: The tree.
        manifest: Its manifest.
        produced: Files (path -> bytes) that stand or will stand there, pinned by these bytes
            and not executable.

    Raises:
        VerificationError: listing everything that cannot be pinned: symlinks, special files,
            names that are not portable, names that collide where case or Unicode form is not
            kept, files that the manifest names and the tree lacks, stale generated files. Or
            inventory rules that leave out the manifest, the lock or what is produced.
        EnvironmentUnmet: where something cannot be read, or the compressor is not installed.
    """
    produced = produced or {}
    tree = Tree(root)
    rules = _rules_of(manifest)
    _require_own(rules, (MANIFEST, LOCK, *produced))
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
    digests = {}
    for path, outcome in tree.digests([e.path for e in entries if e.path not in produced]):
        if isinstance(outcome, ArtifactError):
            raise outcome
        digests[path] = outcome
    digests |= {path: _digests(data) for path, data in produced.items()}
    chain, findings = _link(tree, kernels, digests)
    if findings:
        raise _refused(root, findings)
    entries.sort(key=lambda entry: entry.path.encode("utf-8"))
    deflate = manifest.archive.deflate
    return Lock(
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


def _unfit(entries: Sequence[Entry]) -> Iterator[Finding]:
    """What cannot be pinned because of its kind or its name."""
    spellings: dict[str, str] = {fold(LOCK): LOCK}
    for entry in entries:
        if entry.kind == "symlink":
            yield Finding("symlink", entry.path, f"a symlink to {entry.target} cannot be pinned")
            continue
        if entry.kind == "unreadable":
            yield Finding("unreadable", entry.path, f"cannot be read: {entry.target}")
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


def _rules_of(manifest: Manifest) -> Rules:
    """The inventory rules of ``manifest``."""
    inventory = manifest.inventory
    return Rules(inventory.outside, inventory.results, inventory.published)


def _require_own(rules: Rules, own: Iterable[str]) -> None:
    """Refuse rules that leave out what says what is pinned.

    Raises:
        VerificationError: naming the rule and the file.
    """
    for path in own:
        place = rules.place(path)
        if place == "pinned":
            continue
        rule = f"inventory.results = {rules.results!r}"
        if place == "outside":
            rule = next(
                f"inventory.outside[{i}] = {pattern!r}"
                for i, pattern in enumerate(rules.outside)
                if Rules([pattern], rules.results, ()).place(path) == "outside"
            )
        raise VerificationError(
            "the inventory leaves out a file that it needs; the lock was not changed",
            where=f"{MANIFEST}: {rule.partition(' ')[0]}",
            expected=f"{path} to be pinned",
            found=rule,
            next="correct the rule, then: artifact lock",
        )


def _refused(root: Path, findings: Sequence[Finding]) -> VerificationError:
    lines = tuple(
        f"{shown(f.path)}: {f.message}" + (f" ({f.reason})" if f.reason else "") for f in findings
    )
    return VerificationError(
        "the tree cannot be pinned as it is; the lock was not changed",
        where=f"{root}/{shown(findings[0].path)}",
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


def pin_bytes(path: str, data: bytes) -> FilePin:
    """The pin of a file that holds ``data`` and is not executable."""
    return _pin(Entry(path, "file", len(data), False), _digests(data))
