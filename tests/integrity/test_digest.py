from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest
from blake3 import blake3

from artifact.errors import EnvironmentUnmet, VerificationError
from artifact.integrity import digest
from artifact.integrity.digest import BLOCK_BYTES, hash_file, hash_files
from artifact.integrity.pin import Digests

SIZES = (
    0,
    1,
    1 << 20,
    (16 << 20) + 1,
    1023,
    65536,
    BLOCK_BYTES - 1,
    BLOCK_BYTES,
    BLOCK_BYTES + 1,
    (9 << 20) + 7,
)


def contents(size: int) -> bytes:
    return blake3(str(size).encode()).digest(length=size)


def expected(data: bytes) -> Digests:
    return Digests(len(data), blake3(data).hexdigest(), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("size", SIZES)
def test_both_digests_of_one_file(tmp_path: Path, size: int) -> None:
    data = contents(size)
    path = tmp_path / "file"
    path.write_bytes(data)
    assert hash_file(path) == expected(data)
    fast = hash_file(path, fast=True)
    assert fast == Digests(size, expected(data).blake3, None)


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("fast", [False, True])
def test_many_files_at_once(tmp_path: Path, jobs: int, fast: bool) -> None:
    wanted = {}
    for i in range(300):
        data = contents(SIZES[i % len(SIZES)] if i < len(SIZES) else i)
        (tmp_path / str(i)).write_bytes(data)
        wanted[str(i)] = expected(data)
    found = dict(hash_files(tmp_path, list(wanted), jobs=jobs, fast=fast))
    assert found.keys() == wanted.keys()
    assert all(found[p].blake3 == wanted[p].blake3 for p in wanted)
    assert all(found[p].sha256 == (None if fast else wanted[p].sha256) for p in wanted)


def test_a_file_larger_than_its_share_uses_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: dict[str, int] = {}
    real = digest._hash

    def spy(path: str, buffer: bytearray, fast: bool, threads: int, stop: object) -> Digests:
        used[Path(path).name] = threads
        return real(path, buffer, fast, threads, stop)  # type: ignore[arg-type]

    monkeypatch.setattr(digest, "_hash", spy)
    (tmp_path / "large").write_bytes(bytes(20 << 20))
    (tmp_path / "small").write_bytes(bytes(5 << 20))
    dict(hash_files(tmp_path, ["large", "small"], jobs=2))
    assert used == {"large": 2, "small": 1}


def test_no_file_gives_no_digest(tmp_path: Path) -> None:
    assert list(hash_files(tmp_path, [])) == []


@pytest.mark.parametrize("kind", ["symlink", "pipe", "directory"])
def test_only_regular_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    if kind == "symlink":
        (tmp_path / "file").write_bytes(b"x")
        path.symlink_to("file")
    elif kind == "pipe":
        os.mkfifo(path)  # opening it must not wait for a writer
    else:
        path.mkdir()
    with pytest.raises(VerificationError) as caught:
        hash_file(path)
    assert caught.value.where == str(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnmet):
        hash_file(tmp_path / "none")
    with pytest.raises(EnvironmentUnmet):
        list(hash_files(tmp_path, ["none"]))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("size", [100, BLOCK_BYTES * 3, 20 << 20])
@pytest.mark.parametrize("change", ["grows", "shrinks", "is rewritten"])
def test_a_change_while_reading_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, change: str, fast: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    real = os.fstat
    calls = 0

    def fstat(descriptor: int) -> os.stat_result:
        nonlocal calls
        calls += 1
        if calls == 1:  # the status before the first read is taken, then the file changes
            status = real(descriptor)
            os.utime(path, ns=(1, 1))
            if change == "grows":
                with path.open("ab") as file:
                    file.write(b"more")
            elif change == "shrinks":
                os.truncate(path, size // 2)
            else:
                path.write_bytes(b"\1" * size)
            return status
        return real(descriptor)

    monkeypatch.setattr(os, "fstat", fstat)
    with pytest.raises(VerificationError, match="changed while it was read"):
        digest._hash(str(path), bytearray(BLOCK_BYTES), fast, 1, None)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are waited for as long as this machine needs."""
    monkeypatch.setattr(digest, "_END_S", 120.0)


@pytest.mark.usefixtures("patient")
def test_an_error_in_a_thread_reaches_the_caller_and_stops_the_others(tmp_path: Path) -> None:
    paths = [str(i) for i in range(500)]
    for path in paths:
        (tmp_path / path).write_bytes(bytes(20_000))
    (tmp_path / "250").unlink()
    (tmp_path / "250").symlink_to("249")
    before = set(threading.enumerate())
    with pytest.raises(VerificationError, match="regular"):
        list(hash_files(tmp_path, paths, jobs=3))
    assert set(threading.enumerate()) <= before


@pytest.mark.usefixtures("patient")
def test_a_caller_that_leaves_early_stops_the_threads(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"x")
    for i in range(1, 4):
        with (tmp_path / str(i)).open("wb") as file:
            file.truncate(1 << 40)  # sparse; reading all of it takes minutes
    before = set(threading.enumerate())
    pairs = hash_files(tmp_path, ["0", "1", "2", "3"], jobs=2)
    next(pairs)
    pairs.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) <= before


def test_a_thread_that_hangs_in_a_read_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_its_threads: None
) -> None:
    release = threading.Event()

    def hang(*_: object) -> Digests:
        release.wait(120)
        raise VerificationError("late")

    monkeypatch.setattr(digest, "_END_S", 0.1)
    monkeypatch.setattr(digest, "_hash", hang)
    with digest.Hashing(tmp_path, {"a": 1, "b": 1}, fast=False, jobs=2):
        pass
    release.set()


def test_a_sparse_file_over_4_gib(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**32 + 1)
    # As b3sum prints it. SHA-256 would take ten times as long and has no seam at 4 GiB.
    assert hash_file(path, fast=True) == Digests(
        2**32 + 1, "1c5383e3e425b8b27d54e1b6bf91bb3320b8ba1496f7483f87b5f4490a542794", None
    )
