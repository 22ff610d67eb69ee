"""Reading tar strictly: what two tar readers could take for different things is an error.

Python's tarfile forgives much (a bad header ends the archive silently, a pax record
overrides anything), and what one reader forgives another takes for something else. Taken
are USTAR, pax, and GNU's long names, so that an archive that another tool packed can be
verified too.
"""

from __future__ import annotations

from collections.abc import Iterator

from artifact.archive.gzipped import GzipInput
from artifact.archive.limits import Limits
from artifact.archive.members import Member, MemberKind, brief, damaged, refused
from artifact.archive.tar import BLOCK, MAX_USTAR_SIZE

_CHUNK_BYTES = 256 * 1024
_EXECUTABLE = 0o100

_KINDS: dict[bytes, MemberKind] = {
    b"\0": "file",
    b"0": "file",
    b"1": "hard link",
    b"2": "symlink",
    b"3": "device",
    b"4": "device",
    b"5": "directory",
    b"6": "fifo",
    b"S": "sparse file",
}

#: Records that say nothing about what a member is.
_HARMLESS = frozenset({"mtime", "atime", "ctime", "uid", "gid", "uname", "gname", "comment"})
_HARMLESS_VENDORS = ("SCHILY.", "LIBARCHIVE.")


def walk(stream: GzipInput, label: str, limits: Limits) -> Iterator[tuple[Member, Iterator[bytes]]]:
    """Every member with its contents, which must be read before the next is asked for.

    Contents that were not read are skipped. The archive has been read to its very end
    when the iteration ends.

    Raises:
        VerificationError: where the archive is truncated, breaks the format, says two
            different things of one member, or exceeds a limit.
    """
    reader = _Reader(stream, label, limits)
    while (member := reader.header()) is not None:
        body = reader.body(member.size)
        yield member, body
        for _ in body:
            pass
        reader.pad(member.size)
    reader.rest()


class _Reader:
    def __init__(self, stream: GzipInput, label: str, limits: Limits) -> None:
        self._stream = stream
        self._label = label
        self._limits = limits
        self._count = 0

    def _exactly(self, count: int) -> bytes:
        data = self._stream.read(count)
        if len(data) != count:
            raise damaged(self._label, "the tar stream ends early: the archive is truncated")
        return data

    def body(self, size: int) -> Iterator[bytes]:
        """The next ``size`` bytes."""
        while size:
            chunk = self._exactly(min(size, _CHUNK_BYTES))
            size -= len(chunk)
            yield chunk

    def pad(self, size: int) -> None:
        """Skip what fills the last block."""
        self._exactly(-size % BLOCK)

    def rest(self) -> None:
        """Read to the end behind the end mark, where only zeros may stand."""
        if any(self._exactly(BLOCK)):
            raise damaged(self._label, "one lone zero block stands where the archive should end")
        while data := self._stream.read(_CHUNK_BYTES):
            if any(data):
                raise refused(self._label, None, "data stands behind the end of the tar archive")

    def header(self) -> Member | None:
        """The next member, or None at the end mark."""
        records: dict[str, str] = {}
        long_name: bytes | None = None
        while True:
            block = self._exactly(BLOCK)
            if not any(block):
                if records or long_name is not None:
                    raise damaged(self._label, "an extended header stands before no member")
                return None
            self._check(block)
            kind = block[156:157]
            if kind in b"xgL":
                size = self._number(block[124:136])
                if size > self._limits.header_bytes:
                    raise refused(self._label, None, f"an extended header of {size} bytes")
                data = self._exactly(size)
                self.pad(size)
                if kind == b"L":
                    if long_name is not None or records:
                        raise refused(self._label, None, "two extended headers for one member")
                    long_name = data.removesuffix(b"\0")
                elif kind == b"x":
                    if long_name is not None or records:
                        raise refused(self._label, None, "two extended headers for one member")
                    records = self._pax(data)
                else:
                    self._global(self._pax(data))
                continue
            self._count += 1
            if self._count > self._limits.members:
                raise refused(self._label, None, f"more than {self._limits.members} members")
            return self._member(block, records, long_name)

    def _check(self, block: bytes) -> None:
        """A header's magic and checksum."""
        if block[257:265] not in (b"ustar\x0000", b"ustar  \0", bytes(8)):
            raise damaged(self._label, "a tar header has no known magic number")
        stated = self._number(block[148:156])
        if stated != sum(block[:148]) + 8 * 32 + sum(block[156:]):
            raise damaged(self._label, "a tar header does not match its checksum")

    def _number(self, field: bytes) -> int:
        """A number in octal, or in GNU's base 256."""
        if field[0] == 0x80:
            return int.from_bytes(field[1:], "big")
        text = field.strip(b" \0")
        if text.translate(None, b"01234567"):
            raise damaged(self._label, f"a tar header holds {field!r} for a number")
        return int(text or b"0", 8)

    def _text(self, field: bytes) -> bytes:
        """A text that ends at its first NUL, behind which nothing may hide."""
        text, _, rest = field.partition(b"\0")
        if any(rest):
            raise refused(self._label, brief(_decode(text)), "hides bytes behind its name's end")
        return text

    def _member(self, block: bytes, records: dict[str, str], long_name: bytes | None) -> Member:
        short = self._text(block[:100])
        # GNU's magic stands for another layout, which has times where USTAR has a prefix.
        if block[257:265] == b"ustar\x0000" and (prefix := self._text(block[345:500])):
            short = prefix + b"/" + short
        name = _decode(short)
        if long_name is not None:
            name = _decode(long_name)
            if not long_name.startswith(short[:100]):
                raise refused(self._label, name, f"is also called {brief(_decode(short))}")
        elif "path" in records:
            name = records["path"]
            if name.isascii() and len(name) <= 100 and name != _decode(short):
                raise refused(self._label, name, f"is also called {brief(_decode(short))}")
        kind = _KINDS.get(block[156:157], "unknown")
        if any(key.startswith("GNU.sparse.") for key in records):
            kind = "sparse file"
        if kind in ("file", "directory") and name.endswith("/"):
            # Before USTAR had a type for them, a directory was a file whose name ends so.
            kind, name = "directory", name.rstrip("/")
        size = self._size(block, records, name)
        if size and kind not in ("file", "sparse file", "unknown"):
            raise refused(self._label, name, f"is a {kind} with {size} bytes of contents")
        if size > self._limits.file_bytes:
            raise refused(self._label, name, f"is larger than {self._limits.file_bytes} bytes")
        target = None
        if kind in ("symlink", "hard link"):
            target = records.get("linkpath") or _decode(block[157:257].partition(b"\0")[0])
        executable = bool(self._number(block[100:108]) & _EXECUTABLE)
        return Member(name, kind, size, executable, target)

    def _size(self, block: bytes, records: dict[str, str], name: str) -> int:
        stated = self._number(block[124:136])
        if "size" not in records:
            return stated
        text = records["size"]
        if not (text.isascii() and text.isdigit() and len(text) <= 20):
            raise damaged(self._label, f"a pax record gives the size {text!r}")
        size = int(text)
        # A size that USTAR cannot hold leaves its field empty (ours, GNU tar) or full (bsdtar).
        too_large = size > MAX_USTAR_SIZE and stated in (0, MAX_USTAR_SIZE)
        if size != stated and not too_large:
            raise refused(
                self._label, name, f"has the size {stated} in one header, {size} in another"
            )
        return size

    def _pax(self, data: bytes) -> dict[str, str]:
        records: dict[str, str] = {}
        while data:
            digits, space, _ = data.partition(b" ")
            length = int(digits) if digits.isdigit() and len(digits) < 9 else 0
            record = data[:length]
            key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
            if not (space and equals and key and record.endswith(b"\n") and len(record) == length):
                raise damaged(self._label, "a pax record breaks its format")
            data = data[length:]
            name, text = _decode(key), _decode(value)
            if name in records:
                raise refused(self._label, None, f"a pax header says {brief(name)} twice")
            known = name in _HARMLESS or name in ("path", "size", "linkpath")
            vendor = name.startswith((*_HARMLESS_VENDORS, "GNU.sparse."))
            if name == "hdrcharset" and text == "ISO-IR 10646 2000 UTF-8":
                continue
            if not known and not vendor:
                raise refused(
                    self._label, None, f"a pax header has the unknown record {brief(name)}"
                )
            records[name] = text
        return records

    def _global(self, records: dict[str, str]) -> None:
        for name in records:
            if name not in _HARMLESS:
                raise refused(
                    self._label, None, f"a global pax header sets {brief(name)} of all members"
                )


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
