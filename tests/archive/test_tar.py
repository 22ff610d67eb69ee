from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from artifact.archive import untar
from artifact.archive.limits import DEFAULT
from artifact.archive.tar import MAX_USTAR_SIZE, member_header
from artifact.errors import VerificationError


class Raw:
    """A tar stream without its gzip layer."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, count: int) -> bytes:
        return self._file.read(count)


def parsed(header: bytes) -> tarfile.TarInfo:
    with tarfile.open(fileobj=io.BytesIO(header + bytes(1024)), mode="r:") as tar:
        info = tar.next()
        assert info is not None
        return info


@pytest.mark.parametrize(
    ("path", "blocks"),
    [
        ("a" * 100, 1),
        ("a" * 101, 3),
        ("p" * 155 + "/" + "n" * 100, 1),
        ("p" * 156 + "/" + "n" * 99, 3),
        ("p" * 154 + "/q/" + "n" * 100, 3),
        ("p" * 10 + "/" + "n" * 101, 3),
        ("p/" * 90 + "n" * 50, 1),
        ("é", 3),
    ],
)
def test_ustar_where_it_fits_and_pax_where_not(path: str, blocks: int) -> None:
    header = member_header(path, 5, False, 10)
    assert len(header) == 512 * blocks
    info = parsed(header)
    assert (info.name, info.size, info.mode, info.mtime) == (path, 5, 0o644, 10)
    assert bool(info.pax_headers) == (blocks == 3)
    assert header[-512:-412].isascii(), "what a reader without pax sees is a name too"


@pytest.mark.parametrize("size", [MAX_USTAR_SIZE, MAX_USTAR_SIZE + 1, 9 << 33])
def test_sizes_beyond_eleven_octal_digits(size: int) -> None:
    header = member_header("top/huge", size, True, 0)
    info = parsed(header)
    assert (info.size, info.mode) == (size, 0o755)
    assert info.pax_headers == ({} if size <= MAX_USTAR_SIZE else {"size": str(size)})
    limits = DEFAULT.__class__(file_bytes=1 << 40)
    member, _ = next(untar.walk(Raw(header + bytes(1024)), "x", limits))  # type: ignore[arg-type]
    assert (member.size, member.executable) == (size, True)
    listing = subprocess.run(["tar", "tvf", "-"], input=header, capture_output=True, check=False)
    assert str(size).encode() in listing.stdout


def test_the_length_of_a_pax_record_counts_itself() -> None:
    # Around 97 and 98 bytes the length itself grows a digit.
    for length in range(80, 1100):
        path = "é" + "x" * (length - 2)
        assert parsed(member_header(path, 0, False, 0)).name == path


def test_bsdtars_marker_for_a_large_size(tmp_path: Path) -> None:
    header = bytearray(member_header("top/huge", MAX_USTAR_SIZE + 1, False, 0))
    last = header[-512:]
    last[124:136] = b"%011o\0" % MAX_USTAR_SIZE
    last[148:156] = b" " * 8
    last[148:156] = b"%06o\0 " % sum(last)
    data = bytes(header[:-512] + last) + bytes(1024)
    with pytest.raises(VerificationError):
        list(untar.walk(Raw(data), "x", DEFAULT))  # type: ignore[arg-type]
    member, _ = next(untar.walk(Raw(data), "x", DEFAULT))  # type: ignore[arg-type]
    assert member.size == MAX_USTAR_SIZE + 1
