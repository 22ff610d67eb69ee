"""One safe reader for .tar.gz and .zip: the whole list of members is judged before use."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from artifact.archive import untar
from artifact.archive.gzipped import GzipInput
from artifact.archive.limits import DEFAULT, Limits
from artifact.archive.members import Member, damaged, judge, raise_problems
from artifact.archive.unzip import ZipReader
from artifact.errors import EnvironmentUnmet, VerificationError
from artifact.integrity.pin import Finding

Format = Literal["tar.gz", "zip"]

Visit = Callable[[Member, Iterator[bytes]], None]


class Archive:
    """An open archive whose list of members has been read and judged.

    Reading the list of a .tar.gz means inflating all of it, so its contents can be looked
    at on the way (``visit``); the contents of a .zip are read when they are asked for.

    Args:
        file: The archive, which stays open as long as this object is used.
        label: How messages name it.
        limits: What it may not exceed.
        visit: Called with each member of a .tar.gz and its contents while the list is
            read, before it is judged: it must not act on what it sees.

    Raises:
        VerificationError: where it is no archive, damaged, ambiguous, or exceeds a limit.
    """

    format: Format
    members: tuple[Member, ...]
    """Every member in the order of the archive, directories included."""
    problems: tuple[Finding, ...]
    """Rules that the list breaks; where there are any, nothing may be unpacked."""

    def __init__(
        self, file: BinaryIO, label: str, limits: Limits = DEFAULT, visit: Visit | None = None
    ) -> None:
        self._file = file
        self.label = label
        self.limits = limits
        self._bytes = os.fstat(file.fileno()).st_size
        self.format = _detect(file, label)
        self.zip: ZipReader | None = None
        if self.format == "zip":
            self.zip = ZipReader(file, self._bytes, label, limits)
            self.members = tuple(entry.member for entry in self.zip.entries)
        else:
            members = []
            for member, contents in self._walk_tar():
                members.append(member)
                if visit is not None:
                    visit(member, contents)
            self.members = tuple(members)
        self.problems = judge(self.members, limits)

    @property
    def top(self) -> str | None:
        """The top directory; None for an empty archive."""
        return self.members[0].name.partition("/")[0] if self.members else None

    def require_clean(self) -> str:
        """The top directory of an archive that breaks no rule.

        Raises:
            VerificationError: naming the members and the rules, or that there is no member.
        """
        raise_problems(self.label, self.problems)
        if self.top is None:
            raise damaged(self.label, "an archive without members")
        return self.top

    def walk(self) -> Iterator[tuple[Member, Iterator[bytes]]]:
        """Every member with its contents, which must be read before the next is asked for.

        Raises:
            VerificationError: where contents are damaged, or the archive is no longer the
                one whose list was judged.
        """
        entries = self._walk_tar() if self.zip is None else self.zip.walk()
        count = 0
        for member, contents in entries:
            if count >= len(self.members) or member != self.members[count]:
                raise damaged(self.label, "the archive changed while it was read")
            count += 1
            yield member, contents
        if count != len(self.members):
            raise damaged(self.label, "the archive changed while it was read")

    def _walk_tar(self) -> Iterator[tuple[Member, Iterator[bytes]]]:
        allowance = self.limits.allowance(self._bytes)
        stream = GzipInput(self._file, self.label, allowance)
        return untar.walk(stream, self.label, self.limits)


def _detect(file: BinaryIO, label: str) -> Format:
    """The format by the first bytes; a name can say anything."""
    file.seek(0)
    magic = file.read(4)
    if magic[:2] == b"\x1f\x8b":
        return "tar.gz"
    if magic[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return "zip"
    if not magic:
        raise damaged(label, "an empty file", expected="a .tar.gz or .zip archive")
    raise damaged(label, f"a file that starts with {magic!r}", expected="a .tar.gz or .zip archive")


@contextlib.contextmanager
def open_archive(
    path: Path, limits: Limits = DEFAULT, visit: Visit | None = None
) -> Iterator[Archive]:
    """Open the archive at ``path``; see :class:`Archive`."""
    with open_file(path) as file:
        yield Archive(file, str(path), limits, visit)


def open_file(path: Path) -> BinaryIO:
    """A regular file, open for reading.

    Raises:
        VerificationError: where there is none.
        EnvironmentUnmet: where the system does not let us read it.
    """
    try:
        # O_NONBLOCK: opening a pipe must not wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise VerificationError(
            "there is no archive here",
            where=str(path),
            expected="a file",
            found="nothing",
            next=f"ls -l {shlex.quote(str(path.parent))}",
        ) from error
    except OSError as error:
        raise EnvironmentUnmet(
            "an archive cannot be read",
            where=str(path),
            found=error.strerror or str(error),
            next=f"ls -l {path}",
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise VerificationError(
            "only a regular file can be an archive",
            where=str(path),
            expected="a .tar.gz or .zip file",
            next=f"ls -l {shlex.quote(str(path))}",
        )
    return os.fdopen(descriptor, "rb")
