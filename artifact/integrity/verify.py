"""Verify a source against its lock: a two-way inventory, every finding in one pass."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from artifact.errors import ArtifactError, EnvironmentUnmet, UsageError, VerificationError
from artifact.integrity.chain import STAMP_BYTES, chain_findings
from artifact.integrity.contentid import content_id
from artifact.integrity.digest import Outcome
from artifact.integrity.documents import Documents, read_documents
from artifact.integrity.explain import explain, first_bytes
from artifact.integrity.inventory import Inventory, take_inventory
from artifact.integrity.pin import Digests, Finding, Pin
from artifact.integrity.source import Source
from artifact.model.portable import shown
from artifact.model.root import LOCK, MANIFEST, at_root

_LISTED = 20
"""Findings that an error names; ``artifact verify`` lists all of them."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a verification found."""

    label: str
    artifact: str
    version: str
    content_id: str | None
    """Over every pinned path as it was found, and manifests/lock.json. Where a file differs
    it is the id of what is there, not of what was pinned. None where a pinned path has no
    regular file that can be read, for then there is no such content. Extra files do not
    enter it."""
    findings: tuple[Finding, ...]
    """Empty exactly if the source is as pinned."""
    files: int
    """Pinned files that are there, the lock included."""
    bytes: int
    """Their size together."""
    pinned: int
    """Files that the lock pins, and the lock itself."""
    outside: tuple[str, ...]
    """What stands outside by the inventory rules; a directory (ends in ``/``) stands for
    all that is in it."""
    unlisted_results: tuple[str, ...]
    """Run folders that are not part of the artifact, each ending in ``/``."""
    lock_blake3: str
    fast: bool
    """Whether SHA-256 was left out."""
    trusted: bool
    """Whether manifest and lock were validated before, so that no validator was loaded."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by step: documents, walk, hashing, comparison."""

    @property
    def ok(self) -> bool:
        """Whether everything is as pinned."""
        return not self.findings

    @property
    def undecided(self) -> bool:
        """Whether nothing was found wrong, but not everything could be read."""
        return not self.ok and all(finding.kind == "unreadable" for finding in self.findings)

    def require(self, next: str | None = None) -> None:
        """Do nothing where everything is as pinned.

        Args:
            next: What the reader does next; None for the command that lists every finding.

        Raises:
            VerificationError: naming the findings, where something is not as pinned.
            EnvironmentUnmet: naming the findings, where it is only not known.
        """
        kind: type[ArtifactError] = VerificationError
        what = "the contents are not what the lock pins"
        if self.undecided:
            kind, what = EnvironmentUnmet, "not everything can be read, so nothing is decided"
        if self.findings:
            command = next or self._verify_command()
            raise findings_error(kind, what, self.label, self.findings, command)

    def _verify_command(self) -> str:
        place = Path(self.label)
        if place.is_dir():
            return at_root("artifact verify", place)
        return f"artifact verify {shlex.quote(self.label)}"


Error = TypeVar("Error", bound=ArtifactError)


def findings_error(
    kind: type[Error],
    what: str,
    label: str,
    findings: Sequence[Finding],
    next: str,
) -> Error:
    """One error for all ``findings``: the only one in full, or how many, and the first ones."""
    details = [describe(finding) for finding in findings]
    if len(findings) == 1:
        (only,) = findings
        return kind(
            what,
            where=f"{label}: {shown(only.path)}",
            expected=only.expected,
            found=only.found or only.message,
            cause=only.reason,
            next=next,
            details=tuple(details),
        )
    if len(details) > _LISTED:
        details[_LISTED:] = [f"and {len(details) - _LISTED} more"]
    return kind(
        what,
        where=label,
        expected="no finding",
        found=f"{len(findings)} findings, of which the first: {details[0]}",
        next=next,
        details=tuple(details),
    )


def describe(finding: Finding) -> str:
    """A finding in one line."""
    text = f"{finding.kind}: {shown(finding.path)}: {finding.message}"
    return f"{text} ({finding.reason})" if finding.reason else text


def verify(source: Source, *, fast: bool = False, expect_content_id: str | None = None) -> Report:
    """Check everything in ``source`` against its own lock, both ways.

    Args:
        source: A tree or an archive.
        fast: Check size and BLAKE3 alone.
        expect_content_id: 64 hex digits that the content id must be. Only this ties the lock
            itself to anything: a lock that was edited together with a file is consistent.

    Raises:
        VerificationError: where manifest or lock is missing or not valid, so that nothing
            can be compared.
        EnvironmentUnmet: where the documents, the root directory or the container cannot be
            read. Another file or directory that cannot is a finding beside the others.
    """
    clock = _Clock()
    documents = read_documents(source)
    clock.lap("documents")
    source.prune(documents.rules)
    sizes = {path: pin.size for path, pin in documents.pins.items()}
    with source.reading(sizes, fast=fast):
        inventory = take_inventory(source, documents)
        clock.lap("walk")
        digests, unread = _sorted(source.digests(inventory.to_hash, fast=fast))
        clock.lap("hashing")
    findings = [
        *inventory.findings(digests),
        *unread,
        *_content_findings(source, documents, inventory, digests),
        *_chain(source, documents, inventory, digests),
    ]
    findings.sort(key=lambda finding: os.fsencode(finding.path))
    # What is wrong with the container or the documents comes before what is in them.
    findings[:0] = [*source.problems(), *documents.disagreements]
    report = Report(
        label=source.label,
        artifact=documents.artifact,
        version=documents.version,
        content_id=_content_id(documents, inventory, digests),
        findings=tuple(findings),
        files=len(inventory.present) + 1,
        bytes=sum(digests[path].size for path in inventory.present if path in digests)
        + documents.lock_size,
        pinned=len(documents.pins) + 1,
        outside=tuple(inventory.outside),
        unlisted_results=tuple(inventory.unlisted_results),
        lock_blake3=documents.lock_blake3,
        fast=fast,
        trusted=documents.trusted,
        seconds=clock.laps,
    )
    clock.lap("comparison")
    if expect_content_id is not None:
        report = expecting(report, expect_content_id, "the content id that was asked for")
    return report


def parse_content_id(text: str) -> str:
    """The 64 hex digits of a content id as ``verify`` prints it, with ``blake3:`` or without.

    Raises:
        UsageError: where it is none.
    """
    digits = text.strip().lower().removeprefix("blake3:")
    if len(digits) != 64 or digits.strip("0123456789abcdef"):
        raise UsageError(
            "this is no content id",
            expected="64 hexadecimal digits, with blake3: before them or without",
            found=repr(text),
            next="copy it from where it was published: --expect-content-id blake3:HEX",
        )
    return digits


def expecting(report: Report, expected: str, origin: str) -> Report:
    """``report`` with a finding more where its content id is not ``expected``.

    Args:
        report: A finished verification.
        expected: 64 hex digits.
        origin: Where the expectation comes from, in words.
    """
    if report.content_id == expected or (report.content_id is None and report.undecided):
        return report
    reason = None
    if not report.findings:
        reason = "the files agree with their lock, so the lock itself is another one"
    elif report.content_id is None:
        reason = "there is no content id, because pinned files are missing or cannot be read"
    finding = Finding(
        "content-id",
        LOCK,
        f"the content id is not {origin}",
        expected=f"blake3:{expected}",
        found=f"blake3:{report.content_id}" if report.content_id else "none",
        reason=reason,
    )
    return replace(report, findings=(*report.findings, finding))


def _sorted(outcomes: Iterable[Outcome]) -> tuple[dict[str, Digests], list[Finding]]:
    """The digests of what could be read, and a finding for each file that could not.

    Raises:
        VerificationError: where a file changed while it was read: what was found of the
            others says nothing about one state of the tree.
    """
    digests: dict[str, Digests] = {}
    unread: list[Finding] = []
    for path, outcome in outcomes:
        if not isinstance(outcome, ArtifactError):
            digests[path] = outcome
        elif isinstance(outcome, EnvironmentUnmet):
            message = "it cannot be read, so it was not compared"
            unread.append(Finding("unreadable", path, message, found=outcome.found))
        else:
            raise outcome
    return digests, unread


class _Clock:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now


def _content_id(
    documents: Documents, inventory: Inventory, digests: Mapping[str, Digests]
) -> str | None:
    if inventory.lock is None or len(inventory.present) != len(documents.pins):
        return None
    if not digests.keys() >= inventory.present.keys():
        return None
    rows = [
        (path, entry.executable, digests[path].size, digests[path].blake3)
        for path, entry in inventory.present.items()
    ]
    rows.append((LOCK, inventory.lock.executable, documents.lock_size, documents.lock_blake3))
    return content_id(rows)


def _content_findings(
    source: Source, documents: Documents, inventory: Inventory, digests: Mapping[str, Digests]
) -> Iterator[Finding]:
    """Findings about the contents and the executable bits of files that are there."""
    manifest = digests.get(MANIFEST)
    if manifest is not None and manifest.blake3 != documents.manifest_blake3:
        raise VerificationError(
            "the manifest changed while the tree was verified",
            where=f"{source.label}/{MANIFEST}",
            cause="another process writes to it",
            next="stop that process, then run the same command again",
        )
    owners: dict[str, str] = {}
    for path, entry in inventory.present.items():
        pin, found = documents.pins[path], digests.get(path)
        if found is None:
            pass
        elif found.size != pin.size or found.blake3 != pin.blake3:
            owners = owners or {p.blake3: p.path for p in documents.pins.values()}
            yield _changed(source, pin, found, owners)
        elif found.sha256 is not None and found.sha256 != pin.sha256:
            yield Finding(
                "changed",
                path,
                "its SHA-256 is not the pinned one, though its BLAKE3 is",
                expected=f"sha256:{pin.sha256}",
                found=f"sha256:{found.sha256}",
                reason="the lock was edited",
            )
        if entry.executable != pin.executable:
            yield _mode(path, pin.executable)
    if inventory.lock is not None and inventory.lock.executable:
        yield _mode(LOCK, False)


def _changed(source: Source, pin: Pin, found: Digests, owners: Mapping[str, str]) -> Finding:
    return Finding(
        "changed",
        pin.path,
        "its contents are not what was pinned",
        expected=f"{pin.size} bytes, blake3:{pin.blake3}",
        found=f"{found.size} bytes, blake3:{found.blake3}",
        reason=explain(source, pin, found, owners),
    )


def _mode(path: str, executable: bool) -> Finding:
    words = {True: "executable", False: "not executable"}
    return Finding(
        "mode",
        path,
        "its executable bit is not as pinned",
        expected=words[executable],
        found=words[not executable],
        reason=f"chmod {'+x' if executable else '-x'} {path}",
    )


def _chain(
    source: Source, documents: Documents, inventory: Inventory, digests: Mapping[str, Digests]
) -> Sequence[Finding]:
    if not documents.kernels and not documents.links:
        return ()
    readable = inventory.present.keys() & digests.keys()
    unread = inventory.present.keys() - readable
    heads = {
        kernel.generated: first_bytes(source.chunks(kernel.generated), STAMP_BYTES)
        for kernel in documents.kernels
        if kernel.generated in readable and kernel.source not in unread
    }
    found = {path: digests[path].blake3 for path in readable}
    return list(chain_findings(documents.kernels, documents.links, found, heads, documents.pins))
