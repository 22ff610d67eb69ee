"""The .tar.gz writer: USTAR headers, PAX records only where USTAR cannot say it.

Of every member only path, size, contents and the executable bit are the artifact's; all
else is fixed: owner 0 without a name, mode 0644 or 0755, one time for all. Directories
have no members of their own, since every reader makes those that it needs. Formats: POSIX
pax (IEEE 1003.1) and RFC 1952.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

from artifact.archive.deflate import BlockPool, DeflateStream

BLOCK = 512

#: Archives are padded to this, as tar has always done.
_RECORD = 20 * BLOCK

#: The largest size that eleven octal digits hold.
MAX_USTAR_SIZE = 0o77777777777

_NAME_BYTES = 100
_PREFIX_BYTES = 155

#: The name that pax headers carry themselves; no reader that knows pax shows it.
_PAX_NAME = b"././@PaxHeader"

#: No name, no time, no extra field; operating system 3 (Unix), because modes are Unix modes.
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"


class TarGzWriter:
    """Writes members one after the other into one gzip member.

    Args:
        sink: Where the bytes go.
        pool: Where blocks are compressed.
        mtime: Time of every member, seconds since 1970 UTC.
    """

    def __init__(self, sink: BinaryIO, pool: BlockPool, *, mtime: int) -> None:
        self._sink = sink
        self._pool = pool
        self._mtime = mtime
        self._left = 0
        self._size = 0
        sink.write(GZIP_HEADER)
        self._stream = DeflateStream(pool, lambda block, packed: self._put(packed))

    def _put(self, packed: bytes) -> None:
        self._sink.write(packed)

    def begin(self, path: str, size: int, executable: bool) -> None:
        """Start the member ``path``; exactly ``size`` bytes must follow."""
        if self._left:
            raise ValueError(f"{self._left} bytes of the member before are missing")
        self._stream.write(member_header(path, size, executable, self._mtime))
        self._left = self._size = size

    def write(self, data: bytes) -> None:
        """Add bytes to the member."""
        if len(data) > self._left:
            raise ValueError("more bytes than the member was announced with")
        self._left -= len(data)
        self._stream.write(data)

    def end(self) -> None:
        """End the member."""
        if self._left:
            raise ValueError(f"{self._left} bytes of the member are missing")
        self._stream.write(bytes(-self._size % BLOCK))

    def finish(self) -> None:
        """End the archive and write everything that still waits."""
        stream = self._stream
        stream.write(bytes(2 * BLOCK))
        stream.write(bytes(-stream.size % _RECORD))
        stream.finish()
        self._pool.drain()
        self._sink.write(struct.pack("<II", stream.crc, stream.size & 0xFFFFFFFF))


def member_header(path: str, size: int, executable: bool, mtime: int) -> bytes:
    """The header blocks of a regular file: pax records where they are needed, then USTAR."""
    mode = 0o755 if executable else 0o644
    records = b""
    # USTAR names are of ISO 646; only a pax record says that a name is UTF-8.
    split = _split(path.encode("ascii")) if path.isascii() else None
    if split is None:
        records += _record(b"path", path.encode("utf-8"))
        split = (path.encode("ascii", "replace")[:_NAME_BYTES], b"")
    if size > MAX_USTAR_SIZE:
        records += _record(b"size", b"%d" % size)
        size = 0
    name, prefix = split
    header = _ustar(name, prefix, mode, size, mtime, b"0")
    if not records:
        return header
    padding = bytes(-len(records) % BLOCK)
    return _ustar(_PAX_NAME, b"", 0o644, len(records), mtime, b"x") + records + padding + header


def _split(path: bytes) -> tuple[bytes, bytes] | None:
    """``path`` as USTAR's name and prefix, or None where it does not fit."""
    if len(path) <= _NAME_BYTES:
        return path, b""
    # The prefix as long as it can be: one rule, so that there is one answer.
    cut = path.rfind(b"/", 0, _PREFIX_BYTES + 1)
    if cut <= 0 or not 0 < len(path) - cut - 1 <= _NAME_BYTES:
        return None
    return path[cut + 1 :], path[:cut]


def _record(key: bytes, value: bytes) -> bytes:
    """A pax record; its length counts its own digits."""
    body = b" " + key + b"=" + value + b"\n"
    length = len(body)
    while len(b"%d" % length) + len(body) != length:
        length = len(b"%d" % length) + len(body)
    return b"%d" % length + body


def _ustar(name: bytes, prefix: bytes, mode: int, size: int, mtime: int, kind: bytes) -> bytes:
    fields = struct.pack(
        "100s8s8s8s12s12s8s1s100s6s2s32s32s8s8s155s12x",
        name,
        b"%07o\0" % mode,
        b"%07o\0" % 0,
        b"%07o\0" % 0,
        b"%011o\0" % size,
        b"%011o\0" % mtime,
        b" " * 8,
        kind,
        b"",
        b"ustar\0",
        b"00",
        b"",
        b"",
        b"%07o\0" % 0,
        b"%07o\0" % 0,
        prefix,
    )
    checksum = b"%06o\0 " % sum(fields)
    return fields[:148] + checksum + fields[156:]
