"""``artifact unpack``: an archive that was judged and verified becomes a tree, or nothing does."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from artifact.archive.checksums import digests_of, file_chunks
from artifact.archive.limits import DEFAULT, Limits
from artifact.archive.reader import Archive, open_file
from artifact.archive.source import ArchiveSource
from artifact.archive.statement import check_subject, read_statement, statement_path
from artifact.errors import EnvironmentUnmet, UsageError, VerificationError
from artifact.integrity.pin import Digests
from artifact.integrity.published import neighbours, read_checksums
from artifact.integrity.tree import Tree
from artifact.integrity.verify import Report, expecting, verify


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What an unpack made."""

    path: Path
    """The new tree."""
    report: Report
    """The verification of the new tree."""
    checked: tuple[str, ...]
    """Names of the files beside the archive that it was checked against."""


def unpack(
    path: Path,
    into: Path,
    *,
    expect_content_id: str | None = None,
    limits: Limits = DEFAULT,
) -> Unpacked:
    """Unpack the archive at ``path`` as ``into/<top directory>``.

    Nothing is written before the archive was compared with the checksum files beside it,
    its list of members judged, and its contents verified against the lock inside. Then it
    is written into a fresh directory, verified again from there, and renamed.

    Args:
        path: The archive.
        into: The directory to unpack in; made where it is not there.
        expect_content_id: 64 hex digits that the content id must be.
        limits: What the archive may not exceed.

    Raises:
        UsageError: where the tree exists already.
        VerificationError: where the archive is damaged, not safe, or not what was pinned.
        EnvironmentUnmet: where the disk is full or cannot be written to.
    """
    file = open_file(path)
    with contextlib.closing(file):
        content_ids, checked = _check_beside(path, digests_of(file_chunks(file)))
        with ArchiveSource(file, str(path), limits) as source:
            top = source.archive.require_clean()
            # From the archive's own bytes, before anything of it is written.
            report = verify(source, expect_content_id=expect_content_id)
            for stated in content_ids:
                report = expecting(report, stated, "the one in the checksum file")
            report.require()
            target = into / top
            _require_free(target)
            with _directory(into), _fresh(into, top) as fresh:
                _extract(source.archive, fresh)
                again = verify(Tree(fresh / top), expect_content_id=report.content_id)
                again.require("test this machine's memory and disk, then unpack again")
                _take_name(fresh, top, target)
    return Unpacked(target, again, tuple(checked))


def _check_beside(path: Path, digests: Digests) -> tuple[set[str], list[str]]:
    """Compare the archive with the files beside it.

    Returns:
        The content ids that they state, and their names.

    Raises:
        VerificationError: where one of them says something else, or nothing.
    """
    content_ids: set[str] = set()
    names: list[str] = []
    for sums in (read_checksums(neighbour) for neighbour in neighbours(path)):
        found = digests.sha256 if sums.algorithm == "sha256" else digests.blake3
        expected = sums.digests.get(path.name)
        if expected != found:
            raise VerificationError(
                "an archive does not match the checksum file beside it",
                where=str(sums.path),
                expected=f"{sums.algorithm}:{expected}" if expected else f"a line for {path.name}",
                found=f"{sums.algorithm}:{found}" if expected else ", ".join(sums.digests),
                cause="it was cut off, changed on its way here, or renamed",
                next="fetch the archive and its checksum files again",
            )
        if sums.content_id is not None:
            content_ids.add(sums.content_id)
        names.append(sums.path.name)
    statement = statement_path(path)
    if statement.exists():
        check_subject(read_statement(statement), path.name, digests, str(statement))
        names.append(statement.name)
    return content_ids, names


def _require_free(target: Path) -> None:
    if os.path.lexists(target):
        raise UsageError(
            "the tree exists already, and nothing was overwritten",
            where=str(target),
            expected="a name that is free",
            next="--into DIR unpacks elsewhere",
        )


@contextlib.contextmanager
def _directory(into: Path) -> Iterator[None]:
    """Make ``into`` where it is not there; unmake what was made if the block fails."""
    made: list[Path] = []
    try:
        for directory in reversed((into, *into.parents)):
            if not directory.exists():
                directory.mkdir()
                made.append(directory)
        yield
    except BaseException as error:
        for directory in reversed(made):
            with contextlib.suppress(OSError):
                directory.rmdir()
        if isinstance(error, OSError):
            raise _unmet(into, error) from error
        raise


@contextlib.contextmanager
def _fresh(into: Path, top: str) -> Iterator[Path]:
    """A directory of our own in ``into``, which is gone when the block ends."""
    # The top directory's name may be as long as a name can be.
    fresh = Path(tempfile.mkdtemp(prefix=f".{top[:100]}.", suffix=".partial", dir=into))
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _extract(archive: Archive, fresh: Path) -> None:
    """Write every member below ``fresh``; modes do not depend on the umask."""
    at = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    made: set[str] = set()
    try:
        for member, contents in archive.walk():
            parent = member.name if member.kind == "directory" else member.name.rpartition("/")[0]
            _make_directories(parent, made, at)
            if member.kind == "directory":
                continue
            descriptor = os.open(
                member.name,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=at,
            )
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                for chunk in contents:
                    _write_all(file.fileno(), chunk)
                os.fchmod(descriptor, 0o755 if member.executable else 0o644)
    finally:
        os.close(at)


def _write_all(descriptor: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def _make_directories(path: str, made: set[str], at: int) -> None:
    if path in made or not path:
        return
    _make_directories(path.rpartition("/")[0], made, at)
    os.mkdir(path, 0o700, dir_fd=at)
    os.chmod(path, 0o755, dir_fd=at)  # noqa: S103 - what a tree's directories have
    made.add(path)


def _take_name(fresh: Path, top: str, target: Path) -> None:
    """Sync everything, then rename the tree to where it belongs."""
    parent = os.open(fresh.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync_file_system(parent)
        _require_free(target)
        # A directory that appears meanwhile and is not empty makes this fail, as it should.
        (fresh / top).rename(target)
        os.fsync(parent)
    finally:
        os.close(parent)


def _sync_file_system(descriptor: int) -> None:
    """One call for all files: syncing tens of thousands one by one takes minutes."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _unmet(into: Path, error: OSError) -> EnvironmentUnmet:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return EnvironmentUnmet(
        "an archive could not be unpacked, and nothing was left behind",
        where=str(error.filename or into),
        found=error.strerror or str(error),
        cause="the disk is full or a quota is used up" if full else None,
        next=f"df -h {into}" if full else f"ls -ld {into}; --into DIR unpacks elsewhere",
    )
