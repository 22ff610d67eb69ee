"""BLAKE3 and SHA-256 of files, both from one read, several files at once."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue

from blake3 import blake3

from artifact.errors import EnvironmentUnmet, VerificationError
from artifact.integrity.pin import Digests

#: Bytes of one read: small enough that SHA-256 and BLAKE3 find them in the cache.
BLOCK_BYTES = 256 * 1024

#: Below this much work threads cost more than they bring.
_ALONE_FILES = 64
_ALONE_BYTES = 4 << 20


def hash_file(path: Path, *, fast: bool = False) -> Digests:
    """Both digests of a regular file, read once; BLAKE3 alone if ``fast``.

    A symlink is not followed.

    Raises:
        VerificationError: where ``path`` is no regular file, or changed while it was read.
        EnvironmentUnmet: where the system does not let us read it.
    """
    return _hash(str(path), bytearray(BLOCK_BYTES), fast, None)


def hash_files(
    root: Path, paths: Sequence[str], *, fast: bool = False, jobs: int | None = None
) -> Iterator[tuple[str, Digests]]:
    """The digests of ``paths`` below ``root``, in any order.

    Args:
        root: The directory that the paths are below.
        paths: Regular files.
        fast: Whether to leave SHA-256 out.
        jobs: Threads; by default one for each processor that this process may use.

    Raises:
        VerificationError: where one is no regular file, or changed while it was read.
        EnvironmentUnmet: where the system does not let us read one.
    """
    sizes: dict[str, int] = {}
    for path in paths:
        try:
            sizes[path] = os.lstat(root / path).st_size
        except OSError as error:
            raise _unreadable(str(root / path), error) from error
    jobs = jobs or len(os.sched_getaffinity(0))
    if jobs == 1 or (len(sizes) < _ALONE_FILES and sum(sizes.values()) < _ALONE_BYTES):
        buffer = bytearray(BLOCK_BYTES)
        for path in paths:
            yield path, _hash(str(root / path), buffer, fast, None)
        return
    # The largest first, so that no thread is left alone with one at the end.
    todo = deque(sorted(sizes, key=lambda path: -sizes[path]))
    done: SimpleQueue[tuple[str, Digests] | BaseException] = SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        buffer = bytearray(BLOCK_BYTES)
        try:
            while not stop.is_set():
                try:
                    path = todo.popleft()
                except IndexError:
                    return
                done.put((path, _hash(str(root / path), buffer, fast, stop)))
        except BaseException as error:
            done.put(error)

    for _ in range(min(jobs, len(sizes))):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in range(len(sizes)):
            result = done.get()
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        stop.set()


def _hash(path: str, buffer: bytearray, fast: bool, stop: threading.Event | None) -> Digests:
    try:
        # O_NONBLOCK: opening a pipe must not wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise VerificationError(
                "only regular files have digests", where=path, expected="a regular file"
            )
        b3 = blake3()
        sha = None if fast else hashlib.sha256()
        view = memoryview(buffer)
        size = 0
        while True:
            count = os.readv(descriptor, [buffer])
            if not count:
                break
            block = view[:count]
            if sha is not None:
                sha.update(block)
            b3.update(block)
            size += count
        after = os.fstat(descriptor)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)
    if size != before.st_size or _state(before) != _state(after):
        raise VerificationError(
            "a file changed while it was read",
            where=path,
            expected=f"{before.st_size} bytes that stay as they are",
            found=f"{size} bytes read",
            cause="another process writes to it",
            next="stop that process, then run the same command again",
        )
    return Digests(size, b3.hexdigest(), None if sha is None else sha.hexdigest())


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _unreadable(path: str, error: OSError) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        "a file cannot be read",
        where=path,
        found=error.strerror or str(error),
        next=f"ls -l {path}",
    )
