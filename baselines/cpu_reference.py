#!/usr/bin/env python3
"""Causal attention on a CPU: the kernels' arithmetic as an executable specification, and a worker.

One self-contained file: the standard library and NumPy. It holds the input generator
(Philox4x32-10), BF16 rounding, online softmax as the kernels compute it, the plain BF16
implementation that the strict gate measures against, an FP64 oracle, the negative controls,
and the worker protocol (docs/worker-protocol.md). docs/numerics.md says the same in prose,
with test vectors, for whoever writes it in CUDA.

Arrays: BF16 tensors are uint16 bit patterns in the order [B, S, H, D]; the arithmetic runs on
float32 (the oracle: float64) matrices [S, D] of one batch and head.

Run it as ``python cpu_reference.py --backend NAME`` for the protocol, or with ``--self-check``
for a small table against FP64.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TextIO

# One thread, unless the environment says otherwise: tiles are small, and a BLAS pool whose
# threads spin for each other is a hundred times slower on a machine that does other work too.
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

try:
    import numpy as np
except ImportError as error:  # Reported as an answer to the first request that needs it.
    _numpy_missing: str | None = str(error)
else:
    _numpy_missing = None

PROTOCOL = 1
CLOCK = "host-monotonic"
MIN_NUMPY = (2, 1)

# ---------------------------------------------------------------------------- inputs

#: Multipliers and key increments of Philox4x32 (Salmon et al., SC 2011).
PHILOX_M0, PHILOX_M1 = 0xD2511F53, 0xCD9E8D57
PHILOX_W0, PHILOX_W1 = 0x9E3779B9, 0xBB67AE85
MASK32 = 0xFFFFFFFF

#: (name, stream, log2 of the half width) of each tensor: Q and K in [-2, 2], V in [-1, 1].
TENSORS = (("q", 0, 1), ("k", 1, 1), ("v", 2, 0))
#: Streams of input set g are those of set 0 plus 3 g. Set 1 is the stale buffer's.
STREAMS_A_SET = 3

_CHUNK = 1 << 16  # counters at once: the generator's working set then stays in cache


def philox4x32_10(
    counter: Sequence[Any], key: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Philox4x32 with ten rounds, for many counters at once.

    Args:
        counter: Its four 32-bit words, each an array or a number; they broadcast.
        key: Two 32-bit words.

    Returns:
        Four uint64 arrays whose values are 32-bit words.
    """
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(word, dtype=np.uint64) for word in counter))
    k0, k1 = key
    mask, half = np.uint64(MASK32), np.uint64(32)
    for _ in range(10):
        low, high = c0 * np.uint64(PHILOX_M0), c2 * np.uint64(PHILOX_M1)
        c0, c1, c2, c3 = (
            (high >> half) ^ c1 ^ np.uint64(k0),
            high & mask,
            (low >> half) ^ c3 ^ np.uint64(k1),
            low & mask,
        )
        k0, k1 = (k0 + PHILOX_W0) & MASK32, (k1 + PHILOX_W1) & MASK32
    return c0, c1, c2, c3


def generate(seed: int, stream: int, count: int, log2_half_width: int) -> np.ndarray:
    """``count`` BF16 values, uniform in [-h, h] with h = 2**log2_half_width, as uint16 bits.

    Element i is made of word i % 4 of Philox with the counter (block, stream, 0), where
    block = i // 4 takes two words, low one first, and the key is the seed, low word first.
    n, the word's upper 24 bits, becomes the odd integer 2n + 1 - 2**24, which FP32 holds
    exactly; it is scaled by a power of two, exact again, and rounded once, to BF16.
    """
    values = np.empty(count, dtype=np.uint16)
    scale = np.float32(2.0 ** (log2_half_width - 24))
    key = (seed & MASK32, seed >> 32)
    blocks = -(-count // 4)
    for first in range(0, blocks, _CHUNK):
        block = np.arange(first, min(first + _CHUNK, blocks), dtype=np.uint64)
        words = philox4x32_10((block & np.uint64(MASK32), block >> np.uint64(32), stream, 0), key)
        n = (np.stack(words, axis=1).reshape(-1) >> np.uint64(8)).astype(np.int32)
        centred = (2 * n + np.int32(1 - (1 << 24))).astype(np.float32)
        part = values[4 * first : 4 * first + n.size]
        part[:] = to_bf16(centred * scale)[: part.size]
    return values


def digest(bits: np.ndarray) -> str:
    """SHA-256 of BF16 bits as little-endian bytes, in C order."""
    return hashlib.sha256(np.ascontiguousarray(bits, dtype="<u2").tobytes()).hexdigest()


# ------------------------------------------------------------------------------ BF16

BF16_NAN = 0x7FFF


def to_bf16(values: np.ndarray) -> np.ndarray:
    """float32 -> BF16 bits: to nearest, ties to even; too large becomes infinite, NaN 0x7FFF.

    Subnormal numbers round like any other and -0 stays: what cvt.rn.bf16.f32 does.
    """
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        rounded[nan] = BF16_NAN
    return rounded


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """BF16 bits -> float32, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_bf16(values: np.ndarray) -> np.ndarray:
    """float32 values rounded to BF16 and widened again."""
    return from_bf16(to_bf16(values))


# ------------------------------------------------------------------ who sees which key


@dataclass(frozen=True)
class Seen:
    """Which keys each query row sees: those up to its own index, but for a control's fault."""

    dropped: range = range(0)
    """Keys that no row sees."""
    leak_rows: range = range(0)
    """Rows that also see ``leak_keys``."""
    leak_keys: range = range(0)

    def tile(self, rows: range, keys: range) -> np.ndarray | bool:
        """True where ``rows`` see all of ``keys``, False where they see none, else a mask."""
        faulty = _overlap(keys, self.dropped) or (
            _overlap(rows, self.leak_rows) and _overlap(keys, self.leak_keys)
        )
        if not faulty:
            if keys.stop - 1 <= rows.start:
                return True
            if keys.start > rows.stop - 1:
                return False
        i, j = np.arange(rows.start, rows.stop)[:, None], np.arange(keys.start, keys.stop)
        mask = j <= i
        if faulty:
            leaked = _within(i, self.leak_rows) & _within(j, self.leak_keys)
            mask = (mask | leaked) & ~_within(j, self.dropped)
            if not mask.any():
                return False
        return True if mask.all() else mask


def _overlap(a: range, b: range) -> bool:
    return max(a.start, b.start) < min(a.stop, b.stop)


def _within(index: np.ndarray, span: range) -> np.ndarray:
    return (index >= span.start) & (index < span.stop)


CAUSAL = Seen()

# -------------------------------------------------------------------- implementations


def softmax_scale(dim: int) -> float:
    """log2(e) / sqrt(D): scores times this are exponents of two. 0.12751743 for D = 128."""
    return math.log2(math.e) / math.sqrt(dim)


def direct(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, seen: Seen = CAUSAL
) -> np.ndarray:
    """The plain BF16 implementation of one head: the whole S x S matrix at once.

    FP32 scores, FP32 softmax, probabilities rounded to BF16, FP32 product with V. Its error
    is e0 of the strict gate. A row that sees no key is zero.

    Args:
        q: [S, D] float32 that holds BF16 values; k and v alike.
        k: Keys.
        v: Values.
        scale: See :func:`softmax_scale`.
        seen: Which keys a row sees.

    Returns:
        [S, D] float32, not yet rounded.
    """
    length = range(q.shape[0])
    p = q @ k.T
    mask = seen.tile(length, length)
    if mask is False:
        return np.zeros_like(q)
    if mask is not True:
        np.putmask(p, ~mask, np.float32(-np.inf))
    p *= np.float32(scale)
    p -= _base(p.max(axis=1))[:, None]
    np.exp2(p, out=p)
    p *= _inverse(p.sum(axis=1))[:, None]
    return round_bf16(p) @ v


@dataclass(frozen=True)
class Online:
    """Online softmax with the kernels' state: m, l and O in FP32, one KV tile after the other.

    Only tiles that the causal diagonal crosses are masked. P is rounded to BF16 before it
    meets V, while l (``total``) sums it unrounded.
    """

    tile_q: int = 128
    tile_kv: int = 128
    reverse: bool = False
    """From the diagonal tile to tile 0, as v2, v3 and v4 go."""
    deferred: bool = False
    """Keep l as four partial sums a row, one a lane, and add them up once at the end: lane t
    of a WGMMA accumulator's row holds the columns whose index modulo 8 is 2t or 2t + 1."""

    def __call__(
        self, q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, seen: Seen = CAUSAL
    ) -> np.ndarray:
        """One head; arguments and result as in :func:`direct`."""
        length, dim = q.shape
        out = np.empty_like(q)
        for start in range(0, length, self.tile_q):
            rows = range(start, min(start + self.tile_q, length))
            size = len(rows)
            m = np.full(size, -np.inf, dtype=np.float32)
            total = np.zeros((size, 4 if self.deferred else 1), dtype=np.float32)
            o = np.zeros((size, dim), dtype=np.float32)
            q_tile = q[rows.start : rows.stop]
            for keys, mask in self._tiles(rows, length, seen):
                s = q_tile @ k[keys.start : keys.stop].T
                if mask is not True:
                    np.putmask(s, ~mask, np.float32(-np.inf))
                m_new = np.maximum(m, s.max(axis=1))
                base = _base(m_new) * np.float32(scale)
                alpha = np.exp2(m * np.float32(scale) - base)
                s *= np.float32(scale)
                s -= base[:, None]
                p = np.exp2(s, out=s)
                total = total * alpha[:, None] + self._row_sum(p)
                o *= alpha[:, None]
                o += round_bf16(p) @ v[keys.start : keys.stop]
                m = m_new
            out[rows.start : rows.stop] = o * _inverse(total.sum(axis=1))[:, None]
        return out

    def _tiles(
        self, rows: range, length: int, seen: Seen
    ) -> Iterator[tuple[range, np.ndarray | bool]]:
        """The KV tiles that some of ``rows`` see, in the order of the traversal."""
        starts = range(0, length, self.tile_kv)
        for start in reversed(starts) if self.reverse else starts:
            keys = range(start, min(start + self.tile_kv, length))
            mask = seen.tile(rows, keys)
            if mask is not False:
                yield keys, mask

    def _row_sum(self, p: np.ndarray) -> np.ndarray:
        if self.deferred:
            return p.reshape(p.shape[0], -1, 4, 2).sum(axis=(1, 3))
        return p.sum(axis=1, keepdims=True)


def oracle(q: np.ndarray, k: np.ndarray, v: np.ndarray, block: int = 256) -> np.ndarray:
    """FP64 attention of one head, ``block`` query rows at a time: [S, D] float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    out = np.empty_like(q)
    for start in range(0, q.shape[0], block):
        stop = min(start + block, q.shape[0])
        s = q[start:stop] @ k[:stop].T / math.sqrt(q.shape[1])
        s[np.arange(stop) > np.arange(start, stop)[:, None]] = -np.inf
        p = np.exp(s - s.max(axis=1, keepdims=True))
        out[start:stop] = p @ v[:stop] / p.sum(axis=1, keepdims=True)
    return out


def _base(maximum: np.ndarray) -> np.ndarray:
    """The maximum that exponents are taken against: 0 for a row that has seen no key yet.

    Its own maximum is -inf, and -inf - -inf would be NaN.
    """
    return np.where(maximum == -np.inf, np.float32(0), maximum)


def _inverse(total: np.ndarray) -> np.ndarray:
    """1 / l, and 0 for a row that saw no key: its output is then zero."""
    return np.divide(np.float32(1), total, out=np.zeros_like(total), where=total != 0)


# ------------------------------------------------------------------------- the tensors


class UnsupportedShapeError(Exception):
    """The shape is none that this reference computes."""

    def __init__(self, message: str, expected: str, found: str) -> None:
        super().__init__(message)
        self.expected = expected
        self.found = found


class BadRequestError(Exception):
    """A request that does not say what the protocol wants."""

    def __init__(self, message: str, expected: str | None = None, found: str | None = None) -> None:
        super().__init__(message)
        self.expected = expected
        self.found = found


class Shape(NamedTuple):
    """Batch, sequence, heads, head dimension: the order in memory."""

    batch: int
    sequence: int
    heads: int
    dim: int

    @classmethod
    def from_dims(cls, dims: Any, *tiles: int) -> Shape:
        """The shape that ``{"B": ..., "S": ..., "H": ..., "D": ...}`` names.

        Raises:
            UnsupportedShapeError: for other dimensions, and lengths that a tile does not divide.
        """
        found = json.dumps(dims, sort_keys=True)[:200]
        if not isinstance(dims, dict) or set(dims) != set("BSHD"):
            more = isinstance(dims, dict) and set(dims) > set("BSHD")
            raise UnsupportedShapeError(
                "the shape has further dimensions: key/value heads or lengths of their own (GQA, "
                "unequal lengths) are not supported"
                if more
                else "the shape lacks a dimension",
                "exactly B, S, H and D",
                found,
            )
        if not all(type(n) is int and n > 0 for n in dims.values()):
            raise UnsupportedShapeError("a dimension is no positive integer", "integers > 0", found)
        for tile in tiles:
            if dims["S"] % tile:
                raise UnsupportedShapeError(
                    f"S = {dims['S']} is not a multiple of the tile: tails are not supported",
                    f"S divisible by {tile}",
                    found,
                )
        return cls(dims["B"], dims["S"], dims["H"], dims["D"])


Attend = Callable[..., "np.ndarray"]
"""(q, k, v, scale, seen) of one head -> [S, D] float32: :func:`direct` or an :class:`Online`."""


class Inputs:
    """Q, K and V of one shape, as BF16 bits and widened to float32 head by head."""

    def __init__(self, shape: Shape, seed: int, input_set: int = 0) -> None:
        self.shape = shape
        started = time.perf_counter_ns()
        self.bits = {
            name: generate(seed, stream + STREAMS_A_SET * input_set, math.prod(shape), width)
            for name, stream, width in TENSORS
        }
        generated = time.perf_counter_ns()
        # [B, H, S, D] and contiguous, so that no timed launch pays for a change of layout.
        self.heads = tuple(
            np.ascontiguousarray(from_bf16(bits.reshape(shape)).transpose(0, 2, 1, 3))
            for bits in self.bits.values()
        )
        self.setup_ms = {
            "generate": (generated - started) / 1e6,
            "widen": (time.perf_counter_ns() - generated) / 1e6,
        }

    def each_head(self) -> Iterator[tuple[int, int, np.ndarray, np.ndarray, np.ndarray]]:
        """(batch, head, q, k, v) with [S, D] matrices."""
        q, k, v = self.heads
        for b in range(self.shape.batch):
            for h in range(self.shape.heads):
                yield b, h, q[b, h], k[b, h], v[b, h]


def launch(
    attend: Attend,
    inputs: Inputs,
    out: np.ndarray,
    seen: Seen = CAUSAL,
    scale_factor: float = 1.0,
) -> None:
    """One launch: every batch and head through ``attend``, rounded to BF16 into ``out``.

    Args:
        attend: The implementation.
        inputs: Q, K, V.
        out: uint16 [B, S, H, D].
        seen: Which keys a row sees.
        scale_factor: 1, or what a control makes of the softmax scale.
    """
    scale = softmax_scale(inputs.shape.dim) * scale_factor
    for b, h, q, k, v in inputs.each_head():
        out[b, :, h] = to_bf16(attend(q, k, v, scale, seen))


def reference(inputs: Inputs) -> np.ndarray:
    """The FP64 oracle of every element: [B, S, H, D]."""
    ref = np.empty(inputs.shape, dtype=np.float64)
    for b, h, q, k, v in inputs.each_head():
        ref[b, :, h] = oracle(q, k, v)
    return ref


# ---------------------------------------------------------------------------- figures


class Errors(NamedTuple):
    """Errors of one output against the oracle."""

    rows: np.ndarray
    """[B, S, H]: root mean square over D of output minus oracle."""
    max_abs: float
    outside: int
    nonfinite: int


def errors(out: np.ndarray, ref: np.ndarray, atol: float, rtol: float) -> Errors:
    """Compare every element of ``out`` (BF16 bits) with ``ref``."""
    values = from_bf16(out).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = values - ref
        distance = np.abs(difference)
        # Counted as "not within", so that NaN is outside.
        within = distance <= atol + rtol * np.abs(ref)
        rows = np.sqrt(np.mean(difference * difference, axis=-1))
    return Errors(
        rows,
        float(distance.max()),
        int(within.size - np.count_nonzero(within)),
        int(values.size - np.count_nonzero(np.isfinite(values))),
    )


def figures(e: Errors, e0: Errors, elements: int, axis: int, band_rows: int) -> dict[str, Any]:
    """The protocol's figures: ``e`` of an output beside ``e0`` of the plain implementation.

    Args:
        e: Errors of the output.
        e0: Errors of the plain implementation on the same inputs.
        elements: Elements of the output.
        axis: The axis of ``e.rows`` along which bands are cut.
        band_rows: Indices of that axis in one band.
    """
    bands = []
    length = e.rows.shape[axis]
    for first in range(0, length, band_rows):
        indices = range(first, min(first + band_rows, length))
        band, band0 = (np.take(x.rows, indices, axis=axis) for x in (e, e0))
        bands.append(
            {
                "first": first,
                "last": indices.stop - 1,
                "rows": band.size,
                "e_max": _finite(band.max()),
                "e_rms": _finite(np.sqrt(np.mean(band * band))),
                "e0_max": _finite(band0.max()),
                "e0_rms": _finite(np.sqrt(np.mean(band0 * band0))),
            }
        )
    return {
        "elements": elements,
        "rows": e.rows.size,
        "nonfinite": e.nonfinite,
        "outside_tolerance": e.outside,
        "max_abs": _finite(e.max_abs),
        "max_abs0": _finite(e0.max_abs),
        "bands": bands,
    }


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


# --------------------------------------------------------------------------- controls

#: Query rows, or keys, of the tile that a control spoils: the kernels' tile.
CONTROL_TILE = 128
POSITIONS = ("first", "middle", "last")
PLACED = ("dropped-tile", "leaked-tile")
UNPLACED = ("zeros", "wrong-scale", "stale-buffer", "nan")
WRONG_SCALE = 1.1


def control_output(
    name: str,
    position: str | None,
    attend: Attend,
    inputs: Inputs,
    seed: int,
    good: np.ndarray,
) -> np.ndarray:
    """A known-wrong output, made by the same implementation with the fault put in.

    Args:
        name: One of :data:`PLACED` or :data:`UNPLACED`.
        position: One of :data:`POSITIONS` for a placed control, else None.
        attend: The implementation.
        inputs: The inputs of the run.
        seed: Their seed.
        good: The right output, which is not changed.

    Returns:
        uint16 [B, S, H, D].

    Raises:
        BadRequestError: for a control that does not exist.
        UnsupportedShapeError: where the shape has one tile only, which leaves no place for it.
    """
    length = inputs.shape.sequence
    tiles = -(-length // CONTROL_TILE)
    positions = POSITIONS if name in PLACED else (None,)
    if name not in PLACED + UNPLACED or position not in positions:
        raise BadRequestError(
            "the control does not exist",
            f"{' or '.join(PLACED)} with a position ({', '.join(POSITIONS)}), "
            f"or without one: {', '.join(UNPLACED)}",
            f"{name} at {position}",
        )
    if tiles < 2:
        raise UnsupportedShapeError(
            "the controls need a second tile", f"S > {CONTROL_TILE}", f"S = {length}"
        )

    def tile(index: int) -> range:
        return range(index * CONTROL_TILE, min((index + 1) * CONTROL_TILE, length))

    def place(last: int) -> int:
        return {"first": 0, "middle": last // 2, "last": last}[str(position)]

    out = good.copy()
    if name == "zeros":
        out[...] = 0
    elif name == "nan":
        out[-1, -1, -1, -1] = BF16_NAN
    elif name == "wrong-scale":
        launch(attend, inputs, out, scale_factor=WRONG_SCALE)
    elif name == "stale-buffer":
        stale = np.empty_like(out)
        launch(attend, Inputs(inputs.shape, seed, input_set=1), stale)
        rows = tile(tiles - 1)
        out[:, rows.start : rows.stop] = stale[:, rows.start : rows.stop]
    elif name == "dropped-tile":
        launch(attend, inputs, out, Seen(dropped=tile(place(tiles - 1))))
    else:
        index = place(tiles - 2)
        launch(attend, inputs, out, Seen(leak_rows=tile(index), leak_keys=tile(index + 1)))
    return out


# ------------------------------------------------------------------------------ worker


def implementation_name(attend: Attend) -> str:
    """What the witness calls an implementation; manifests expect these very words."""
    if not isinstance(attend, Online):
        return "numpy direct softmax"
    tile = str(attend.tile_q)
    if attend.tile_kv != attend.tile_q:
        tile += f"x{attend.tile_kv}"
    traversal = "reverse" if attend.reverse else "forward"
    deferred = ", deferred row sum" if attend.deferred else ""
    return f"numpy online softmax, {traversal}, tile {tile}{deferred}"


def blas_name() -> str:
    """Name and version of the BLAS that NumPy was built with."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


@dataclass
class Prepared:
    """Everything that belongs to one shape."""

    inputs: Inputs
    seed: int
    out: np.ndarray
    ref: np.ndarray | None = None
    """The oracle, computed at the first check."""


@dataclass
class Worker:
    """One backend's state between requests."""

    backend: str
    attend: Attend
    tiles: tuple[int, ...]
    prepared: Prepared | None = None
    launched: dict[str, Any] = field(default_factory=dict)
    """Facts of the last launch."""

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What the request's operation returns, beside op, id and backend.

        Raises:
            BadRequestError: for an unknown operation, or fields that are not as the protocol says.
            UnsupportedShapeError: see :class:`Shape`.
        """
        operations: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "hello": self.hello,
            "prepare": self.prepare,
            "check": self.check,
            "witness": self.witness,
            "time": self.time,
            "quit": lambda _: {},
        }
        op = request.get("op")
        if not isinstance(op, str) or op not in operations:
            raise BadRequestError(
                "the operation does not exist", ", ".join(operations), repr(op)[:200]
            )
        return operations[op](request)

    def hello(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Who the worker is."""
        return {
            "protocol": PROTOCOL,
            "python": platform.python_version(),
            "versions": {"numpy": np.__version__},
            "clock": CLOCK,
        }

    def prepare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Make the inputs of a shape; the shape before is forgotten even if this one fails."""
        self.prepared = None
        self.launched = {}
        shape = Shape.from_dims(request.get("shape"), *self.tiles)
        seed = _integer(request, "seed", 0, (1 << 64) - 1)
        inputs = Inputs(shape, seed)
        self.prepared = Prepared(inputs, seed, np.full(shape, BF16_NAN, dtype=np.uint16))
        return {
            "inputs": {name: digest(bits) for name, bits in inputs.bits.items()},
            "setup_ms": inputs.setup_ms,
        }

    def check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Measure the output, and each control's, against the oracle."""
        state = self._state()
        gates = request.get("gates")
        if not isinstance(gates, dict):
            raise BadRequestError("the request lacks gates", "an object", repr(gates)[:200])
        atol, rtol = _number(gates, "atol"), _number(gates, "rtol")
        band_rows = _integer(gates, "band_rows", 1)
        axis = gates.get("band_axis")
        if axis not in ("B", "S", "H"):
            raise BadRequestError("bands run along no axis of rows", "B, S or H", repr(axis)[:200])
        controls = request.get("controls", [])
        if not isinstance(controls, list) or not all(isinstance(c, dict) for c in controls):
            raise BadRequestError("controls is no list of objects", None, repr(controls)[:200])

        inputs, ref = state.inputs, state.ref
        if ref is None:
            ref = state.ref = reference(inputs)
        plain = np.full(inputs.shape, BF16_NAN, dtype=np.uint16)
        launch(direct, inputs, plain)
        e0 = errors(plain, ref, atol, rtol)

        def measured(out: np.ndarray) -> dict[str, Any]:
            e = errors(out, ref, atol, rtol)
            return figures(e, e0, out.size, "BSH".index(axis), band_rows)

        state.out[...] = BF16_NAN
        self._launch(state)
        return {
            "figures": measured(state.out),
            "controls": [
                {
                    "name": control.get("name"),
                    "position": control.get("position"),
                    "figures": measured(
                        control_output(
                            str(control.get("name")),
                            control.get("position"),
                            self.attend,
                            inputs,
                            state.seed,
                            state.out,
                        )
                    ),
                }
                for control in controls
            ],
        }

    def witness(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What the last launch ran."""
        if not self.launched:
            raise BadRequestError("nothing was launched yet", "a check or time before", "none")
        return {"facts": self.launched}

    def time(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One sample: the mean of ``repeat`` launches after ``warmup`` ones."""
        state = self._state()
        warmup = _integer(request, "warmup", 0)
        repeat = _integer(request, "repeat", 1)
        for _ in range(warmup):
            self._launch(state)
        started = time.perf_counter_ns()
        for _ in range(repeat):
            launch(self.attend, state.inputs, state.out)
        elapsed = time.perf_counter_ns() - started
        self._record()
        return {"ms": elapsed / repeat / 1e6, "clock": CLOCK, "warmup": warmup, "repeat": repeat}

    def _state(self) -> Prepared:
        if self.prepared is None:
            raise BadRequestError("no shape is prepared", "a prepare that succeeded", "none")
        return self.prepared

    def _launch(self, state: Prepared) -> None:
        launch(self.attend, state.inputs, state.out)
        self._record()

    def _record(self) -> None:
        self.launched = {
            "implementation": implementation_name(self.attend),
            "numpy": np.__version__,
            "blas": blas_name(),
            # Threads that exist after a launch, the BLAS library's pool included.
            "threads": len(list(Path("/proc/self/task").iterdir())),
            "module_sha256": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        }


def _integer(request: Mapping[str, Any], name: str, low: int, high: int | None = None) -> int:
    value = request.get(name)
    if type(value) is not int or value < low or (high is not None and value > high):
        limits = f">= {low}" if high is None else f"from {low} to {high}"
        raise BadRequestError(f"{name} is not valid", f"an integer {limits}", repr(value)[:200])
    return value


def _number(request: Mapping[str, Any], name: str) -> float:
    value = request.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise BadRequestError(f"{name} is not valid", "a number >= 0", repr(value)[:200])
    return float(value)


def _refused(kind: str, error: Exception) -> dict[str, Any]:
    refusal = {"op": "error", "kind": kind, "message": str(error) or type(error).__name__}
    for name in ("expected", "found"):
        if getattr(error, name, None) is not None:
            refusal[name] = getattr(error, name)
    return refusal


def _numpy_problem() -> dict[str, Any] | None:
    if _numpy_missing is not None:
        return {"op": "error", "kind": "missing_module", "message": f"numpy: {_numpy_missing}"}
    if tuple(int(part) for part in np.__version__.split(".")[:2]) < MIN_NUMPY:
        return {
            "op": "error",
            "kind": "wrong_version",
            "message": "numpy is too old",
            "expected": ">= " + ".".join(map(str, MIN_NUMPY)),
            "found": np.__version__,
        }
    return None


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        message = f"the line is not JSON: {error}"
        raise BadRequestError(message, "one JSON object a line", repr(line)[:200]) from error
    if not isinstance(request, dict):
        raise BadRequestError("the request is no JSON object", "an object", repr(request)[:200])
    return request


def respond(worker: Worker, line: bytes) -> dict[str, Any]:
    """The answer to one line, whatever stands in it. A line without a usable id gets id -1."""
    request: Any = None
    try:
        request = _parsed(line)
        if type(request.get("id")) is not int:
            raise BadRequestError(
                "the request has no id", "an integer", repr(request.get("id"))[:200]
            )
        if request.get("op") == "hello" and request.get("protocol") != PROTOCOL:
            answer = {
                "op": "error",
                "kind": "wrong_version",
                "message": "the worker speaks another version of the protocol",
                "expected": str(PROTOCOL),
                "found": repr(request.get("protocol"))[:200],
            }
        elif request.get("op") != "quit" and (problem := _numpy_problem()) is not None:
            answer = problem
        else:
            answer = {"op": request.get("op"), **worker.answer(request)}
    except UnsupportedShapeError as error:
        answer = _refused("unsupported_shape", error)
    except BadRequestError as error:
        answer = _refused("failed", error)
    except MemoryError as error:
        answer = _refused("out_of_memory", error)
    except Exception as error:
        traceback.print_exc()
        answer = _refused("failed", error)
        answer["message"] = f"{type(error).__name__}: {answer['message']}"
    known = isinstance(request, dict) and type(request.get("id")) is int
    return {**answer, "id": request["id"] if known else -1, "backend": worker.backend}


def serve(worker: Worker, requests: Iterable[bytes], answers: TextIO) -> None:
    """Answer each line until ``quit`` or the end of the input."""
    for line in requests:
        answer = respond(worker, line)
        answers.write(json.dumps(answer, allow_nan=False) + "\n")
        answers.flush()
        if answer["op"] == "quit":
            return


# ------------------------------------------------------------------------ command line


def self_check() -> None:
    """Print each variant's error against FP64 on small shapes, beside the plain one's."""
    variants: list[Attend] = [direct]
    variants += [
        Online(tile, tile, reverse, deferred)
        for tile in (64, 128)
        for reverse in (False, True)
        for deferred in (False, True)
    ]
    print(f"numpy {np.__version__}, {blas_name()}; e: row RMS error against FP64")
    print(f"{'S':>5}  {'implementation':<62} {'max abs':>9} {'e/e0 max':>9} {'e/e0 rms':>9}")
    for length in (384, 1024):
        inputs = Inputs(Shape(1, length, 2, 128), seed=42)
        ref = reference(inputs)
        out = np.empty(inputs.shape, dtype=np.uint16)
        launch(direct, inputs, out)
        e0 = errors(out, ref, 0.0, 0.0)
        for attend in variants:
            launch(attend, inputs, out)
            e = errors(out, ref, 0.0, 0.0)
            worst = e.rows.max() / e0.rows.max()
            mean = math.sqrt(np.mean(e.rows**2) / np.mean(e0.rows**2))
            name = implementation_name(attend)
            print(f"{length:>5}  {name:<62} {e.max_abs:>9.2e} {worst:>9.3f} {mean:>9.3f}")


def main() -> int:
    """The command line; answers go to a private copy of standard output."""
    parser = argparse.ArgumentParser(description="CPU reference of causal attention: a worker.")
    parser.add_argument("--backend", help="the name that every answer repeats")
    parser.add_argument("--variant", choices=("direct", "online"), default="online")
    parser.add_argument("--traversal", choices=("forward", "reverse"), default="forward")
    parser.add_argument("--tile", type=int, default=128, help="query and KV rows of a tile")
    parser.add_argument("--kv-tile", type=int, help="KV rows of a tile, if they differ")
    parser.add_argument(
        "--deferred-row-sum", action="store_true", help="sum l over lanes once, at the end"
    )
    parser.add_argument("--self-check", action="store_true", help="print a table and end")
    args = parser.parse_args()
    kv_tile = args.tile if args.kv_tile is None else args.kv_tile
    if args.tile < 1 or kv_tile < 1:
        parser.error("a tile has at least one row")
    if args.deferred_row_sum and kv_tile % 8:
        parser.error("--deferred-row-sum needs a KV tile that is a multiple of 8")
    if args.self_check:
        if problem := _numpy_problem():
            parser.error(problem["message"])
        self_check()
        return 0
    if args.backend is None:
        parser.error("--backend is needed")
    attend: Attend = direct
    if args.variant == "online":
        attend = Online(args.tile, kv_tile, args.traversal == "reverse", args.deferred_row_sum)
    # Whatever a library prints must not end up between the answers.
    private = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(private, "w", encoding="utf-8") as answers:
        serve(Worker(args.backend, attend, (args.tile, kv_tile)), sys.stdin.buffer, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
