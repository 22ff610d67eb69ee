"""An archive as an integrity Source: verified without extracting it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from artifact.archive.checksums import digests_of
from artifact.archive.limits import DEFAULT, Limits
from artifact.archive.members import Member, refused
from artifact.archive.reader import Archive, open_file
from artifact.errors import VerificationError
from artifact.integrity.digest import Outcome
from artifact.integrity.pin import Digests, Finding
from artifact.integrity.source import Entry, Kind, Source
from artifact.model.load import MAX_DOCUMENT_BYTES, parse_toml
from artifact.model.portable import shown
from artifact.model.root import LOCK, MANIFEST, PROVENANCE

_DOCUMENTS = frozenset({MANIFEST, LOCK, PROVENANCE})

#: Small files of a .tar.gz are kept while its list is read, documents first, so that
#: looking into one does not inflate the archive again. No more than this together.
_KEPT_BYTES = 48 << 20
_SMALL_BYTES = 1 << 20


class ArchiveSource(Source):
    """The files below the top directory of an archive.

    The digests of a .tar.gz are taken while its list is read: its contents are inflated
    once. Use it as a context manager, or close it.

    Args:
        file: The archive, open for reading; closed with this object.
        label: How messages name it.
        limits: What it may not exceed.
        fast: Take BLAKE3 alone of what is read with the list of a .tar.gz.

    Raises:
        VerificationError: see :class:`artifact.archive.reader.Archive`.
    """

    closed = True

    def __init__(
        self, file: BinaryIO, label: str, limits: Limits = DEFAULT, *, fast: bool = False
    ) -> None:
        self.label = label
        self._file = file
        self._fast = fast
        self._digests: dict[str, Digests] = {}
        self._kept: dict[str, bytes] = {}
        self._room = _KEPT_BYTES
        try:
            self.archive = Archive(file, label, limits, self._visit)
        except BaseException:
            file.close()
            raise
        self._entries: dict[str, Entry] = {}
        for member in self.archive.members:
            kind: Kind = "special"
            if member.kind == "file" or member.kind == "symlink":
                kind = member.kind
            path = _below(member.name)
            if path and member.kind != "directory":
                entry = Entry(path, kind, member.size, member.executable, member.target)
                self._entries.setdefault(path, entry)

    def __enter__(self) -> ArchiveSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the archive."""
        self._file.close()

    def _visit(self, member: Member, contents: Iterator[bytes]) -> None:
        path = _below(member.name)
        if member.kind != "file" or not path or path in self._digests:
            return
        keep = member.size <= min(_SMALL_BYTES, self._room) or (
            path in _DOCUMENTS and member.size <= _KEPT_BYTES
        )
        kept: list[bytes] | None = [] if keep else None
        self._digests[path] = digests_of(contents, fast=self._fast, keep=kept)
        if kept is not None:
            self._kept[path] = b"".join(kept)
            self._room -= member.size

    def entries(self) -> Sequence[Entry]:
        """Every member below the top directory, sorted by the bytes of its path."""
        entries = list(self._entries.values())
        entries.sort(key=lambda entry: entry.path.encode("utf-8", "surrogateescape"))
        return entries

    def problems(self) -> Sequence[Finding]:
        """What the safe reader refuses, but for links and special files: those are entries."""
        found = [
            problem
            for problem in self.archive.problems
            if problem.kind not in ("symlink", "special") or not _below(problem.path)
        ]
        top = self.archive.top
        if top is not None and (name := self._artifact_name()) != top:
            found.append(
                Finding(
                    "container",
                    shown(top),
                    "the top directory is not named after the artifact",
                    expected=name,
                    found=shown(top),
                )
            )
        return found

    def _artifact_name(self) -> str:
        """What the manifest calls the artifact; it was validated before this is asked."""
        manifest = parse_toml(self.read(MANIFEST), f"{self.label}/{MANIFEST}")
        return str(manifest["artifact"]["name"])

    def read(self, path: str) -> bytes:
        """The bytes of one document."""
        entry = self._entries.get(path)
        if entry is None or entry.kind != "file":
            raise VerificationError(
                "a document is missing",
                where=f"{self.label}/{path}",
                expected="a file",
                found="nothing" if entry is None else f"a {entry.kind}",
                cause="this is not the archive of an artifact, or it was packed without its lock",
                next="take another copy of the archive, or make one: artifact pack",
            )
        if entry.size > MAX_DOCUMENT_BYTES:
            raise VerificationError(
                "a document is too large",
                where=f"{self.label}/{path}",
                expected=f"at most {MAX_DOCUMENT_BYTES} bytes",
                found=f"{entry.size} bytes",
                next="take another copy of the archive, or make one: artifact pack",
            )
        if path not in self._kept:
            self._kept[path] = b"".join(self.chunks(path))
        return self._kept[path]

    def digests(self, paths: Sequence[str], *, fast: bool = False) -> Iterator[Outcome]:
        """The digests of ``paths``, in the order of the archive."""
        if self.archive.zip is None:
            for path in paths:
                yield path, self._digests[path]
            return
        wanted = set(paths)
        for member, contents in self.archive.walk():
            path = _below(member.name)
            if path in wanted and member.kind == "file":
                wanted.discard(path)
                yield path, digests_of(contents, fast=fast)

    def chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of one file in order."""
        if path in self._kept:
            yield self._kept[path]
            return
        for member, contents in self.archive.walk():
            if _below(member.name) == path and member.kind == "file":
                yield from contents
                return
        raise refused(self.label, path, "is not in the archive")


def open_source(path: Path, limits: Limits = DEFAULT) -> ArchiveSource:
    """The archive at ``path`` as a source; close it, or use it in a ``with`` statement.

    Raises:
        VerificationError: where it is no archive, damaged, ambiguous, or exceeds a limit.
        EnvironmentUnmet: where the system does not let us read it.
    """
    return ArchiveSource(open_file(path), str(path), limits)


def _below(name: str) -> str:
    """A member's path below the top directory; empty for what is not below it."""
    return name.partition("/")[2]
