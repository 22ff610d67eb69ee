"""runtime/json.h against Python's json."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Ask = Callable[..., str]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(batch=st.lists(st.tuples(documents, st.booleans()), min_size=1, max_size=40))
def test_what_python_writes_comes_back(ask: Ask, batch: list[tuple[Any, bool]]) -> None:
    """Many documents a process; escaped to ASCII or as UTF-8."""
    lines = [json.dumps(document, ensure_ascii=plain) for document, plain in batch]
    answers = ask("json", given="".join(f"{line}\n" for line in lines)).split("\n")[:-1]
    assert [json.loads(line) for line in answers] == [document for document, _ in batch]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON value at byte 0"),
        ("{", "a key is expected"),
        ('{"a":1,}', "a key is expected"),
        ('{"a" 1}', "a colon is expected"),
        ('{"a":1 "b":2}', "a comma or the end of the object"),
        ('{"a":1,"a":2}', "the key a stands twice"),
        ("{'a':1}", "a key is expected"),
        ("[1,]", "no JSON value"),
        ("[1 2]", "a comma or the end of the array"),
        ("1 2", "something follows"),
        ("[1]]", "something follows"),
        ("01", "something follows"),
        ("+1", "no JSON value"),
        ("-", "no JSON value"),
        ("1.", "no JSON value"),
        (".5", "no JSON value"),
        ("1e", "no JSON value"),
        ("0x10", "something follows"),
        ("1e999", "out of range"),
        ("NaN", "no JSON value"),
        ("Infinity", "no JSON value"),
        ("tru", "no JSON value"),
        ("true1", "something follows"),
        ('"abc', "does not end"),
        ('"a\tb"', "a control character"),
        (r'"\x"', "no such escape"),
        (r'"\u12g4"', "four hexadecimal digits"),
        (r'"\ud800"', "half of a surrogate pair"),
        (r'"\ud800\u0041"', "half of a surrogate pair"),
        (r'"\udc00"', "half of a surrogate pair"),
        ("// 1", "no JSON value"),
        ("\ufeff1", "no JSON value"),
        ("[" * 100_000, "nesting is too deep"),
        ("\0", "no JSON value"),
        ("1\0", "something follows"),
    ],
)
def test_what_is_no_json(ask: Ask, text: str, message: str) -> None:
    answer = ask("json", given=text + "\n").strip()
    assert answer.startswith("error: ")
    assert message in answer


@pytest.mark.parametrize(
    "bytes_",
    [
        b"\xff", b"\xc0\xaf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
        b"\xe2\x82", b"\x80",
    ],
)  # fmt: skip
def test_bytes_that_are_no_utf8(ask: Ask, bytes_: bytes) -> None:
    assert "no UTF-8" in ask("json", given=b'"' + bytes_ + b'"\n')


def test_large_numbers_keep_their_digits(ask: Ask) -> None:
    values = [2**64 - 1, 2**63, 2**63 - 1, -(2**63), 5e-324, 1.7976931348623157e308, 0.1, -0.0]
    lines = "".join(json.dumps(v) + "\n" for v in values)
    answers = [json.loads(line) for line in ask("json", given=lines).splitlines()]
    assert answers[:-1] == values[:-1]
    assert math.copysign(1, answers[-1]) == -1
    assert json.loads(ask("json", given="18446744073709551616\n")) == 2.0**64
