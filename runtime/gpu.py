"""Inputs, oracle and figures on the GPU: philox.cuh and oracle.cuh through CuPy.

The two files are compiled by NVRTC; their memory is shared with torch through DLPack. See
docs/numerics.md for what they compute. Tensors are BSHD: [batch, sequence, heads, 128].
"""

from __future__ import annotations

import hashlib
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TILE = 64  # rows of one block, as oracle.cuh says
CONTROL_TILE = 128
WRONG_SCALE = 1.1
#: (name, stream, log2 of the half width): Q and K in [-2, 2], V in [-1, 1].
TENSORS = (("q", 0, 1), ("k", 1, 1), ("v", 2, 0))
STALE_STREAMS = 3
"""What is added to a stream for the other inputs, whose output the stale buffer holds."""


class Refused(Exception):
    """A request that the worker cannot carry out; becomes an error answer."""

    def __init__(self, kind: str, message: str, expected: str = "", found: str = "") -> None:
        super().__init__(message)
        self.kind, self.expected, self.found = kind, expected, found


class Device:
    """The kernels of philox.cuh and oracle.cuh, and the tensors that they fill."""

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        options = ("-std=c++17",)
        philox = cupy.RawModule(code=(HERE / "philox.cuh").read_text(), options=options)
        oracle = cupy.RawModule(code=(HERE / "oracle.cuh").read_text(), options=options)
        self.fill = philox.get_function("philox_fill")
        self.stats = oracle.get_function("oracle_row_stats")
        self.outputs = oracle.get_function("oracle_outputs")
        self.fault = oracle.get_function("oracle_tile_fault")
        self.figures = oracle.get_function("oracle_figures")
        # Words of shared memory as oracle.cuh computes them: Q and K, then V and two of P.
        self.stats_bytes = 2 * 128 * 68 * 4
        self.output_bytes = self.stats_bytes + (64 * 128 + 2 * 64 * 68) * 4
        self.stats.max_dynamic_shared_size_bytes = self.stats_bytes
        self.outputs.max_dynamic_shared_size_bytes = self.output_bytes
        self.fault.max_dynamic_shared_size_bytes = self.output_bytes

    def tensor(self, shape: tuple[int, ...], stream: int, half_width: int, seed: int) -> Any:
        """BF16 bits of one input tensor, as a CuPy uint16 array."""
        cp = self.cupy
        array = cp.empty(shape, dtype=cp.uint16)
        arguments = (
            array,
            cp.uint64(array.size),
            cp.uint64(seed),
            cp.uint32(stream),
            cp.int32(half_width),
        )
        self.fill((4096,), (256,), arguments)
        return array


def supported(dims: dict[str, int]) -> tuple[int, int, int, int]:
    """(B, S, H, D) of a shape that the kernels and the oracle support.

    Raises:
        Refused: naming the first dimension that is missing, unknown or not supported.
    """
    for name in ("B", "S", "H", "D"):
        if type(dims.get(name)) is not int or dims[name] < 1:
            raise Refused(
                "unsupported_shape", "a dimension is missing", f"{name} >= 1", f"{dims.get(name)}"
            )
    if unknown := sorted(set(dims) - {"B", "S", "H", "D"}):
        raise Refused(
            "unsupported_shape", "a dimension is not supported", "B, S, H, D", ", ".join(unknown)
        )
    if dims["D"] != 128:
        raise Refused(
            "unsupported_shape", "another head dimension is not supported", "128", f"{dims['D']}"
        )
    if dims["S"] % CONTROL_TILE or dims["S"] < 2 * CONTROL_TILE:
        raise Refused(
            "unsupported_shape",
            "a sequence tail is not supported",
            "S a multiple of 128, at least 256",
            f"{dims['S']}",
        )
    return dims["B"], dims["S"], dims["H"], dims["D"]


class Problem:
    """One shape with its inputs."""

    def __init__(self, device: Device, dims: dict[str, int], seed: int) -> None:
        cp = device.cupy
        self.device, self.seed = device, seed
        self.shape = supported(dims)
        self.sizes = tuple(cp.int32(n) for n in self.shape[:3])
        self.scale_log2 = math.log2(math.e) / math.sqrt(self.shape[3])
        self.inputs = self.tensors(0)

    def tensors(self, stream_offset: int) -> dict[str, Any]:
        """Q, K and V as uint16 arrays, from streams that many further on."""
        return {
            name: self.device.tensor(self.shape, stream + stream_offset, width, self.seed)
            for name, stream, width in TENSORS
        }

    def digests(self) -> dict[str, str]:
        """SHA-256 of each tensor's little-endian bytes; hashing releases the interpreter lock."""
        hosts = {name: self.device.cupy.asnumpy(array) for name, array in self.inputs.items()}
        with ThreadPoolExecutor(len(hosts)) as pool:
            jobs = {
                name: pool.submit(lambda a: hashlib.sha256(a.data).hexdigest(), host)
                for name, host in hosts.items()
            }
            return {name: job.result() for name, job in jobs.items()}

    def torch_tensors(self) -> tuple[Any, Any, Any]:
        """Q, K and V as torch BF16 tensors over the same memory."""
        import torch

        return tuple(torch.from_dlpack(a).view(torch.bfloat16) for a in self.inputs.values())


class Oracle:
    """FP32 reference, plain BF16 implementation and known-wrong outputs of one problem."""

    def __init__(self, problem: Problem) -> None:
        cp = problem.device.cupy
        self.problem, self.cp, self.device = problem, cp, problem.device
        batch, seq, heads, _ = problem.shape
        self.exact = cp.empty(problem.shape, dtype=cp.float32)
        self.plain_sum = cp.empty(problem.shape, dtype=cp.float32)
        self.plain = cp.empty(problem.shape, dtype=cp.uint16)
        self.m = cp.empty((batch, heads, seq), dtype=cp.float32)
        self.total = cp.empty((batch, heads, seq), dtype=cp.float32)
        self._statistics(problem.inputs, problem.scale_log2, self.m, self.total)
        self._outputs(
            problem.inputs,
            problem.scale_log2,
            0,
            (self.m, self.total),
            self.exact,
            self.plain_sum,
            self.plain,
        )

    def _statistics(self, inputs: dict[str, Any], scale: float, m: Any, total: Any) -> None:
        """Row maxima and denominators of ``inputs`` at ``scale``."""
        batch, seq, heads, _ = self.problem.shape
        values = (inputs["q"], inputs["k"], *self.problem.sizes, self.cp.float32(scale), m, total)
        grid = (seq // TILE, heads, batch)
        self.device.stats(grid, (256,), values, shared_mem=self.device.stats_bytes)

    def _outputs(
        self, inputs: dict[str, Any], scale: float, first: int, rows: tuple[Any, Any], *out: Any
    ) -> None:
        """Exact sums, plain sums and plain output from row ``first`` on; None: not wanted."""
        cp, (batch, seq, heads, _) = self.cp, self.problem.shape
        values = (
            *(inputs[name] for name in ("q", "k", "v")),
            *self.problem.sizes,
            cp.float32(scale),
            cp.int32(first),
            *rows,
            *(cp.uint64(0) if buffer is None else buffer for buffer in out),
        )
        grid = ((seq - first) // TILE, heads, batch)
        self.device.outputs(grid, (256,), values, shared_mem=self.device.output_bytes)

    def _faulty(self, kv_tile: int, first: int, rows: int, sign: int) -> Any:
        """The plain output with one KV tile of 128 keys taken out (-1) or added (+1)."""
        cp, (batch, _, heads, _) = self.cp, self.problem.shape
        out = self.plain.copy()
        values = (
            *(self.problem.inputs[name] for name in ("q", "k", "v")),
            *self.problem.sizes,
            cp.float32(self.problem.scale_log2),
            *(cp.int32(number) for number in (first, kv_tile, sign)),
            self.m,
            self.total,
            self.plain_sum,
            out,
        )
        grid = (rows // TILE, heads, batch)
        self.device.fault(grid, (256,), values, shared_mem=self.device.output_bytes)
        return out

    def _other(self, inputs: dict[str, Any], scale: float, first: int, out: Any) -> Any:
        """``out`` with the rows from ``first`` on computed of other inputs or another scale."""
        rows = self.cp.empty_like(self.m), self.cp.empty_like(self.total)
        self._statistics(inputs, scale, *rows)
        self._outputs(inputs, scale, first, rows, None, None, out)
        return out

    def control(self, name: str, position: str | None, good: Any) -> Any:
        """A known-wrong output as uint16 BSHD.

        Args:
            name: A control of the manifest.
            position: ``first``, ``middle`` or ``last`` for a fault that has a place.
            good: The backend's own output, which some controls alter; it is not changed.
        """
        cp, problem = self.cp, self.problem
        seq = problem.shape[1]
        if name in ("dropped-tile", "leaked-tile") and position in ("first", "middle", "last"):
            # A leaked tile lies right of the diagonal, so the last query tile has none.
            last = seq // CONTROL_TILE - (1 if name == "dropped-tile" else 2)
            index = {"first": 0, "middle": last // 2, "last": last}[position]
            first = index * CONTROL_TILE
            if name == "dropped-tile":
                return self._faulty(index, first, seq - first, -1)
            return self._faulty(index + 1, first, CONTROL_TILE, 1)
        if position is None and name == "zeros":
            return cp.zeros_like(good)
        if position is None and name == "nan":
            out = good.copy()
            out[-1, -1, -1, -1] = 0x7FFF
            return out
        if position is None and name == "wrong-scale":
            scale = problem.scale_log2 * WRONG_SCALE
            return self._other(problem.inputs, scale, 0, cp.empty_like(good))
        if position is None and name == "stale-buffer":
            stale = problem.tensors(STALE_STREAMS)
            return self._other(stale, problem.scale_log2, seq - CONTROL_TILE, good.copy())
        raise Refused(
            "failed",
            "the control does not exist",
            "one of docs/numerics.md",
            f"{name} at {position}",
        )

    def measure(self, out: Any, atol: float, rtol: float, band: int) -> dict[str, Any]:
        """The figures of an output (uint16 BSHD) over every element."""
        cp = self.cp
        batch, seq, heads, dim = self.problem.shape
        bands = -(-seq // band)
        tops = cp.zeros((bands, 2), dtype=cp.float32)
        sums = cp.zeros((bands, 2), dtype=cp.float64)
        extremes = cp.zeros(2, dtype=cp.float32)
        counts = cp.zeros(2, dtype=cp.uint64)
        arguments = (
            out,
            self.exact,
            self.plain,
            *self.problem.sizes,
            cp.int32(band),
            cp.float32(atol),
            cp.float32(rtol),
            tops,
            sums,
            extremes,
            counts,
        )
        self.device.figures((2048,), (256,), arguments)
        top, total, extreme, count = (
            cp.asnumpy(a).tolist() for a in (tops, sums, extremes, counts)
        )
        records = []
        for i in range(bands):
            first, last = i * band, min((i + 1) * band, seq) - 1
            rows = batch * heads * (last - first + 1)
            records.append(
                {
                    "first": first,
                    "last": last,
                    "rows": rows,
                    "e_max": finite(top[i][0]),
                    "e_rms": finite(root(total[i][0] / rows)),
                    "e0_max": finite(top[i][1]),
                    "e0_rms": finite(root(total[i][1] / rows)),
                }
            )
        return {
            "elements": batch * seq * heads * dim,
            "rows": batch * seq * heads,
            "nonfinite": int(count[0]),
            "outside_tolerance": int(count[1]),
            "max_abs": finite(extreme[0]),
            "max_abs0": finite(extreme[1]),
            "bands": records,
        }


def finite(value: float) -> float | None:
    """The value, or None (JSON null) where it is not finite."""
    return value if math.isfinite(value) else None


def root(value: float) -> float:
    """The square root, NaN for NaN."""
    return math.sqrt(value) if value >= 0 else math.nan
