from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifact.errors import EnvironmentUnmet, VerificationError
from artifact.integrity import lockfile
from artifact.integrity.documents import is_trusted, load_lock, load_manifest
from artifact.integrity.lockfile import changes, write_lock
from artifact.integrity.pinning import make_lock
from artifact.integrity.tree import Tree
from artifact.integrity.verify import verify
from artifact.model.lock import Lock
from artifact.model.root import LOCK, MANIFEST, PROVENANCE, SCHEMAS
from artifact.model.schema import DOCUMENTS

SOURCE = "kernels/rowsum.src"
GENERATED = "generated/rowsum.c"


def snapshot(tree: Path) -> dict[str, bytes]:
    return {p.relative_to(tree).as_posix(): p.read_bytes() for p in tree.rglob("*") if p.is_file()}


def test_twice_changes_nothing(tree: Path) -> None:
    write_lock(tree)
    before = snapshot(tree)
    outcome = write_lock(tree)
    assert outcome.changes == outcome.written == ()
    assert snapshot(tree) == before
    report = verify(Tree(tree))
    assert report.ok and report.content_id == outcome.content_id


def test_a_lock_that_was_just_written_needs_no_validation(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "fresh"))
    (tree / "added").touch()
    write_lock(tree)
    assert is_trusted("lock", (tree / LOCK).read_bytes())


@pytest.mark.parametrize("path", [PROVENANCE, LOCK, f"{SCHEMAS}/lock.schema.json"])
def test_what_it_writes_is_not_executable(tree: Path, path: str) -> None:
    (tree / path).chmod(0o755)
    assert write_lock(tree).written == (path,)
    assert verify(Tree(tree)).ok


def test_from_nothing_but_a_manifest(tree: Path) -> None:
    for path in (tree / "manifests").iterdir():
        if path.name != "artifact.toml":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    outcome = write_lock(tree)
    assert outcome.changes == (f"new lock: {len(outcome.lock.files)} files",)
    pinned = outcome.lock.pins()
    assert LOCK not in pinned
    assert {MANIFEST, PROVENANCE, *(f"{SCHEMAS}/{n}.schema.json" for n in DOCUMENTS)} <= set(pinned)
    assert outcome.written[-1] == LOCK
    assert verify(Tree(tree)).ok


def test_umask_time_zone_and_order_do_not_matter(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_lock(tree)
    other = tmp_path / "other"
    other.mkdir()
    for path, data in sorted(snapshot(tree).items(), reverse=True):
        (other / path).parent.mkdir(parents=True, exist_ok=True)
        (other / path).write_bytes(data)
    (other / LOCK).unlink()
    (other / PROVENANCE).unlink()
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    old = os.umask(0o077)
    try:
        assert write_lock(other).content_id == first.content_id
    finally:
        os.umask(old)
    assert snapshot(other) == snapshot(tree)


def test_what_is_in_the_lock(tree: Path) -> None:
    (tree / "tool").write_text("#!/bin/sh\n")
    (tree / "tool").chmod(0o755)
    lock = write_lock(tree).lock
    manifest = load_manifest(tree)
    assert lock == load_lock(tree)
    assert lock.model_copy(update={"seal": "0" * 64}) == make_lock(tree, manifest)
    assert [p.path for p in lock.files if p.executable] == ["tool"]
    (link,) = lock.chain
    assert (link.source, link.generated) == (SOURCE, GENERATED)
    pins = lock.pins()
    assert link.source_blake3 == pins[SOURCE].blake3
    assert link.generated_blake3 == pins[GENERATED].blake3
    assert lock.deflate.implementation == manifest.archive.deflate.implementation
    provenance = json.loads((tree / PROVENANCE).read_text())
    assert provenance["kernels"] == [link.model_dump(mode="json")]
    assert provenance["deflate"] == lock.deflate.model_dump(mode="json")


def test_published_runs_are_pinned_and_others_are_not(tree: Path) -> None:
    for name in ("ours", "mine"):
        (tree / "runs" / name).mkdir(parents=True)
        (tree / "runs" / name / "results.json").write_text("{}")
    manifest = tree / MANIFEST
    manifest.write_text(manifest.read_text().replace("published = []", 'published = ["ours"]'))
    pinned = write_lock(tree).lock.pins()
    assert "runs/ours/results.json" in pinned and "runs/mine/results.json" not in pinned
    report = verify(Tree(tree))
    assert report.ok and report.unlisted_results == ("runs/mine/",)


# ------------------------------------------------------------------------------- what changed


def test_what_changed_is_said(tree: Path) -> None:
    write_lock(tree)
    (tree / "README.md").write_text("new\n")
    (tree / "added").write_text("x")
    (tree / "workers/rowsum.py").chmod(0o755)
    lines = write_lock(tree).changes
    assert [line.split(": ")[:2] for line in lines] == [
        ["changed", "README.md (" + lines[0].split("(")[1]],
        ["added", "added (1 bytes)"],
        ["mode", "workers/rowsum.py is now executable"],
    ]
    (tree / "added").unlink()
    (tree / "workers/rowsum.py").chmod(0o644)
    assert write_lock(tree).changes == (
        "removed: added",
        "mode: workers/rowsum.py is no longer executable",
    )


def test_changes_of_head_deflate_and_chain(tree: Path) -> None:
    new = load_lock(tree)
    old = Lock.model_validate_json(
        new.model_copy(
            update={
                "version": "0.9",
                "deflate": new.deflate.model_copy(update={"level": 9}),
                "chain": (new.chain[0].model_copy(update={"compiler": "older 1"}),),
            }
        ).model_dump_json()
    )
    assert changes(old, new) == [
        "version: 0.9 -> 1.0.0",
        "deflate.level: 9 -> 6",
        f"chain: rowsum: {SOURCE} -> {GENERATED} by {new.chain[0].compiler}",
    ]
    gone = new.model_copy(update={"chain": ()})
    assert changes(new, gone) == ["chain: rowsum: no longer linked"]
    assert changes(new, new) == []


def test_a_lock_that_is_no_lock_any_more_is_replaced(tree: Path) -> None:
    (tree / LOCK).write_text("{")
    assert write_lock(tree).changes[0].startswith("new lock")
    assert verify(Tree(tree)).ok


def test_another_form_of_the_same_lock_is_said(tree: Path) -> None:
    write_lock(tree)
    (tree / LOCK).write_text(json.dumps(json.loads((tree / LOCK).read_text())))
    assert write_lock(tree).changes == ("the lock is written in another form; it pins the same",)


# --------------------------------------------------------------------------- what is refused


def refused(tree: Path) -> VerificationError:
    before = (tree / LOCK).read_bytes()
    with pytest.raises(VerificationError) as caught:
        write_lock(tree)
    assert (tree / LOCK).read_bytes() == before
    assert caught.value.next
    return caught.value


def _fifo(tree: Path) -> None:
    os.mkfifo(tree / "pipe")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda t: (t / "link").symlink_to("README.md"), "link: a symlink to README.md"),
        (_fifo, "pipe: a pipe, socket or device"),
        (lambda t: (t / "a:b").write_text(""), "a:b: the name contains the character ':'"),
        (lambda t: (t / "e\u0301").write_text(""), "the name is not in Unicode normal form C"),
        (lambda t: (t / os.fsdecode(b"\xff")).write_text(""), "the name is not valid Unicode"),
        (lambda t: (t / "readme.md").write_text(""), "same file as README.md"),
        (lambda t: (t / "stra\u00dfe").write_text(""), None),
        (lambda t: (t / "manifests/LOCK.json").write_text(""), "same file as manifests/lock.json"),
        (lambda t: (t / ".x.0.partial").write_text(""), "left behind by a command"),
        (lambda t: (t / SOURCE).write_text("edited"), f"stale: it was made of another {SOURCE}"),
        (lambda t: (t / GENERATED).write_text("no stamp"), "its stamp cannot be read"),
        (lambda t: (t / GENERATED).unlink(), "the manifest names it (kernels[0].generated)"),
        (lambda t: (t / "workers/rowsum.py").unlink(), "(backends[0].worker)"),
    ],
)
def test_what_cannot_be_pinned(tree: Path, make: Callable[[Path], Any], words: str | None) -> None:
    make(tree)
    if words is None:
        write_lock(tree)
    else:
        assert any(words in line for line in refused(tree).details)


def test_everything_that_cannot_be_pinned_is_listed_at_once(tree: Path) -> None:
    (tree / "link").symlink_to("x")
    (tree / "a:b").write_text("")
    (tree / "workers/rowsum.py").unlink()
    assert len(refused(tree).details) == 2 + 3  # two backends and a download name the worker


def test_two_kernels_of_one_generated_file(tree: Path) -> None:
    with (tree / MANIFEST).open("a") as file:
        file.write(f'\n[[kernels]]\nname = "k2"\nsource = "{SOURCE}"\ngenerated = "{GENERATED}"\n')
    assert any("share this generated file" in line for line in refused(tree).details)


def test_a_bad_pattern_in_the_manifest_is_named(tree: Path) -> None:
    text = (tree / MANIFEST).read_text()
    (tree / MANIFEST).write_text(text.replace('"build/"', '"/build/"'))
    assert "inventory.outside" in (refused_place(tree) or "")


@pytest.mark.parametrize(
    ("old", "new", "place", "path"),
    [
        ('"build/"', '"build/", "manifests/lock.json"', "inventory.outside", LOCK),
        ('"build/"', '"build/", "manifests/"', "inventory.outside", MANIFEST),
        ('"build/"', '"build/", "**/*.schema.json"', "inventory.outside", SCHEMAS),
        ('"build/"', '"build/", "manifests/prov*"', "inventory.outside", PROVENANCE),
        ('results = "runs"', 'results = "manifests"', "inventory.results", SCHEMAS),
    ],
)
def test_the_inventory_cannot_leave_out_what_says_what_is_pinned(
    tree: Path, old: str, new: str, place: str, path: str
) -> None:
    text = (tree / MANIFEST).read_text()
    assert old in text
    (tree / MANIFEST).write_text(text.replace(old, new))
    before = snapshot(tree)
    with pytest.raises(VerificationError, match="leaves out") as caught:
        write_lock(tree)
    assert place in (caught.value.where or "")
    assert path in (caught.value.expected or "")
    assert snapshot(tree) == before


def refused_place(tree: Path) -> str | None:
    with pytest.raises(VerificationError) as caught:
        write_lock(tree)
    return caught.value.where


# -------------------------------------------------------------------------- full disk, kill


def test_a_full_disk_leaves_the_old_lock(tree: Path, small_disk: Path) -> None:
    root = small_disk / "tree"
    shutil.copytree(tree, root)
    (root / "added").write_text("x")
    before = (root / LOCK).read_bytes()
    with (small_disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError):
        while True:
            filler.write(bytes(4096))
    with pytest.raises(EnvironmentUnmet) as caught:
        write_lock(root)
    assert caught.value.where and caught.value.next and "df -h" in caught.value.next
    assert (root / LOCK).read_bytes() == before
    assert not [p for p in root.rglob("*") if p.name.endswith(".partial")]


def test_a_kill_before_the_lock_is_written_is_healed_by_the_next(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "added").write_text("x")
    shutil.rmtree(tree / SCHEMAS)
    real = lockfile.write_atomic

    def write(path: Path, data: bytes) -> None:
        if path.name == "lock.json":
            raise KeyboardInterrupt
        real(path, data)

    monkeypatch.setattr(lockfile, "write_atomic", write)
    with pytest.raises(KeyboardInterrupt):
        write_lock(tree)
    assert not verify(Tree(tree)).ok  # nothing half-done looks done
    monkeypatch.undo()
    write_lock(tree)
    assert verify(Tree(tree)).ok


def test_a_read_only_tree_is_the_environments_fault(tree: Path, tmp_path: Path) -> None:
    (tree / "added").write_text("x")
    mount = tmp_path / "mounted"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "--bind", "-o", "ro", tree, mount], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.decode().strip()}")
    try:
        with pytest.raises(EnvironmentUnmet) as caught:
            write_lock(mount)
        assert "read-only" in caught.value.render().lower()
    finally:
        subprocess.run(["umount", mount], check=True)
