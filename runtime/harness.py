"""The harness of the Python workers on a GPU: gates, witness, timing and the JSON-lines loop.

A worker file in baselines/ holds one library's kernel and what that library must show of
itself; everything that has to be the same for all of them is here and in gpu.py. It needs
torch and CuPy and nothing of the artifact package. docs/worker-protocol.md is the protocol.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import sys
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

# Workers run isolated: their own folders are not searched for modules.
sys.path.insert(0, str(Path(__file__).resolve().parent))
from gpu import Device, Oracle, Problem, Refused

PROTOCOL = 1


class Backend(ABC):
    """One implementation. A launch computes causal attention of the prepared inputs."""

    #: Distributions whose versions are reported.
    distributions: tuple[str, ...] = ()
    #: A tensor of the output's shape and type, once something is prepared.
    sample: Any

    @abstractmethod
    def load(self) -> None:
        """Import the library; raise :class:`Refused` if it is not the one that is named."""

    @abstractmethod
    def prepare(self, q: Any, k: Any, v: Any) -> None:
        """Compile, tune and convert for these BSHD tensors; nothing of it is timed."""

    @abstractmethod
    def launch(self) -> Any:
        """One launch, as it is timed. Returns the output in the layout of the library."""

    def poison(self) -> None:
        """Fill the output buffer with NaN, or the memory that the next output will get.

        A library that allocates its output gets it from torch's caching allocator, which
        hands out the block that was freed last: one of that size, filled with NaN here.
        """
        import torch

        torch.cuda.empty_cache()
        torch.full_like(self.sample, float("nan"))

    def as_bshd(self, output: Any) -> Any:
        """The output as BSHD, for checking."""
        return output

    def facts(self) -> dict[str, Any]:
        """Facts beside those of the profiler: distribution, module digest, cubin digest."""
        return {}


class Missing(Backend):
    """Stands for a backend whose module could not even be imported: every request says so."""

    def __init__(self, error: ModuleNotFoundError) -> None:
        self.error = error

    def load(self) -> None:
        """Say what is missing."""
        raise self.error

    def prepare(self, q: Any, k: Any, v: Any) -> None:
        """Never reached: ``load`` comes first."""
        raise self.error

    def launch(self) -> Any:
        """Never reached: ``load`` comes first."""
        raise self.error


def sha256_file(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def version_of(distribution: str) -> str:
    """The installed version of a distribution, or ``not installed``."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def profiled(launch: Any) -> dict[str, Any]:
    """Facts of the longest kernel of one launch: symbol, grid, block, registers, shared memory.

    They come from the driver's activity records (CUPTI, through torch.profiler), so they tell
    what ran, not what somebody asked for.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    launch()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as recorded:
        launch()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        recorded.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    if not kernels:
        raise Refused("failed", "the profiler saw no kernel", "one CUDA kernel", "none")
    main = max(kernels, key=lambda e: e["dur"])
    details = main["args"]
    return {
        "symbol": main["name"],
        "kernels": len(kernels),
        "grid": "x".join(str(n) for n in details["grid"]),
        "block": "x".join(str(n) for n in details["block"]),
        "threads": math.prod(details["block"]),
        "registers": details.get("registers per thread"),
        "shared_bytes": details.get("shared memory"),
    }


class Worker:
    """Answers requests for one backend."""

    def __init__(self, name: str, backend: Backend) -> None:
        self.name, self.backend = name, backend
        self.totaloaded = False
        self.device: Device | None = None
        self.problem: Problem | None = None

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Who the worker is; imports the library."""
        if request.get("protocol") != PROTOCOL:
            raise Refused(
                "failed", "another protocol version", str(PROTOCOL), str(request.get("protocol"))
            )
        self._load()
        versions = {
            d: version_of(d) for d in ("torch", "cupy-cuda13x", *self.backend.distributions)
        }
        return {
            "protocol": PROTOCOL,
            "python": platform.python_version(),
            "versions": versions,
            "clock": "cuda-events",
        }

    def _load(self) -> None:
        if not self.totaloaded:
            import torch

            if not torch.cuda.is_available():
                raise Refused("failed", "torch sees no GPU", "one CUDA device", "none")
            torch.backends.cuda.matmul.allow_tf32 = False
            self.backend.load()
            self.device = Device()
            self.totaloaded = True

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Inputs of a shape, then whatever the library does before a launch can be timed."""
        import torch

        self._load()
        assert self.device is not None
        self.problem = None
        self.device.cupy.get_default_memory_pool().free_all_blocks()
        torch.cuda.empty_cache()
        began = time.perf_counter()
        self.problem = Problem(self.device, request["shape"], request["seed"])
        digests = self.problem.digests()
        generated = time.perf_counter()
        self.backend.prepare(*self.problem.torch_tensors())
        self.backend.launch()
        torch.cuda.synchronize()
        ready = time.perf_counter()
        return {
            "inputs": digests,
            "setup_ms": {"inputs": 1e3 * (generated - began), "compile": 1e3 * (ready - generated)},
        }

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Figures of one launch into poisoned memory, and of every control."""
        import torch

        problem = self._problem()
        gates = request["gates"]
        if gates["band_axis"] != "S":
            raise Refused("failed", "another band axis is not supported", "S", gates["band_axis"])
        self.backend.poison()
        result = self.backend.as_bshd(self.backend.launch())
        if tuple(result.shape) != problem.shape or result.dtype != torch.bfloat16:
            raise Refused(
                "failed",
                "the output has another shape or type",
                f"{problem.shape} torch.bfloat16",
                f"{tuple(result.shape)} {result.dtype}",
            )
        torch.cuda.synchronize()
        cp = problem.device.cupy
        out = cp.from_dlpack(result.contiguous().view(torch.uint16))
        limits = (gates["atol"], gates["rtol"], gates["band_rows"])
        oracle = Oracle(problem)
        figures = oracle.measure(out, *limits)
        controls = []
        for control in request["controls"]:
            name, position = control["name"], control.get("position")
            wrong = oracle.measure(oracle.control(name, position, out), *limits)
            controls.append({"name": name, "position": position, "figures": wrong})
        del oracle, out, result
        cp.get_default_memory_pool().free_all_blocks()
        return {"figures": figures, "controls": controls}

    def witness(self, request: dict[str, Any]) -> dict[str, Any]:
        """Facts of the kernel that one launch ran."""
        self._problem()
        return {"facts": {**profiled(self.backend.launch), **self.backend.facts()}}

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """One sample: CUDA events around ``repeat`` launches."""
        self._problem()
        import torch

        warmup, repeat = request["warmup"], request["repeat"]
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        launch = self.backend.launch
        for _ in range(warmup):
            launch()
        torch.cuda.synchronize()
        start.record()
        for _ in range(repeat):
            launch()
        end.record()
        torch.cuda.synchronize()
        return {
            "ms": start.elapsed_time(end) / repeat,
            "clock": "cuda-events",
            "warmup": warmup,
            "repeat": repeat,
        }

    def _problem(self) -> Problem:
        if self.problem is None:
            raise Refused("failed", "nothing is prepared", "prepare first", "no prepare")
        return self.problem


def answer(worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request; what fails becomes an error answer."""
    head = {"op": request.get("op"), "id": request.get("id"), "backend": worker.name}
    try:
        if request.get("op") == "quit":
            return head
        if request.get("op") not in ("hello", "prepare", "check", "witness", "time"):
            raise Refused(
                "failed",
                "no such request",
                "hello, prepare, check, witness, time, quit",
                str(request.get("op")),
            )
        return {**head, **getattr(worker, request["op"])(request)}
    except Refused as error:
        details = {k: v for k, v in (("expected", error.expected), ("found", error.found)) if v}
        return {**head, "op": "error", "kind": error.kind, "message": str(error), **details}
    except ModuleNotFoundError as error:
        traceback.print_exc()
        return {
            **head,
            "op": "error",
            "kind": "missing_module",
            "message": str(error),
            "found": f"no module {error.name}",
        }
    except Exception as error:
        traceback.print_exc()
        memory = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
        return {
            **head,
            "op": "error",
            "kind": "out_of_memory" if memory else "failed",
            "message": f"{type(error).__name__}: {error}"[:2000],
        }


def serve(backend: Backend) -> None:
    """Answer requests on standard input until ``quit`` or its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", required=True)
    name = parser.parse_args().backend
    # Libraries print; answers must be alone on their line, so they have their own descriptor.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = Worker(name, backend)
    for line in sys.stdin:
        reply = answer(worker, json.loads(line))
        answers.write(json.dumps(reply, allow_nan=False) + "\n")
        answers.flush()
        if reply["op"] == "quit":
            break
