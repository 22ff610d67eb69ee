"""Files that are either whole or not there: write beside, sync, rename, sync the directory."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from artifact.errors import EnvironmentUnmet, UsageError

PARTIAL_SUFFIX = ".partial"

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})

_RENAME_NOREPLACE = 1
_AT_FDCWD = -100


def is_partial(name: str) -> bool:
    """Whether a file of this name was left behind by a write that was killed."""
    return name.startswith(".") and name.endswith(PARTIAL_SUFFIX)


def write_atomic(path: Path, data: bytes, *, overwrite: bool = True, mode: int = 0o644) -> None:
    """Make ``path`` hold ``data``, whole or not at all.

    Raises:
        UsageError: where ``path`` exists and ``overwrite`` is false.
        EnvironmentUnmet: where the system does not let us write (no room, no permission).
    """
    with beside(path, overwrite=overwrite, mode=mode) as file:
        file.write(data)


@contextlib.contextmanager
def beside(path: Path, *, overwrite: bool = False, mode: int = 0o644) -> Iterator[BinaryIO]:
    """An open file next to ``path`` that takes its name when the block ends well.

    The contents are synced before the name is taken and the directory after it. Whatever
    exception ends the block, a signal's included, nothing is left behind and ``path`` is as
    it was. Without ``overwrite`` a file that appears meanwhile is never replaced.

    Args:
        path: The name to take.
        overwrite: Whether a file of that name is replaced.
        mode: Permissions of the new file, before the umask.

    Raises:
        UsageError: where ``path`` exists and ``overwrite`` is false.
        EnvironmentUnmet: where the system does not let us write (no room, no permission).
    """
    if not overwrite and os.path.lexists(path):
        raise _exists(path)
    partial = _partial(path)
    try:
        try:
            descriptor = os.open(
                partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode
            )
            with os.fdopen(descriptor, "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if overwrite:
                partial.replace(path)
            else:
                _take_name(partial, path)
            _sync_directory(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        # An error of another file, such as one that the block reads, is not ours to explain.
        if error.filename is not None and Path(error.filename) not in (partial, path.parent):
            raise
        raise _unmet(path, error) from error


def _partial(path: Path) -> Path:
    # The name itself may be as long as a name can be, so it is cut to leave room.
    head = os.fsencode(path.name)[:200].decode("utf-8", "ignore")
    return path.with_name(f".{head}.{os.urandom(8).hex()}{PARTIAL_SUFFIX}")


def _take_name(partial: Path, path: Path) -> None:
    """Rename without replacing: a hard link fails where the name is taken."""
    try:
        os.link(partial, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _rename_no_replace(partial, path)
    else:
        partial.unlink()


def _rename_no_replace(partial: Path, path: Path) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    status = libc.renameat2(
        _AT_FDCWD, os.fsencode(partial), _AT_FDCWD, os.fsencode(path), _RENAME_NOREPLACE
    )
    if status != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(partial))


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a directory; the rename itself has happened.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def _exists(path: Path) -> UsageError:
    return UsageError(
        "a file of this name exists already, and nothing was overwritten",
        where=str(path),
        expected="a name that is free",
        next="choose another name, or say that the file may be replaced",
    )


def _unmet(path: Path, error: OSError) -> EnvironmentUnmet:
    cause, act = None, "look at the directory's file system, then run the same command again"
    if error.errno in _NO_ROOM:
        cause = "the disk is full or a quota is used up"
        act = f"make room (df -h {path.parent}), then run the same command again"
    elif error.errno in _NO_PERMISSION:
        cause = "the directory is read-only for this user"
        act = f"ls -ld {path.parent}; write to another directory"
    elif error.errno == errno.ENOENT:
        cause = "the directory does not exist"
        act = f"mkdir -p {path.parent}"
    return EnvironmentUnmet(
        "a file could not be written, and nothing was left behind",
        where=str(path),
        found=error.strerror or str(error),
        cause=cause,
        next=act,
    )
