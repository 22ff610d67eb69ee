from __future__ import annotations

import json
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import artifact.archive.unpack as unpack_module
from artifact.archive.pack import Packed, pack
from artifact.archive.unpack import unpack
from artifact.errors import EnvironmentUnmet, UsageError, VerificationError
from artifact.integrity.lockfile import write_lock

FORMATS = ("tar.gz", "zip")


@pytest.fixture(params=FORMATS)
def packed(request: pytest.FixtureRequest, tree: Path, tmp_path: Path) -> Packed:
    folder = tmp_path / "published"
    folder.mkdir()
    return pack(tree, request.param, output=folder)


def listing(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_the_tree_comes_back(packed: Packed, tree: Path, tmp_path: Path) -> None:
    into = tmp_path / "into" / "deeper"
    done = unpack(packed.archive, into, expect_content_id=packed.content_id)
    assert done.path == into / "tiny-sum"
    assert done.report.ok and done.report.content_id == packed.content_id
    name = packed.archive.name
    assert done.checked == (f"{name}.sha256", f"{name}.b3", f"{name}.intoto.json")
    for path in done.path.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tree / path.relative_to(done.path)).read_bytes()
    assert [p.name for p in into.iterdir()] == ["tiny-sum"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_modes_do_not_depend_on_the_umask(packed: Packed, tmp_path: Path, umask: int) -> None:
    into = tmp_path / "into"
    into.mkdir()
    old = os.umask(umask)
    try:
        done = unpack(packed.archive, into)
    finally:
        os.umask(old)
    for path in (done.path, *done.path.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o755 if path.is_dir() or path.suffix == ".sh" else 0o644)


def test_a_tree_that_is_there_is_left_alone(packed: Packed, tmp_path: Path) -> None:
    target = tmp_path / "tiny-sum"
    for make in (target.mkdir, lambda: target.symlink_to("nowhere"), target.touch):
        make()
        with pytest.raises(UsageError, match="exists already"):
            unpack(packed.archive, tmp_path)
        assert not any(p.name.startswith(".") for p in tmp_path.iterdir())
        target.rmdir() if target.is_dir() else target.unlink()


@pytest.mark.parametrize("suffix", [".sha256", ".b3", ".intoto.json"])
def test_files_beside_it_must_agree(packed: Packed, tmp_path: Path, suffix: str) -> None:
    beside = packed.archive.with_name(packed.archive.name + suffix)
    text = beside.read_text()
    right = packed.digests.blake3 if suffix == ".b3" else packed.digests.sha256
    beside.write_text(text.replace(str(right), "0" * 64))
    with pytest.raises(VerificationError) as caught:
        unpack(packed.archive, tmp_path / "into")
    assert beside.name in (caught.value.where or "")
    assert not (tmp_path / "into").exists()
    beside.write_text("nonsense\n")
    with pytest.raises(VerificationError):
        unpack(packed.archive, tmp_path / "into")
    beside.unlink()
    done = unpack(packed.archive, tmp_path / "into")
    assert beside.name not in done.checked


def test_a_renamed_archive_beside_its_renamed_checksums(packed: Packed, tmp_path: Path) -> None:
    for path in list(packed.archive.parent.iterdir()):
        path.rename(path.with_name(path.name.replace("tiny-sum", "other")))
    renamed = next(
        p for p in packed.archive.parent.iterdir() if p.name in ("other.zip", "other.tar.gz")
    )
    with pytest.raises(VerificationError) as caught:
        unpack(renamed, tmp_path / "into")
    assert f"a line for {renamed.name}" in (caught.value.expected or "")


def test_a_lock_that_was_edited_together_with_a_file(packed: Packed, tmp_path: Path) -> None:
    """Consistent in itself, but not what was published."""
    forged = unpack(packed.archive, tmp_path / "forge").path
    (forged / "worker.py").write_bytes(b"print('evil')\n")
    write_lock(forged)
    evil = pack(forged, packed.format, output=tmp_path / f"evil.{packed.format}").archive
    assert unpack(evil, tmp_path / "a").report.ok
    with pytest.raises(VerificationError) as caught:
        unpack(evil, tmp_path / "b", expect_content_id=packed.content_id)
    assert packed.content_id in caught.value.render()
    # The content id in the published checksum file is enough.
    sums = evil.with_name(evil.name + ".sha256")
    lines = sums.read_text().splitlines()
    sums.write_text(f"# content-id: blake3:{packed.content_id}\n{lines[-1]}\n")
    with pytest.raises(VerificationError) as caught:
        unpack(evil, tmp_path / "b")
    assert "content id" in caught.value.render()
    assert not (tmp_path / "b").exists()


def test_contents_that_the_lock_does_not_pin(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed, missing and extra members are found before anything is written."""
    import subprocess

    for change in (
        lambda: (tree / "worker.py").write_bytes(b"changed"),
        lambda: (tree / "worker.py").unlink(),
        lambda: (tree / "extra").write_bytes(b"x"),
    ):
        change()
        archive = tmp_path / "x.tar.gz"
        command = ["tar", "czf", archive, "--transform=s,^tree,tiny-sum,", "-C", tmp_path, "tree"]
        subprocess.run(command, check=True)
        monkeypatch.setattr(unpack_module, "_extract", None)
        with pytest.raises(VerificationError, match="not what the lock pins"):
            unpack(archive, tmp_path / "into")
        assert not (tmp_path / "into").exists()


def test_an_archive_of_no_artifact(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "t").mkdir()
    (tmp_path / "t/a").write_bytes(b"")
    subprocess.run(["tar", "czf", tmp_path / "x", "-C", tmp_path, "t"], check=True)
    with pytest.raises(VerificationError) as caught:
        unpack(tmp_path / "x", tmp_path / "into")
    assert "manifests/artifact.toml" in (caught.value.where or "")
    assert not (tmp_path / "into").exists()


def test_a_top_directory_of_another_name(tree: Path, tmp_path: Path) -> None:
    import subprocess

    subprocess.run(["tar", "czf", tmp_path / "x", "-C", tmp_path, "tree"], check=True)
    with pytest.raises(VerificationError) as caught:
        unpack(tmp_path / "x", tmp_path / "into")
    assert "not named after the artifact" in caught.value.render()


def test_what_goes_wrong_while_writing_leaves_nothing(
    packed: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "into"
    into.mkdir()
    (into / "mine").write_bytes(b"")
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):

        def fail(*_: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(unpack_module, "_take_name", fail)
        expected = EnvironmentUnmet if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected):
            unpack(packed.archive, into)
        assert listing(into) == ["mine"]
        with pytest.raises(expected):
            unpack(packed.archive, tmp_path / "new/deeper")
        assert not (tmp_path / "new").exists()


def test_what_is_written_wrong_is_found(
    packed: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = unpack_module._write_all
    monkeypatch.setattr(
        unpack_module, "_write_all", lambda d, chunk: real(d, chunk.replace(b"deep\n", b"DEEP\n"))
    )
    with pytest.raises(VerificationError) as caught:
        unpack(packed.archive, tmp_path / "into")
    assert "docs/" in caught.value.render()
    assert not (tmp_path / "into").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, make_tree: Callable[..., Path], small_disk: Path
) -> None:
    tree = make_tree(tmp_path / "t", {"noise": random.Random(1).randbytes(3 << 20)})
    for form in FORMATS:
        archive = pack(tree, form).archive
        with pytest.raises(EnvironmentUnmet) as caught:
            unpack(archive, small_disk)
        assert "the disk is full" in (caught.value.cause or "")
        assert listing(small_disk) == []


def test_an_archive_on_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(VerificationError, match="regular file"):
        unpack(tmp_path / "fifo", tmp_path)


def test_the_statement_must_keep_its_schema(packed: Packed, tmp_path: Path) -> None:
    path = packed.archive.with_name(packed.archive.name + ".intoto.json")
    plain = json.loads(path.read_bytes())
    plain["predicate"]["surprise"] = 1
    path.write_text(json.dumps(plain))
    with pytest.raises(VerificationError, match="statement schema"):
        unpack(packed.archive, tmp_path / "into")
