"""BLAKE3 and SHA-256 of files, both from one read, several files at once."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import shlex
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

from blake3 import blake3

from artifact.errors import ArtifactError, EnvironmentUnmet, VerificationError
from artifact.integrity.pin import Digests

#: Bytes of one read: small enough that SHA-256 and BLAKE3 find them in the cache.
BLOCK_BYTES = 256 * 1024

#: Below this much work threads cost more than they bring.
_ALONE_FILES = 64
_ALONE_BYTES = 4 << 20

#: Small files go to a thread in batches, so that the threads rarely wait for each other.
_BATCH_FILES = 64
_BATCH_BYTES = 4 << 20

#: BLAKE3 alone is so fast that copying costs: from this size on a file is mapped. With
#: SHA-256 beside it, mapping brings nothing and is not done.
_MAPPED_FILE_BYTES = 1 << 20
_WINDOW_BYTES = 16 << 20

#: The longest wait in one piece. A signal that comes in the instant before a wait begins is
#: only noticed when the wait ends.
_WAIT_S = 0.2

#: The longest wait for threads that were told to stop. They look after every block, so only
#: one that hangs in a read of a dead disk or network takes longer.
_END_S = 5.0

#: BLAKE3 of one file may itself use several threads, which pays from blocks of this size on.
_WIDE_BLOCK_BYTES = 4 << 20


Outcome = tuple[str, "Digests | ArtifactError"]
"""A path with its digests, or with the error that a caller of it has to raise."""


def hash_file(path: Path, *, fast: bool = False) -> Digests:
    """Both digests of a regular file, read once; BLAKE3 alone if ``fast``.

    A symlink is not followed.

    Raises:
        VerificationError: where ``path`` is no regular file, or changed while it was read.
        EnvironmentUnmet: where the system does not let us read it.
    """
    jobs = processors()
    wide = jobs > 1 and path.is_file() and path.stat().st_size >= 2 * _WIDE_BLOCK_BYTES
    block = bytearray(_WIDE_BLOCK_BYTES if wide else BLOCK_BYTES)
    return _hash(str(path), block, fast, jobs if wide else 1, None)


def hash_files(
    root: Path,
    paths: Sequence[str],
    *,
    fast: bool = False,
    jobs: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Iterator[tuple[str, Digests]]:
    """The digests of ``paths`` below ``root``, in any order.

    Args:
        root: The directory that the paths are below.
        paths: Regular files.
        fast: Whether to leave SHA-256 out.
        jobs: Threads; by default one for each processor that this process may use.
        sizes: Sizes of the files in bytes, where they are known: they decide which thread
            reads what, and nothing else.

    Raises:
        VerificationError: where one is no regular file, or changed while it was read.
        EnvironmentUnmet: where the system does not let us read one.
    """
    for path, outcome in hash_outcomes(root, paths, fast=fast, jobs=jobs, sizes=sizes):
        if isinstance(outcome, ArtifactError):
            raise outcome
        yield path, outcome


def hash_outcomes(
    root: Path,
    paths: Sequence[str],
    *,
    fast: bool = False,
    jobs: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Iterator[Outcome]:
    """What :func:`hash_files` gives, with the error of a file in the place of its digests."""
    known = sizes or {}
    weights = {p: known[p] if p in known else _size(f"{root}/{p}") for p in paths}
    jobs = jobs or processors()
    if jobs == 1 or not worth_threads(weights):
        buffer = bytearray(BLOCK_BYTES)
        for path in weights:
            yield path, _outcome(f"{root}/{path}", buffer, fast, 1, None)
        return
    with Hashing(root, weights, fast=fast, jobs=jobs) as hashing:
        yield from hashing.results()


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def worth_threads(sizes: Mapping[str, int]) -> bool:
    """Whether so many files of these sizes are hashed faster by several threads."""
    return len(sizes) >= _ALONE_FILES or sum(sizes.values()) >= _ALONE_BYTES


class Hashing:
    """Files that threads have been hashing since this was made, until they are done or it ends.

    When the block of a ``with`` ends, so have the threads: they are stopped and waited for.
    One that hangs in a read is left behind after five seconds; it is a daemon.

    Args:
        root: The directory that the paths are below.
        sizes: The paths with their sizes in bytes, which need not be right: they decide which
            thread reads what, and nothing else.
        fast: Whether to leave SHA-256 out.
        jobs: Threads.
    """

    def __init__(self, root: Path, sizes: Mapping[str, int], *, fast: bool, jobs: int) -> None:
        self.fast = fast
        self.paths = sizes.keys()
        self._root = root
        self._sizes = sizes
        self._jobs = jobs
        # A file that is more than its share would leave the other threads without work.
        self._wide = max(sum(sizes.values()) // jobs, 2 * _WIDE_BLOCK_BYTES)
        self._todo = deque(_batches(sizes))
        self._done: SimpleQueue[list[Outcome] | BaseException] = SimpleQueue()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        for i in range(min(jobs, len(self._todo))):
            # Small files need the interpreter all the time, large ones hardly at all: one
            # thread begins with the small ones, so that it has the interpreter to itself.
            take = self._todo.popleft if i else self._todo.pop
            # A daemon, so that a signal ends the program at once and not after the last file.
            thread = threading.Thread(target=self._work, args=(take,), name="hash", daemon=True)
            self._threads.append(thread)
            thread.start()

    def __enter__(self) -> Hashing:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        deadline = time.monotonic() + _END_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def results(self) -> Iterator[Outcome]:
        """What became of each path, in any order."""
        left = len(self._sizes)
        while left:
            try:
                outcome = self._done.get(timeout=_WAIT_S)
            except Empty:
                continue
            if isinstance(outcome, BaseException):
                raise outcome
            left -= len(outcome)
            yield from outcome

    def _work(self, take: Callable[[], list[str]]) -> None:
        narrow, wide = bytearray(BLOCK_BYTES), bytearray()
        try:
            while True:
                try:
                    batch = take()
                except IndexError:
                    return
                results: list[Outcome] = []
                for path in batch:
                    if self._stop.is_set():
                        return
                    threads, buffer = 1, narrow
                    if self._sizes[path] > self._wide:
                        threads = self._jobs
                        buffer = wide = wide or bytearray(_WIDE_BLOCK_BYTES)
                    outcome = _outcome(
                        f"{self._root}/{path}", buffer, self.fast, threads, self._stop
                    )
                    results.append((path, outcome))
                self._done.put(results)
        except BaseException as error:
            self._done.put(error)


def _size(path: str) -> int:
    """The size of a file in bytes; 0 where reading it will say why there is none."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _batches(weights: Mapping[str, int]) -> Iterator[list[str]]:
    """The paths in batches, the largest files first and alone."""
    batch: list[str] = []
    weight = 0
    for path in sorted(weights, key=lambda path: -weights[path]):
        if batch and (len(batch) == _BATCH_FILES or weight + weights[path] > _BATCH_BYTES):
            yield batch
            batch, weight = [], 0
        batch.append(path)
        weight += weights[path]
    if batch:
        yield batch


def _outcome(
    path: str, buffer: bytearray, fast: bool, threads: int, stop: threading.Event | None
) -> Digests | ArtifactError:
    try:
        return _hash(path, buffer, fast, threads, stop)
    except ArtifactError as error:
        return error


class _StoppedError(Exception):
    """The caller no longer waits for the result."""


def _hash(
    path: str, buffer: bytearray, fast: bool, threads: int, stop: threading.Event | None
) -> Digests:
    try:
        # O_NONBLOCK: opening a pipe must not wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _irregular(path, "a symlink") from error
        raise unreadable(path, error) from error
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise _irregular(path, "no regular file")
        if before.st_size < len(buffer):
            # One read tells all: had the file grown since, its status would say so.
            data = os.read(descriptor, before.st_size + 1)
            size, b3 = len(data), blake3(data)
            sha = None if fast else hashlib.sha256(data)
        else:
            b3 = blake3(max_threads=threads)
            sha = None if fast else hashlib.sha256()
            if fast and before.st_size >= _MAPPED_FILE_BYTES:
                size = _feed_mapped(descriptor, before.st_size, b3, stop)
            else:
                size = _feed(descriptor, buffer, b3, sha, stop)
        after = os.fstat(descriptor)
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        os.close(descriptor)
    if size != before.st_size or _state(before) != _state(after):
        raise VerificationError(
            "a file changed while it was read",
            where=path,
            expected=f"{before.st_size} bytes that stay as they are",
            found=f"{size} bytes read, {after.st_size} bytes now",
            cause="another process writes to it",
            next="stop that process, then run the same command again",
        )
    return Digests(size, b3.hexdigest(), None if sha is None else sha.hexdigest())


def _feed(
    descriptor: int,
    buffer: bytearray,
    b3: blake3,
    sha: hashlib._Hash | None,
    stop: threading.Event | None,
) -> int:
    """Give all of a file to both hashers, block by block; returns its size in bytes."""
    view = memoryview(buffer)
    size = 0
    while count := os.readv(descriptor, [buffer]):
        if stop is not None and stop.is_set():
            raise _StoppedError
        block = view[:count]
        if sha is not None:
            sha.update(block)
        b3.update(block)
        size += count
    return size


def _feed_mapped(descriptor: int, size: int, b3: blake3, stop: threading.Event | None) -> int:
    """Give all of a file to BLAKE3 without copying it; returns its size in bytes.

    A file that is cut while it is mapped ends the process by SIGBUS, as it ends b3sum; so
    each window is only touched if the file still has it.
    """
    try:
        mapped = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
    except ValueError:  # it is shorter by now
        return 0
    with mapped, memoryview(mapped) as view:
        for start in range(0, size, _WINDOW_BYTES):
            if stop is not None and stop.is_set():
                raise _StoppedError
            if os.fstat(descriptor).st_size < size:
                return start
            with view[start : start + _WINDOW_BYTES] as window:
                b3.update(window)
    return size


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _irregular(path: str, found: str) -> VerificationError:
    return VerificationError(
        "only regular files have digests",
        where=path,
        expected="a regular file",
        found=found,
        next=f"ls -ld {shlex.quote(path)}",
    )


def unreadable(path: str, error: OSError) -> EnvironmentUnmet:
    """The error for a file that the system does not let us read."""
    return EnvironmentUnmet(
        "a file cannot be read",
        where=path,
        found=error.strerror or str(error),
        next=f"ls -l {path}",
    )
