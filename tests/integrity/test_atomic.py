from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from artifact.errors import EnvironmentUnmet, Interrupted, UsageError
from artifact.integrity import atomic
from artifact.integrity.atomic import beside, is_partial, write_atomic


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory that holds nothing."""
    directory = tmp_path / "here"
    directory.mkdir()
    return directory


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def test_writes_and_replaces(here: Path) -> None:
    path = here / "file"
    write_atomic(path, b"one")
    write_atomic(path, b"two", mode=0o755)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o100
    assert names(here) == ["file"]


def test_contents_are_synced_before_the_name_is_taken(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        steps.append("sync directory" if Path(f"/proc/self/fd/{descriptor}").is_dir() else "sync")
        sync(descriptor)

    def renamed(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", renamed)
    write_atomic(here / "file", b"data")
    assert steps == ["sync", "rename", "sync directory"]


def test_refuses_to_overwrite_before_writing_anything(here: Path) -> None:
    path = here / "file"
    path.write_bytes(b"old")
    with pytest.raises(UsageError), beside(path):
        pytest.fail("the block must not run")
    assert path.read_bytes() == b"old"
    assert names(here) == ["file"]


def test_a_dangling_symlink_is_not_a_free_name(here: Path) -> None:
    (here / "link").symlink_to("nowhere")
    with pytest.raises(UsageError):
        write_atomic(here / "link", b"data", overwrite=False)
    assert not (here / "nowhere").exists()


@pytest.mark.parametrize("hard_links", [True, False])
def test_never_replaces_what_appeared_meanwhile(
    here: Path, monkeypatch: pytest.MonkeyPatch, hard_links: bool
) -> None:
    if not hard_links:
        _no_hard_links(monkeypatch)
    path = here / "file"
    with pytest.raises(UsageError), beside(path) as file:
        file.write(b"new")
        path.write_bytes(b"of another process")
    assert path.read_bytes() == b"of another process"
    assert names(here) == ["file"]


def test_takes_a_free_name_without_hard_links(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _no_hard_links(monkeypatch)
    write_atomic(here / "file", b"new", overwrite=False)
    assert (here / "file").read_bytes() == b"new"
    assert names(here) == ["file"]


def _no_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("end", [ValueError, KeyboardInterrupt, Interrupted, SystemExit])
def test_whatever_ends_the_block_nothing_is_left(here: Path, end: type[BaseException]) -> None:
    path = here / "file"
    path.write_bytes(b"old")
    with pytest.raises(end), beside(path, overwrite=True) as file:
        file.write(b"half")
        raise end("stop")
    assert path.read_bytes() == b"old"
    assert names(here) == ["file"]


def test_a_full_disk_leaves_the_old_file(small_disk: Path) -> None:
    path = small_disk / "file"
    path.write_bytes(b"old")
    with pytest.raises(EnvironmentUnmet) as caught:
        write_atomic(path, bytes(4 << 20))
    assert caught.value.where == str(path)
    assert "df -h" in (caught.value.next or "")
    assert path.read_bytes() == b"old"
    assert names(small_disk) == ["file"]


def test_a_disk_that_fills_up_in_the_middle(small_disk: Path) -> None:
    with pytest.raises(EnvironmentUnmet), beside(small_disk / "file") as file:
        for _ in range(64):
            file.write(bytes(64 << 10))
    assert names(small_disk) == []


def test_a_missing_directory_is_named(here: Path) -> None:
    with pytest.raises(EnvironmentUnmet) as caught:
        write_atomic(here / "none" / "file", b"")
    assert caught.value.next == f"mkdir -p {here / 'none'}"


def test_errors_of_other_files_are_not_explained_as_ours(here: Path) -> None:
    with pytest.raises(FileNotFoundError), beside(here / "file"):
        (here / "other").read_bytes()
    assert names(here) == []


def test_a_name_of_255_bytes_has_room_for_a_partial_one(here: Path) -> None:
    path = here / ("é" * 127 + "x")
    write_atomic(path, b"data", overwrite=False)
    assert path.read_bytes() == b"data"
    partial = atomic._partial(path).name
    assert is_partial(partial) and len(os.fsencode(partial)) <= 255
    assert not is_partial(path.name)
