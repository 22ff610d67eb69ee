"""The .zip writer: fixed metadata, ZIP64 only where needed, no data descriptors.

Every entry is by Unix (mode 0644 or 0755) at one DOS time; the UTF-8 flag stands only on
names that are not ASCII, where it says something. An entry is stored where it is empty or
where deflate does not make its first block smaller, which depends on nothing but the
bytes and the compressor. Sizes and CRC are written into the local header afterwards, so
that no reader has to trust a descriptor behind the data. Format: PKWARE's APPNOTE 6.3.
"""

from __future__ import annotations

import datetime
import struct
from dataclasses import dataclass
from typing import BinaryIO

from artifact.archive.deflate import BlockPool, DeflateStream

STORED = 0
DEFLATED = 8

_UNIX = 3
_UTF8 = 0x800
_REGULAR = 0o100000

#: What a field of 32 or 16 bits holds to say "look in the ZIP64 record".
SEE_ZIP64_32 = 0xFFFFFFFF
SEE_ZIP64_16 = 0xFFFF

#: From these values on ZIP64 is needed. Apart from the marks, so that tests can lower them.
LIMIT_32 = SEE_ZIP64_32
LIMIT_16 = SEE_ZIP64_16

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR64 = struct.Struct("<4sIQI")


@dataclass(slots=True)
class _Entry:
    name: bytes
    flags: int
    attributes: int
    zip64: bool
    """Whether the local header has room for sizes of 64 bits."""
    size: int
    offset: int = 0
    method: int | None = None
    """None until the first block has been seen."""
    packed: int = 0
    crc: int = 0


def dos_time(mtime: int) -> tuple[int, int]:
    """``mtime`` in UTC as the DOS time and date of a ZIP entry.

    Raises:
        ValueError: before 1980, after 2107, or on an odd second: DOS has no such time.
    """
    moment = datetime.datetime.fromtimestamp(mtime, datetime.timezone.utc)
    if not 1980 <= moment.year <= 2107 or moment.second % 2:
        raise ValueError(f"no DOS time for {moment.isoformat()}")
    time = moment.hour << 11 | moment.minute << 5 | moment.second // 2
    return time, (moment.year - 1980) << 9 | moment.month << 5 | moment.day


class ZipWriter:
    """Writes entries one after the other, then the central directory.

    Args:
        sink: A file that can seek, at its start.
        pool: Where blocks are compressed.
        mtime: Time of every entry, seconds since 1970 UTC; see :func:`dos_time`.
    """

    def __init__(self, sink: BinaryIO, pool: BlockPool, *, mtime: int) -> None:
        self._sink = sink
        self._pool = pool
        self._time, self._date = dos_time(mtime)
        self._offset = 0
        self._entries: list[_Entry] = []
        self._entry: _Entry | None = None
        self._stream: DeflateStream | None = None

    def begin(self, path: str, size: int, executable: bool) -> None:
        """Start the entry ``path``; exactly ``size`` bytes must follow."""
        if self._entry is not None:
            raise ValueError("the entry before has not ended")
        mode = _REGULAR | (0o755 if executable else 0o644)
        entry = _Entry(
            name=path.encode("utf-8"),
            flags=0 if path.isascii() else _UTF8,
            attributes=mode << 16,
            zip64=_largest(size, self._pool.compressor.block_bytes) >= LIMIT_32,
            size=size,
        )
        self._entry = entry
        self._stream = DeflateStream(
            self._pool, lambda block, packed: self._put(entry, block, packed)
        )

    def write(self, data: bytes) -> None:
        """Add bytes to the entry."""
        assert self._entry is not None and self._stream is not None
        if self._stream.size + len(data) > self._entry.size:
            raise ValueError("more bytes than the entry was announced with")
        self._stream.write(data)

    def end(self) -> None:
        """End the entry."""
        entry, stream = self._entry, self._stream
        assert entry is not None and stream is not None
        if stream.size != entry.size:
            raise ValueError(f"{entry.size - stream.size} bytes of the entry are missing")
        if entry.size:
            stream.finish()
        entry.crc = stream.crc
        self._pool.then(lambda: self._close(entry))
        self._entry = self._stream = None

    def _put(self, entry: _Entry, block: bytes, packed: bytes) -> None:
        if entry.method is None:
            self._open(entry, DEFLATED if len(packed) < len(block) else STORED)
        data = packed if entry.method == DEFLATED else block
        self._sink.write(data)
        entry.packed += len(data)
        self._offset += len(data)

    def _open(self, entry: _Entry, method: int) -> None:
        """Leave room for the local header, whose sizes are not known yet."""
        entry.method = method
        entry.offset = self._offset
        room = _LOCAL.size + len(entry.name) + (20 if entry.zip64 else 0)
        self._sink.write(bytes(room))
        self._offset += room

    def _close(self, entry: _Entry) -> None:
        if entry.method is None:
            self._open(entry, STORED)
        self._entries.append(entry)
        self._sink.seek(entry.offset)
        self._sink.write(self._local(entry))
        self._sink.seek(self._offset)

    def _local(self, entry: _Entry) -> bytes:
        extra = struct.pack("<2H2Q", 1, 16, entry.size, entry.packed) if entry.zip64 else b""
        header = _LOCAL.pack(
            b"PK\x03\x04",
            45 if entry.zip64 else 20,
            entry.flags,
            entry.method,
            self._time,
            self._date,
            entry.crc,
            SEE_ZIP64_32 if entry.zip64 else entry.packed,
            SEE_ZIP64_32 if entry.zip64 else entry.size,
            len(entry.name),
            len(extra),
        )
        return header + entry.name + extra

    def _central(self, entry: _Entry) -> bytes:
        large = [v for v in (entry.size, entry.packed, entry.offset) if v >= LIMIT_32]
        extra = struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
        version = 45 if large or entry.zip64 else 20
        header = _CENTRAL.pack(
            b"PK\x01\x02",
            _UNIX << 8 | version,
            version,
            entry.flags,
            entry.method,
            self._time,
            self._date,
            entry.crc,
            _short(entry.packed),
            _short(entry.size),
            len(entry.name),
            len(extra),
            0,
            0,
            0,
            entry.attributes,
            _short(entry.offset),
        )
        return header + entry.name + extra

    def finish(self) -> None:
        """Write everything that still waits, then the central directory."""
        self._pool.drain()
        start = self._offset
        size = 0
        for entry in self._entries:
            size += self._sink.write(self._central(entry))
        count = len(self._entries)
        if count >= LIMIT_16 or size >= LIMIT_32 or start >= LIMIT_32:
            version = _UNIX << 8 | 45
            self._sink.write(
                _END64.pack(b"PK\x06\x06", 44, version, 45, 0, 0, count, count, size, start)
            )
            self._sink.write(_LOCATOR64.pack(b"PK\x06\x07", 0, start + size, 1))
        short = count if count < LIMIT_16 else SEE_ZIP64_16
        self._sink.write(
            _END.pack(b"PK\x05\x06", 0, 0, short, short, _short(size), _short(start), 0)
        )


def _short(value: int) -> int:
    return value if value < LIMIT_32 else SEE_ZIP64_32


def _largest(size: int, block_bytes: int) -> int:
    """More than ``size`` bytes can become: deflate's stored blocks and flushes cost a little."""
    return size + size // 4096 + 64 * (size // block_bytes + 1)
