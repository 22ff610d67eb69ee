"""Hold a native worker on a GPU against the Python workers' inputs, oracle and controls.

    nvcc -gencode arch=compute_90a,code=sm_90a -std=c++17 -O3 --use_fast_math \
        --expt-relaxed-constexpr -I runtime tests/assets/native/naive.cu -o build/naive
    PYTHON benchmarks/native_trial.py build/naive

PYTHON is an interpreter with CuPy (the environment `main` has it); runtime/gpu.py computes the
same shape in it. Every operation of the protocol is asked for, refusals and a shape that no
GPU holds included, then the program is used directly. Prints one line a check and ends with 1
where one failed. Some ten seconds on an H200; any program of the kernels can stand in for the
naive one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GATES = {"atol": 0.05, "rtol": 0.1, "band_axis": "S", "band_rows": 1024}
SHAPES = ({"B": 2, "S": 1152, "H": 4, "D": 128}, {"B": 1, "S": 2048, "H": 3, "D": 128})
CONTROLS = [
    *({"name": n, "position": None} for n in ("zeros", "wrong-scale", "stale-buffer", "nan")),
    *(
        {"name": n, "position": p}
        for n in ("dropped-tile", "leaked-tile")
        for p in ("first", "middle", "last")
    ),
]
OWN_OUTPUT = ("stale-buffer", "nan")
"""Controls made of the implementation's own output: their e is not the same in two of them."""
SEED = 42
RELATIVE = 1e-9
"""Sums of doubles are taken in another order each time; everything else is equal in every bit."""


class Trial:
    """Checks, each printed as it is made."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, name: str, good: bool, detail: object = "") -> None:
        """Print one line, with the detail where it is not good."""
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name} {'' if good else detail}", flush=True)


class Worker:
    """The program, speaking the protocol."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen(
            [program, "--worker", "--backend", "trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.number = 0

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """The answer to one request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.number += 1
        self.process.stdin.write(json.dumps({"op": op, "id": self.number, **fields}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker ended at {op} with status {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        assert (answer["id"], answer["backend"]) == (self.number, "trial")
        return answer


def differences(
    mine: dict[str, Any], theirs: dict[str, Any], plain_only: bool = False
) -> list[str]:
    """Figures that are not the same, or only those of the plain implementation."""
    found = []
    pairs = [(name, mine[name], theirs[name]) for name in theirs if name != "bands"]
    for i, (a, b) in enumerate(zip(mine["bands"], theirs["bands"], strict=True)):
        pairs += [(f"bands[{i}].{name}", a[name], b[name]) for name in b]
    for name, a, b in pairs:
        if plain_only and "0" not in name.rpartition(".")[2]:
            continue
        same = a == b or (None not in (a, b) and math.isclose(a, b, rel_tol=RELATIVE))
        if not same:
            found.append(f"{name}: {a} != {b}")
    return found


def expected(shape: dict[str, int]) -> tuple[dict[str, str], list[dict[str, Any]], dict[str, Any]]:
    """Digests, figures of each control and of the plain output, by runtime/gpu.py."""
    sys.path.insert(0, str(ROOT / "runtime"))
    from gpu import Device, Oracle, Problem

    problem = Problem(Device(), shape, SEED)
    oracle = Oracle(problem)
    limits = (GATES["atol"], GATES["rtol"], GATES["band_rows"])
    controls = [
        oracle.measure(oracle.control(c["name"], c["position"], oracle.plain), *limits)
        for c in CONTROLS
    ]
    return problem.digests(), controls, oracle.measure(oracle.plain, *limits)


def converse(trial: Trial, worker: Worker) -> None:
    """One conversation, compared with runtime/gpu.py shape by shape."""
    hello = worker.ask("hello", protocol=1)
    trial.check("hello", hello["op"] == "hello" and hello["clock"] == "cuda-events", hello)
    print("    ", hello.get("versions"))
    for shape in SHAPES:
        name = f"S={shape['S']}"
        prepared = worker.ask("prepare", shape=shape, seed=SEED, parameters={})
        trial.check(f"{name} prepare", prepared["op"] == "prepare", prepared)
        print("     setup_ms", prepared.get("setup_ms"))
        checked = worker.ask("check", gates=GATES, controls=CONTROLS)
        trial.check(f"{name} check", checked["op"] == "check", checked)
        digests, controls, plain = expected(shape)
        trial.check(f"{name} digests", prepared["inputs"] == digests, prepared["inputs"])
        figures = checked["figures"]
        wrong = differences(figures, plain, plain_only=True)
        trial.check(f"{name} figures of the plain implementation", not wrong, wrong)
        ratios = [b["e_max"] / b["e0_max"] for b in figures["bands"]]
        ratios += [b["e_rms"] / b["e0_rms"] for b in figures["bands"]]
        trial.check(f"{name} strict gate", max(ratios) <= 2 and figures["nonfinite"] == 0, figures)
        print(f"     worst ratio {max(ratios):.4f}, max abs {figures['max_abs']:.6f}")
        for control, other in zip(checked["controls"], controls, strict=True):
            own = control["name"] in OWN_OUTPUT
            wrong = differences(control["figures"], other, plain_only=own)
            label = f"{name} control {control['name']} {control['position'] or ''}"
            trial.check(label, not wrong, wrong)
        facts = worker.ask("witness").get("facts", {})
        trial.check(f"{name} witness", facts.get("kernels") == 1 and "symbol" in facts, facts)
        timed = worker.ask("time", warmup=2, repeat=5)
        trial.check(f"{name} time", timed.get("ms", 0) > 0 and timed["repeat"] == 5, timed)
        print("     facts", facts, "ms", timed.get("ms"))
        again = worker.ask("witness").get("facts")
        trial.check(f"{name} witness again", again == facts, again)


def refusals(trial: Trial, worker: Worker) -> None:
    """What cannot be done is answered, and the worker goes on."""
    shape = SHAPES[0]
    tail = worker.ask("prepare", shape={**shape, "S": 1000}, seed=SEED, parameters={})
    trial.check("a tail is refused", tail.get("kind") == "unsupported_shape", tail)
    huge = {"B": 4096, "S": 16384, "H": 64, "D": 128}
    memory = worker.ask("prepare", shape=huge, seed=SEED, parameters={})
    trial.check("a shape beyond the memory", memory.get("kind") == "out_of_memory", memory)
    early = worker.ask("time", warmup=1, repeat=1)
    trial.check("time without a prepare", early.get("kind") == "failed", early)
    back = worker.ask("prepare", shape=shape, seed=SEED, parameters={})
    trial.check("prepare after a failure", back["op"] == "prepare", back)
    unknown = worker.ask("check", gates=GATES, controls=[{"name": "ghost", "position": None}])
    trial.check("an unknown control", unknown.get("kind") == "failed", unknown)
    plain = worker.ask("check", gates=GATES, controls=[])
    trial.check("check after a failure", plain["op"] == "check", plain)
    trial.check("quit", worker.ask("quit")["op"] == "quit")
    trial.check("the worker ends with 0", worker.process.wait(60) == 0)


def directly(trial: Trial, program: str) -> None:
    """Direct use, with timing and without, and the comparison bit for bit."""
    quiet = {**os.environ, "MHA_SEQ": "1024", "CHOREO_DISABLE_TIMING": "1"}
    for arguments, env in (
        (["--stress", "20"], quiet),
        (["--seq", "512", "--batch", "1", "--heads", "2", "--repeat", "10"], dict(os.environ)),
    ):
        done = subprocess.run(
            [program, *arguments], env=env, capture_output=True, text=True, timeout=120
        )
        print(done.stdout, done.stderr, sep="")
        good = done.returncode == 0 and "FAIL" not in done.stdout
        timed = "TFLOPS" in done.stdout
        trial.check(f"direct {arguments}", good and timed == (env is not quiet), done.returncode)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("program", help="the native executable")
    program = str(Path(parser.parse_args().program).resolve())
    trial = Trial()
    worker = Worker(program)
    converse(trial, worker)
    refusals(trial, worker)
    directly(trial, program)
    print(f"{trial.failed} checks failed" if trial.failed else "every check passed")
    return 1 if trial.failed else 0


if __name__ == "__main__":
    sys.exit(main())
