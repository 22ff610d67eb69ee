"""The paired comparison with a bare loop (benchmarks/bench_fa3_pairs.py), without a GPU."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from artifact.bench.device import list_gpus
from artifact.bench.failures import WorkerDied
from artifact.bench.plan import Options, Plan, make_plan
from artifact.errors import GateFailed, MeasurementInvalid
from artifact.integrity.documents import load_manifest

ROOT = Path(__file__).resolve().parents[2]


def load(path: str) -> ModuleType:
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(f"{file.stem}_under_test", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pairs() -> ModuleType:
    return load("benchmarks/bench_fa3_pairs.py")


def plan_of(root: Path, *worker_env: str) -> Plan:
    options = Options(
        backends=("alpha",), warmup=1, repeat=4, worker_env=("alpha:LAUNCH_MS=2", *worker_env)
    )
    return make_plan(options, root, load_manifest(root))


def bare(root: Path, *settings: str) -> list[str]:
    """The fake worker as the bare loop."""
    fake = str(root / "workers/fake.py")
    return ["/usr/bin/env", *settings, sys.executable, "-I", fake, "--backend", "bare"]


def measured(pairs: ModuleType, root: Path, *settings: str, **more: Any) -> dict[str, Any]:
    options = {"pairs": 4, "seed": 1, "bare": bare(root, *settings), **more}
    found: dict[str, Any] = pairs.measure(plan_of(root), Path(sys.executable), **options)
    return found


def test_pairs_of_two_workers(pairs: ModuleType, fake_tree: Path) -> None:
    document = json.loads(json.dumps(measured(pairs, fake_tree, "LAUNCH_MS=20")))
    shapes = [shape.name for shape in plan_of(fake_tree).workload.shapes]
    assert [row["shape"] for row in document["rows"]] == shapes
    assert document["protocol"] == {"warmup": 1, "repeat": 4}
    for row in document["rows"]:
        first = [pair["first"] for pair in row["pairs"]]
        assert first in (["worker", "bare"] * 2, ["bare", "worker"] * 2)
        # What sleeps 20 ms a launch never is faster, and what sleeps 2 ms hardly ever as slow.
        assert row["bare_ms"] >= 20 and row["worker_ms"] >= 2
        assert row["low"] <= row["ratio"] <= row["high"]
        assert row["coverage"] == 1 - 2 / 2**4
        for pair in row["pairs"]:
            assert pair["ratio"] == pair["worker_ms"] / pair["bare_ms"]
    text = pairs.table(document)
    assert all(f"{row['ratio']:.4f}" in text for row in document["rows"])
    assert "(88%)" in text


@pytest.mark.usefixtures("no_watch_left")
def test_windows_are_watched_on_a_gpu(
    pairs: ModuleType, fake_tree: Path, fake_nvml: Any, gpu_card: Any
) -> None:
    def run(**card: Any) -> dict[str, Any]:
        nvml = fake_nvml(gpu_card(**card))
        plan = replace(plan_of(fake_tree), gpu=list_gpus(nvml)[0])
        options = {"pairs": 1, "seed": 1, "bare": bare(fake_tree), "nvml": nvml}
        found: dict[str, Any] = pairs.measure(plan, Path(sys.executable), **options)
        assert nvml.running == 0
        return found

    facts = run()["facts"]
    # Two windows a shape, and each is read at its beginning and its end.
    shapes = plan_of(fake_tree).workload.shapes
    assert facts["sms"] == 8 and facts["trace_readings"] >= 2 * 2 * len(shapes)
    with pytest.raises(MeasurementInvalid, match="is not valid") as caught:
        run(reasons=[0x4, 0x4, 0x8])
    assert caught.value.found == "the GPU reported: hardware slowdown"


def test_the_order_is_abba_and_seeded(pairs: ModuleType) -> None:
    starts = {seed: pairs.orders(5, seed, "S=1") for seed in range(20)}
    assert {tuple(order) for order in starts.values()} == {
        (True, False, True, False, True),
        (False, True, False, True, False),
    }
    assert starts == {seed: pairs.orders(5, seed, "S=1") for seed in range(20)}
    assert len({tuple(pairs.orders(5, 3, f"S={n}")) for n in range(20)}) == 2


def test_the_verdict_and_its_interval(pairs: ModuleType, fake_tree: Path) -> None:
    shape = plan_of(fake_tree).workload.shapes[0]

    def row(*worker: float) -> dict[str, Any]:
        made: dict[str, Any] = pairs.row(shape, [pairs.Pair(True, w, 1.0) for w in worker], 0.95)
        return made

    assert row(1.0, 1.019, 1.5)["within_limit"]
    assert not row(1.0, 1.021, 1.5)["within_limit"]
    assert not row(0.97, 0.979, 1.5)["within_limit"]
    wide = row(*(1 + n / 100 for n in range(9)))
    assert (wide["low"], wide["high"]) == (1.01, 1.07) and wide["coverage"] >= 0.95


def test_other_inputs_are_refused(pairs: ModuleType, fake_tree: Path) -> None:
    with pytest.raises(GateFailed, match="different inputs"):
        measured(pairs, fake_tree, "FAULT=inputs@prepare")


@pytest.mark.usefixtures("ends_its_threads")
@pytest.mark.parametrize("op", ["hello", "prepare", "time:3"])
def test_a_bare_loop_that_dies(pairs: ModuleType, fake_tree: Path, op: str) -> None:
    with pytest.raises(WorkerDied) as caught:
        measured(pairs, fake_tree, f"FAULT=exit@{op}")
    assert caught.value.details[-1] == "about to leave"


def test_the_command(fake_tree: Path, tmp_path: Path) -> None:
    script = str(ROOT / "benchmarks/bench_fa3_pairs.py")
    common = [sys.executable, script, "--root", str(fake_tree), "--python", sys.executable]
    done = subprocess.run(
        [*common, "--backend", "none"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the manifest has no such backend")
    # torch is not here, or flash_attn_interface is not: the bare loop cannot begin.
    done = subprocess.run(
        [*common, "--backend", "alpha"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 5, done.stderr
    assert "ModuleNotFoundError" in done.stderr
    assert "Traceback" not in done.stderr.split("  - ")[0]


def test_the_bare_loop_makes_the_inputs_of_a_run() -> None:
    loop, reference = load("benchmarks/bench_fa3_bare.py"), load("baselines/cpu_reference.py")
    for _, stream, width in loop.TENSORS:
        for seed in (42, 2**63 + 5):
            blocks = np.arange(1000, dtype=np.int64)
            words = np.stack(loop.philox(blocks, stream, seed), axis=1).reshape(-1)
            exact = loop.odd_integers(words)
            assert np.array_equal(exact.astype(np.float32).astype(np.int64), exact)
            bits = reference.to_bf16(exact.astype(np.float32) * np.float32(2.0 ** (width - 24)))
            assert np.array_equal(bits, reference.generate(seed, stream, 4000, width))
    assert loop.TENSORS == reference.TENSORS
    far = np.asarray([2**32 + 7], dtype=np.int64)
    expected = reference.philox4x32_10((7, 1, 2, 0), (42, 0))
    assert [int(w[0]) for w in loop.philox(far, 2, 42)] == [int(w) for w in expected]
