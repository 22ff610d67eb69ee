from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.integrity import explain as module
from artifact.integrity.digest import hash_file
from artifact.integrity.explain import explain, first_bytes
from artifact.integrity.pin import Digests, Pin
from artifact.integrity.tree import Tree

TEXT = "first line\nsecond: Größe, π\n\nlast\n".encode()
CRLF = TEXT.replace(b"\n", b"\r\n")
BOM = codecs.BOM_UTF8


def pin_of(data: bytes) -> Pin:
    digests = blake3(data).hexdigest(), hashlib.sha256(data).hexdigest()
    return Pin("file", len(data), False, *digests)


def reason(folder: Path, pinned: bytes, found: bytes, **owners: str) -> str:
    (folder / "file").write_bytes(found)
    digests = hash_file(folder / "file")
    known = {blake3(pinned).hexdigest(): "file"}
    known |= {owners[name]: name for name in owners}
    return explain(Tree(folder), pin_of(pinned), digests, known)


@pytest.mark.parametrize(
    ("pinned", "found", "words"),
    [
        (TEXT, CRLF, "LF became CRLF"),
        (CRLF, TEXT, "CRLF became LF"),
        (b"a\nb\n", b"a\rb\r", "LF became CR"),
        (TEXT, BOM + TEXT, "byte order mark was added"),
        (BOM + TEXT, TEXT, "byte order mark at the start is gone"),
        (TEXT, BOM + CRLF, "byte order mark was added and LF became CRLF"),
        (TEXT, TEXT[:-1], "last line ending is gone"),
        (TEXT, CRLF[:-2], "last line ending is gone and LF became CRLF"),
        (TEXT, TEXT.decode().encode("utf-16"), "UTF-16"),
        ("Größe\n".encode(), "Größe\n".encode("latin-1"), "to Latin-1"),
        ("Größe\n".encode(), "Größe\n".encode().decode("latin-1").encode(), "twice"),
        (TEXT, b"", "the file is empty"),
        (TEXT, TEXT + b"\n", "1 byte appended after byte 37"),
        (TEXT, TEXT + bytes(4096), "4096 bytes appended after byte 37"),
        (TEXT, TEXT[:20], "17 bytes shorter: probably truncated at byte 20 of 37"),
        (TEXT, TEXT[:11], "26 bytes shorter: truncated or edited at byte 11 of 37"),
        (TEXT, b"x" + TEXT, "1 byte longer"),
        (TEXT, TEXT.replace(b"last", b"lost"), "the size is the same, the contents are not"),
    ],
)
def test_what_can_be_told(tmp_path: Path, pinned: bytes, found: bytes, words: str) -> None:
    assert words in reason(tmp_path, pinned, found)


def test_the_contents_of_another_pinned_file(tmp_path: Path) -> None:
    other = {"docs/other.md": blake3(b"other").hexdigest()}
    assert reason(tmp_path, TEXT, b"other", **other) == "it holds the contents of docs/other.md"


def test_a_pointer_that_git_lfs_left(tmp_path: Path) -> None:
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(TEXT).hexdigest()}"
        f"\nsize {len(TEXT)}\n"
    ).encode()
    assert "git lfs pull" in reason(tmp_path, TEXT, pointer)
    stranger = pointer.replace(hashlib.sha256(TEXT).hexdigest().encode(), b"0" * 64)
    assert "LFS" not in reason(tmp_path, TEXT, stranger)


@given(st.binary(max_size=60), st.binary(max_size=60))
@settings(max_examples=150)
def test_nothing_is_claimed_that_is_not_so(
    tmp_path_factory: pytest.TempPathFactory, pinned: bytes, found: bytes
) -> None:
    if pinned == found:
        return
    words = reason(tmp_path_factory.getbasetemp(), pinned, found)
    if "appended" in words:
        assert found.startswith(pinned)
    if "LF became CRLF" in words and "mark" not in words and "ending" not in words:
        assert found.replace(b"\r\n", b"\n") == pinned
    if words.startswith("the size is the same"):
        assert len(found) == len(pinned)


def test_a_large_file_is_judged_by_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WHOLE_BYTES", 100)
    pinned = b"a\n" * 100
    assert "3 bytes appended" in reason(tmp_path, pinned, pinned + b"end")
    assert "truncated or edited at byte 150" in reason(tmp_path, pinned, pinned[:150])


def test_only_as_much_is_read_as_is_asked_for() -> None:
    read: list[int] = []

    def chunks() -> Iterator[bytes]:
        for i in range(10):
            read.append(i)
            yield b"0123456789"

    assert first_bytes(chunks(), 15) == b"012345678901234"
    assert len(read) <= 3
    assert first_bytes(chunks(), 0) == b""


def test_digests_of_a_size_that_was_never_read(tmp_path: Path) -> None:
    # A guess is only made about bytes of the pinned size.
    (tmp_path / "file").write_bytes(CRLF)
    pin = pin_of(TEXT)
    wrong = Pin(pin.path, pin.size + 1, False, pin.blake3, pin.sha256)
    found = Digests(len(CRLF), blake3(CRLF).hexdigest(), None)
    assert "LF" not in explain(Tree(tmp_path), wrong, found, {})
