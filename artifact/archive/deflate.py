"""The pinned compressor: blocks of fixed size, compressed side by side into one stream.

A stream is cut into blocks of ``block_bytes``. Each block is raw deflate with the last
32 KiB before it as its dictionary and ends in a sync flush, the last one in the final
block, so that the pieces put together are one ordinary deflate stream (the idea is that
of pigz). What a block becomes depends on the block, its dictionary and the compressor
alone: the bytes are the same for every number of threads. A block is handed to the
library in one call, because zlib-ng's output depends on how its input is cut.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from artifact.errors import EnvironmentUnmet
from artifact.integrity.compressor import runtime_version
from artifact.integrity.documents import Deflate

#: How far back deflate can refer: the dictionary of a block.
WINDOW_BYTES = 32768

#: Raw deflate without a container, with the largest window.
_RAW = -15

_MEMORY_LEVEL = 8

#: At most about this much input waits for the threads, whatever the block size.
_QUEUE_BYTES = 32 << 20

Implementation = Literal["zlib", "zlib-ng"]


@dataclass(frozen=True, slots=True)
class Compressor:
    """A loaded library with the parameters that decide its output."""

    implementation: Implementation
    package_version: str | None
    runtime_version: str
    level: int
    block_bytes: int
    canonical: bool
    """Whether it is what the lock pins, so that its bytes are the canonical ones."""
    module: Any
    """The library: ``zlib``, or one with the same interface."""

    def describe(self) -> str:
        """The library and its versions, for messages."""
        return describe(self.implementation, self.package_version, self.runtime_version)

    def compress(self, block: bytes, dictionary: bytes, last: bool) -> bytes:
        """One block as raw deflate that ends on a byte; both libraries release the GIL."""
        library = self.module
        settings = (self.level, library.DEFLATED, _RAW, _MEMORY_LEVEL, library.Z_DEFAULT_STRATEGY)
        stream = (
            library.compressobj(*settings, dictionary)
            if dictionary
            else library.compressobj(*settings)
        )
        head: bytes = stream.compress(block)
        return head + bytes(stream.flush(library.Z_FINISH if last else library.Z_SYNC_FLUSH))


def describe(implementation: str, package: str | None, runtime: str) -> str:
    """A compressor in words: ``zlib-ng 1.1.0 (library 2.3.3)``."""
    return f"{implementation} {package} (library {runtime})" if package else f"zlib {runtime}"


def installed_package(implementation: Implementation) -> str | None:
    """The version of the distribution that provides ``implementation``; None for stdlib zlib."""
    if implementation == "zlib":
        return None
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("zlib-ng")
    except PackageNotFoundError:
        return None


def select(pin: Deflate, *, allow_other: bool = False) -> Compressor:
    """The compressor that ``pin`` names, if that is what is installed.

    Args:
        pin: The compressor whose bytes are canonical.
        allow_other: Accept another version of it, or stdlib zlib where it is not installed
            at all. The result then says that it is not canonical.

    Raises:
        EnvironmentUnmet: where package or library version differ from the pin.
    """
    expected = describe(pin.implementation, pin.package_version, pin.runtime_version)
    implementation: Implementation = pin.implementation
    try:
        runtime = runtime_version(implementation)
    except EnvironmentUnmet as error:
        if not allow_other:
            raise _other(pin, expected, f"{implementation} is not installed") from error
        implementation = "zlib"
        runtime = runtime_version(implementation)
    package = installed_package(implementation)
    canonical = (implementation, package, runtime) == (
        pin.implementation,
        pin.package_version,
        pin.runtime_version,
    )
    if not canonical and not allow_other:
        raise _other(pin, expected, describe(implementation, package, runtime))
    return Compressor(
        implementation,
        package,
        runtime,
        pin.level,
        pin.block_bytes,
        canonical,
        _load(implementation),
    )


def _load(implementation: Implementation) -> Any:
    if implementation == "zlib":
        import zlib

        return zlib
    from zlib_ng import zlib_ng

    return zlib_ng


def _other(pin: Deflate, expected: str, found: str) -> EnvironmentUnmet:
    act = "add --non-canonical to pack anyway: same content id, other archive bytes"
    if pin.package_version:
        act = f"python -m pip install {pin.implementation}=={pin.package_version}; or {act}"
    return EnvironmentUnmet(
        "the compressor is not the one that the lock pins",
        where="manifests/lock.json: deflate",
        expected=expected,
        found=found,
        cause="another version or build of the library writes other bytes for the same content",
        next=act,
    )


def default_threads() -> int:
    """As many threads as this process may use processors, at most eight."""
    return min(len(os.sched_getaffinity(0)), 8)


class BlockPool:
    """Compresses blocks on threads and hands the results on in the order of submission.

    Everything that is handed on runs in the thread that submits. Few blocks wait at a
    time, so memory stays flat.
    """

    def __init__(self, compressor: Compressor, threads: int | None = None) -> None:
        self.compressor = compressor
        count = threads or default_threads()
        self._limit = count + max(1, min(count, _QUEUE_BYTES // compressor.block_bytes))
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="deflate")
        self._queue: deque[tuple[Future[bytes] | None, Callable[[bytes], None]]] = deque()

    def __enter__(self) -> BlockPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._queue.clear()
        self._executor.shutdown(cancel_futures=True)

    def submit(
        self, block: bytes, dictionary: bytes, last: bool, then: Callable[[bytes], None]
    ) -> None:
        """Compress ``block`` and call ``then`` with the result when its turn has come."""
        future = self._executor.submit(self.compressor.compress, block, dictionary, last)
        self._queue.append((future, then))
        self._advance(self._limit)

    def then(self, act: Callable[[], None]) -> None:
        """Call ``act`` when everything that was submitted before has been handed on."""
        self._queue.append((None, lambda _: act()))
        self._advance(self._limit)

    def drain(self) -> None:
        """Wait until everything has been handed on."""
        self._advance(0)

    def _advance(self, allowed: int) -> None:
        while self._queue:
            future, act = self._queue[0]
            if future is not None and len(self._queue) <= allowed and not future.done():
                return
            self._queue.popleft()
            act(b"" if future is None else future.result())


class DeflateStream:
    """One deflate stream out of blocks of a pool.

    Args:
        pool: Where blocks are compressed.
        emit: Called in order with each block, as it was and as it is compressed.
    """

    def __init__(self, pool: BlockPool, emit: Callable[[bytes, bytes], None]) -> None:
        self._pool = pool
        self._emit = emit
        self._block_bytes = pool.compressor.block_bytes
        self._gathered = bytearray()
        self._dictionary = b""
        self._crc32: Callable[[bytes, int], int] = pool.compressor.module.crc32
        self.crc = 0
        """CRC-32 of what was written so far."""
        self.size = 0
        """Bytes written so far."""

    def write(self, data: bytes) -> None:
        """Add ``data``; how it is cut into calls does not matter."""
        self.crc = self._crc32(data, self.crc)
        self.size += len(data)
        gathered = self._gathered
        gathered += data
        while len(gathered) >= self._block_bytes:
            block = bytes(memoryview(gathered)[: self._block_bytes])
            del gathered[: self._block_bytes]
            self._submit(block, last=False)

    def finish(self) -> None:
        """Submit what is left, which may be nothing, as the last block."""
        block = bytes(self._gathered)
        self._gathered.clear()
        self._submit(block, last=True)

    def _submit(self, block: bytes, *, last: bool) -> None:
        emit = self._emit
        self._pool.submit(block, self._dictionary, last, lambda packed: emit(block, packed))
        self._dictionary = block[-WINDOW_BYTES:]
