"""Reading ZIP strictly: central directory, local headers and data must say one thing.

Python's zipfile believes the central directory, a streaming reader the local headers, and
a file can be made in which the two show different contents. Here both are read and
compared, and every byte of the file must belong to exactly one entry or to the directory.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from artifact.archive.limits import Limits
from artifact.archive.members import Member, MemberKind, brief, damaged, refused
from artifact.archive.zip import DEFLATED, SEE_ZIP64_16, SEE_ZIP64_32, STORED
from artifact.errors import VerificationError

_CHUNK_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR64 = struct.Struct("<4sIQI")

_ENCRYPTED = 0x1 | 0x40 | 0x2000
_DESCRIPTOR = 0x8
_UTF8 = 0x800
# Two bits in which deflate notes its level; they change nothing.
_LEVEL = 0x6

_UNIX = 3
_DOS_DIRECTORY = 0x10

_KINDS: dict[int, MemberKind] = {
    0: "file",
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


@dataclass(frozen=True, slots=True)
class Located:
    """An entry and where its data is."""

    member: Member
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    offset: int
    data: int = 0


class ZipReader:
    """The entries of a ZIP file, in the order in which they lie in it.

    Args:
        file: The archive.
        size: Its size in bytes.
        label: How messages name it.
        limits: What it may not exceed.

    Raises:
        VerificationError: where it is damaged, ambiguous, encrypted, or exceeds a limit.
    """

    def __init__(self, file: BinaryIO, size: int, label: str, limits: Limits) -> None:
        self._file = file
        self._size = size
        self._label = label
        self._limits = limits
        count, start, length = self._end()
        entries = self._directory(count, start, length)
        self._bound(entries)
        self.entries = self._tile(entries, start)

    def walk(self) -> Iterator[tuple[Member, Iterator[bytes]]]:
        """Every entry with its contents; what is not read costs nothing."""
        for entry in self.entries:
            yield entry.member, self.contents(entry)

    def _at(self, offset: int, count: int, what: str) -> bytes:
        self._file.seek(offset)
        data = self._file.read(count)
        if len(data) != count:
            raise damaged(self._label, f"{what} reaches beyond the end of the file")
        return data

    def _end(self) -> tuple[int, int, int]:
        """Number of entries, and offset and length of the central directory."""
        tail_size = min(self._size, _END.size + 0xFFFF)
        tail = self._at(self._size - tail_size, tail_size, "the end record")
        found = []
        at = tail.find(b"PK\x05\x06")
        while at >= 0:
            if at + _END.size <= len(tail):
                record = _END.unpack_from(tail, at)
                if at + _END.size + record[7] == len(tail):
                    found.append((self._size - tail_size + at, record))
            at = tail.find(b"PK\x05\x06", at + 1)
        if not found:
            raise damaged(self._label, "no end record of a ZIP file: the archive is truncated")
        if len(found) > 1:
            raise refused(
                self._label, None, "two end records: readers would see different archives"
            )
        at, (_, disk, first, here, count, length, start, _) = found[0]
        if disk or first or here != count:
            raise refused(self._label, None, "is a part of an archive over several disks")
        end = at
        marks = (count == SEE_ZIP64_16, length == SEE_ZIP64_32, start == SEE_ZIP64_32)
        locator_at = at - _LOCATOR64.size
        if locator_at >= 0 and self._at(locator_at, 4, "the ZIP64 locator") == b"PK\x06\x07":
            values, end = self._end64(locator_at)
            for mark, short, long in zip(marks, (count, length, start), values, strict=True):
                if not mark and short != long:
                    raise refused(self._label, None, "its two end records disagree")
            count, length, start = values
        elif marks[1] or marks[2]:
            raise damaged(self._label, "the ZIP64 end record is missing")
        if start + length != end:
            raise damaged(
                self._label,
                f"the central directory ends at byte {start + length}",
                expected=f"byte {end}, where the end record stands",
            )
        if count > self._limits.members:
            raise refused(self._label, None, f"more than {self._limits.members} members")
        if length > self._limits.directory_bytes:
            raise refused(self._label, None, f"a central directory of {length} bytes")
        return count, start, length

    def _end64(self, locator_at: int) -> tuple[tuple[int, int, int], int]:
        _, disk, at, disks = _LOCATOR64.unpack(
            self._at(locator_at, _LOCATOR64.size, "the ZIP64 locator")
        )
        if disk or disks != 1 or at + _END64.size != locator_at:
            raise damaged(self._label, "the ZIP64 end record is not where its locator says")
        record = _END64.unpack(self._at(at, _END64.size, "the ZIP64 end record"))
        magic, size, _, _, disk, first, here, count, length, start = record
        if magic != b"PK\x06\x06" or size != _END64.size - 12 or disk or first or here != count:
            raise damaged(self._label, "the ZIP64 end record breaks its format")
        return (count, length, start), at

    def _directory(self, count: int, start: int, length: int) -> list[Located]:
        data = self._at(start, length, "the central directory")
        entries = []
        at = 0
        for _ in range(count):
            if at + _CENTRAL.size > length or data[at : at + 4] != b"PK\x01\x02":
                raise damaged(self._label, "the central directory has fewer entries than stated")
            (_, made_by, _, flags, method, _, _, crc, packed, size, *rest) = _CENTRAL.unpack_from(
                data, at
            )
            name_size, extra_size, comment_size, disk, _, attributes, offset = rest
            at += _CENTRAL.size
            name = data[at : at + name_size]
            extra = data[at + name_size : at + name_size + extra_size]
            at += name_size + extra_size + comment_size
            if at > length:
                raise damaged(self._label, "the central directory is cut off")
            text = self._name(name, flags)
            wide = self._extra(extra, text, (size, packed, offset))
            size, packed, offset = wide
            self._flags(text, flags, method)
            if disk:
                raise refused(self._label, text, "lies on another disk")
            member = self._member(text, size, made_by >> 8, attributes)
            entries.append(Located(member, name, flags, method, crc, packed, offset))
        if at != length:
            raise damaged(self._label, "the central directory has more bytes than its entries")
        return entries

    def _name(self, raw: bytes, flags: int) -> str:
        if not raw.isascii() and not flags & _UTF8:
            name = raw.decode("cp437")
            raise refused(self._label, name, "has a name that is neither ASCII nor marked as UTF-8")
        return raw.decode("utf-8", "surrogateescape")

    def _flags(self, name: str, flags: int, method: int) -> None:
        if flags & _ENCRYPTED:
            raise refused(self._label, name, "is encrypted")
        if unknown := flags & ~(_DESCRIPTOR | _UTF8 | _LEVEL):
            raise refused(self._label, name, f"has the unknown flags {unknown:#06x}")
        if method not in (STORED, DEFLATED):
            raise refused(
                self._label,
                name,
                f"is compressed by method {method}; only stored and deflate are read",
            )

    def _member(self, name: str, size: int, system: int, attributes: int) -> Member:
        mode = attributes >> 16 if system == _UNIX else 0
        kind = _KINDS.get(stat.S_IFMT(mode), "unknown")
        if name.endswith("/") or (system != _UNIX and attributes & _DOS_DIRECTORY):
            if kind not in ("file", "directory"):
                raise refused(self._label, name, f"is a {kind} with the name of a directory")
            kind, name = "directory", name[:-1] if name.endswith("/") else name
        if kind == "directory" and size:
            raise refused(self._label, name, f"is a directory with {size} bytes of contents")
        if size > self._limits.file_bytes:
            raise refused(self._label, name, f"is larger than {self._limits.file_bytes} bytes")
        return Member(name, kind, size, bool(mode & stat.S_IXUSR))

    def _extra(self, extra: bytes, name: str, values: tuple[int, ...]) -> tuple[int, ...]:
        """``values`` with those that are marked taken from the ZIP64 field of ``extra``."""
        wide: bytes | None = None
        at = 0
        while at < len(extra):
            if at + 4 > len(extra):
                raise damaged(self._label, f"an extra field of {brief(name)} is cut off")
            kind, size = struct.unpack_from("<2H", extra, at)
            body = extra[at + 4 : at + 4 + size]
            at += 4 + size
            if len(body) != size:
                raise damaged(self._label, f"an extra field of {brief(name)} is cut off")
            if kind == 1:
                if wide is not None:
                    raise refused(self._label, name, "has two ZIP64 fields")
                wide = body
            elif kind == 0x7075 and body[5:] != name.encode("utf-8", "surrogateescape"):
                raise refused(self._label, name, "has another name in its Unicode path field")
            elif kind == 0x9901:
                raise refused(self._label, name, "is encrypted")
        marked = sum(value == SEE_ZIP64_32 for value in values)
        if not marked:
            return values
        if wide is None or len(wide) < 8 * marked:
            raise damaged(self._label, f"the ZIP64 field of {brief(name)} is missing or cut off")
        numbers = iter(struct.unpack_from(f"<{marked}Q", wide))
        return tuple(next(numbers) if value == SEE_ZIP64_32 else value for value in values)

    def _bound(self, entries: list[Located]) -> None:
        """Compare what the entries announce with the allowance, before any is read."""
        total = 0
        for entry in entries:
            total += entry.member.size
            least = entry.member.size if entry.method == STORED else entry.member.size // 1032 - 1
            if entry.packed < least or (entry.method == STORED and entry.packed != least):
                raise damaged(
                    self._label,
                    f"{brief(entry.member.name)}: {entry.member.size} bytes cannot come out of "
                    f"{entry.packed}",
                )
        allowance = self._limits.allowance(self._size)
        if total > allowance:
            raise refused(
                self._label,
                None,
                f"{total} bytes come out of it, more than {allowance}: a decompression bomb",
            )

    def _tile(self, entries: list[Located], directory: int) -> list[Located]:
        """Check the local headers, and that the entries cover the file without overlap."""
        at = 0
        located = []
        for entry in sorted(entries, key=lambda e: e.offset):
            name = entry.member.name
            if entry.offset < at:
                raise refused(self._label, name, "overlaps another entry")
            if entry.offset > at:
                raise refused(
                    self._label, name, f"bytes {at} to {entry.offset} before it belong to no entry"
                )
            data = self._local(entry)
            at = data + entry.packed
            if at > directory:
                raise refused(self._label, name, "overlaps the central directory")
            if entry.flags & _DESCRIPTOR:
                at = self._descriptor(entry, at, directory)
            located.append(replace(entry, data=data))
        if at != directory:
            raise refused(
                self._label,
                None,
                f"bytes {at} to {directory} before its directory belong to no entry",
            )
        return located

    def _local(self, entry: Located) -> int:
        """Compare the local header with the central one; where the data begins."""
        what = f"the local header of {brief(entry.member.name)}"
        head = self._at(entry.offset, _LOCAL.size, what)
        magic, _, flags, method, _, _, crc, packed, size, *lengths = _LOCAL.unpack(head)
        name_size, extra_size = lengths
        if magic != b"PK\x03\x04":
            raise damaged(self._label, f"{what} is not where the directory says")
        rest = self._at(entry.offset + _LOCAL.size, name_size + extra_size, what)
        name, extra = rest[:name_size], rest[name_size:]
        size, packed = self._extra(extra, entry.member.name, (size, packed))
        pairs: list[tuple[str, object, object]] = [
            ("name", name, entry.raw_name),
            ("flags", flags, entry.flags),
            ("method", method, entry.method),
        ]
        # What a streaming writer did not know yet is zero, and stands in the descriptor.
        unknown = 0 if flags & _DESCRIPTOR else None
        pairs += [
            (field, local, central)
            for field, local, central in (
                ("CRC-32", crc, entry.crc),
                ("packed size", packed, entry.packed),
                ("size", size, entry.member.size),
            )
            if local != unknown
        ]
        for field, local, central in pairs:
            if local != central:
                rule = f"its local header and the directory disagree on its {field}"
                raise refused(
                    self._label, entry.member.name, rule, details=(f"{local!r} and {central!r}",)
                )
        return entry.offset + _LOCAL.size + len(rest)

    def _descriptor(self, entry: Located, at: int, directory: int) -> int:
        """The end of the data descriptor at ``at``, which must repeat the directory."""
        size = entry.member.size
        for signature in (b"PK\x07\x08", b""):
            for numbers in ("<3I", "<I2Q"):
                length = len(signature) + struct.calcsize(numbers)
                if at + length > directory:
                    continue
                data = self._at(at, length, "a data descriptor")
                found = struct.unpack(numbers, data[len(signature) :])
                if data.startswith(signature) and found == (entry.crc, entry.packed, size):
                    return at + length
        raise refused(
            self._label, entry.member.name, "its data descriptor and the directory disagree"
        )

    def contents(self, entry: Located) -> Iterator[bytes]:
        """The bytes of one entry, which are exactly as many as announced.

        Raises:
            VerificationError: where size or CRC-32 differ, or the data is damaged.
        """
        raw = self._raw(entry)
        size = crc = 0
        for chunk in raw if entry.method == STORED else self._inflate(entry, raw):
            size += len(chunk)
            if size > entry.member.size:
                raise self._wrong(entry, f"more than the stated {entry.member.size} bytes")
            crc = zlib.crc32(chunk, crc)
            yield chunk
        if size != entry.member.size:
            raise self._wrong(entry, f"{size} bytes, not the stated {entry.member.size}")
        if crc != entry.crc:
            raise self._wrong(entry, f"CRC-32 {crc:08x}, not the stated {entry.crc:08x}")

    def _raw(self, entry: Located) -> Iterator[bytes]:
        at, left = entry.data, entry.packed
        while left:
            chunk = self._at(at, min(left, _READ_BYTES), brief(entry.member.name))
            at += len(chunk)
            left -= len(chunk)
            yield chunk

    def _inflate(self, entry: Located, raw: Iterator[bytes]) -> Iterator[bytes]:
        inflater = zlib.decompressobj(-15)
        try:
            for data in raw:
                if inflater.eof:
                    raise self._wrong(entry, "data behind its end")
                while data:
                    chunk = inflater.decompress(data, _CHUNK_BYTES)
                    data = inflater.unconsumed_tail
                    if chunk:
                        yield chunk
                    elif not inflater.eof and data:
                        raise self._wrong(entry, "a deflate stream that does not go on")
            while not inflater.eof:
                chunk = inflater.decompress(b"", _CHUNK_BYTES)
                if not chunk and not inflater.eof:
                    raise self._wrong(entry, "a deflate stream that ends early")
                yield chunk
        except zlib.error as error:
            raise self._wrong(entry, f"no sound deflate stream ({error})") from error
        if inflater.unused_data:
            raise self._wrong(entry, "data behind its end")

    def _wrong(self, entry: Located, found: str) -> VerificationError:
        return damaged(f"{self._label}: {brief(entry.member.name)}", f"its data gives {found}")
