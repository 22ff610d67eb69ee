"""What both writers and the reader must do together, against the real tools."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artifact.archive.deflate import BlockPool, installed_package, select
from artifact.archive.reader import open_archive
from artifact.archive.tar import TarGzWriter
from artifact.archive.zip import ZipWriter
from artifact.integrity.compressor import runtime_version
from artifact.integrity.documents import Deflate
from artifact.model.portable import path_problem

WRITERS = {"tar.gz": TarGzWriter, "zip": ZipWriter}
MTIME = 1789948800
BLOCK = 65536

Files = dict[str, tuple[bytes, bool]]


def write(
    path: Path, files: Files, form: str, *, threads: int = 2, implementation: str = "zlib-ng"
) -> bytes:
    package = installed_package(implementation)
    pin = Deflate(implementation, package, runtime_version(implementation), 6, BLOCK)
    with path.open("w+b") as sink, BlockPool(select(pin), threads) as pool:
        writer = WRITERS[form](sink, pool, mtime=MTIME)
        for name in sorted(files, key=str.encode):
            data, executable = files[name]
            writer.begin(f"top/{name}", len(data), executable)
            writer.write(data[:7])
            writer.write(data[7:])
            writer.end()
        writer.finish()
    return path.read_bytes()


def read(path: Path) -> Files:
    with open_archive(path) as archive:
        assert archive.require_clean() == "top"
        return {
            m.name.removeprefix("top/"): (b"".join(chunks), m.executable)
            for m, chunks in archive.walk()
        }


_CHARACTERS = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))
_COMPONENT = st.text(_CHARACTERS, min_size=1, max_size=60) | st.sampled_from(
    ["a", "b" * 100, "c" * 155, "d" * 255, "e" * 99, "é" * 100, "f" * 156]
)
_PATH = st.lists(_COMPONENT, min_size=1, max_size=5).map("/".join)


def _fits(paths: list[str]) -> bool:
    """Whether these paths can stand in one tree: portable, and no two are one in any way."""
    import unicodedata

    seen: dict[str, str] = {}
    for path in paths:
        if path_problem(path) or len(path.encode()) > 2000:
            return False
        parts = path.split("/")
        for i in range(1, len(parts) + 1):
            part = "/".join(parts[:i])
            if i < len(parts) and part in paths:
                return False
            if seen.setdefault(unicodedata.normalize("NFC", part.casefold()), part) != part:
                return False
    return True


_CONTENTS = (
    st.binary(max_size=300)
    | st.integers(0, 3 * BLOCK).map(bytes)
    | st.integers(1, 40).map(lambda n: bytes(range(256)) * 17 * n)
)
_FILES = st.dictionaries(_PATH, st.tuples(_CONTENTS, st.booleans()), min_size=1, max_size=8).filter(
    lambda files: _fits(list(files))
)


@pytest.mark.parametrize("form", WRITERS)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(files=_FILES)
def test_round_trip(form: str, tmp_path: Path, files: Files) -> None:
    path = tmp_path / "x"
    data = write(path, files, form)
    assert read(path) == files
    assert write(path, dict(reversed(files.items())), form, threads=1) == data
    if form == "tar.gz":
        with tarfile.open(path) as tar:
            found = {}
            for info in tar:
                assert (info.uid, info.gid, info.uname, info.gname) == (0, 0, "", "")
                assert info.mtime == MTIME and info.mode in (0o644, 0o755)
                found[info.name] = (tar.extractfile(info).read(), bool(info.mode & 0o100))
    else:
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            found = {}
            for entry in archive.infolist():
                mode = entry.external_attr >> 16
                assert mode in (0o100644, 0o100755) and entry.create_system == 3
                assert entry.date_time == (2026, 9, 21, 0, 0, 0)
                found[entry.filename] = (archive.read(entry), bool(mode & 0o100))
    assert found == {f"top/{name}": entry for name, entry in files.items()}


REAL: Files = {
    "a.sh": (b"#!/bin/sh\n", True),
    "data/empty": (b"", False),
    "data/large": (bytes(range(256)) * 2000, False),
    "data/ünïcode/名.txt": (b"text", False),
    "deep/" + "d" * 200 + "/" + "e" * 255: (b"pax", False),
    "deep/" + "f" * 120 + "/" + "g" * 90: (b"prefix", False),
}


def test_gnu_tar_reads_ours(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    write(path, REAL, "tar.gz")
    listing = subprocess.run(
        ["tar", "tvzf", path, "--utc", "--full-time", "--quoting-style=literal"],
        check=True,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )
    lines = sorted(listing.stdout.splitlines())
    assert listing.stderr == "" and len(lines) == len(REAL)
    assert lines[-1].startswith("-rwxr-xr-x 0/0 ") and lines[-1].endswith(
        "2026-09-21 00:00:00 top/a.sh"
    )
    assert all(line.startswith("-rw-r--r-- 0/0 ") for line in lines[:-1])
    done = subprocess.run(["tar", "xzf", path, "-C", tmp_path], check=True, capture_output=True)
    assert done.stderr == b""
    for name, (data, executable) in REAL.items():
        assert (tmp_path / "top" / name).read_bytes() == data
        assert bool((tmp_path / "top" / name).stat().st_mode & 0o100) == executable
    subprocess.run(["gzip", "-t", path], check=True)


def test_unzip_reads_ours(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    write(path, REAL, "zip")
    tested = subprocess.run(["unzip", "-t", path], check=True, capture_output=True, text=True)
    assert f"No errors detected in compressed data of {path}" in tested.stdout
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    subprocess.run(["unzip", "-q", path, "-d", tmp_path], check=True, env=environment)
    for name, (data, executable) in REAL.items():
        assert (tmp_path / "top" / name).read_bytes() == data
        assert bool((tmp_path / "top" / name).stat().st_mode & 0o100) == executable


def test_pax_records_stand_only_where_they_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    write(path, REAL, "tar.gz")
    with tarfile.open(path) as tar:
        headers = {info.name.removeprefix("top/"): info.pax_headers for info in tar}
    assert {name: sorted(records) for name, records in headers.items() if records} == {
        "data/ünïcode/名.txt": ["path"],
        "deep/" + "d" * 200 + "/" + "e" * 255: ["path"],
    }


def test_the_utf8_flag_stands_only_where_it_says_something(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    write(path, REAL, "zip")
    with zipfile.ZipFile(path) as archive:
        flags = {
            entry.filename.removeprefix("top/"): entry.flag_bits for entry in archive.infolist()
        }
        assert not any(entry.extra for entry in archive.infolist())
    assert {name for name, flag in flags.items() if flag} == {"data/ünïcode/名.txt"}
    assert set(flags.values()) == {0, 0x800}


def test_what_does_not_become_smaller_is_stored(tmp_path: Path) -> None:
    import os

    noise = os.urandom(BLOCK)
    files: Files = {
        "empty": (b"", False),
        "noise": (noise * 3, False),
        "one": (b"x", False),
        "text": (b"text " * 1000, False),
        # Only the first block decides, so that nothing has to be written twice.
        "text-then-noise": (b"t" * BLOCK + noise, False),
    }
    path = tmp_path / "x.zip"
    write(path, files, "zip")
    with zipfile.ZipFile(path) as archive:
        methods = {e.filename.removeprefix("top/"): e.compress_type for e in archive.infolist()}
    assert methods == {"empty": 0, "noise": 0, "one": 0, "text": 8, "text-then-noise": 8}
    assert read(path) == files


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("implementation", ["zlib", "zlib-ng"])
def test_bytes_do_not_depend_on_threads(form: str, implementation: str, tmp_path: Path) -> None:
    files = {f"f{i}": (bytes(range(i, 256)) * (i * 37), i % 2 == 0) for i in range(40)}
    first, *others = (
        write(tmp_path / "x", files, form, threads=threads, implementation=implementation)
        for threads in (1, 2, 3, 8)
    )
    assert all(other == first for other in others)


@pytest.mark.parametrize("form", WRITERS)
def test_a_writer_holds_its_caller_to_the_size(form: str, tmp_path: Path) -> None:
    pin = Deflate("zlib", None, runtime_version("zlib"), 6, BLOCK)
    with (tmp_path / "x").open("w+b") as sink, BlockPool(select(pin), 1) as pool:
        writer = WRITERS[form](sink, pool, mtime=MTIME)
        writer.begin("top/a", 3, False)
        with pytest.raises(ValueError, match="more bytes"):
            writer.write(b"abcd")
        writer.write(b"ab")
        with pytest.raises(ValueError, match="1 bytes of the"):
            writer.end()
        with pytest.raises(ValueError, match="before"):
            writer.begin("top/b", 0, False)


def test_the_gzip_header_says_nothing_that_varies(tmp_path: Path) -> None:
    data = write(tmp_path / "named.tar.gz", REAL, "tar.gz")
    assert data[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"
    assert b"named" not in data


def test_an_archive_is_padded_as_tar_does(tmp_path: Path) -> None:
    import gzip

    raw = gzip.decompress(write(tmp_path / "x", REAL, "tar.gz"))
    assert len(raw) % 10240 == 0
    listed = io.BytesIO(raw)
    with tarfile.open(fileobj=listed) as tar:
        assert len(tar.getmembers()) == len(REAL)
