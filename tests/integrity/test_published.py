from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifact.errors import EnvironmentUnmet, VerificationError
from artifact.integrity.digest import hash_file
from artifact.integrity.published import check_published, neighbours, read_checksums
from artifact.integrity.tree import Tree
from artifact.integrity.verify import Report, verify

ID, OTHER = "a" * 64, "b" * 64
HEAD = f"# content-id: blake3:{ID}\n"


def written(folder: Path, text: str, name: str = "x.sha256") -> Path:
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def test_what_sha256sum_writes(tmp_path: Path) -> None:
    names = ["plain.zip", "with space.zip", "back\\slash", "new\nline", "caf\u00e9.zip"]
    for name in names:
        (tmp_path / name).write_text(name)
    for flags in ([], ["--binary"]):
        done = subprocess.run(
            ["sha256sum", *flags, *names], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        sums = read_checksums(written(tmp_path, HEAD + done.stdout))
        assert sums.content_id == ID and sums.algorithm == "sha256"
        assert sums.digests == {name: hash_file(tmp_path / name).sha256 for name in names}


def test_sha256sum_accepts_the_comment(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("a")
    line = f"{hash_file(tmp_path / 'a.zip').sha256}  a.zip\n"
    written(tmp_path, HEAD + line)
    check = ["sha256sum", "--strict", "--check", "x.sha256"]
    subprocess.run(check, cwd=tmp_path, capture_output=True, check=True)


@pytest.mark.skipif(shutil.which("b3sum") is None, reason="b3sum is not installed")
def test_what_b3sum_writes(tmp_path: Path) -> None:
    (tmp_path / "a b.zip").write_text("a")
    done = subprocess.run(
        ["b3sum", "a b.zip"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    sums = read_checksums(written(tmp_path, done.stdout, "x.b3"))
    assert sums.algorithm == "blake3" and sums.content_id is None
    assert sums.digests == {"a b.zip": hash_file(tmp_path / "a b.zip").blake3}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("# only a remark\n", "neither a digest nor a content id"),
        ("not a checksum\n", "x.sha256:1"),
        (f"{ID}  a\n{ID[:-1]}  b\n", "x.sha256:2"),
        (f"{ID}  a\n{OTHER}  a\n", "two digests for 'a'"),
        (HEAD + HEAD.replace(ID, OTHER), "two content ids"),
        (f"{ID} a\n", "x.sha256:1"),
        ("\udcff\n", "UTF-8"),
    ],
)
def test_what_is_no_checksum_file(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(VerificationError) as caught:
        read_checksums(written(tmp_path, text))
    assert words in caught.value.render()


def test_a_checksum_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises((VerificationError, EnvironmentUnmet)):
        read_checksums(tmp_path / "none.sha256")


def test_windows_line_endings_and_upper_case(tmp_path: Path) -> None:
    text = (HEAD + f"{OTHER.upper()}  a.zip\n").replace("\n", "\r\n")
    sums = read_checksums(written(tmp_path, text))
    assert (sums.content_id, sums.digests) == (ID, {"a.zip": OTHER})


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.sha256"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        sums = read_checksums(path)
    except VerificationError:
        return
    assert sums.digests or sums.content_id


def test_neighbours(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    assert neighbours(archive) == []
    for suffix in (".b3", ".sha256", ".md5"):
        written(tmp_path, "", f"a.tar.gz{suffix}")
    assert [p.name for p in neighbours(archive)] == ["a.tar.gz.sha256", "a.tar.gz.b3"]


@pytest.fixture
def report(tree: Path) -> Report:
    return verify(Tree(tree))


def test_a_tree_is_compared_by_its_content_id(tree: Path, tmp_path: Path, report: Report) -> None:
    right = written(tmp_path, f"# content-id: blake3:{report.content_id}\n{ID}  a.zip\n")
    assert check_published(report, tree, [read_checksums(right)]).ok
    wrong = written(tmp_path, HEAD)
    (finding,) = check_published(report, tree, [read_checksums(wrong)]).findings
    assert finding.kind == "content-id" and str(wrong) in finding.message
    assert "the lock itself is another one" in (finding.reason or "")


def test_a_file_that_says_nothing_about_it_is_an_error(
    tree: Path, tmp_path: Path, report: Report
) -> None:
    sums = read_checksums(written(tmp_path, f"{ID}  another.zip\n"))
    with pytest.raises(VerificationError, match="says nothing"):
        check_published(report, tree, [sums])


@pytest.mark.parametrize("suffix", ["sha256", "b3"])
def test_an_archive_is_compared_by_its_bytes(tmp_path: Path, report: Report, suffix: str) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(b"archive")
    digests = hash_file(archive)
    digest = digests.sha256 if suffix == "sha256" else digests.blake3
    sums = read_checksums(written(tmp_path, f"{digest}  a.zip\n", f"a.zip.{suffix}"))
    assert check_published(report, archive, [sums]).ok
    archive.write_bytes(b"brchive")
    (finding,) = check_published(report, archive, [sums]).findings
    assert (finding.kind, finding.path) == ("checksum", "a.zip")
    assert finding.expected == f"{'sha256' if suffix == 'sha256' else 'blake3'}:{digest}"
