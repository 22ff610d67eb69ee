from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import artifact.archive.source as source_module
from artifact.archive.pack import pack
from artifact.archive.source import ArchiveSource, open_source
from artifact.errors import VerificationError
from artifact.integrity.tree import Tree
from artifact.integrity.verify import verify

from .conftest import load

hostile = load("hostile")
FORMATS = ("tar.gz", "zip")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("keep", [48 << 20, 0], ids=["kept", "read again"])
def test_an_archive_answers_as_its_tree_does(
    tree: Path, form: str, keep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_KEPT_BYTES", keep)
    own = Tree(tree)
    entries = own.entries()
    digests = dict(own.digests([e.path for e in entries]))
    with open_source(pack(tree, form).archive) as source:
        assert source.entries() == entries
        paths = [e.path for e in entries]
        assert dict(source.digests(paths)) == digests
        fast = dict(source.digests(paths, fast=True))
        assert {p: d.blake3 for p, d in fast.items()} == {p: d.blake3 for p, d in digests.items()}
        for entry in entries:
            assert b"".join(source.chunks(entry.path)) == (tree / entry.path).read_bytes()
        assert source.read("manifests/lock.json") == (tree / "manifests/lock.json").read_bytes()
        assert source.problems() == []


@pytest.mark.parametrize("tool", ["tar", "zip"])
def test_another_tools_archive_has_the_same_content_id(
    tree: Path, tmp_path: Path, tool: str
) -> None:
    """The content id never depends on the container's bytes."""
    expected = verify(Tree(tree)).content_id
    named = tmp_path / "tiny-sum"
    tree.rename(named)
    path = tmp_path / "x"
    if tool == "tar":
        subprocess.run(["tar", "czf", path, "-C", tmp_path, "tiny-sum"], check=True)
    else:
        with path.open("wb") as out:
            import zipfile

            with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                for file in named.rglob("*"):
                    if file.is_file():
                        archive.write(file, file.relative_to(tmp_path))
    with open_source(path) as source:
        report = verify(source)
    assert report.ok, report.findings
    assert report.content_id == expected


def retarred(tree: Path, tmp_path: Path, *options: str) -> Path:
    path = tmp_path / "x.tar.gz"
    move = "--transform=s,^tree,tiny-sum,S"
    subprocess.run(["tar", "czf", path, move, *options, "-C", tmp_path, tree.name], check=True)
    return path


def test_a_symlink_in_place_of_a_file_is_one_finding(tree: Path, tmp_path: Path) -> None:
    (tree / "worker.py").unlink()
    (tree / "worker.py").symlink_to("run.sh")
    (tree / "data/link").symlink_to("/etc/passwd")
    with open_source(retarred(tree, tmp_path)) as source:
        findings = verify(source).findings
    assert sorted((f.kind, f.path) for f in findings) == [
        ("symlink", "data/link"),
        ("symlink", "worker.py"),
    ]


def test_a_changed_file_is_explained_without_extracting(tree: Path, tmp_path: Path) -> None:
    worker = tree / "worker.py"
    worker.write_bytes(worker.read_bytes().replace(b"\n", b"\r\n"))
    with open_source(retarred(tree, tmp_path)) as source:
        (finding,) = verify(source).findings
    assert (finding.kind, finding.path) == ("changed", "worker.py")
    assert "CRLF" in (finding.reason or "")


def test_what_the_inventory_leaves_out_of_a_tree_is_extra_in_an_archive(
    tree: Path, tmp_path: Path
) -> None:
    (tree / "dist").mkdir()
    (tree / "dist/x").write_bytes(b"")
    assert verify(Tree(tree)).ok
    with open_source(retarred(tree, tmp_path)) as source:
        (finding,) = verify(source).findings
    assert finding.path == "dist/x"


def test_container_problems_are_findings(tmp_path: Path, tree: Path) -> None:
    members = [
        hostile.member(
            f"tiny-sum/{p.relative_to(tree)}",
            p.read_bytes(),
            mode=0o755 if p.suffix == ".sh" else 0o644,
        )
        for p in tree.rglob("*")
        if p.is_file() and len(str(p.relative_to(tree))) < 80 and str(p).isascii()
    ]
    path = tmp_path / "x"
    path.write_bytes(hostile.tar(*members, members[0], hostile.member("tiny-sum/../evil")))
    with open_source(path) as source:
        kinds = sorted(f.kind for f in source.problems())
    assert kinds == ["duplicate", "name"]


def test_a_top_directory_of_another_name_is_a_finding(tree: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "czf", tmp_path / "x", "-C", tmp_path, "tree"], check=True)
    with open_source(tmp_path / "x") as source:
        (finding,) = verify(source).findings
    assert (finding.kind, finding.expected, finding.found) == ("container", "tiny-sum", "tree")


def test_no_document(tmp_path: Path) -> None:
    path = tmp_path / "x"
    link = hostile.member("top/manifests/lock.json", b"", kind=b"2", target="x")
    path.write_bytes(hostile.tar(hostile.ONE, link))
    with open_source(path) as source:
        for name, found in (
            ("manifests/artifact.toml", "nothing"),
            ("manifests/lock.json", "symlink"),
        ):
            with pytest.raises(VerificationError) as caught:
                source.read(name)
            assert found in (caught.value.found or "")


def test_a_document_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "MAX_DOCUMENT_BYTES", 3)
    path = tmp_path / "x"
    path.write_bytes(hostile.tar(hostile.ONE))
    with open_source(path) as source, pytest.raises(VerificationError, match="too large"):
        source.read("good.txt")


def test_the_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"nonsense")
    file = path.open("rb")
    with pytest.raises(VerificationError):
        ArchiveSource(file, "x")
    assert file.closed
