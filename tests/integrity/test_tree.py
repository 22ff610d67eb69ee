from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from artifact.errors import ArtifactError, EnvironmentUnmet, VerificationError
from artifact.integrity import digest as digest_module
from artifact.integrity import tree as tree_module
from artifact.integrity.digest import hash_file
from artifact.integrity.documents import load_manifest
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
    outcomes = dict(tree.digests(paths))
    assert [path for path, o in outcomes.items() if isinstance(o, ArtifactError)] == ["many/0/000"]
    found = outcomes["many/0/000"]
    assert isinstance(found, EnvironmentUnmet) and found.found == "No such file or directory"


@pytest.fixture
def shut(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the system refuse to open a path: permissions do not bind root."""

    def shut(*names: str) -> None:
        for function in ("open", "scandir"):
            real = getattr(os, function)

            def refuse(path: Any, *args: Any, real: Any = real, **named: Any) -> Any:
                if os.fspath(path).rstrip("/").endswith(names):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
                return real(path, *args, **named)

            monkeypatch.setattr(os, function, refuse)

    return shut


@pytest.mark.parametrize("few", [True, False])
def test_what_cannot_be_read_is_a_finding_beside_the_others(
    tree: Path, wide: Path, shut: Any, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether one thread reads or several."""
    if few:
        monkeypatch.setattr(tree_module, "processors", lambda: 1)
        monkeypatch.setattr(digest_module, "processors", lambda: 1)
    shut("many/0/000", "many/3")
    report = verify(Tree(wide))
    found = [(f.kind, f.path, f.found) for f in report.findings]
    assert found == [
        ("unreadable", "many/0/000", "Permission denied"),
        ("unreadable", "many/3", "Permission denied"),
    ]
    assert "nor can 29 pinned files in it be compared" in report.findings[1].message
    assert report.undecided and not report.ok and report.content_id is None
    assert report.files == report.pinned - 29
    with pytest.raises(EnvironmentUnmet, match="nothing is decided") as caught:
        report.require()
    assert len(caught.value.details) == 2
    # A content id that cannot be computed is not another one.
    assert verify(Tree(wide), expect_content_id="0" * 64).undecided
    (wide / "many/1/001").write_bytes(b"changed")
    report = verify(Tree(wide), expect_content_id="0" * 64)
    assert [f.kind for f in report.findings] == [
        "unreadable", "changed", "unreadable", "content-id",
    ]  # fmt: skip
    assert not report.undecided
    with pytest.raises(VerificationError):
        report.require()


def test_what_cannot_be_read_is_not_pinned(wide: Path, shut: Any) -> None:
    shut("many/3")
    with pytest.raises(VerificationError) as caught:
        write_lock(wide)
    assert caught.value.details == ("many/3: cannot be read: Permission denied",)


def test_a_kernel_whose_source_cannot_be_read_has_no_finding_of_its_chain(
    tree: Path, shut: Any
) -> None:
    (kernel,) = load_manifest(tree).kernels
    shut(kernel.source)
    assert [f.kind for f in verify(Tree(tree)).findings] == ["unreadable"]
    shut(kernel.generated)
    assert [f.kind for f in verify(Tree(tree)).findings] == ["unreadable"] * 2


def test_a_root_that_cannot_be_read_is_an_error(tree: Path, shut: Any) -> None:
    shut(tree.name)
    with pytest.raises(EnvironmentUnmet, match="a directory cannot be read"):
        Tree(tree).entries()
