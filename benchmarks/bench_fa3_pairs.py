"""The runner's figure for FlashAttention-3 against a bare loop, in pairs of neighbouring windows.

    python benchmarks/bench_fa3_pairs.py --gpu 0 --python PYTHON --output pairs.json

The worker of a run is driven by the runner's own code (session, 20 Hz watch of the card and
all). It and `bench_fa3_bare.py`, which is torch, flash_attn_interface and a loop, hold the same
inputs (their digests must agree) on the same GPU at the same time. They take turns, a window
each: 50 warm-ups and 200 launches between two CUDA events. A pair is two neighbouring windows,
and every second pair has them the other way round (ABBA; a seed says who begins at which
shape), so that a card that warms up or cools down favours neither. The ratio of a pair is worker
over bare loop: more than 1 says that the runner's figure is slower.

The interval is the one of the sign test; with fewer than six pairs none reaches 95 %, so the
full range is given with what it covers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifact.bench import childenv
from artifact.bench.device import Watch
from artifact.bench.exclusive import exclusive
from artifact.bench.gpuwatch import GpuWatch
from artifact.bench.messages import PROTOCOL, Hello, Prepared, Timed
from artifact.bench.plan import Options, Plan, make_plan
from artifact.bench.rawlog import RawLog
from artifact.bench.reaper import Reaper
from artifact.bench.rundir import stamp, utc_now
from artifact.bench.schedule import Window
from artifact.bench.scrub import Scrubber
from artifact.bench.session import Session
from artifact.bench.statistics import paired_interval
from artifact.bench.times import Times
from artifact.bench.worker import Worker
from artifact.errors import ArtifactError, GateFailed, MeasurementInvalid
from artifact.integrity.documents import load_manifest
from artifact.model.backend import Backend
from artifact.model.workload import Shape

BARE = Path(__file__).resolve().with_name("bench_fa3_bare.py")
LIMIT = 0.02


@dataclass(frozen=True)
class Pair:
    """Two neighbouring windows."""

    worker_first: bool
    worker_ms: float
    bare_ms: float

    @property
    def ratio(self) -> float:
        """Worker over bare loop."""
        return self.worker_ms / self.bare_ms


class Bare:
    """The bare loop's process. It speaks as much of the worker protocol as a sample takes."""

    def __init__(self, worker: Worker, plan: Plan) -> None:
        self.worker = worker
        self._plan = plan

    def _ask(self, kind: Any, **fields: Any) -> Any:
        return self.worker.ask(kind, self._plan.protocol.worker_timeout_s, **fields)

    def start(self) -> None:
        """Start the process, and let it import its libraries."""
        self.worker.start()
        self._ask(Hello, protocol=PROTOCOL)

    def prepare(self, shape: Shape) -> dict[str, str]:
        """Let it make the inputs of ``shape``; returns their digests."""
        seed = self._plan.workload.seed
        prepared: Prepared = self._ask(Prepared, shape=dict(shape.dims), seed=seed, parameters={})
        return dict(prepared.inputs)

    def time(self, watch: Watch) -> float:
        """One sample in milliseconds, watched as the runner watches its own."""
        protocol = self._plan.protocol
        watch.begin()
        timed: Timed = self._ask(Timed, warmup=protocol.warmup, repeat=protocol.repeat)
        _, reasons = watch.end()
        require_valid("the bare loop", reasons)
        return timed.ms


def require_valid(who: str, reasons: Sequence[str]) -> None:
    """Raise MeasurementInvalid where a sample has reasons not to be valid."""
    if reasons:
        raise MeasurementInvalid(f"a sample of {who} is not valid", found="; ".join(reasons))


def orders(count: int, seed: int, shape: str) -> list[bool]:
    """Whether the worker comes first in each of ``count`` pairs of ``shape``: ABBA."""
    first = random.Random(f"{seed}/{shape}").random() < 0.5
    return [first ^ (number % 2 == 1) for number in range(count)]


def take_pairs(
    session: Session, bare: Bare, watch: Watch, shape: Shape, first: Sequence[bool]
) -> list[Pair]:
    """Prepare ``shape`` on both sides, then take its pairs.

    Raises:
        GateFailed: where the two hold different inputs.
        ArtifactError: what a worker or the watch raises.
    """

    def prepare() -> dict[str, str]:
        session.prepare(shape)
        session.witness(shape)
        return session.inputs(shape)

    with ThreadPoolExecutor(1) as pool:
        ours = pool.submit(prepare)
        theirs = bare.prepare(shape)
        if (digests := ours.result()) != theirs:
            raise GateFailed(
                f"the two would be timed on different inputs at {shape.name}",
                expected=", ".join(f"{name} {value[:12]}" for name, value in digests.items()),
                found=", ".join(f"{name} {value[:12]}" for name, value in theirs.items()),
            )
    pairs = []
    for number, worker_first in enumerate(first):
        window = Window(0, number, session.backend.name, shape.name)

        def ours_ms(window: Window = window) -> float:
            sample = session.time(window, watch)
            require_valid("the worker", sample.reasons)
            return sample.ms

        if worker_first:
            worker_ms, bare_ms = ours_ms(), bare.time(watch)
        else:
            bare_ms, worker_ms = bare.time(watch), ours_ms()
        pairs.append(Pair(worker_first, worker_ms, bare_ms))
    return pairs


def row(shape: Shape, pairs: Sequence[Pair], confidence: float) -> dict[str, Any]:
    """What the pairs of one shape say."""
    ratios = [pair.ratio for pair in pairs]
    interval = paired_interval(ratios, confidence)
    low, high = (min(ratios), max(ratios)) if interval is None else (interval.low, interval.high)
    coverage = 1 - 2.0 ** (1 - len(ratios)) if interval is None else interval.coverage
    ratio = statistics.median(ratios)
    return {
        "shape": shape.name,
        "worker_ms": statistics.median(pair.worker_ms for pair in pairs),
        "bare_ms": statistics.median(pair.bare_ms for pair in pairs),
        "ratio": ratio,
        "low": low,
        "high": high,
        "coverage": coverage,
        "within_limit": abs(ratio - 1) <= LIMIT,
        "pairs": [
            {
                "first": "worker" if pair.worker_first else "bare",
                "worker_ms": pair.worker_ms,
                "bare_ms": pair.bare_ms,
                "ratio": pair.ratio,
            }
            for pair in pairs
        ],
    }


@contextlib.contextmanager
def both(
    plan: Plan, backend: Backend, python: Path, bare: Sequence[str], caller: Mapping[str, str]
) -> Iterator[tuple[Session, Bare]]:
    """Both processes, started and with their libraries imported."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="artifact-pairs-")))
        scratch = folder / "scratch"
        scratch.mkdir()
        childenv.make_scratch(scratch)
        reaper = stack.enter_context(contextlib.closing(Reaper()))
        environment = childenv.child_environment(
            backend,
            caller=caller,
            scratch=scratch,
            chosen=plan.worker_env.get(backend.name, {}),
            device_uuid=None if plan.gpu is None else plan.gpu.uuid,
        )

        def worker(name: str, command: Sequence[str]) -> Worker:
            made = Worker(
                name,
                command,
                environment=environment.values,
                cwd=plan.root,
                log=RawLog(folder / f"{name}.log", Scrubber()),
                reaper=reaper,
            )
            stack.callback(made.kill)
            return made

        command = childenv.command_line(backend, python, plan.root)
        times = Times()
        times.enter("timing")
        session = Session(backend, plan, worker(backend.name, command), times)
        loop = Bare(worker("bare", bare), plan)
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(session.start)
            loop.start()
            started.result()
        yield session, loop
        session.confirm()
        for process in (session.worker, loop.worker):
            process.stop()


def measure(
    plan: Plan,
    python: Path,
    *,
    pairs: int,
    seed: int,
    bare: Sequence[str] | None = None,
    nvml: Any = None,
) -> dict[str, Any]:
    """The whole comparison for the one backend of ``plan``.

    Args:
        plan: What a run of that backend would do.
        python: The interpreter of both.
        pairs: How many pairs a shape gets.
        seed: Says who begins.
        bare: The command of the bare loop; another one in tests.
        nvml: Stands for the module ``pynvml`` in tests.

    Raises:
        ArtifactError: what a worker, the watch or the device raises.
    """
    (backend,) = plan.backends
    command = bare or (str(python), "-I", str(BARE), "--serve")
    began = time.monotonic()
    moment = stamp(utc_now())
    rows = []
    with (
        exclusive(plan.lock_name, {"workload": plan.workload.name, "since": moment}),
        contextlib.closing(
            Watch() if plan.gpu is None else GpuWatch(plan.gpu, plan.protocol, nvml)
        ) as watch,
        both(plan, backend, python, command, os.environ) as (session, loop),
    ):
        numbers = (session.worker.pid, loop.worker.pid)
        watch.workers([number for number in numbers if number is not None])
        for shape in plan.workload.shapes:
            taken = take_pairs(session, loop, watch, shape, orders(pairs, seed, shape.name))
            rows.append(row(shape, taken, plan.manifest.statistics.confidence))
        facts = watch.facts()
    return {
        "backend": backend.name,
        "device": plan.device.name,
        "facts": facts,
        "started": moment,
        "protocol": {"warmup": plan.protocol.warmup, "repeat": plan.protocol.repeat},
        "seed": seed,
        "limit": LIMIT,
        "seconds": round(time.monotonic() - began, 3),
        "rows": rows,
    }


def table(document: Mapping[str, Any]) -> str:
    """The answer for people."""
    lines = [
        f"{document['backend']} on {document['device']}, {document['protocol']['repeat']} launches "
        f"a window, {document['seconds']:.1f} s",
        f"{'':10}{'worker ms':>12}{'bare ms':>12}{'ratio':>10}  interval (coverage)",
    ]
    for one in document["rows"]:
        verdict = "within" if one["within_limit"] else "NOT within"
        lines.append(
            f"{one['shape']:10}{one['worker_ms']:12.4f}{one['bare_ms']:12.4f}{one['ratio']:10.4f}"
            f"  {one['low']:.4f} to {one['high']:.4f} ({one['coverage']:.0%}), "
            f"{verdict} {document['limit']:.0%}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--gpu", default=None, help="index or UUID, as artifact run takes it")
    parser.add_argument("--python", type=Path, required=True, help="has torch and FA3")
    parser.add_argument("--backend", default="fa3")
    parser.add_argument("--worker-env", action="append", default=[], metavar="BACKEND:NAME=VALUE")
    parser.add_argument("--pairs", type=int, default=3, help="a shape (default: 3)")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output", type=Path, default=None, help="raw results (JSON)")
    options = parser.parse_args()
    if options.pairs < 1:
        parser.error("--pairs: at least 1")
    asked = Options(
        gpu=options.gpu, backends=(options.backend,), worker_env=tuple(options.worker_env)
    )
    try:
        plan = make_plan(asked, options.root, load_manifest(options.root))
        document = measure(
            plan, Path.cwd() / options.python, pairs=options.pairs, seed=options.seed
        )
    except ArtifactError as error:
        print(error.render(), file=sys.stderr)
        return int(error.exit_code)
    print(table(document))
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
