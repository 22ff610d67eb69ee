"""Checksum files, the statement, single downloads, and reading pinned files."""

from __future__ import annotations

from pathlib import Path

import pytest

from artifact.archive.checksums import b3_text, digests_of, file_chunks, sha256_text
from artifact.archive.downloads import plan_downloads
from artifact.archive.pack import pack
from artifact.archive.pinned import pinned_chunks
from artifact.archive.statement import check_subject, read_statement
from artifact.errors import EnvironmentUnmet, VerificationError
from artifact.integrity.digest import hash_file
from artifact.integrity.pin import Digests, Pin
from artifact.integrity.published import read_checksums


def pin_of(root: Path, path: str, **changes: object) -> Pin:
    digests = hash_file(root / path)
    values = {
        "path": path,
        "size": digests.size,
        "executable": False,
        "blake3": digests.blake3,
        "sha256": digests.sha256,
    }
    return Pin(**{**values, **changes})


def test_digests_of_pieces(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(range(256)) * 3000)
    kept: list[bytes] = []
    with path.open("rb") as file:
        file.read(10)
        assert digests_of(file_chunks(file), keep=kept) == hash_file(path)
        assert digests_of(file_chunks(file), fast=True).sha256 is None
    assert b"".join(kept) == path.read_bytes()


def test_checksum_files_are_read_back(tmp_path: Path) -> None:
    digests = Digests(3, "b" * 64, "a" * 64)
    (tmp_path / "x.sha256").write_bytes(sha256_text("an archive.zip", digests, "c" * 64))
    (tmp_path / "x.b3").write_bytes(b3_text("an archive.zip", digests))
    read = read_checksums(tmp_path / "x.sha256")
    assert (read.digests, read.content_id) == ({"an archive.zip": "a" * 64}, "c" * 64)
    read = read_checksums(tmp_path / "x.b3")
    assert (read.digests, read.content_id) == ({"an archive.zip": "b" * 64}, None)


def test_a_statement_about_another_archive(tree: Path) -> None:
    packed = pack(tree, "zip")
    statement = read_statement(tree / "dist/tiny-sum.zip.intoto.json")
    check_subject(statement, "any name", packed.digests, "here")
    for other in (
        Digests(1, packed.digests.blake3, "0" * 64),
        Digests(1, "0" * 64, packed.digests.sha256),
    ):
        with pytest.raises(VerificationError, match="about another one"):
            check_subject(statement, "any name", other, "here")


def test_downloads_must_be_pinned_and_apart(tree: Path, tmp_path: Path) -> None:
    pins = {path: pin_of(tree, path) for path in ("worker.py", "data/empty")}
    planned = plan_downloads({"a": "worker.py", "b": "worker.py"}, pins, tmp_path)
    assert [d.target.name for d in planned] == ["worker.py", "worker.py"]
    with pytest.raises(VerificationError) as caught:
        plan_downloads({"a": "gone.py"}, pins, tmp_path)
    assert "downloads.a" in (caught.value.where or "")
    pins["other/worker.py"] = pins["worker.py"]
    with pytest.raises(VerificationError, match="one file"):
        plan_downloads({"a": "worker.py", "b": "other/worker.py"}, pins, tmp_path)
    pins["worker.py.b3"] = pins["worker.py"]
    with pytest.raises(VerificationError, match="one file"):
        plan_downloads({"a": "worker.py", "b": "worker.py.b3"}, pins, tmp_path)


def test_pinned_chunks(tree: Path) -> None:
    pin = pin_of(tree, "data/noise.bin")
    assert b"".join(pinned_chunks(tree, pin)) == (tree / "data/noise.bin").read_bytes()
    for change in (
        {"blake3": "0" * 64},
        {"sha256": "0" * 64},
        {"size": 3},
        {"size": 1 << 30},
        {"executable": True},
    ):
        with pytest.raises(VerificationError, match="changed after"):
            list(pinned_chunks(tree, pin_of(tree, "data/noise.bin", **change)))
    with pytest.raises(VerificationError, match="changed after"):
        list(pinned_chunks(tree, Pin("data", 0, True, "0" * 64, "0" * 64)))
    with pytest.raises(EnvironmentUnmet, match="cannot be read"):
        list(pinned_chunks(tree, Pin("gone", 0, False, "0" * 64, "0" * 64)))


def test_no_more_is_read_than_was_pinned(tree: Path) -> None:
    pin = pin_of(tree, "data/noise.bin", size=10)
    with pytest.raises(VerificationError) as caught:
        assert list(pinned_chunks(tree, pin)) == []
    assert caught.value.found == "more than 10 bytes"
