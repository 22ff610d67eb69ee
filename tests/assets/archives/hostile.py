"""Broken and hostile archives, each with the member and the rule that it must be refused by.

``python hostile.py DIRECTORY`` writes them all out, to try other tools on them.
"""

from __future__ import annotations

import gzip
import stat
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

TOP = "top/"
GOOD = "top/good.txt"


@dataclass(frozen=True)
class Case:
    """One archive, and what its refusal must say."""

    name: str
    data: bytes
    says: str
    """A regular expression found in the error's text."""
    member: str | None = None
    """How the error shows the member's name."""


# --- tar ---------------------------------------------------------------------------------


def member(
    name: str | bytes,
    data: bytes = b"x",
    *,
    kind: bytes = b"0",
    target: str = "",
    size: int | None = None,
    pax: dict[str, str] | None = None,
    magic: bytes = b"ustar\x0000",
    mode: int = 0o644,
) -> bytes:
    """One tar member, whatever nonsense is asked for."""
    raw = name.encode() if isinstance(name, str) else name
    stated = len(data) if size is None else size
    header = bytearray(512)
    header[0 : min(len(raw), 100)] = raw[:100]
    header[100:108] = b"%07o\0" % mode
    header[108:116] = header[116:124] = b"0000000\0"
    header[124:136] = b"%011o\0" % stated
    header[136:148] = b"%011o\0" % 0
    header[156:157] = kind
    header[157 : 157 + len(target)] = target.encode()
    header[257:265] = magic
    return pax_header(pax) + seal(header) + data + bytes(-len(data) % 512)


def seal(header: bytearray) -> bytes:
    """The header with its checksum."""
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def pax_header(records: dict[str, str] | None, kind: bytes = b"x") -> bytes:
    if not records:
        return b""
    body = b""
    for key, value in records.items():
        record = b" " + key.encode() + b"=" + value.encode("utf-8", "surrogateescape") + b"\n"
        length = len(record)
        while len(str(length)) + len(record) != length:
            length = len(str(length)) + len(record)
        body += str(length).encode() + record
    return member("././@PaxHeader", body, kind=kind)


END = bytes(1024)
ONE = member(GOOD, b"good")


def tar(*members: bytes, end: bytes = END) -> bytes:
    return gzip.compress(b"".join(members) + end, mtime=0)


def _names() -> Iterator[tuple[str, str, str, str | None]]:
    """(case, name, rule, how it is shown) for both formats."""
    yield "traversal", "top/../../evil", "leaves its directory", None
    yield "traversal-backslash", "top\\..\\..\\evil", "leaves its directory", "top\\..\\..\\evil"
    yield "absolute", "/etc/evil", "absolute path", None
    yield "drive", "C:/evil", "drive letter", None
    yield "unc-slashes", "//server/share", "UNC path", None
    yield "unc", "\\\\server\\share", "UNC path", "\\\\server\\share"
    yield "backslash", "top\\evil", "backslash", "top\\evil"
    yield "control", "top/a\x1b[31m", "character", "top/a\\x1b[31m"
    yield "newline", "top/a\nb", "character", "top/a\\nb"
    yield "reserved", "top/aux.txt", "Windows reserves", None
    yield "trailing-dot", "top/a.", "dot or a space", None
    yield "trailing-space", "top/a /b", "dot or a space", None
    yield "dot", "top/./a", "component '.'", None
    yield "empty-component", "top//a", "component ''", None
    yield "component-256", "top/" + "n" * 256, "more than 255 bytes", None
    yield "path-2049", "top/" + "n/" * 1022 + "n", "longer than 2048 bytes", "top/n/n"
    yield "nfd", "top/u\u0308", "normal form C", None
    yield "second-top", "other/a", "second top directory", None
    yield "no-top", "evil", "outside of the top directory", None


def _tar_member(name: str) -> bytes:
    """A member of that name, by a pax record where it is long or not ASCII."""
    if name.isascii() and len(name) <= 100:
        return member(name)
    return member(name.encode("ascii", "replace")[:100], pax={"path": name})


def _tar_cases() -> Iterator[Case]:
    for case, name, rule, appears in _names():
        yield Case(
            case,
            tar(ONE, _tar_member(name)),
            rule,
            appears or (None if not name.isascii() else name),
        )
    yield Case("nul", tar(ONE, member("top/a", pax={"path": "top/a\0b"})), "also called|NUL")
    yield Case(
        "nul-long", tar(ONE, member("n" * 100, pax={"path": "n" * 100 + "\0b"})), "NUL", "\\x00b"
    )
    yield Case("not-utf8", tar(ONE, member(b"top/\xff")), "not valid Unicode", "top/\\udcff")
    yield Case("hidden-name", tar(ONE, member(b"top/a\0hidden")), "hides bytes", "top/a")
    yield Case(
        "symlink",
        tar(ONE, member("top/l", b"", kind=b"2", target="/etc/passwd")),
        "is a symlink to /etc/passwd",
        "top/l",
    )
    yield Case(
        "inner-symlink",
        tar(ONE, member("top/l", b"", kind=b"2", target="good.txt")),
        "is a symlink to good.txt",
        "top/l",
    )
    yield Case(
        "hardlink",
        tar(ONE, member("top/l", b"", kind=b"1", target=GOOD)),
        "is a hard link",
        "top/l",
    )
    yield Case(
        "link-contents",
        tar(ONE, member("top/l", b"abc", kind=b"2", target="x")),
        "is a symlink with 3 bytes",
        "top/l",
    )
    yield Case(
        "character-device", tar(ONE, member("top/l", b"", kind=b"3")), "is a device", "top/l"
    )
    yield Case("block-device", tar(ONE, member("top/l", b"", kind=b"4")), "is a device", "top/l")
    yield Case("fifo", tar(ONE, member("top/l", b"", kind=b"6")), "is a fifo", "top/l")
    yield Case(
        "unknown-type", tar(ONE, member("top/l", b"", kind=b"Z")), "type that is not known", "top/l"
    )
    yield Case(
        "gnu-sparse",
        tar(ONE, member("top/l", b"abc", kind=b"S", magic=b"ustar  \0")),
        "sparse file",
        "top/l",
    )
    yield Case(
        "pax-sparse",
        tar(
            ONE,
            member(
                "top/l",
                b"abc",
                pax={
                    "GNU.sparse.major": "1",
                    "GNU.sparse.minor": "0",
                    "GNU.sparse.realsize": "99999999",
                },
            ),
        ),
        "sparse file",
        "top/l",
    )
    yield Case(
        "directory-contents",
        tar(ONE, member("top/d/", b"abc", kind=b"5")),
        "directory with 3 bytes",
        "top/d",
    )
    yield Case("duplicate", tar(ONE, ONE), "stands in the archive twice", GOOD)
    yield Case(
        "case", tar(ONE, member("top/GOOD.txt")), "collides with top/good.txt", "top/GOOD.txt"
    )
    yield Case(
        "case-fold",
        tar(member("top/strasse"), _tar_member("top/stra\u00dfe")),
        "collides with top/strasse",
    )
    yield Case(
        "case-directory",
        tar(member("top/A/x"), member("top/a/y")),
        "collides with top/A",
        "top/a/y",
    )
    yield Case(
        "file-then-directory",
        tar(member("top/d"), member("top/d/x")),
        "needs top/d as a directory",
        "top/d/x",
    )
    yield Case(
        "directory-then-file",
        tar(member("top/d/x"), member("top/d")),
        "is a file and the directory",
        "top/d",
    )
    yield Case(
        "pax-size",
        tar(ONE, member("top/a", b"abc", pax={"size": "700"})),
        "size 3 in one header, 700 in another",
        "top/a",
    )
    yield Case(
        "pax-path", tar(ONE, member("top/a", pax={"path": "top/b"})), "also called top/a", "top/b"
    )
    yield Case(
        "pax-global", tar(pax_header({"path": "top/z"}, b"g"), ONE), "global pax header sets path"
    )
    yield Case(
        "pax-unknown",
        tar(ONE, member("top/a", pax={"hdrcharset": "BINARY"})),
        "unknown record hdrcharset",
    )
    twice = member("././@PaxHeader", b"14 path=top/a\n14 path=top/b\n", kind=b"x")
    yield Case("pax-twice", tar(twice, ONE), "says path twice")
    yield Case(
        "pax-format",
        tar(member("././@PaxHeader", b"99 path=top/a\n", kind=b"x"), ONE),
        "pax record breaks",
    )
    yield Case("pax-alone", tar(ONE, pax_header({"path": "top/a"})), "stands before no member")
    yield Case(
        "pax-two",
        tar(pax_header({"comment": "a"}), pax_header({"path": "top/b"}), ONE),
        "two extended headers",
    )
    yield Case(
        "pax-huge",
        tar(member("././@PaxHeader", b"", kind=b"x", size=2 << 20), bytes(2 << 20)),
        "extended header of 2097152 bytes",
    )
    longlink = member("././@LongLink", b"top/other\0", kind=b"L", magic=b"ustar  \0")
    yield Case(
        "gnu-long-name",
        tar(longlink, member("top/a", magic=b"ustar  \0")),
        "also called top/a",
        "top/other",
    )
    bad = bytearray(ONE)
    bad[0] ^= 1
    yield Case("checksum", tar(bytes(bad)), "does not match its checksum")
    yield Case("magic", tar(member("top/a", magic=b"USTAR\x0000")), "no known magic")
    negative = bytearray(ONE[:512])
    negative[124:136] = b"\xff" * 12
    yield Case("negative-size", tar(seal(negative), ONE[512:]), "for a number")
    yield Case("no-end", tar(ONE, end=b""), "tar stream ends early")
    yield Case("short-contents", tar(ONE[:700], end=b""), "tar stream ends early")
    yield Case("lone-zero-block", tar(ONE, bytes(512), member("top/a")), "lone zero block")
    yield Case("behind-the-end", tar(ONE, end=END + ONE), "behind the end of the tar")
    whole = tar(ONE)
    yield Case("trailing", whole + b"more", "behind the end of the gzip stream")
    yield Case("two-members", whole + whole, "behind the end of the gzip stream")
    yield Case("truncated", whole[:-9], "truncated")
    yield Case("truncated-trailer", whole[:-1], "truncated")
    yield Case("gzip-crc", whole[:-8] + b"\0\0\0\0" + whole[-4:], "not a sound gzip stream")
    yield Case("gzip-length", whole[:-4] + b"\0\0\0\1", "not a sound gzip stream")
    yield Case(
        "flipped",
        whole[:20] + bytes([whole[20] ^ 0xFF]) + whole[21:],
        "not a sound|ends early|checksum|magic",
    )
    yield Case("empty-tar", tar(), "without members")
    yield Case("bomb", tar(member("top/zeros", bytes(80 << 20))), "decompression bomb")
    yield Case(
        "too-large",
        tar(member("top/huge", b"", size=0o77777777777, pax={"size": str(1 << 40)})),
        "larger than",
        "top/huge",
    )


# --- zip ---------------------------------------------------------------------------------

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")


@dataclass
class Entry:
    """One ZIP entry; ``local`` and ``central`` replace fields of one of its two headers."""

    name: bytes
    data: bytes = b"x"
    mode: int = stat.S_IFREG | 0o644
    method: int = 0
    flags: int = 0
    packed: bytes | None = None
    local: dict[str, object] | None = None
    central: dict[str, object] | None = None
    extra: bytes = b""
    before: bytes = b""
    after: bytes = b""


def zipped(
    *entries: Entry,
    start: bytes = b"",
    gap: bytes = b"",
    end: dict[str, int] | None = None,
    tail: bytes = b"",
) -> bytes:
    out = bytearray(start)
    directory = b""
    for entry in entries:
        out += entry.before
        packed = entry.data if entry.packed is None else entry.packed
        fields: dict[str, object] = {
            "name": entry.name,
            "flags": entry.flags,
            "method": entry.method,
            "crc": zlib.crc32(entry.data),
            "packed": len(packed),
            "size": len(entry.data),
            "offset": len(out),
            "made_by": 3 << 8 | 20,
            "attributes": entry.mode << 16,
            "disk": 0,
        }
        here = {**fields, **(entry.local or {})}
        out += _LOCAL.pack(
            b"PK\3\4",
            20,
            here["flags"],
            here["method"],
            0,
            33,
            here["crc"],
            here["packed"],
            here["size"],
            len(here["name"]),
            len(entry.extra),
        )
        out += here["name"] + entry.extra + packed + entry.after
        there = {**fields, **(entry.central or {})}
        directory += _CENTRAL.pack(
            b"PK\1\2",
            there["made_by"],
            20,
            there["flags"],
            there["method"],
            0,
            33,
            there["crc"],
            there["packed"],
            there["size"],
            len(there["name"]),
            len(entry.extra),
            0,
            there["disk"],
            0,
            there["attributes"],
            there["offset"],
        )
        directory += there["name"] + entry.extra
    out += gap
    last = {
        "count": len(entries),
        "here": len(entries),
        "length": len(directory),
        "start": len(out),
        "disk": 0,
        "comment": 0,
        **(end or {}),
    }
    out += directory
    out += _END.pack(
        b"PK\5\6",
        last["disk"],
        0,
        last["here"],
        last["count"],
        last["length"],
        last["start"],
        last["comment"],
    )
    return bytes(out) + tail


FINE = Entry(b"top/good.txt", b"good")


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return stream.compress(data) + stream.flush()


def _zip_cases() -> Iterator[Case]:
    for case, name, rule, appears in _names():
        flags = 0 if name.isascii() else 0x800
        yield Case(
            case,
            zipped(FINE, Entry(name.encode(), flags=flags)),
            rule,
            appears or (None if not name.isascii() else name),
        )
    a = b"top/a"
    for case, kind, rule in (
        ("symlink", stat.S_IFLNK, "is a symlink"),
        ("fifo", stat.S_IFIFO, "is a fifo"),
        ("socket", stat.S_IFSOCK, "is a socket"),
        ("character-device", stat.S_IFCHR, "is a device"),
        ("block-device", stat.S_IFBLK, "is a device"),
    ):
        yield Case(case, zipped(FINE, Entry(a, mode=kind | 0o777)), rule, "top/a")
    yield Case("nul", zipped(FINE, Entry(b"top/a\0b")), "NUL", "top/a\\x00b")
    yield Case("not-utf8", zipped(FINE, Entry(b"top/\xff", flags=0x800)), "not valid Unicode")
    yield Case("unmarked-name", zipped(FINE, Entry(b"top/\xff")), "neither ASCII nor marked")
    yield Case("duplicate", zipped(FINE, FINE), "stands in the archive twice", GOOD)
    yield Case("case", zipped(FINE, Entry(b"top/Good.txt")), "collides with", "top/Good.txt")
    yield Case(
        "file-then-directory",
        zipped(Entry(b"top/d"), Entry(b"top/d/x")),
        "needs top/d as a directory",
    )
    yield Case(
        "directory-link",
        zipped(FINE, Entry(b"top/d/", b"", mode=stat.S_IFLNK)),
        "symlink with the name of a directory",
    )
    yield Case(
        "directory-contents",
        zipped(FINE, Entry(b"top/d/", b"abc", mode=stat.S_IFDIR)),
        "directory with 3 bytes",
    )
    yield Case("encrypted", zipped(FINE, Entry(a, flags=1)), "is encrypted", "top/a")
    yield Case("strongly-encrypted", zipped(FINE, Entry(a, flags=0x41)), "is encrypted", "top/a")
    yield Case("patched-flag", zipped(FINE, Entry(a, flags=0x20)), "unknown flags", "top/a")
    for method in (1, 9, 12, 14, 93, 99):
        yield Case(
            f"method-{method}", zipped(FINE, Entry(a, method=method)), f"method {method}", "top/a"
        )
    for field, value in (
        ("name", b"top/b"),
        ("flags", 0x800),
        ("method", 8),
        ("crc", 1),
        ("packed", 2),
        ("size", 2),
    ):
        words = {"crc": "CRC-32", "packed": "packed size"}.get(field, field)
        yield Case(
            f"local-{field}",
            zipped(FINE, Entry(a, local={field: value})),
            f"disagree on its {words}",
            "top/a",
        )
    yield Case(
        "overlap",
        zipped(FINE, Entry(a, central={"offset": 0})),
        "overlaps another entry",
    )
    yield Case("quoted-overlap", _quoted(), "overlaps another entry", None)
    yield Case("before-first", zipped(FINE, start=b"MZ stub"), "belong to no entry|starts with")
    yield Case("gap", zipped(FINE, Entry(a, before=b"hidden")), "belong to no entry", "top/a")
    yield Case("gap-last", zipped(FINE, gap=b"hidden"), "belong to no entry")
    yield Case("trailing", zipped(FINE, tail=b"more"), "no end record")
    fake = _END.pack(b"PK\5\6", 0, 0, 0, 0, 0, 0, 0)
    yield Case("two-ends", zipped(FINE, end={"comment": len(fake)}, tail=fake), "two end records")
    yield Case("truncated", zipped(FINE)[:-1], "truncated")
    yield Case("truncated-middle", zipped(FINE)[:40], "truncated")
    yield Case("disks", zipped(FINE, end={"disk": 1}), "several disks")
    yield Case("entry-disk", zipped(FINE, Entry(a, central={"disk": 1})), "another disk", "top/a")
    yield Case("fewer", zipped(FINE, end={"count": 2, "here": 2}), "fewer entries")
    yield Case(
        "more", zipped(FINE, Entry(a), end={"count": 1, "here": 1}), "more bytes than its entries"
    )
    yield Case("directory-place", zipped(FINE, end={"start": 3}), "central directory ends at")
    yield Case(
        "zip64-missing", zipped(FINE, end={"start": 0xFFFFFFFF}), "ZIP64 end record is missing"
    )
    yield Case("zip64-counts", _two_counts(), "two end records disagree")
    yield Case(
        "zip64-extra-missing", zipped(FINE, Entry(a, central={"size": 0xFFFFFFFF})), "ZIP64 field"
    )
    yield Case("extra-cut", zipped(FINE, Entry(a, extra=b"\1\0\x10\0abc")), "cut off")
    path = b"\1" + bytes(4) + b"top/z"
    yield Case(
        "unicode-path",
        zipped(FINE, Entry(a, extra=struct.pack("<2H", 0x7075, len(path)) + path)),
        "another name",
        "top/a",
    )
    yield Case(
        "aes", zipped(FINE, Entry(a, extra=struct.pack("<2H", 0x9901, 0))), "is encrypted", "top/a"
    )
    yield Case(
        "crc",
        zipped(FINE, Entry(a, b"abc", local={"crc": 1}, central={"crc": 1})),
        "CRC-32",
        "top/a",
    )
    text = b"text " * 400
    deflated = raw_deflate(text)
    yield Case(
        "deflate-cut",
        zipped(FINE, Entry(a, text, method=8, packed=deflated[:-3])),
        "ends early",
        "top/a",
    )
    yield Case(
        "deflate-more",
        zipped(FINE, Entry(a, text, method=8, packed=deflated + b"more")),
        "behind its end",
        "top/a",
    )
    yield Case(
        "deflate-noise",
        zipped(FINE, Entry(a, text, method=8, packed=b"\xff" * len(deflated))),
        "no sound deflate",
        "top/a",
    )
    fields: dict[str, object] = {"size": 1500}
    yield Case(
        "size-small",
        zipped(FINE, Entry(a, text, method=8, packed=deflated, local=fields, central=fields)),
        "more than the stated 1500",
        "top/a",
    )
    fields = {"size": 2500}
    yield Case(
        "size-large",
        zipped(FINE, Entry(a, text, method=8, packed=deflated, local=fields, central=fields)),
        "2000 bytes, not the stated 2500",
        "top/a",
    )
    fields = {"size": 5 << 20}
    yield Case(
        "size-impossible",
        zipped(FINE, Entry(a, text, method=8, packed=deflated, local=fields, central=fields)),
        "cannot come out",
        "top/a",
    )
    zeros = bytes(80 << 20)
    yield Case(
        "bomb", zipped(Entry(a, zeros, method=8, packed=raw_deflate(zeros))), "decompression bomb"
    )
    no = {"crc": 0, "packed": 0, "size": 0}
    descriptor = struct.pack("<4s3I", b"PK\7\10", 1, 1, 1)
    yield Case(
        "descriptor",
        zipped(FINE, Entry(a, flags=8, local=dict(no), after=descriptor)),
        "data descriptor",
        "top/a",
    )
    yield Case("empty-zip", zipped(), "without members")


def _two_counts() -> bytes:
    """A ZIP64 end record that counts two entries before an end record that counts one."""
    plain = zipped(FINE, FINE)
    at = plain.index(b"PK\5\6")
    start = plain.index(b"PK\1\2")
    wide = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, at - start, start)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, at, 1)
    short = _END.pack(b"PK\5\6", 0, 0, 1, 1, at - start, start, 0)
    return plain[:at] + wide + locator + short


def _quoted() -> bytes:
    """Two entries that share data: the first one's contents are the second one's header."""
    inner = zipped(Entry(b"top/b", b"shared"))
    local = inner[: inner.index(b"PK\1\2")]
    return zipped(Entry(b"top/a", local), Entry(b"top/b", b"shared", central={"offset": 35}))


def _other_cases() -> Iterator[Case]:
    yield Case("empty", b"", "an empty file")
    yield Case("text", b"hello, world", "starts with")
    yield Case("plain-tar", ONE + END, "starts with")
    yield Case("gzip-head", b"\x1f\x8b", "truncated|ends early")
    yield Case("zip-head", b"PK\3\4", "truncated|beyond the end")


def cases() -> list[Case]:
    """Every case, its name led by its format."""
    made: list[Case] = []
    groups: tuple[tuple[str, Callable[[], Iterator[Case]]], ...] = (
        ("tar", _tar_cases),
        ("zip", _zip_cases),
        ("other", _other_cases),
    )
    for group, make in groups:
        made += [Case(f"{group}-{c.name}", c.data, c.says, c.member) for c in make()]
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for case in cases():
        (folder / case.name).write_bytes(case.data)
