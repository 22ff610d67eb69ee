"""The gzip layer of a .tar.gz: bounded, one member, nothing behind it."""

from __future__ import annotations

import zlib
from typing import BinaryIO

from artifact.archive.members import damaged, refused

_READ_BYTES = 64 * 1024
_STEP_BYTES = 256 * 1024

#: A gzip container with the largest window; zlib checks header, CRC-32 and length.
_GZIP = 31


class GzipInput:
    """Decompressed bytes in order, never more of them than was allowed.

    Stdlib zlib reads what zlib-ng wrote, on purpose: two implementations agree before an
    archive is called good.

    Args:
        file: The archive, at its start.
        label: How messages name it.
        allowance: Bytes that may come out.
    """

    def __init__(self, file: BinaryIO, label: str, allowance: int) -> None:
        self._file = file
        self._label = label
        self._allowance = allowance
        self._inflater = zlib.decompressobj(_GZIP)
        self._input = b""
        self._ready = bytearray()
        self.produced = 0

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes; fewer only where the stream ends.

        Raises:
            VerificationError: where the gzip stream is damaged, is followed by anything, or
                gives more bytes than allowed.
        """
        while len(self._ready) < count and self._more():
            pass
        data = bytes(memoryview(self._ready)[:count])
        del self._ready[: len(data)]
        return data

    def _more(self) -> bool:
        inflater = self._inflater
        if inflater.eof:
            return False
        if not self._input:
            self._input = self._file.read(_READ_BYTES)
        ended = not self._input
        try:
            data = inflater.decompress(self._input, _STEP_BYTES)
        except zlib.error as error:
            raise damaged(self._label, f"not a sound gzip stream ({error})") from error
        self._input = inflater.unconsumed_tail
        self.produced += len(data)
        if self.produced > self._allowance:
            raise refused(
                self._label,
                None,
                f"more than {self._allowance} bytes come out of it: a decompression bomb",
            )
        self._ready += data
        if inflater.eof:
            if inflater.unused_data or self._file.read(1):
                raise refused(self._label, None, "data stands behind the end of the gzip stream")
            return bool(data)
        if ended and not data:
            raise damaged(self._label, "the gzip stream ends early: the archive is truncated")
        return True
