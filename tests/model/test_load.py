"""Reading documents: strict, one clear error, and the exact place."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.errors import EnvironmentUnmet, VerificationError
from artifact.model import load
from artifact.model.canonical import canonical_digest, canonical_json, pretty_json
from artifact.model.load import (
    check_schema,
    decode,
    dotted,
    dump_json,
    load_json,
    parse_json,
    parse_model,
    parse_toml,
    read_bytes,
)
from artifact.model.lock import FilePin, Lock


def error(call: Any, *args: Any, **options: Any) -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        call(*args, **options)
    return caught.value


PIN = {"path": "a", "size": 1, "executable": False, "blake3": "0" * 64, "sha256": "1" * 64}
LOCK = {
    "lock_version": 1,
    "artifact": "a",
    "version": "1",
    "deflate": {
        "implementation": "zlib",
        "package_version": None,
        "runtime_version": "1",
        "level": 6,
        "block_bytes": 1 << 20,
    },
    "chain": [],
    "files": [PIN],
}


# ----------------------------------------------------------------------------------------- bytes


def test_reading_a_document(tmp_path: Path) -> None:
    (tmp_path / "doc").write_bytes(b"x")
    assert read_bytes(tmp_path / "doc") == b"x"
    assert error(read_bytes, tmp_path / "none", next="artifact lock").next == "artifact lock"
    assert error(read_bytes, tmp_path).found == "a directory"


def test_a_document_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_DOCUMENT_BYTES", 3)
    (tmp_path / "doc").write_bytes(b"1234")
    assert error(read_bytes, tmp_path / "doc").found == "4 bytes"


def test_a_place_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((EnvironmentUnmet, VerificationError)):
        read_bytes(tmp_path / "file" / "below")
    with pytest.raises((EnvironmentUnmet, VerificationError)):
        read_bytes(tmp_path / ("x" * 300))


def test_text() -> None:
    assert decode("Größe".encode(), "doc") == "Größe"
    assert error(decode, b"", "doc").what == "a document is empty"
    bad = error(decode, b"abc\xe9def", "doc")
    assert (bad.where, bad.found) == ("doc: byte 3", "byte 0xe9")


# ------------------------------------------------------------------------------------------ JSON


@pytest.mark.parametrize(
    ("text", "found", "where"),
    [
        ("{", None, "doc:1:2"),
        ('{"a": 1,\n "b": }', None, "doc:2:7"),
        ('{"a": 1, "a": 2}', "'a' stands twice", "doc"),
        ('{"x": {"b": 1, "b": 1}}', "'b' stands twice", "doc"),
        ("NaN", "NaN", "doc"),
        ("[Infinity]", "Infinity", "doc"),
        ("-Infinity", "-Infinity", "doc"),
        ("1e400", "too large", "doc"),
        ("[" * 100_000, "nested too deeply", "doc"),
        ("{'a': 1}", None, "doc:1:2"),
        ('{"a": 1} {"b": 2}', None, "doc:1:10"),
        ('"\t"', None, "doc:1:2"),
        ("9" * 5000, "", "doc"),
    ],
)
def test_what_is_no_json(text: str, found: str | None, where: str) -> None:
    bad = error(parse_json, text.encode(), "doc")
    assert bad.where == where
    assert found is None or found in (bad.found or "")


def test_a_truncated_document_is_called_that() -> None:
    text = json.dumps(LOCK)
    for cut in range(1, len(text), 17):
        bad = error(parse_json, text[:cut].encode(), "doc")
        assert bad.cause in ("the file is truncated", None)
    assert error(parse_json, b'{"a": [1, 2', "doc").cause == "the file is truncated"
    assert error(parse_json, b'{"a" 1}', "doc").cause is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    for write in (pretty_json, canonical_json):
        assert parse_json(write(value), "doc") == value


@given(st.binary(max_size=80))
@settings(max_examples=200)
def test_any_bytes_are_a_value_or_one_error(data: bytes) -> None:
    for parse in (parse_json, parse_toml):
        try:
            parse(data, "doc")
        except VerificationError as bad:
            assert bad.where and bad.where.startswith("doc")


def test_canonical_json_does_not_depend_on_order() -> None:
    assert canonical_json({"b": 1, "a": [0.1]}) == b'{"a":[0.1],"b":1}'
    assert canonical_digest({"b": 1, "a": 2}) == canonical_digest({"a": 2, "b": 1})
    assert canonical_digest({"a": 1}) != canonical_digest({"a": 1.0})
    for write in (pretty_json, canonical_json):
        with pytest.raises(ValueError):
            write(math.nan)


# ------------------------------------------------------------------------------------------ TOML


def test_times_become_text_in_utc() -> None:
    value = parse_toml(
        b"a = 2026-09-21T02:00:00+02:00\nb = [1979-05-27]\n[c]\nd = 07:32:00\n"
        b"e = 2026-09-21T00:00:00.5Z\nf = 2026-09-21T00:00:00\n",
        "doc",
    )
    assert value == {
        "a": "2026-09-21T00:00:00Z",
        "b": ["1979-05-27"],
        "c": {"d": "07:32:00", "e": "2026-09-21T00:00:00.500000Z", "f": "2026-09-21T00:00:00"},
    }


@pytest.mark.parametrize(
    "text",
    ["a = ", "a = 1\na = 2\n", "[a]\n[a]\n", "a = 'unclosed", "= 1", "a = 01", "a = [1, 2"],
)
def test_what_is_no_toml(text: str) -> None:
    bad = error(parse_toml, text.encode(), "doc")
    assert (
        bad.what == "a document is not TOML"
        and bad.found
        and ("line" in bad.found or "end" in bad.found)
    )


@pytest.mark.parametrize("text", [f"a = {'9' * 6000}", "a = 0001-01-01T00:00:00+10:00"])
def test_values_that_python_does_not_take(text: str) -> None:
    assert error(parse_toml, text.encode(), "doc").what == "a document is not TOML"


# ------------------------------------------------------------------------------ schema and model


def test_dotted_places() -> None:
    assert dotted(["backends", 3, "witness", "threads"]) == "backends[3].witness.threads"
    assert dotted([0, 1]) == "[0][1]"
    assert dotted([]) == ""


def test_the_same_place_from_schema_and_model() -> None:
    bad = {**LOCK, "files": [PIN, {**PIN, "path": "b", "size": "1"}]}
    for call in (
        lambda: check_schema("lock", bad, "doc"),
        lambda: parse_model(Lock, bad, "doc"),
        lambda: load_json("lock", Lock, json.dumps(bad).encode(), "doc"),
    ):
        assert error(call).where == "doc: files[1].size"


def test_every_violation_is_listed() -> None:
    bad = {**LOCK, "artifact": 1, "extra": 1, "files": [{**PIN, "size": -1}]}
    for call in (lambda: check_schema("lock", bad, "doc"), lambda: parse_model(Lock, bad, "doc")):
        text = "\n".join(error(call).details)
        assert all(word in text for word in ("artifact", "extra", "files[0].size"))


def test_a_rule_over_the_whole_document_names_its_place() -> None:
    bad = {**LOCK, "files": [PIN, PIN]}
    assert error(parse_model, Lock, bad, "doc").where == "doc: files[1].path"


def test_trusted_bytes_are_not_checked_against_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(load, "check_schema", fail)
    data = json.dumps(LOCK).encode()
    assert load_json("lock", Lock, data, "doc", trusted=True).artifact == "a"
    with pytest.raises(AssertionError):
        load_json("lock", Lock, data, "doc")


def test_what_is_written_was_checked_and_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = Lock.model_validate_json(json.dumps(LOCK))
    data = dump_json("lock", lock, "doc")
    assert load_json("lock", Lock, data, "doc") == lock
    assert data.endswith(b"\n") and dump_json("lock", lock, "doc") == data
    broken = lock.model_copy(update={"files": (FilePin.model_construct(path="a"),)})
    error(dump_json, "lock", broken, "doc")


def test_toml_as_a_model() -> None:
    text = f'path = "a"\nsize = 1\nexecutable = false\nblake3 = "{"0" * 64}"\nsha256 = "{"1" * 64}"'
    assert parse_model(FilePin, parse_toml(text.encode(), "doc"), "doc") == FilePin(**PIN)
    value = parse_toml(b"path = 'a'\nsize = nan", "doc")
    assert error(parse_model, FilePin, value, "doc").where
