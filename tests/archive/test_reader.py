from __future__ import annotations

import io
import re
import subprocess
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from artifact.archive.limits import DEFAULT, Limits
from artifact.archive.reader import open_archive
from artifact.archive.unpack import unpack
from artifact.errors import EnvironmentUnmet, VerificationError

from .conftest import load

hostile = load("hostile")
CASES = hostile.cases()


def read_all(path: Path, limits: Limits = DEFAULT) -> dict[str, bytes]:
    with open_archive(path, limits) as archive:
        archive.require_clean()
        return {m.name: b"".join(chunks) for m, chunks in archive.walk() if m.kind == "file"}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_hostile_archive_is_refused_before_anything_is_written(case, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(case.data)
    with pytest.raises(VerificationError) as caught:
        read_all(path)
    text = caught.value.render()
    assert re.search(case.says, text), text
    if case.member is not None:
        assert case.member in text
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(VerificationError):
        unpack(path, into)
    assert list(into.iterdir()) == []
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_limits(form: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if form == "tar":
        path.write_bytes(hostile.tar(*(hostile.member(f"top/{i}", b"abc") for i in range(5))))
    else:
        entries = [hostile.Entry(f"top/{i}".encode(), b"abc") for i in range(5)]
        path.write_bytes(hostile.zipped(*entries))
    assert len(read_all(path)) == 5
    tight = {
        "more than 4 members": replace(DEFAULT, members=4),
        "larger than 2 bytes": replace(DEFAULT, file_bytes=2),
        "decompression bomb": replace(DEFAULT, total_bytes=14),
        "a decompression bomb": replace(DEFAULT, ratio=0, free_bytes=14),
        "longer than 4 bytes": replace(DEFAULT, path_bytes=4),
    }
    for message, limits in tight.items():
        with pytest.raises(VerificationError) as caught:
            read_all(path, limits)
        assert message in caught.value.render()


def test_a_bomb_stops_early_and_needs_little_memory(tmp_path: Path) -> None:
    """100 MiB of zeros: reading stops soon after the allowance."""
    import gzip
    import tracemalloc

    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(hostile.member("top/z", bytes(100 << 20)) + hostile.END, 1))
    tracemalloc.start()
    with pytest.raises(VerificationError, match="refused"):
        read_all(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_every_problem_is_listed(tmp_path: Path) -> None:
    link = hostile.member("top/l", b"", kind=b"2", target="/etc")
    path = tmp_path / "x"
    path.write_bytes(hostile.tar(hostile.ONE, hostile.member("top/aux"), link))
    with pytest.raises(VerificationError) as caught:
        read_all(path)
    assert len(caught.value.details) == 2
    assert "top/l: is a symlink to /etc" in caught.value.details


def test_many_problems_are_counted(tmp_path: Path) -> None:
    members = [hostile.member(f"top/{i}.", b"") for i in range(30)]
    path = tmp_path / "x"
    path.write_bytes(hostile.tar(hostile.ONE, *members))
    with pytest.raises(VerificationError) as caught:
        read_all(path)
    assert caught.value.details[-1] == "and 10 more"


def test_no_file_and_no_regular_file(tmp_path: Path) -> None:
    import os

    with pytest.raises(VerificationError, match="no archive here"), open_archive(tmp_path / "x"):
        pass
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(VerificationError, match="regular file"), open_archive(path):
            pass
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(EnvironmentUnmet, match="cannot be read"), open_archive(loop):
        pass


def sample(folder: Path) -> dict[str, bytes]:
    contents = {
        "top/a.txt": b"a" * 3000,
        "top/sub/b.bin": bytes(range(256)) * 40,
        "top/sub/empty": b"",
        "top/sub/" + "long" * 22 + "/" + "name" * 20: b"x",
        "top/grüße": b"hello",
    }
    for name, data in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "top/a.txt").chmod(0o755)
    return contents


@pytest.mark.parametrize("form", ["ustar", "pax", "gnu", "python-pax", "python-gnu"])
def test_what_other_tar_tools_make_is_read(form: str, tmp_path: Path) -> None:
    contents = sample(tmp_path)
    path = tmp_path / "x.tar.gz"
    if form.startswith("python"):
        kind = tarfile.PAX_FORMAT if form.endswith("pax") else tarfile.GNU_FORMAT
        with tarfile.open(path, "w:gz", format=kind) as tar:
            tar.add(tmp_path / "top", "top")
    else:
        command = ["tar", "czf", path, f"--format={form}", "-C", tmp_path, "top"]
        subprocess.run(command, check=True)
    assert read_all(path) == contents
    with open_archive(path) as archive:
        assert {m.name for m in archive.members if m.executable and m.kind == "file"} == {
            "top/a.txt"
        }
        assert archive.top == "top" and archive.format == "tar.gz"


def test_an_empty_directory_and_one_ending_in_a_slash(tmp_path: Path) -> None:
    path = tmp_path / "x"
    directory = hostile.member("top/d/", b"", kind=b"5")
    old = hostile.member("top/old/", b"", kind=b"\0", magic=bytes(8))
    path.write_bytes(
        hostile.tar(hostile.member("top/", b"", kind=b"5"), directory, old, hostile.ONE)
    )
    with open_archive(path) as archive:
        assert archive.require_clean() == "top"
        kinds = {m.name: m.kind for m in archive.members}
    assert kinds == {
        "top": "directory",
        "top/d": "directory",
        "top/old": "directory",
        hostile.GOOD: "file",
    }


@pytest.mark.parametrize("tool", ["zip", "zip-stream", "python", "python-stream"])
def test_what_other_zip_tools_make_is_read(tool: str, tmp_path: Path) -> None:
    contents = sample(tmp_path)
    if tool.startswith("zip"):
        # Without the flag in which Info-ZIP repeats a UTF-8 name, it is of no known encoding.
        contents.pop("top/grüße")
        (tmp_path / "top/grüße").unlink()
    path = tmp_path / "x.zip"
    if tool == "zip":
        subprocess.run(["zip", "-qr", path, "top"], cwd=tmp_path, check=True)
    elif tool == "zip-stream":
        # Through a pipe, so that zip cannot seek and writes data descriptors.
        done = subprocess.run(
            ["zip", "-qr", "-", "top"], cwd=tmp_path, check=True, stdout=subprocess.PIPE
        )
        path.write_bytes(done.stdout)
    else:

        class Stream(io.RawIOBase):
            def __init__(self) -> None:
                self.data = bytearray()

            def writable(self) -> bool:
                return True

            def write(self, data) -> int:  # type: ignore[no-untyped-def]
                self.data += data
                return len(data)

        stream = Stream()
        target = path if tool == "python" else stream
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(contents):
                archive.write(tmp_path / name, name)
        if tool == "python-stream":
            path.write_bytes(stream.data)
    assert read_all(path) == contents
    with open_archive(path) as archive:
        assert {m.name for m in archive.members if m.executable and m.kind == "file"} == {
            "top/a.txt"
        }


def test_base_256_sizes_are_read(tmp_path: Path) -> None:
    header = bytearray(hostile.member("top/a", b"abc")[:512])
    header[124:136] = b"\x80" + (3).to_bytes(11, "big")
    path = tmp_path / "x"
    path.write_bytes(hostile.tar(hostile.seal(header) + b"abc" + bytes(509)))
    assert read_all(path) == {"top/a": b"abc"}


def test_a_harmless_global_header_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    comment = hostile.pax_header({"comment": "b50d8fd7196e1c5801c1bd8edf1d64e4bf9add6c"}, b"g")
    path.write_bytes(hostile.tar(comment, hostile.ONE))
    assert read_all(path) == {hostile.GOOD: b"good"}


def test_an_archive_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(hostile.tar(hostile.ONE, hostile.member("top/b")))
    with open_archive(path) as archive:
        for other in (
            hostile.tar(hostile.ONE),
            hostile.tar(hostile.ONE, hostile.member("top/c")),
            hostile.tar(hostile.ONE, hostile.member("top/b"), hostile.member("top/c")),
        ):
            path.write_bytes(other)
            with pytest.raises(VerificationError) as caught:
                for _ in archive.walk():
                    pass
            assert "changed while it was read" in caught.value.render()


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_every_truncation_is_noticed(form: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if form == "tar":
        whole = hostile.tar(hostile.ONE, hostile.member("top/b", bytes(range(200))))
    else:
        text = b"some text " * 30
        packed = hostile.raw_deflate(text)
        whole = hostile.zipped(hostile.FINE, hostile.Entry(b"top/b", text, method=8, packed=packed))
    path.write_bytes(whole)
    assert len(read_all(path)) == 2
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(VerificationError):
            read_all(path)


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_every_flipped_bit_is_noticed_or_harmless(form: str, tmp_path: Path) -> None:
    """No flip crashes the reader; one that is accepted leaves names and contents as they were."""
    path = tmp_path / "x"
    if form == "tar":
        whole = hostile.tar(hostile.ONE, hostile.member("top/b", bytes(range(200))))
    else:
        text = b"some text " * 30
        packed = hostile.raw_deflate(text)
        whole = hostile.zipped(hostile.FINE, hostile.Entry(b"top/b", text, method=8, packed=packed))
    path.write_bytes(whole)
    good = read_all(path)
    accepted = 0
    for at in range(len(whole)):
        for bit in (0, 4, 7):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            path.write_bytes(data)
            try:
                assert read_all(path) == good
                accepted += 1
            except VerificationError:
                pass
    # Times, version numbers, the gzip header's time and system.
    assert accepted < 0.3 * 3 * len(whole)


def test_what_follows_exactly_at_a_read_is_noticed(tmp_path: Path) -> None:
    plain = hostile.tar(hostile.ONE)
    room = 64 * 1024 - len(plain) - 2
    padded = (
        plain[:3] + b"\x04" + plain[4:10] + room.to_bytes(2, "little") + bytes(room) + plain[10:]
    )
    assert len(padded) == 64 * 1024
    path = tmp_path / "x"
    path.write_bytes(padded)
    assert read_all(path) == {hostile.GOOD: b"good"}
    path.write_bytes(padded + b"x")
    with pytest.raises(VerificationError) as caught:
        read_all(path)
    assert "behind the end of the gzip stream" in caught.value.render()
