from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifact.model.portable import path_problem, shown


@pytest.mark.parametrize(
    "path",
    [
        "a", "a/b.c", ".gitattributes", "a b", "caf\u00e9", "a" * 255, "con.d/x", "a..b",
        "console", "com10", "\u00e9" * 127, "x/" * 100 + "y", "(1)", "a'b", "#",
    ],
)  # fmt: skip
def test_portable_names(path: str) -> None:
    bad = "con.d" in path
    assert (path_problem(path) is not None) == bad


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "is empty"),
        ("/a", "is absolute"),
        ("a//b", "component ''"),
        ("a/", "component ''"),
        ("./a", "component '.'"),
        ("a/../b", "component '..'"),
        ("a\\b", "character"),
        ("C:a", "character ':'"),
        ("a\0b", "character"),
        ("a\nb", "character"),
        ("a\x7f", "character"),
        ("what?", "character '?'"),
        ("a*", "character '*'"),
        ("a.", "ends in a dot or a space"),
        ("a /b", "ends in a dot or a space"),
        ("NUL", "Windows reserves"),
        ("a/Aux.h", "Windows reserves"),
        ("lpt1.txt", "Windows reserves"),
        ("cafe\u0301", "normal form C"),
        ("\udcff", "not valid Unicode"),
        ("a" * 256, "more than 255 bytes"),
        ("\u00e9" * 128, "more than 255 bytes"),
    ],
)
def test_what_a_pinned_file_cannot_be_called(path: str, words: str) -> None:
    assert words in (path_problem(path) or "")


@given(st.text())
def test_what_is_portable_stays_below_the_root(path: str) -> None:
    if path_problem(path) is None:
        assert not path.startswith("/") and ".." not in path.split("/")
        assert unicodedata.normalize("NFC", path) == path
        assert path_problem(f"{path}/{path}") is None or len(path.encode()) > 255


@given(st.text())
def test_what_is_shown_can_be_printed(text: str) -> None:
    assert shown(text).isprintable()
    if text.isprintable():
        assert shown(text) == text
