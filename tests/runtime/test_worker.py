"""A native kernel's program without a GPU: the worker protocol, and its direct use."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from artifact.bench.messages import answer_adapter

SHAPE = {"B": 1, "S": 256, "H": 2, "D": 128}
# No GPU of the machine that runs the tests may be seen: what is tested here does not depend on one.
ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "ASAN_OPTIONS": "detect_leaks=0"}


def talk(program: Path, *lines: str | bytes) -> list[dict[str, Any]]:
    """The answers to some lines, each a valid one of the protocol."""
    text = b"".join((x.encode() if isinstance(x, str) else x) + b"\n" for x in lines)
    done = subprocess.run(
        [str(program), "--worker", "--backend", "v0"],
        input=text,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.decode("utf-8").splitlines()
    for answer in answers:
        assert answer_adapter().validate_json(answer).backend == "v0"
    return [json.loads(answer) for answer in answers]


def ask(program: Path, **fields: Any) -> dict[str, Any]:
    first, last = talk(
        program, json.dumps({"id": 7, **fields}), json.dumps({"op": "quit", "id": 8})
    )
    assert (first["id"], last["op"], last["id"]) == (7, "quit", 8)
    return first


def test_lines_that_are_no_requests(naive: Path) -> None:
    """Each is answered, with the id -1, and the worker stays."""
    cases: list[tuple[str | bytes, str]] = [
        ("garbage", "not JSON"),
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ('{"op":"hello","id":1,"id":2}', "stands twice"),
        ("[1, 2]", "no JSON object"),
        ('{"op": "hello"}', "no id"),
        ('{"op": "hello", "id": "1"}', "no id"),
        ('{"op": "hello", "id": true}', "no id"),
        ('{"op": "hello", "id": 1.0}', "no id"),
    ]
    *answers, last = talk(naive, *(line for line, _ in cases), '{"op":"quit","id":5}')
    assert len(answers) == len(cases)
    for answer, (_, message) in zip(answers, cases, strict=True):
        assert (answer["op"], answer["kind"], answer["id"]) == ("error", "failed", -1)
        assert message in answer["message"]
    assert last == {"op": "quit", "id": 5, "backend": "v0"}


@pytest.mark.parametrize(
    ("fields", "kind", "message", "found"),
    [
        ({"op": "dance"}, "failed", "no such request", '"dance"'),
        ({"op": None}, "failed", "no such request", "null"),
        ({}, "failed", "no such request", "nothing"),
        ({"op": "hello", "protocol": 2}, "wrong_version", "another protocol version", "2"),
        ({"op": "hello"}, "wrong_version", "another protocol version", "nothing"),
        ({"op": "check"}, "failed", "nothing is prepared", "no prepare"),
        ({"op": "witness"}, "failed", "nothing is prepared", "no prepare"),
        ({"op": "time", "warmup": 1, "repeat": 1}, "failed", "nothing is prepared", "no prepare"),
    ],
)
def test_requests_that_cannot_be_answered(
    naive: Path, fields: dict[str, Any], kind: str, message: str, found: str
) -> None:
    answer = ask(naive, **fields)
    assert (answer["op"], answer["kind"]) == ("error", kind)
    assert message in answer["message"]
    assert answer["found"] == found


@pytest.mark.parametrize(
    ("change", "message", "found"),
    [
        ({"S": 300}, "a sequence tail is not supported", "300"),
        ({"S": 128}, "a sequence tail is not supported", "128"),
        ({"D": 64}, "another head dimension is not supported", "64"),
        ({"B": 0}, "a dimension is missing", "0"),
        ({"H": True}, "a dimension is missing", "true"),
        ({"S": 256.0}, "a dimension is missing", "256.0"),
        ({"H": 2**31}, "a dimension is missing", "2147483648"),
        ({"H": 65536}, "the grid is too large", "B=1, H=65536"),
        ({"B": 32768, "S": 65536}, "there are too many rows", "B=32768, S=65536"),
        ({"HKV": 8}, "a dimension is not supported", "HKV"),
    ],
)
def test_shapes_that_are_refused_by_name(
    naive: Path, change: dict[str, Any], message: str, found: str
) -> None:
    answer = ask(naive, op="prepare", shape={**SHAPE, **change}, seed=42)
    assert (answer["kind"], answer["found"]) == ("unsupported_shape", found)
    assert message in answer["message"]


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"shape": None}, "unsupported_shape", "the request has no shape"),
        ({"shape": {"B": 1}}, "unsupported_shape", "a dimension is missing"),
        ({"seed": None}, "failed", "seed is not valid"),
        ({"seed": -1}, "failed", "seed is not valid"),
        ({"seed": 2**64}, "failed", "seed is not valid"),
        ({"seed": 4.5}, "failed", "seed is not valid"),
        ({"parameters": []}, "failed", "parameters is no object"),
        ({"parameters": {"ctas": "132"}}, "failed", "the parameter ctas is not valid"),
        ({"parameters": {"ctas": 2**31}}, "failed", "the parameter ctas is not valid"),
    ],
)
def test_a_prepare_that_is_not_valid(
    naive: Path, change: dict[str, Any], kind: str, message: str
) -> None:
    fields = {"op": "prepare", "shape": SHAPE, "seed": 42, "parameters": {}, **change}
    answer = ask(naive, **fields)
    assert (answer["op"], answer["kind"], answer["message"]) == ("error", kind, message)


def test_without_a_gpu_every_valid_request_says_so(naive: Path) -> None:
    for fields in (
        {"op": "hello", "protocol": 1},
        {"op": "prepare", "shape": SHAPE, "seed": 2**64 - 1, "parameters": {"ctas": 132}},
    ):
        answer = ask(naive, **fields)
        assert (answer["kind"], answer["message"]) == ("failed", "there is no GPU to run on")
        assert answer["expected"] == "one CUDA device"
        assert answer["found"]


def test_a_worker_ends_with_its_input(naive: Path) -> None:
    assert talk(naive) == []
    (answer,) = talk(naive, '{"op":"dance","id":1}')
    assert answer["op"] == "error"


def direct(program: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments],
        env={**ENVIRONMENT, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_direct_use_without_a_gpu_is_an_unmet_environment(naive: Path) -> None:
    done = direct(naive, MHA_SEQ="8192", CHOREO_DISABLE_TIMING="1")
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(
        r"naive: there is no GPU to run on: .*\nnext: nvidia-smi \(.*CUDA_VISIBLE_DEVICES.*\)\n",
        done.stderr,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seq", "300"), "a sequence tail is not supported"),
        (("--seq", "128"), "S a multiple of 128, at least 256, found 128"),
        (("--frobnicate",), 'there is no option "--frobnicate"'),
    ],
)
def test_direct_use_of_what_is_not_supported(
    naive: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = direct(naive, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_help_names_every_option(naive: Path) -> None:
    done = direct(naive, "--help")
    assert done.returncode == 0
    assert "implementation naive" in done.stdout
    source = (Path(__file__).parents[2] / "runtime/native/options.h").read_text(encoding="utf-8")
    for option in set(re.findall(r'name == "(--[a-z-]+)"', source)) - {"--help"}:
        assert option in done.stdout
