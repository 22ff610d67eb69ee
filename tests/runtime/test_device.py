"""The native harness with a device: a stand-in for the CUDA runtime runs its kernels on the CPU.

tests/assets/native/fakecuda.cpp has those kernels a second time, from their contracts. So what
is tested is the host's side: which kernel runs with which arguments over which rows, what is
copied, filled and freed, and what becomes of failures. The CUDA kernels themselves need a GPU:
benchmarks/native_trial.py.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from artifact.bench.messages import answer_adapter

GATES = {"atol": 0.05, "rtol": 0.1, "band_axis": "S", "band_rows": 256}
SHAPE = {"B": 1, "S": 384, "H": 2, "D": 128}
CONTROLS = [
    ("zeros", None), ("dropped-tile", "first"), ("dropped-tile", "middle"),
    ("dropped-tile", "last"), ("leaked-tile", "first"), ("leaked-tile", "middle"),
    ("leaked-tile", "last"), ("wrong-scale", None), ("stale-buffer", None), ("nan", None),
]  # fmt: skip


@pytest.fixture
def program(faked: Path) -> Path:
    return faked


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    log = tmp_path / "launches"
    log.touch()
    # Device memory that is not freed is seen by the stand-in itself.
    return {**os.environ, "FAKE_CUDA_LOG": str(log), "ASAN_OPTIONS": "detect_leaks=0"}


def launches(environment: dict[str, str]) -> list[str]:
    names = Path(environment["FAKE_CUDA_LOG"]).read_text().splitlines()
    return ["attention" if "naive_attention" in name else name for name in names]


class Talk:
    def __init__(self, program: Path, environment: dict[str, str], *arguments: str) -> None:
        self.process = subprocess.Popen(
            [str(program), "--worker", "--backend", "v0", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.id = 0

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.id += 1
        self.process.stdin.write(json.dumps({"op": op, "id": self.id, **fields}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.communicate(timeout=60)[1]
        answer_adapter().validate_json(line)
        answer: dict[str, Any] = json.loads(line)
        assert (answer["id"], answer["backend"]) == (self.id, "v0")
        return answer

    def prepare(self, **change: Any) -> dict[str, Any]:
        return self.ask("prepare", **{"shape": SHAPE, "seed": 42, "parameters": {}, **change})

    def end(self) -> None:
        assert self.ask("quit")["op"] == "quit"
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, out) == (0, ""), err


Start = Callable[..., Talk]


@pytest.fixture
def start(program: Path, environment: dict[str, str]) -> Iterator[Start]:
    started: list[Talk] = []

    def begin(*arguments: str, **env: str) -> Talk:
        started.append(Talk(program, {**environment, **env}, *arguments))
        return started[-1]

    yield begin
    for talk in started:
        talk.process.kill()
        talk.process.communicate()


@pytest.fixture(scope="module")
def cpu() -> ModuleType:
    import importlib.util
    import sys

    path = Path(__file__).resolve().parents[2] / "baselines/cpu_reference.py"
    spec = importlib.util.spec_from_file_location("cpu_reference_of_native", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def alike(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Figures of two implementations of one specification: equal but for rounding."""
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        if name == "bands":
            for a, b in zip(mine["bands"], value, strict=True):
                alike(a, b)
        elif value is None or isinstance(value, int):
            # Rounding moves a few elements over the tolerance's edge.
            tolerance = max(2, value / 100) if name == "outside_tolerance" and value else 0
            assert mine[name] is value or abs(mine[name] - value) <= tolerance, name
        else:
            assert math.isclose(mine[name], value, rel_tol=0.03), (name, mine[name], value)


def test_inputs_figures_and_controls_are_the_cpu_references(start: Start, cpu: ModuleType) -> None:
    """Another language, other loops, the same numbers: every control at every position."""
    wanted = cpu.Worker("v0", cpu.direct, (128, 128))
    controls = [{"name": name, "position": position} for name, position in CONTROLS]
    prepared = wanted.answer({"op": "prepare", "shape": SHAPE, "seed": 42})
    reference = wanted.answer({"op": "check", "gates": GATES, "controls": controls})
    worker = start()
    assert worker.prepare()["inputs"] == prepared["inputs"]
    checked = worker.ask("check", gates=GATES, controls=controls)
    figures = checked["figures"]
    plain = {k: v for k, v in figures.items() if k not in ("max_abs", "bands")}
    plain["max_abs"] = figures["max_abs0"]
    plain["bands"] = [
        {**band, "e_max": band["e0_max"], "e_rms": band["e0_rms"]} for band in figures["bands"]
    ]
    alike(plain, reference["figures"])
    for band in figures["bands"]:
        assert 0 < band["e_max"] <= band["e0_max"]
        assert 0 < band["e_rms"] <= band["e0_rms"]
    assert [(c["name"], c["position"]) for c in checked["controls"]] == CONTROLS
    for mine, theirs in zip(checked["controls"], reference["controls"], strict=True):
        if mine["name"] in ("stale-buffer", "nan"):
            # Made of the implementation's own output, of which only the fault is the same.
            fault, other = mine["figures"]["bands"][-1], theirs["figures"]["bands"][-1]
            if other["e_max"] is None:
                assert (fault["e_max"], fault["e_rms"]) == (None, None)
            else:
                assert math.isclose(fault["e_max"], other["e_max"], rel_tol=0.01)
                assert math.isclose(fault["e_rms"], other["e_rms"], rel_tol=0.01)
            assert mine["figures"]["nonfinite"] == theirs["figures"]["nonfinite"]
            assert mine["figures"]["bands"][0] == figures["bands"][0]
        else:
            alike(mine["figures"], theirs["figures"])
    worker.end()


def test_a_whole_conversation(start: Start, program: Path, environment: dict[str, str]) -> None:
    worker = start()
    hello = worker.ask("hello", protocol=1)
    assert (hello["protocol"], hello["clock"]) == (1, "cuda-events")
    assert set(hello["versions"]) == {"nvcc", "cudart"}
    prepared = worker.prepare(parameters={"most-heads": 2})
    assert set(prepared["inputs"]) == {"q", "k", "v"}
    assert set(prepared["setup_ms"]) == {"inputs", "implementation", "first launch"}
    assert launches(environment) == ["philox_fill"] * 3 + ["attention"]
    facts = worker.ask("witness")["facts"]
    assert facts == {
        "implementation": "naive",
        "symbol": "_Z15naive_attentionPK13__nv_bfloat16S1_S1_PS_iix",
        "kernels": 1,
        "grid": "96x1x1",
        "block": "256x1x1",
        "threads": 256,
        "cluster": 1,
        "registers": 40,
        "spills": 8,
        "static_shared_bytes": 16,
        "dynamic_shared_bytes": 0,
        "module_sha256": hashlib.sha256(program.read_bytes()).hexdigest(),
    }
    Path(environment["FAKE_CUDA_LOG"]).write_text("")
    timed = worker.ask("time", warmup=2, repeat=3)
    assert launches(environment) == [
        *["attention"] * 2, "event", *["attention"] * 3, "event",
    ]  # fmt: skip
    assert timed["ms"] > 0
    assert (timed["warmup"], timed["repeat"], timed["clock"]) == (2, 3, "cuda-events")
    assert worker.ask("witness")["facts"] == facts
    again = worker.prepare(shape={**SHAPE, "S": 256, "B": 2})
    assert again["inputs"] != prepared["inputs"]
    assert worker.prepare()["inputs"] == prepared["inputs"]
    worker.end()


def test_the_output_is_poisoned_before_a_check(start: Start, environment: dict[str, str]) -> None:
    """What nobody writes is NaN, even where the launch before wrote it."""
    worker = start(FAKE_CUDA_FAULT="unwritten")
    worker.prepare()
    Path(environment["FAKE_CUDA_LOG"]).write_text("")
    checked = worker.ask("check", gates=GATES, controls=[])
    assert launches(environment)[:2] == ["fill 255", "attention"]
    assert checked["figures"]["nonfinite"] == 2 * 128
    assert checked["figures"]["bands"][1]["e_max"] is None
    worker.end()


def test_a_profiler_looks_at_timed_launches_alone(
    start: Start, environment: dict[str, str]
) -> None:
    worker = start("--profile-window")
    worker.prepare()
    worker.ask("time", warmup=0, repeat=1)
    worker.end()
    names = launches(environment)
    begin = names.index("profiler start")
    assert names[begin:] == ["profiler start", "event", "attention", "event", "profiler stop"]


def test_too_little_memory_is_said_and_survived(start: Start) -> None:
    """At a prepare, and at a check, which needs more."""
    elements = math.prod(SHAPE.values())
    worker = start(FAKE_CUDA_BYTES=str(2 * elements * 5))
    larger = worker.prepare(shape={**SHAPE, "B": 2})
    assert (larger["op"], larger["kind"]) == ("error", "out_of_memory")
    assert "device memory" in larger["message"]
    assert worker.ask("time", warmup=0, repeat=1)["message"] == "nothing is prepared"
    assert worker.prepare()["op"] == "prepare"
    checked = worker.ask("check", gates=GATES, controls=[])
    assert (checked["op"], checked["kind"]) == ("error", "out_of_memory")
    assert worker.ask("time", warmup=0, repeat=1)["op"] == "time"
    worker.end()


def test_what_an_implementation_refuses(start: Start) -> None:
    worker = start()
    answer = worker.prepare(parameters={"most-heads": 1})
    assert (answer["kind"], answer["message"]) == (
        "unsupported_shape",
        "more heads than most-heads",
    )
    assert worker.prepare(parameters={"most-heads": 2})["op"] == "prepare"
    worker.end()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gates": None}, "the request lacks gates"),
        ({"gates": {**GATES, "atol": None}}, "atol is not valid"),
        ({"gates": {**GATES, "rtol": -0.1}}, "rtol is not valid"),
        ({"gates": {**GATES, "band_rows": 0}}, "band_rows is not valid"),
        ({"gates": {**GATES, "band_rows": 1.5}}, "band_rows is not valid"),
        ({"gates": {**GATES, "band_axis": "H"}}, "another band axis is not supported"),
        ({"controls": {}}, "controls is no list"),
        ({"controls": ["zeros"]}, "a control is not valid"),
        ({"controls": [{"name": 1}]}, "a control is not valid"),
        ({"controls": [{"name": "ghost"}]}, "the control does not exist"),
        ({"controls": [{"name": "zeros", "position": "last"}]}, "the control does not exist"),
        ({"controls": [{"name": "dropped-tile"}]}, "the control does not exist"),
        (
            {"controls": [{"name": "leaked-tile", "position": "end"}]},
            "the control does not exist",
        ),
    ],
)
def test_a_check_that_is_not_valid(start: Start, fields: dict[str, Any], message: str) -> None:
    worker = start()
    worker.prepare(shape={**SHAPE, "S": 256, "H": 1})
    answer = worker.ask("check", **{"gates": GATES, "controls": [], **fields})
    assert (answer["op"], answer["kind"], answer["message"]) == ("error", "failed", message)
    assert worker.ask("check", gates=GATES)["controls"] == []
    worker.end()


def test_bands_longer_than_the_sequence(start: Start) -> None:
    worker = start()
    worker.prepare(shape={**SHAPE, "S": 256, "H": 1})
    (band,) = worker.ask("check", gates={**GATES, "band_rows": 2**31 - 1})["figures"]["bands"]
    assert (band["first"], band["last"], band["rows"]) == (0, 255, 256)
    worker.end()


def test_a_fault_of_the_device_is_reported_and_stays(start: Start) -> None:
    """A context does not survive an illegal access: every request from then on says so."""
    worker = start(FAKE_CUDA_FAULT="illegal")
    for _ in range(2):
        answer = worker.prepare()
        assert (answer["op"], answer["kind"]) == ("error", "failed")
        assert "cudaErrorIllegalAddress" in answer["message"]
    worker.end()


def test_an_executable_for_another_device_is_no_fallback(start: Start) -> None:
    worker = start(FAKE_CUDA_FAULT="no-image")
    answer = worker.ask("hello", protocol=1)
    assert answer["message"] == "the executable has no code for this GPU"
    assert "Fake GPU, compute capability 9.0" in answer["found"]
    worker.end()


def direct(
    program: Path, environment: dict[str, str], *arguments: str, **env: str
) -> subprocess.CompletedProcess[str]:
    small = ["--batch", "1", "--heads", "1", *arguments]
    return subprocess.run(
        [str(program), *small],
        env={**environment, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_direct_use_launches_the_kernel_first(program: Path, environment: dict[str, str]) -> None:
    """As a profiler's --launch-count 1 needs it; the inputs are the protocol's."""
    done = direct(program, environment, MHA_SEQ="256", CHOREO_DISABLE_TIMING="1")
    assert done.returncode == 0, done.stderr
    kernels = [name for name in launches(environment) if not name.startswith(("fill", "event"))]
    assert kernels == ["attention", "oracle_row_stats", "oracle_outputs", "oracle_figures"]
    assert "naive: B=1 S=256 H=1 D=128, seed 42, Fake GPU" in done.stdout
    assert "published PASS" in done.stdout and "strict PASS" in done.stdout
    assert "TFLOPS" not in done.stdout


def test_direct_use_times_what_passed(program: Path, environment: dict[str, str]) -> None:
    done = direct(program, environment, "--seq", "256", "--warmup", "1", "--repeat", "2")
    assert done.returncode == 0
    assert "TFLOPS (1 warm-ups, 2 launches, CUDA events)" in done.stdout


@pytest.mark.parametrize("fault", ["zeros", "unwritten", "nan"])
def test_direct_use_fails_on_a_wrong_output(
    program: Path, environment: dict[str, str], fault: str
) -> None:
    done = direct(program, environment, "--seq", "256", FAKE_CUDA_FAULT=fault)
    assert done.returncode == 4
    assert "strict FAIL" in done.stdout
    assert "TFLOPS" not in done.stdout


def test_stress_finds_the_launch_that_differs(program: Path, environment: dict[str, str]) -> None:
    """The third launch of the process is the first that is compared: the second is the model."""
    arguments = ("--seq", "256", "--no-timing", "--stress", "4")
    good = direct(program, environment, *arguments)
    assert good.returncode == 0
    assert "0 of 4 launches differ from the first" in good.stdout
    bad = direct(program, environment, *arguments, FAKE_CUDA_FAULT="unstable")
    assert bad.returncode == 4
    assert "1 of 4 launches differ from the first" in bad.stdout
    assert "launch 1 first: 1 elements, the lowest index 123" in bad.stdout


def test_direct_use_reports_a_fault_of_the_device(
    program: Path, environment: dict[str, str]
) -> None:
    done = direct(program, environment, "--seq", "256", FAKE_CUDA_FAULT="illegal")
    assert done.returncode == 1
    assert "cudaErrorIllegalAddress" in done.stderr
    done = direct(program, environment, "--seq", "256", FAKE_CUDA_BYTES="1000")
    assert done.returncode == 3
    assert "device memory" in done.stderr
