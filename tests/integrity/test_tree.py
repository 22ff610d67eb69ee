from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from artifact.errors import EnvironmentUnmet, VerificationError
from artifact.integrity.digest import hash_file
from artifact.integrity.lockfile import write_lock
from artifact.integrity.rules import Rules
from artifact.integrity.tree import Tree
from artifact.integrity.verify import verify

pytestmark = pytest.mark.usefixtures("ends_its_threads")


@pytest.fixture
def wide(tree: Path) -> Path:
    """A tree of so many files that they are hashed while it is walked."""
    for i in range(200):
        path = tree / f"many/{i % 7}/{i:03}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % i * 1000)
    write_lock(tree)
    return tree


def test_entries_are_sorted_by_bytes_and_say_what_they_are(tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "d").mkdir(parents=True)
    for name in (b"b", b"B", b"\xff", "\u00e9".encode(), b"d-", b"d/x", b"d0"):
        Path(os.fsdecode(os.fsencode(here) + b"/" + name)).write_bytes(b"12")
    (here / "B").chmod(0o744)
    (here / "b").chmod(0o655)  # the owner's bit is what counts
    (here / "link").symlink_to("d")
    os.mkfifo(here / "pipe")
    entries = Tree(here).entries()
    names = [os.fsencode(entry.path) for entry in entries]
    assert names == sorted(names)
    assert names == [b"B", b"b", b"d-", b"d/x", b"d0", b"link", b"pipe", "\u00e9".encode(), b"\xff"]
    found = {entry.path: entry for entry in entries}
    assert found["B"].executable and not found["b"].executable and found["b"].size == 2
    assert (found["link"].kind, found["link"].target) == ("symlink", "d")
    assert found["pipe"].kind == "special"


def test_pruned_directories_are_one_entry(tmp_path: Path) -> None:
    (tmp_path / "here/out/deep").mkdir(parents=True)
    (tmp_path / "here/out/deep/file").touch()
    tree = Tree(tmp_path / "here")
    assert [e.path for e in tree.entries()] == ["out/deep/file"]
    tree.prune(Rules(("out/",), "results", ()))
    assert [(e.path, e.kind) for e in tree.entries()] == [("out", "directory")]


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnmet):
        Tree(tmp_path / "none").entries()


def test_chunks_follow_no_symlink(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 600_000)
    (tmp_path / "link").symlink_to("file")
    tree = Tree(tmp_path)
    assert b"".join(tree.chunks("file")) == b"x" * 600_000
    with pytest.raises(EnvironmentUnmet):
        list(tree.chunks("link"))


def test_files_are_hashed_while_the_tree_is_walked(wide: Path) -> None:
    tree = Tree(wide)
    paths = [entry.path for entry in tree.entries()]
    with tree.reading(dict.fromkeys(paths[10:], 1)):  # sizes need not be right
        found = dict(tree.digests(paths))
        again = dict(tree.digests(paths[:3]))
    assert found == {path: hash_file(wide / path) for path in paths}
    assert again == {path: found[path] for path in paths[:3]}
    with tree.reading(dict.fromkeys(paths, 1), fast=True):
        # What is asked for counts, not what was expected.
        assert dict(tree.digests(paths)) == found


def test_what_was_expected_and_is_no_file_is_a_finding(wide: Path) -> None:
    (wide / "many/0/000").unlink()
    (wide / "many/1/001").unlink()
    (wide / "many/1/001").symlink_to("008")
    (wide / "many/2/002").unlink()
    os.mkfifo(wide / "many/2/002")
    (wide / "many/3/003").write_bytes(b"changed")
    found = [(f.kind, f.path) for f in verify(Tree(wide)).findings]
    assert found == [
        ("missing", "many/0/000"),
        ("symlink", "many/1/001"),
        ("special", "many/2/002"),
        ("changed", "many/3/003"),
    ]


def test_an_error_while_walking_stops_the_hashing(wide: Path, monkeypatch: Any) -> None:
    def entries(self: Tree) -> None:
        raise EnvironmentUnmet("stop")

    (wide / "large").write_bytes(bytes(64 << 20))
    write_lock(wide)
    monkeypatch.setattr(Tree, "entries", entries)
    with pytest.raises(EnvironmentUnmet, match="stop"):
        verify(Tree(wide))


def test_a_file_that_vanishes_between_walk_and_reading_is_an_error(wide: Path) -> None:
    tree = Tree(wide)
    paths = [entry.path for entry in tree.entries()]
    (wide / "many/0/000").unlink()
    with pytest.raises((EnvironmentUnmet, VerificationError)):
        list(tree.digests(paths))
