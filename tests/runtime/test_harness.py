"""The Python harness of the GPU workers, as far as it goes without a GPU."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from artifact.build.toolchain import find_nvcc
from artifact.errors import EnvironmentUnmet

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def harness() -> ModuleType:
    spec = importlib.util.spec_from_file_location("harness", ROOT / "runtime/harness.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.modules["harness"] = module
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture
def gpu(harness: ModuleType) -> ModuleType:
    return sys.modules["gpu"]


GOOD = {"B": 4, "S": 4096, "H": 32, "D": 128}


def test_a_supported_shape(gpu: ModuleType) -> None:
    assert gpu.supported(GOOD) == (4, 4096, 32, 128)


@pytest.mark.parametrize(
    ("change", "message", "found"),
    [
        ({"S": 4100}, "a sequence tail is not supported", "4100"),
        ({"S": 128}, "a sequence tail is not supported", "128"),
        ({"D": 64}, "another head dimension is not supported", "64"),
        ({"B": 0}, "a dimension is missing", "0"),
        ({"H": True}, "a dimension is missing", "True"),
        ({"HKV": 8}, "a dimension is not supported", "HKV"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    gpu: ModuleType, change: dict[str, Any], message: str, found: str
) -> None:
    with pytest.raises(gpu.Refused, match=message) as caught:
        gpu.supported({**GOOD, **change})
    assert (caught.value.kind, caught.value.found) == ("unsupported_shape", found)


def test_values_that_are_not_finite_become_null(gpu: ModuleType) -> None:
    assert gpu.finite(gpu.root(4.0)) == 2.0
    assert gpu.finite(gpu.root(math.nan)) is None
    assert gpu.finite(math.inf) is None


class Library:
    """Stands for a backend whose library fails in the ways that libraries do."""

    distributions = ()

    def __init__(self, error: Exception) -> None:
        self.error = error

    def load(self) -> None:
        raise self.error


class OutOfMemoryError(Exception):
    """Named like torch's and CuPy's."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModuleNotFoundError("No module named 'x'", name="x"), "missing_module"),
        (MemoryError(), "out_of_memory"),
        (OutOfMemoryError("CUDA out of memory"), "out_of_memory"),
        (RuntimeError("illegal address"), "failed"),
    ],
)
def test_each_failure_has_its_kind(
    harness: ModuleType, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str
) -> None:
    worker = harness.Worker("x", Library(error))
    monkeypatch.setattr(worker, "_load", worker.backend.load)
    reply = harness.answer(worker, {"op": "hello", "id": 7, "protocol": 1})
    assert (reply["op"], reply["id"], reply["backend"], reply["kind"]) == ("error", 7, "x", kind)
    assert reply["message"]


def test_a_refusal_says_what_was_expected(harness: ModuleType) -> None:
    worker = harness.Worker("x", Library(RuntimeError()))
    reply = harness.answer(worker, {"op": "hello", "id": 1, "protocol": 2})
    assert (reply["kind"], reply["expected"], reply["found"]) == ("failed", "1", "2")
    reply = harness.answer(worker, {"op": "time", "id": 2, "warmup": 1, "repeat": 1})
    assert reply["message"] == "nothing is prepared"
    reply = harness.answer(worker, {"op": "rm", "id": 3})
    assert reply["message"] == "no such request"


def test_answers_are_alone_on_their_lines() -> None:
    """What a library prints, to descriptor 1 too, does not reach the runner."""
    script = (
        "import os, sys; sys.path.insert(0, 'runtime'); import harness\n"
        "class B(harness.Backend):\n"
        "    def load(self):\n"
        "        print('noise'); os.write(1, b'more noise\\n')\n"
        "        raise harness.Refused('failed', 'no')\n"
        "    def prepare(self, q, k, v): ...\n"
        "    def launch(self): ...\n"
        "harness.Worker._load = lambda self: self.backend.load()\n"
        "harness.serve(B())\n"
    )
    requests = [{"op": "hello", "id": 1, "protocol": 1}, {"op": "quit", "id": 2}]
    done = subprocess.run(
        [sys.executable, "-c", script, "--backend", "b"],
        input="".join(json.dumps(r) + "\n" for r in requests),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in io.StringIO(done.stdout)]
    assert [(a["op"], a["id"]) for a in answers] == [("error", 1), ("quit", 2)]
    assert "noise" in done.stderr


@pytest.mark.parametrize("name", ["fa3", "tilelang_fa", "triton_fa", "triton_ws_fa"])
def test_a_worker_without_its_libraries_says_what_is_missing(name: str) -> None:
    """In an interpreter that has neither torch nor the library: an answer, not a crash."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / f"baselines/{name}.py"), "--backend", name],
        input='{"op": "hello", "id": 1, "protocol": 1}\n{"op": "quit", "id": 2}\n',
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    first, last = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["op"], first["kind"], first["backend"]) == ("error", "missing_module", name)
    assert last["op"] == "quit"


def test_the_headers_compile_without_spills(tmp_path: Path) -> None:
    try:
        nvcc = find_nvcc().path
    except EnvironmentUnmet as error:
        pytest.skip(error.what)
    source = tmp_path / "all.cu"
    source.write_text('#include "philox.cuh"\n#include "oracle.cuh"\n')
    done = subprocess.run(
        [
            str(nvcc), "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a",
            "-Xptxas", "-v", "-Werror", "all-warnings", "-I", str(ROOT / "runtime"),
            "-cubin", str(source), "-o", str(tmp_path / "all.cubin"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )  # fmt: skip
    spills = [line for line in done.stderr.splitlines() if "spill" in line]
    assert len(spills) == 5
    assert all("0 bytes spill stores, 0 bytes spill loads" in line for line in spills)
