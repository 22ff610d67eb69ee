from __future__ import annotations

import random
import unicodedata

import pytest
from blake3 import blake3
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from artifact.integrity.contentid import content_id

Row = tuple[str, bool, int, str]

DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
PATHS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).map(
    lambda text: unicodedata.normalize("NFC", text)
)
ROWS = st.lists(
    st.tuples(PATHS, st.booleans(), st.integers(0, 2**63), DIGESTS),
    max_size=8,
    unique_by=lambda row: unicodedata.normalize("NFC", row[0]),
)

EMPTY = blake3(b"").hexdigest()


def test_is_what_its_docstring_says() -> None:
    hasher = blake3(derive_key_context="artifact content id, version 1")
    first = (b"a", b"\0", bytes(8), bytes.fromhex(EMPTY))
    second = ("é".encode(), b"\1", (3).to_bytes(8, "little"), blake3(b"abc").digest())
    for field in (*first, *second):
        hasher.update(len(field).to_bytes(8, "little") + field)
    rows = [("e\u0301", True, 3, blake3(b"abc").hexdigest()), ("a", False, 0, EMPTY)]
    assert content_id(rows) == hasher.hexdigest()


def test_never_changes() -> None:
    # Published ids have to stay valid: these come from the first release.
    assert content_id([]) == "697c796558a1d67ccafdcd264016cb150de882a573c7071597eaf16cf3037ce6"
    assert (
        content_id([("a/b", True, 0, EMPTY), ("a", False, 1, EMPTY)])
        == "d4f7aa84905a1561ff381640e0b7a35b7a63dea592871c24ee3d55abe527942d"
    )


@given(ROWS, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_order_of_entries_does_not_matter(rows: list[Row], rng: random.Random) -> None:
    shuffled = list(rows)
    rng.shuffle(shuffled)
    assert content_id(shuffled) == content_id(rows)


@given(ROWS, ROWS)
@settings(max_examples=60)
def test_other_entries_give_another_id(one: list[Row], two: list[Row]) -> None:
    assume(sorted(one) != sorted(two))
    assert content_id(one) != content_id(two)


@given(ROWS.filter(bool), st.data())
@settings(max_examples=60)
def test_every_field_counts(rows: list[Row], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(rows) - 1))
    path, executable, size, digest = rows[i]
    flipped = f"{int(digest[0], 16) ^ 1:x}" + digest[1:]
    for changed in (
        (path + "x", executable, size, digest),
        (path, not executable, size, digest),
        (path, executable, size + 1, digest),
        (path, executable, size, flipped),
    ):
        others = [*rows[:i], changed, *rows[i + 1 :]]
        if len({row[0] for row in others}) == len(others):
            assert content_id(others) != content_id(rows)


@given(PATHS)
@settings(max_examples=60)
def test_unicode_forms_of_a_path_are_one(path: str) -> None:
    ids = {
        content_id([(unicodedata.normalize(form, path), False, 0, EMPTY)])
        for form in ("NFC", "NFD")
    }
    assert len(ids) == 1


def test_two_entries_of_one_path_are_refused() -> None:
    with pytest.raises(ValueError, match="two entries"):
        content_id([("\u00e9", False, 0, EMPTY), ("e\u0301", False, 1, EMPTY)])
