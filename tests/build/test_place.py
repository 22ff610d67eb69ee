"""The folder in which a unit is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from artifact.build import place
from artifact.build.place import place_of, staged
from artifact.errors import EnvironmentUnmet

FILES = {"generated/k.cu": b"kernel", "runtime/deep/r.h": b"header"}


@pytest.fixture(autouse=True)
def own_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_BASE", tmp_path)


def test_its_name_follows_from_the_contents() -> None:
    assert place_of(FILES) == place_of(dict(reversed(FILES.items())))
    others = [
        {**FILES, "generated/k.cu": b"kernal"},
        {**FILES, "x": b""},
        {"generated/k.c": b"ukernel", "runtime/deep/r.h": b"header"},
    ]
    assert len({place_of(files) for files in (FILES, *others)}) == 4


def test_it_holds_the_files_alone_and_is_gone_at_the_end() -> None:
    where = place_of(FILES)
    # As a killed build leaves it.
    (where / "keep").mkdir(parents=True, mode=0o700)
    where.chmod(0o700)
    (where / "old").write_text("old")
    with staged(FILES) as (folder, _):
        found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
        assert {name: path.read_bytes() for name, path in found.items()} == FILES
        assert folder == where and folder.stat().st_mode & 0o077 == 0
    assert not where.exists()


def test_an_exception_leaves_nothing() -> None:
    with pytest.raises(RuntimeError), staged(FILES):
        raise RuntimeError
    assert not place_of(FILES).exists()


def test_two_at_once_come_one_after_the_other() -> None:
    inside, most = [], []
    lock = threading.Lock()

    def one() -> None:
        with staged(FILES) as (folder, _):
            with lock:
                inside.append(1)
                most.append(len(inside))
            for _ in range(50):
                assert (folder / "generated/k.cu").read_bytes() == b"kernel"
            with lock:
                inside.pop()

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1, 1, 1, 1]


def test_a_program_that_outlives_its_build_keeps_the_folder() -> None:
    with staged(FILES) as (_, descriptor):
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            pass_fds=(descriptor,),
        )
        where = place_of(FILES)
        kept = where.rename(where.with_name("kept"))
        kept.rename(where)
        os.close(os.dup(descriptor))
        assert child.stdin is not None
        import fcntl

        other = os.open(where, os.O_RDONLY)
        # As if this process had been killed: its own descriptor is closed, the child's is not.
        os.close(descriptor)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        child.stdin.close()
        child.wait(60)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # What the block's end closes.
        os.dup2(other, descriptor)
        os.close(other)


def test_a_folder_that_others_may_write_is_not_used() -> None:
    where = place_of(FILES)
    where.mkdir()
    where.chmod(0o777)
    with pytest.raises(EnvironmentUnmet, match="not this user's alone"), staged(FILES):
        raise AssertionError


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    place_of(FILES).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentUnmet, match="cannot be made"), staged(FILES):
        raise AssertionError
    assert (tmp_path / "elsewhere").is_dir()
