"""The gzip layer of a .tar.gz: bounded, one member, nothing behind it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from artifact.archive.ahead import ahead
from artifact.archive.members import damaged, refused

_READ_BYTES = 64 * 1024
_STEP_BYTES = 256 * 1024
_STEPS_AHEAD = 4

#: A gzip container with the largest window; zlib checks header, CRC-32 and length.
_GZIP = 31


class GzipInput:
    """Decompressed bytes in order, never more of them than was allowed.

    Stdlib zlib reads what zlib-ng wrote, on purpose: two implementations agree before an
    archive is called good.

    Args:
        file: The archive. It is read by position: others may read it at the same time.
        label: How messages name it.
        allowance: Bytes that may come out.
    """

    def __init__(self, file: BinaryIO, label: str, allowance: int) -> None:
        self._descriptor = file.fileno()
        self._label = label
        self._allowance = allowance
        self._chunks = ahead(self._inflate(), _STEPS_AHEAD)
        self._ready = bytearray()

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes; fewer only where the stream ends.

        Raises:
            VerificationError: where the gzip stream is damaged, is followed by anything, or
                gives more bytes than allowed.
        """
        ready = self._ready
        while len(ready) < count and (chunk := next(self._chunks, None)) is not None:
            ready += chunk
        data = bytes(memoryview(ready)[:count])
        del ready[: len(data)]
        return data

    def _inflate(self) -> Iterator[bytes]:
        inflater = zlib.decompressobj(_GZIP)
        position = produced = 0
        data = b""
        while not inflater.eof:
            if not data:
                data = os.pread(self._descriptor, _READ_BYTES, position)
                position += len(data)
            ended = not data
            try:
                chunk = inflater.decompress(data, _STEP_BYTES)
            except zlib.error as error:
                raise damaged(self._label, f"not a sound gzip stream ({error})") from error
            data = inflater.unconsumed_tail
            produced += len(chunk)
            if produced > self._allowance:
                raise refused(
                    self._label,
                    None,
                    f"more than {self._allowance} bytes come out of it: a decompression bomb",
                )
            if chunk:
                yield chunk
            elif ended and not inflater.eof:
                raise damaged(self._label, "the gzip stream ends early: the archive is truncated")
        if inflater.unused_data or os.pread(self._descriptor, 1, position):
            raise refused(self._label, None, "data stands behind the end of the gzip stream")
