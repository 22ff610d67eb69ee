from __future__ import annotations

import struct
import subprocess
import zipfile
from pathlib import Path

import pytest

import artifact.archive.zip as writer_module
from artifact.archive.deflate import BlockPool, select
from artifact.archive.limits import Limits
from artifact.archive.reader import open_archive
from artifact.archive.zip import ZipWriter, dos_time
from artifact.integrity.documents import Deflate

PIN = Deflate("zlib-ng", "1.1.0", "2.3.3", 1, 1 << 20)


def compressor():
    return select(PIN, allow_other=True)


@pytest.mark.parametrize("mtime", [0, 315532799, 315532801, 4354819200])
def test_times_that_dos_does_not_have(mtime: int) -> None:
    with pytest.raises(ValueError, match="no DOS time"):
        dos_time(mtime)


def test_the_first_and_the_last_dos_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/St_Johns")
    assert dos_time(315532800) == (0, 0x21)
    assert dos_time(4354819198) == (0xBF7D, 0xFF9F)


def test_zip64_below_lowered_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of large archives, at sizes that a test can afford, read by everybody."""
    monkeypatch.setattr(writer_module, "LIMIT_32", 100_000)
    monkeypatch.setattr(writer_module, "LIMIT_16", 3)
    contents = {
        "top/a": bytes(range(256)) * 500,
        "top/b": b"small",
        "top/c": b"z" * 150_000,
        "top/d": b"",
    }
    path = tmp_path / "x.zip"
    with path.open("w+b") as sink, BlockPool(compressor(), 2) as pool:
        writer = ZipWriter(sink, pool, mtime=1789948800)
        for name, data in contents.items():
            writer.begin(name, len(data), False)
            writer.write(data)
            writer.end()
        writer.finish()
    data = path.read_bytes()
    marks = b"\xff" * 8 + struct.pack("<2H", 5, 20) + b"top/a" + struct.pack("<2HQ", 1, 16, 128_000)
    assert marks in data, "both sizes of a local header are in its ZIP64 field"
    assert b"PK\x06\x06" in data and b"PK\x06\x07" in data
    with open_archive(path) as archive:
        assert archive.require_clean() == "top"
        assert {m.name: b"".join(chunks) for m, chunks in archive.walk()} == contents
    with zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == contents
        versions = {e.filename: e.extract_version for e in archive.infolist()}
    assert versions == {"top/a": 45, "top/b": 20, "top/c": 45, "top/d": 20}
    subprocess.run(["unzip", "-tq", path], check=True, capture_output=True)


def test_no_zip64_where_it_is_not_needed(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with path.open("w+b") as sink, BlockPool(compressor(), 2) as pool:
        writer = ZipWriter(sink, pool, mtime=1789948800)
        writer.begin("top/a", 3, False)
        writer.write(b"abc")
        writer.end()
        writer.finish()
    assert b"PK\x06\x06" not in path.read_bytes()


def test_65536_files(tmp_path: Path) -> None:
    count = 65536
    path = tmp_path / "x.zip"
    with path.open("w+b") as sink, BlockPool(compressor(), 2) as pool:
        writer = ZipWriter(sink, pool, mtime=1789948800)
        for i in range(count):
            writer.begin(f"top/{i:05}", 0, False)
            writer.end()
        writer.finish()
    with open_archive(path) as archive:
        assert len(archive.members) == count
        assert archive.require_clean() == "top"
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == count
    subprocess.run(["unzip", "-tqq", path], check=True, capture_output=True)


def test_a_file_over_4_gib(tmp_path: Path) -> None:
    """For real, since nothing else shows that 32-bit fields overflow as they should."""
    size = (4 << 30) + 5
    path = tmp_path / "x.zip"
    zeros = bytes(1 << 22)
    with path.open("w+b") as sink, BlockPool(compressor(), 2) as pool:
        writer = ZipWriter(sink, pool, mtime=1789948800)
        writer.begin("top/huge", size, False)
        for _ in range(size // len(zeros)):
            writer.write(zeros)
        writer.write(bytes(5))
        writer.end()
        writer.begin("top/small", 3, False)
        writer.write(b"abc")
        writer.end()
        writer.finish()
    with open_archive(path, Limits(ratio=1100)) as archive:
        assert archive.require_clean() == "top"
        assert [m.size for m in archive.members] == [size, 3]
    with zipfile.ZipFile(path) as archive:
        huge, small = archive.infolist()
        assert (huge.file_size, huge.extract_version, small.extract_version) == (size, 45, 20)
        assert archive.read(small) == b"abc"
    listing = subprocess.run(["unzip", "-l", path], check=True, capture_output=True, text=True)
    assert str(size) in listing.stdout
