"""Reading a pinned file for copying: what comes out is what was pinned, or an error."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from blake3 import blake3

from artifact.errors import VerificationError
from artifact.integrity.digest import unreadable
from artifact.integrity.pin import Pin

_CHUNK_BYTES = 256 * 1024


def pinned_chunks(root: Path, pin: Pin) -> Iterator[bytes]:
    """The bytes of a pinned file, hashed on their way; never more than were pinned.

    The last thing that the iteration does is to compare the digests, so whoever copies the
    bytes has to come to its end before they count.

    Raises:
        VerificationError: where the file is no longer what the pin says.
        EnvironmentUnmet: where it cannot be read.
    """
    path = f"{root}/{pin.path}"
    try:
        # O_NONBLOCK: opening a pipe must not wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(path, error) from error
    b3, sha = blake3(), hashlib.sha256()
    size = 0
    try:
        status = os.fstat(descriptor)
        executable = bool(status.st_mode & stat.S_IXUSR)
        if not stat.S_ISREG(status.st_mode) or executable != pin.executable:
            raise _changed(path, pin, f"file mode {stat.filemode(status.st_mode)}")
        while chunk := _read(descriptor, path):
            size += len(chunk)
            if size > pin.size:
                raise _changed(path, pin, f"more than {pin.size} bytes")
            b3.update(chunk)
            sha.update(chunk)
            yield chunk
    finally:
        os.close(descriptor)
    if size != pin.size or b3.hexdigest() != pin.blake3 or sha.hexdigest() != pin.sha256:
        raise _changed(path, pin, f"{size} bytes, blake3:{b3.hexdigest()}")


def _read(descriptor: int, path: str) -> bytes:
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    except OSError as error:
        raise unreadable(path, error) from error


def _changed(path: str, pin: Pin, found: str) -> VerificationError:
    return VerificationError(
        "a file changed after it was verified",
        where=path,
        expected=f"{pin.size} bytes, blake3:{pin.blake3}",
        found=found,
        cause="another process writes to the tree",
        next="stop that process, artifact verify, then run the same command again",
    )
