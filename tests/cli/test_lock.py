"""``artifact lock`` as a process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest


def test_says_what_changed_and_the_content_id(run: Any, tree: Path) -> None:
    (tree / "README.md").write_text("new\n")
    done = run("lock", cwd=tree)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("changed: README.md (")
    identity = done.stdout.split("content id: ")[1].strip()
    assert f"content id: {identity}" in run("verify", cwd=tree).stdout
    again = run("lock", cwd=tree)
    assert again.stdout.startswith("nothing changed\n") and identity in again.stdout


def test_json_and_quiet(run: Any, tree: Path) -> None:
    (tree / "added").write_text("x")
    document = json.loads(run("lock", "--json", cwd=tree).stdout)
    assert document["changes"] == ["added: added (1 bytes)"]
    assert "manifests/lock.json" in document["written"]
    quiet = run("lock", "--quiet", cwd=tree).stdout
    assert quiet == f"content id: {document['content_id']}\n"


def test_verbose_names_what_was_written(run: Any, tree: Path) -> None:
    (tree / "added").write_text("x")
    assert "written: manifests/lock.json" in run("lock", "--verbose", cwd=tree).stdout


def test_what_cannot_be_pinned_is_one_error_with_every_reason(run: Any, tree: Path) -> None:
    before = (tree / "manifests/lock.json").read_bytes()
    (tree / "link").symlink_to("README.md")
    (tree / "kernels/rowsum.src").write_text("edited\n")
    done = run("lock", cwd=tree)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the tree cannot be pinned as it is")
    assert "link: a symlink to README.md" in done.stderr
    assert (tree / "manifests/lock.json").read_bytes() == before


def test_a_full_disk(run: Any, tree: Path, small_disk: Path) -> None:
    root = small_disk / "tree"
    shutil.copytree(tree, root)
    (root / "README.md").write_text("new\n")
    before = (root / "manifests/lock.json").read_bytes()
    with (small_disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError):
        while True:
            filler.write(bytes(4096))
    done = run("lock", cwd=root)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr and "next:" in done.stderr
    assert (root / "manifests/lock.json").read_bytes() == before


def test_two_at_once_leave_one_whole_lock(start_artifact: Any, run: Any, tree: Path) -> None:
    (tree / "README.md").write_text("new\n")
    both = [start_artifact("lock", cwd=tree) for _ in range(2)]
    codes = []
    for process in both:
        _, err = process.communicate(timeout=120)
        assert "Traceback" not in err
        codes.append(process.returncode)
    assert 0 in codes and set(codes) <= {0, 1}  # the slower may have seen the other's partial file
    assert run("lock", cwd=tree).returncode == 0
    assert run("verify", cwd=tree).returncode == 0
    assert not list(tree.rglob("*.partial"))


def test_outside_of_an_artifact(run: Any, tmp_path: Path) -> None:
    done = run("lock", cwd=tmp_path)
    assert done.returncode == 2 and "there is no artifact here" in done.stderr
