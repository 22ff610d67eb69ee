from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import artifact.archive.pack as pack_module
from artifact.archive.pack import pack
from artifact.archive.source import open_source
from artifact.archive.statement import read_statement
from artifact.errors import EnvironmentUnmet, UsageError, VerificationError
from artifact.integrity.seal import sealed
from artifact.integrity.tree import Tree
from artifact.integrity.verify import verify
from artifact.model.canonical import pretty_json

FORMATS = ("tar.gz", "zip")


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()} if folder.exists() else set()


def content(tree: Path) -> str:
    found = verify(Tree(tree)).content_id
    assert found is not None
    return found


@pytest.mark.parametrize("format", FORMATS)
def test_tree_and_archive_share_one_content_id(tree: Path, format: str) -> None:
    packed = pack(tree, format)
    assert packed.archive == tree / "dist" / f"tiny-sum.{format}"
    assert packed.content_id == content(tree)
    with open_source(packed.archive) as source:
        report = verify(source, expect_content_id=packed.content_id)
    assert report.ok and report.files == packed.files
    name = packed.archive.name
    assert names(tree / "dist") == {name, f"{name}.sha256", f"{name}.b3", f"{name}.intoto.json"}
    assert verify(Tree(tree)).ok


def test_members_are_the_pinned_files_and_the_lock(tree: Path) -> None:
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__/x.pyc").write_bytes(b"outside")
    lock = json.loads((tree / "manifests/lock.json").read_bytes())
    wanted = [f"tiny-sum/{f['path']}" for f in lock["files"]] + ["tiny-sum/manifests/lock.json"]
    with tarfile.open(pack(tree, "tar.gz").archive) as tar:
        assert tar.getnames() == sorted(wanted, key=str.encode)
        assert {m.name for m in tar if m.mode & 0o100} == {"tiny-sum/run.sh"}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("implementation", ["zlib", "zlib-ng"])
def test_two_packs_are_the_same_bytes(
    tmp_path: Path, make_tree: Callable[..., Path], format: str, implementation: str
) -> None:
    first = make_tree(tmp_path / "a", implementation=implementation)
    second = tmp_path / "b"
    # Another order in the directory, other times, another umask, name, and number of threads.
    paths = [p.relative_to(first) for p in first.rglob("*") if p.is_file()]
    random.Random(5).shuffle(paths)
    for path in paths:
        (second / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(first / path, second / path)
        os.utime(second / path, (random.Random(str(path)).randint(0, 2**31),) * 2)
    outputs = []
    for root, name, umask, threads in (
        (first, "x", 0o022, 1),
        (second, "another name", 0o077, 2),
        (second, "third", 0o000, 7),
    ):
        old = os.umask(umask)
        try:
            output = tmp_path / f"{name}.{format}"
            outputs.append(pack(root, format, output=output, threads=threads).archive.read_bytes())
        finally:
            os.umask(old)
    assert outputs[0] == outputs[1] == outputs[2]


def test_checksum_files_are_read_by_the_real_tools(tree: Path) -> None:
    packed = pack(tree, "tar.gz", individual=True)
    folder = packed.archive.parent
    sums = sorted(p.name for p in folder.iterdir() if p.suffix == ".sha256")
    b3s = sorted(p.name for p in folder.iterdir() if p.suffix == ".b3")
    assert len(sums) == len(b3s) == 3
    for tool, files in (("sha256sum", sums), ("b3sum", b3s)):
        command = [tool, "-c", *files]
        if tool == "sha256sum":
            command.insert(1, "--strict")
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(": OK") == 3 and done.stderr == ""
    text = (folder / "tiny-sum.tar.gz.sha256").read_text()
    assert f"# content-id: blake3:{packed.content_id}\n" in text
    packed.archive.write_bytes(b"other")
    for tool, name in (("sha256sum", "sha256"), ("b3sum", "b3")):
        command = [tool, "-c", f"tiny-sum.tar.gz.{name}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        assert done.returncode == 1


def test_the_statement(tree: Path) -> None:
    packed = pack(tree, "zip")
    path = tree / "dist/tiny-sum.zip.intoto.json"
    plain = json.loads(path.read_bytes())
    assert plain["_type"] == "https://in-toto.io/Statement/v1"
    assert plain["predicateType"] == "https://slsa.dev/provenance/v1"
    assert plain["subject"] == [
        {
            "name": "tiny-sum.zip",
            "digest": {"sha256": packed.digests.sha256, "blake3": packed.digests.blake3},
        }
    ]
    definition = plain["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"format": "zip", "root": "tiny-sum"}
    assert definition["internalParameters"]["canonical"] is True
    dependencies = {d["name"]: d for d in definition["resolvedDependencies"]}
    assert dependencies["Some Library"]["uri"] == "pkg:generic/some%20library@1.2"
    revision = "b50d8fd7196e1c5801c1bd8edf1d64e4bf9add6c"
    assert dependencies["Some Headers"]["digest"] == {"gitCommit": revision}
    details = plain["predicate"]["runDetails"]
    assert details["byproducts"] == [
        {"name": "content-id", "digest": {"blake3": packed.content_id}}
    ]
    assert details["metadata"]["startedOn"] <= details["metadata"]["finishedOn"]
    # Every descriptor identifies its thing, and nothing is null.
    for dependency in definition["resolvedDependencies"]:
        assert dependency.get("uri") or dependency.get("digest")
    assert "null" not in path.read_text().replace('"package_version": null', "")
    assert read_statement(path).subject[0].name == "tiny-sum.zip"


def test_individual_downloads(tree: Path) -> None:
    packed = pack(tree, "tar.gz", individual=True)
    folder = tree / "dist"
    assert (folder / "worker.py").read_bytes() == (tree / "worker.py").read_bytes()
    assert (folder / "artifact.toml.b3").exists()
    assert folder / "worker.py.sha256" in packed.written
    # The second format finds them as they are.
    again = pack(tree, "zip", individual=True)
    assert folder / "worker.py" not in again.written
    # A different file of that name is not replaced.
    (folder / "worker.py").write_bytes(b"mine")
    with pytest.raises(UsageError, match="nothing was overwritten"):
        pack(tree, "zip", individual=True, output=folder / "new.zip")
    assert (folder / "worker.py").read_bytes() == b"mine"
    pack(tree, "zip", individual=True, overwrite=True)
    assert (folder / "worker.py").read_bytes() == (tree / "worker.py").read_bytes()


@pytest.mark.parametrize("suffix", ["", ".sha256", ".b3", ".intoto.json"])
def test_nothing_is_overwritten(tree: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "dist").mkdir()
    there = tree / f"dist/tiny-sum.zip{suffix}"
    there.write_bytes(b"mine")
    monkeypatch.setattr(pack_module, "verify", None)  # refused before any work
    with pytest.raises(UsageError) as caught:
        pack(tree, "zip")
    assert "--overwrite" in (caught.value.next or "")
    assert there.read_bytes() == b"mine" and len(names(tree / "dist")) == 1
    monkeypatch.undo()
    pack(tree, "zip", overwrite=True)
    assert there.read_bytes() != b"mine"


def test_a_tree_that_is_not_as_pinned_is_not_packed(tree: Path) -> None:
    (tree / "worker.py").write_bytes(b"changed")
    (tree / "extra").write_bytes(b"")
    with pytest.raises(VerificationError) as caught:
        pack(tree, "tar.gz")
    text = caught.value.render()
    assert "worker.py" in text and "extra" in text
    assert not (tree / "dist").exists()


@pytest.fixture
def after_verification(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something between the verification and the writing."""

    def arrange(act: Callable[[], object]) -> None:
        real = pack_module.verify

        def wrapped(source: object, **options: object) -> object:
            report = real(source, **options)
            if isinstance(source, Tree):
                act()
            return report

        monkeypatch.setattr(pack_module, "verify", wrapped)

    return arrange


CHANGES: dict[str, Callable[[Path], object]] = {
    "other bytes": lambda f: f.write_bytes(f.read_bytes()[:-1] + b"X"),
    "longer": lambda f: f.write_bytes(f.read_bytes() + b"X"),
    "shorter": lambda f: f.write_bytes(f.read_bytes()[:-1]),
    "mode": lambda f: f.chmod(0o755),
    "symlink": lambda f: (f.rename(f.with_name("moved")), f.symlink_to("moved")),
    "gone": lambda f: f.unlink(),
    "fifo": lambda f: (f.unlink(), os.mkfifo(f)),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_after_verification(
    tree: Path, format: str, change: str, after_verification
) -> None:
    after_verification(lambda: CHANGES[change](tree / "data/noise.bin"))
    with pytest.raises((VerificationError, EnvironmentUnmet)) as caught:
        pack(tree, format)
    assert "noise.bin" in caught.value.render()
    assert not (tree / "dist").exists()


def test_a_lock_that_changes_after_verification(tree: Path, after_verification) -> None:
    lock = tree / "manifests/lock.json"
    after_verification(lambda: lock.write_bytes(lock.read_bytes() + b"\n"))
    with pytest.raises(VerificationError, match="lock changed"):
        pack(tree, "tar.gz")
    assert not (tree / "dist").exists()


def test_what_reads_back_wrong_is_not_kept(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pack_module.TarGzWriter.write

    def wrong(self: object, data: bytes) -> None:
        real(self, data.replace(b"deep\n", b"DEEP\n"))  # type: ignore[arg-type]

    monkeypatch.setattr(pack_module.TarGzWriter, "write", wrong)
    with pytest.raises(VerificationError) as caught:
        pack(tree, "tar.gz")
    assert "docs/" in caught.value.render()
    assert not (tree / "dist").exists()


def test_files_beside_an_archive_that_failed_are_taken_back(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive takes its name last; where it cannot, what stands beside it goes."""
    real = pack_module.beside
    output = tree / "dist/tiny-sum.zip"

    def failing(path: Path, **options: object):
        if path == output:
            return refusing(path, **options)
        return real(path, **options)

    import contextlib

    @contextlib.contextmanager
    def refusing(path: Path, **options: object) -> Iterator[object]:
        with contextlib.suppress(ZeroDivisionError), real(path, **options) as file:
            yield file
            assert len(names(tree / "dist")) == 4  # three in place, the archive still partial
            raise ZeroDivisionError
        raise EnvironmentUnmet("no")

    monkeypatch.setattr(pack_module, "beside", failing)
    with pytest.raises(EnvironmentUnmet, match="no"):
        pack(tree, "zip")
    assert not (tree / "dist").exists()


def test_where_an_archive_cannot_go(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="part of what it packs"):
        pack(tree, "zip", output=tree / "new.zip")
    with pytest.raises(UsageError, match="part of what it packs"):
        pack(tree, "zip", output=tree / "data/../new.zip")
    with pytest.raises(UsageError, match="another format"):
        pack(tree, "zip", output=tmp_path / "x.tar.gz")
    with pytest.raises(UsageError, match="cannot have this name"):
        pack(tree, "zip", output=tmp_path / "a\nb.zip")
    with pytest.raises(UsageError, match="one file"):
        pack(tree, "zip", output=tmp_path / "worker.py", individual=True)
    with pytest.raises(EnvironmentUnmet) as caught:
        pack(tree, "zip", output=tmp_path / "no/such/x.zip")
    assert "mkdir" in (caught.value.next or "")
    (tmp_path / "folder").mkdir()
    assert pack(tree, "zip", output=tmp_path / "folder").archive.name == "tiny-sum.zip"


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [("", "fifo"), ("", "symlink"), (".sha256", "directory"), (".intoto.json", "fifo")],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_no_file_is_never_replaced(
    tree: Path, tmp_path: Path, suffix: str, kind: str, overwrite: bool
) -> None:
    folder = tmp_path / "out"
    taken = folder / f"x.zip{suffix}"
    (taken if kind == "directory" else folder).mkdir(parents=True)
    if kind == "fifo":
        os.mkfifo(taken)
    elif kind == "symlink":
        taken.symlink_to("nothing")
    with pytest.raises(UsageError, match="no regular file") as caught:
        pack(tree, "zip", output=folder / "x.zip", overwrite=overwrite)
    assert caught.value.where == str(taken)
    assert "--overwrite" not in (caught.value.next or "")
    assert names(folder) == {taken.name}


def edit_lock(tree: Path, **deflate: object) -> None:
    """Change the compressor's pin in manifest and lock alike."""
    path = tree / "manifests/lock.json"
    lock = json.loads(path.read_bytes())
    lock["deflate"].update(deflate)
    path.write_bytes(sealed(pretty_json(lock)))


def test_another_compressor_is_refused_unless_said(tree: Path) -> None:
    edit_lock(tree, runtime_version="9.9.9")
    with pytest.raises(EnvironmentUnmet) as caught:
        pack(tree, "tar.gz")
    assert "9.9.9" in (caught.value.expected or "")
    assert not (tree / "dist").exists()
    packed = pack(tree, "tar.gz", non_canonical=True)
    assert not packed.compressor.canonical and packed.content_id == content(tree)
    statement = json.loads((tree / "dist/tiny-sum.tar.gz.intoto.json").read_bytes())
    internal = statement["predicate"]["buildDefinition"]["internalParameters"]
    assert internal["canonical"] is False
    assert internal["deflate"]["runtime_version"] == "9.9.9"
    assert internal["compressor"]["runtime_version"] != "9.9.9"


@pytest.mark.parametrize(
    "moment", ["2026-09-21T00:00:01Z", "1979-12-31T00:00:00Z", "2026-13-01T00:00:00Z"]
)
def test_a_time_that_zip_cannot_hold(tree: Path, moment: str) -> None:
    with pytest.raises(VerificationError) as caught:
        pack_module._seconds(moment)
    assert "archive.mtime" in (caught.value.where or "")


def test_a_tree_beyond_the_ratio_says_what_readers_need(
    tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    from dataclasses import replace

    from artifact.archive.limits import DEFAULT
    from artifact.archive.unpack import unpack

    tree = make_tree(tmp_path / "t", {"zeros": bytes(70 << 20)}, block_bytes=1 << 20)
    packed = pack(tree, "zip")
    assert packed.ratio_beyond is not None
    with pytest.raises(VerificationError, match="refused"):
        unpack(packed.archive, tmp_path / "into")
    limits = replace(DEFAULT, ratio=packed.ratio_beyond)
    assert unpack(packed.archive, tmp_path / "into", limits=limits).report.ok


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, make_tree: Callable[..., Path], small_disk: Path, format: str
) -> None:
    noise = random.Random(1).randbytes(3 << 20)
    tree = make_tree(tmp_path / "t", {"noise": noise})
    with pytest.raises(EnvironmentUnmet) as caught:
        pack(tree, format, output=small_disk / f"x.{format}")
    assert "No space left" in (caught.value.found or "")
    assert "df -h" in (caught.value.next or "")
    assert names(small_disk) == set()


def test_memory_stays_flat(tmp_path: Path, make_tree: Callable[..., Path]) -> None:
    """Packing and reading back 96 MiB needs about what packing nothing needs."""
    # VmHWM and not ru_maxrss, which a process inherits from the one that started it.
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from artifact.archive.pack import pack\n"
        "pack(Path(sys.argv[1]), sys.argv[2], threads=2)\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(status.partition('VmHWM:')[2].split()[0])\n"
    )
    tree = make_tree(tmp_path / "t", {"large": bytes(range(256)) * (384 << 10)}, level=1)
    for form in FORMATS:
        command = [sys.executable, "-c", script, str(tree), form]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert int(done.stdout) < 90_000, "peak in KiB"


def test_packing_takes_no_time_from_the_clock_of_the_machine(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pack(tree, "zip", output=tmp_path / "a.zip").archive.read_bytes()
    for zone in ("America/St_Johns", "Pacific/Kiritimati"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            second = pack(tree, "zip", output=tmp_path / "a.zip", overwrite=True)
        finally:
            monkeypatch.undo()
            time.tzset()
        assert second.archive.read_bytes() == first
