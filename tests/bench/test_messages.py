from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from artifact.bench import messages
from artifact.model.results import Band, Figures

BAND = {
    "first": 0, "last": 3, "rows": 4, "e_max": 0.1, "e_rms": 0.1, "e0_max": 0.1, "e0_rms": 0.1,
}  # fmt: skip
FIGURES = {
    "elements": 16,
    "rows": 4,
    "nonfinite": 0,
    "outside_tolerance": 0,
    "max_abs": 0.5,
    "max_abs0": 0.5,
    "bands": [BAND],
}
ANSWERS: dict[str, dict[str, Any]] = {
    "hello": {
        "protocol": 1,
        "python": "3.12.1",
        "versions": {"numpy": "2"},
        "clock": "cuda-events",
    },
    "prepare": {"inputs": {"q": "a" * 64}, "setup_ms": {"compile": 1.5}},
    "check": {
        "figures": FIGURES,
        "controls": [{"name": "zeros", "position": None, "figures": FIGURES}],
    },
    "witness": {
        "facts": {"symbol": "k", "threads": 384, "share": 0.5, "fast": True, "cubin": None}
    },
    "time": {"ms": 1.5, "clock": "host-monotonic", "warmup": 50, "repeat": 200},
    "quit": {},
    "error": {"kind": "failed", "message": "no", "expected": "a", "found": "b"},
}
MODELS = {
    "hello": messages.Hello,
    "prepare": messages.Prepared,
    "check": messages.Checked,
    "witness": messages.Witnessed,
    "time": messages.Timed,
    "quit": messages.Quit,
    "error": messages.Failed,
}
DOCUMENT = Path(__file__).parents[2] / "docs" / "worker-protocol.md"


def parse(value: Any) -> Any:
    text = value if isinstance(value, str | bytes) else json.dumps(value)
    return messages.answer_adapter().validate_json(text)


def answer(op: str, **changes: Any) -> dict[str, Any]:
    return {"op": op, "id": 7, "backend": "v1", **ANSWERS[op], **changes}


@pytest.mark.parametrize("op", ANSWERS)
def test_each_answer_is_its_model(op: str) -> None:
    found = parse(answer(op))
    assert type(found) is MODELS[op]
    assert (found.op, found.id, found.backend) == (op, 7, "v1")
    assert json.loads(found.model_dump_json()).items() >= answer(op).items()


@pytest.mark.parametrize("op", ANSWERS)
@pytest.mark.parametrize("field", ["op", "id", "backend"])
def test_every_answer_says_what_it_answers(op: str, field: str) -> None:
    value = answer(op)
    del value[field]
    with pytest.raises(ValidationError):
        parse(value)


@pytest.mark.parametrize("op", ANSWERS)
@pytest.mark.parametrize(
    "changes",
    [{"id": "7"}, {"id": 7.5}, {"backend": ""}, {"backend": "V 1"}, {"extra": 1}, {"op": "tell"}],
)
def test_no_answer_is_taken_half(op: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        parse({**answer(op), **changes})


@pytest.mark.parametrize(
    ("op", "changes"),
    [
        ("hello", {"clock": "wall"}),
        ("hello", {"protocol": "1"}),
        ("prepare", {"inputs": {"q": "A" * 64}}),
        ("prepare", {"inputs": {"q": "a" * 63}}),
        ("prepare", {"setup_ms": {"compile": -1}}),
        ("check", {"controls": [{"name": "zeros", "figures": FIGURES}]}),
        ("check", {"controls": [{"name": "zeros", "position": "end", "figures": FIGURES}]}),
        ("check", {"figures": {**FIGURES, "bands": []}}),
        ("check", {"figures": {**FIGURES, "elements": -1}}),
        ("check", {"figures": {**FIGURES, "nonfinite": 1.5}}),
        ("check", {"figures": {**FIGURES, "passed": True}}),
        ("check", {"figures": {**FIGURES, "bands": [{**BAND, "rows": 0}]}}),
        ("witness", {"facts": {"grid": [1, 2, 3]}}),
        ("time", {"ms": 0}),
        ("time", {"ms": -1.0}),
        ("time", {"ms": None}),
        ("time", {"ms": 1e13}),
        ("time", {"ms": "1.5"}),
        ("time", {"repeat": 200.5}),
        ("error", {"kind": "oops"}),
        ("error", {"message": ""}),
    ],
)
def test_what_the_protocol_does_not_allow_is_refused(op: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        parse(answer(op, **changes))


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(("op", "number"), [("time", "1.5"), ("check", "0.5"), ("witness", "0.5")])
def test_numbers_that_are_not_finite_never_get_in(op: str, number: str, word: str) -> None:
    text = json.dumps(answer(op))
    assert number in text
    with pytest.raises(ValidationError):
        parse(text.replace(number, word, 1))


@pytest.mark.parametrize("field", ["max_abs", "max_abs0"])
def test_null_stands_for_them_in_figures(field: str) -> None:
    found = parse(answer("check", figures={**FIGURES, field: None}))
    assert getattr(found.figures, field) is None


@pytest.mark.parametrize("field", ["e_max", "e_rms", "e0_max", "e0_rms"])
def test_null_stands_for_them_in_bands(field: str) -> None:
    found = parse(answer("check", figures={**FIGURES, "bands": [{**BAND, field: None}]}))
    assert getattr(found.figures.bands[0], field) is None


@pytest.mark.parametrize(
    "line",
    ["", "\n", "{", "[]", "null", "7", '"hello"', "{}", '{"op":"hello"}', "\x00", "loading..."],
)
def test_a_line_that_is_no_answer_is_refused(line: str) -> None:
    with pytest.raises(ValidationError):
        parse(line)


@settings(max_examples=150)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda t: t.encode())))
def test_any_line_parses_or_is_refused(line: bytes) -> None:
    try:
        found = parse(line)
    except ValidationError:
        return
    assert type(found) in MODELS.values()


def test_facts_keep_their_types() -> None:
    facts = parse(answer("witness")).facts
    assert {name: type(value) for name, value in facts.items()} == {
        "symbol": str, "threads": int, "share": float, "fast": bool, "cubin": type(None),
    }  # fmt: skip


def test_the_document_says_the_same() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert f"version {messages.PROTOCOL}" in text.splitlines()[0]
    text = text.replace('"B":1,...', '"B":1')
    requests = [json.loads(line) for line in re.findall(r"^\| `(\{.*?\})` \|", text, re.M)]
    assert [request["op"] for request in requests] == [op for op in MODELS if op != "error"]
    kinds = re.search(r"KIND is one of (.*?)\. ", text, re.S)
    assert kinds is not None
    assert tuple(re.findall(r"`(\w+)`", kinds.group(1))) == get_args(messages.ErrorKind)
    figures = text[text.index("**Figures**") :]
    for field in (*Figures.model_fields, *Band.model_fields):
        assert f"`{field}`" in figures, field
    for model, row in ((messages.Prepared, "inputs"), (messages.Timed, "ms")):
        assert row in model.model_fields
        assert f"`{row}`" in text
