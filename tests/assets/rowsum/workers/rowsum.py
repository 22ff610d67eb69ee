#!/usr/bin/env python3
"""Row sums of an N x C matrix: a worker of the protocol in docs/worker-protocol.md.

Needs NumPy. The matrix is FP32, uniform in (-1, 1), from NumPy's Philox bit generator. The
oracle sums in FP64; the plain implementation, whose error is e0, adds from left to right in
FP32. An output row is one number, so a row's error is that number's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

CLOCK = "host-monotonic"
POSITIONS = ("first", "middle", "last")


class RequestError(Exception):
    """A request that cannot be carried out; ``kind`` is one of the protocol's."""

    def __init__(self, message: str, kind: str = "failed") -> None:
        super().__init__(message)
        self.kind = kind


def make_matrix(seed: int, rows: int, columns: int, stream: int = 0) -> np.ndarray:
    """FP32 [rows, columns]: the upper 24 bits of each word as an odd multiple of 2**-24."""
    raw = np.random.Philox(key=seed + (stream << 64)).random_raw(rows * columns)
    odd = 2 * (raw >> np.uint64(40)).astype(np.int32) + np.int32(1 - (1 << 24))
    return (odd.astype(np.float32) * np.float32(2.0**-24)).reshape(rows, columns)


def pairwise(x: np.ndarray) -> np.ndarray:
    """NumPy's own sum along a contiguous axis, which adds halves of the row."""
    return x.sum(axis=1)


def sequential(x: np.ndarray) -> np.ndarray:
    """One column after the other: every row is summed from left to right."""
    total = x[:, 0].copy()
    for column in range(1, x.shape[1]):
        total += x[:, column]
    return total


ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "pairwise": pairwise,
    "sequential": sequential,
}


class Worker:
    """One backend."""

    def __init__(self, backend: str, order: str) -> None:
        self.backend = backend
        self.order = order
        self.sum = ORDERS[order]
        self.x: np.ndarray | None = None
        self.seed = 0
        self.ran = ""

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Who the worker is."""
        if request.get("protocol") != 1:
            raise RequestError("the worker speaks version 1 of the protocol", "wrong_version")
        return {
            "protocol": 1,
            "python": platform.python_version(),
            "versions": {"numpy": np.__version__},
            "clock": CLOCK,
        }

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make the matrix."""
        self.x, self.ran = None, ""
        dims = request["shape"]
        if set(dims) != {"N", "C"} or not all(type(n) is int and n > 0 for n in dims.values()):
            raise RequestError(f"a shape has positive N and C, found {dims}", "unsupported_shape")
        started = time.perf_counter_ns()
        self.seed = request["seed"]
        self.x = make_matrix(self.seed, dims["N"], dims["C"])
        ended = time.perf_counter_ns()
        data = self.x.astype("<f4", copy=False).tobytes()
        return {
            "inputs": {"x": hashlib.sha256(data).hexdigest()},
            "setup_ms": {"generate": (ended - started) / 1e6},
        }

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Figures of the output and of each control."""
        x, gates = self.matrix(), request["gates"]
        if gates["band_axis"] != "N":
            raise RequestError("bands run along N")
        reference = x.astype(np.float64).sum(axis=1)
        plain = np.abs(sequential(x) - reference)

        def figures(out: np.ndarray) -> dict[str, Any]:
            with np.errstate(invalid="ignore"):
                e = np.abs(out - reference)
                within = e <= gates["atol"] + gates["rtol"] * np.abs(reference)
            bands = []
            for first in range(0, e.size, gates["band_rows"]):
                band = e[first : first + gates["band_rows"]]
                band0 = plain[first : first + gates["band_rows"]]
                bands.append(
                    {
                        "first": first,
                        "last": first + band.size - 1,
                        "rows": band.size,
                        "e_max": finite(band.max()),
                        "e_rms": finite(np.sqrt(np.mean(band**2))),
                        "e0_max": finite(band0.max()),
                        "e0_rms": finite(np.sqrt(np.mean(band0**2))),
                    }
                )
            return {
                "elements": out.size,
                "rows": out.size,
                "nonfinite": int(np.count_nonzero(~np.isfinite(out))),
                "outside_tolerance": int(np.count_nonzero(~within)),
                "max_abs": finite(e.max()),
                "max_abs0": finite(plain.max()),
                "bands": bands,
            }

        out = np.full(x.shape[0], np.nan, dtype=np.float32)
        out[:] = self.launch(x)
        controls = []
        for control in request.get("controls", []):
            name, position = control["name"], control["position"]
            wrong = self.control(name, position, out)
            controls.append({"name": name, "position": position, "figures": figures(wrong)})
        return {"figures": figures(out), "controls": controls}

    def control(self, name: str, position: str | None, good: np.ndarray) -> np.ndarray:
        """A known-wrong output."""
        x = self.matrix()
        rows, columns = x.shape
        if name == "dropped-column" and position in POSITIONS and columns > 1:
            column = {"first": 0, "middle": columns // 2, "last": columns - 1}[position]
            return self.sum(np.delete(x, column, axis=1))
        out = good.copy()
        if (name, position) == ("zeros", None):
            out[:] = 0
        elif (name, position) == ("stale-buffer", None):
            out[-1] = self.sum(make_matrix(self.seed, rows, columns, stream=1))[-1]
        elif (name, position) == ("nan", None):
            out[-1] = np.nan
        else:
            raise RequestError(f"there is no control {name} at {position}")
        return out

    def witness(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the last launch ran."""
        if not self.ran:
            raise RequestError("nothing was launched yet")
        return {"facts": {"implementation": self.ran, "numpy": np.__version__}}

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """One sample."""
        x, warmup, repeat = self.matrix(), request["warmup"], request["repeat"]
        for _ in range(warmup):
            self.launch(x)
        started = time.perf_counter_ns()
        for _ in range(repeat):
            self.launch(x)
        elapsed = time.perf_counter_ns() - started
        return {"ms": elapsed / repeat / 1e6, "clock": CLOCK, "warmup": warmup, "repeat": repeat}

    def launch(self, x: np.ndarray) -> np.ndarray:
        """One run of the implementation."""
        self.ran = f"numpy row sum, {self.order}"
        return self.sum(x)

    def matrix(self) -> np.ndarray:
        """The prepared matrix."""
        if self.x is None:
            raise RequestError("no shape is prepared")
        return self.x


def finite(value: Any) -> float | None:
    """A number for JSON."""
    number = float(value)
    return number if math.isfinite(number) else None


def respond(worker: Worker, line: bytes) -> dict[str, Any]:
    """The answer to one line."""
    number = -1
    try:
        request = json.loads(line)
        number = request["id"]
        if request["op"] == "quit":
            answer: dict[str, Any] = {}
        elif request["op"] in ("hello", "prepare", "check", "witness", "time"):
            answer = getattr(worker, request["op"])(request)
        else:
            raise RequestError(f"there is no operation {request['op']!r}")
        return {"op": request["op"], "id": number, "backend": worker.backend, **answer}
    except RequestError as error:
        kind, message = error.kind, str(error)
    except MemoryError as error:
        kind, message = "out_of_memory", str(error) or "out of memory"
    except Exception as error:
        traceback.print_exc()
        kind, message = "failed", f"{type(error).__name__}: {error}"
    return {
        "op": "error",
        "id": number,
        "backend": worker.backend,
        "kind": kind,
        "message": message,
    }


def main() -> None:
    """Answer lines until ``quit`` or the end of the input."""
    parser = argparse.ArgumentParser(description="Row sums: a worker.")
    parser.add_argument("--backend", required=True)
    parser.add_argument("--order", choices=tuple(ORDERS), required=True)
    args = parser.parse_args()
    worker = Worker(args.backend, args.order)
    private = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(private, "w", encoding="utf-8") as answers:
        for line in sys.stdin.buffer:
            answer = respond(worker, line)
            answers.write(json.dumps(answer, allow_nan=False) + "\n")
            answers.flush()
            if answer["op"] == "quit":
                return


if __name__ == "__main__":
    main()
