"""Where a unit is compiled: a folder whose name follows from what is compiled and nothing else.

nvcc writes the path of its source into the names of device functions with internal linkage
(also those of CUTLASS's headers), after it has resolved every symlink. Two checkouts would so
give two machine codes. A unit is therefore copied, with the headers of the tree that it
includes, to a place that is the same on every machine, and compiled there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from blake3 import blake3

from artifact.errors import EnvironmentUnmet

_BASE = Path("/tmp")  # noqa: S108 -- the same on every machine; the folder in it is checked
_DIGITS = 16


def place_of(files: Mapping[str, bytes]) -> Path:
    """The folder in which ``files`` (path below it -> contents) are compiled."""
    hasher = blake3(derive_key_context="artifact build place, version 1")
    for path in sorted(files):
        for field in (path.encode("utf-8"), files[path]):
            hasher.update(len(field).to_bytes(8, "little"))
            hasher.update(field)
    return _BASE / f"artifact-build-{hasher.hexdigest()[:_DIGITS]}"


@contextlib.contextmanager
def staged(files: Mapping[str, bytes]) -> Iterator[tuple[Path, int]]:
    """The folder of ``files``, holding them alone, for this process alone; removed at the end.

    A folder that a killed build left is used again. Where another build of the same bytes
    is under way, this one waits for it.

    Yields:
        The folder, and the descriptor that holds its lock. Programs that write into it
        inherit that, so that it stays locked until the last of them has ended.

    Raises:
        EnvironmentUnmet: where the folder is another user's, or cannot be made.
    """
    place = place_of(files)
    try:
        descriptor = _take(place)
        try:
            _empty(place)
            for path, data in files.items():
                target = place / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            yield place, descriptor
        finally:
            shutil.rmtree(place, ignore_errors=True)
            os.close(descriptor)
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(place)):
            raise
        raise EnvironmentUnmet(
            "the folder of a build cannot be made",
            where=str(place),
            found=error.strerror or str(error),
            next=f"ls -ld {place}; df -h {place.parent}",
        ) from error


def _take(place: Path) -> int:
    """A descriptor of ``place`` that holds its lock; the system drops it with the process."""
    while True:
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
                raise EnvironmentUnmet(
                    "the folder of a build is not this user's alone",
                    where=str(place),
                    next=f"ls -ld {place}; wait for the other user's build, or have it removed",
                )
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Whoever held it has removed it: the lock is that of a folder without a name.
            with contextlib.suppress(FileNotFoundError):
                there = place.lstat()
                if (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _empty(place: Path) -> None:
    for entry in place.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
