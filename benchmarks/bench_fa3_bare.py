"""FlashAttention-3 in a bare loop, to hold the runner's figure for it against.

    PYTHON benchmarks/bench_fa3_bare.py > bare.json

PYTHON is an interpreter with torch and flash_attn_interface; nothing else is imported, and
nothing of this repository. The inputs have the values of a run (docs/numerics.md), made here by
torch; the loop is the one that anybody would write. One sample is the mean of 200 launches after
50 warm-ups, between two CUDA events; three samples a shape.

With ``--serve`` it takes its samples when it is asked to, by the requests `hello`, `prepare`,
`time` and `quit` of docs/worker-protocol.md: that is how bench_fa3_pairs.py lets it take turns
with the worker of a run.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BATCH, HEADS, DIM = 4, 32, 128
LENGTHS = (4096, 8192, 16384)
SEED = 42
WARMUP, REPEAT, ROUNDS = 50, 200, 3

#: (name, stream, log2 of the half width): Q and K in [-2, 2], V in [-1, 1].
TENSORS = (("q", 0, 1), ("k", 1, 1), ("v", 2, 0))
MASK32 = 0xFFFFFFFF
CHUNK = 1 << 22  # counters at once


def philox(block: Any, stream: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """The four words of Philox4x32-10 for each counter (block, stream, 0).

    Args:
        block: An int64 array of torch or NumPy. Its products wrap; shifting a negative one
            right and masking gives the upper word all the same.
        stream: The third word of the counters.
        seed: The key, low word first.
    """
    c0, c1, c2, c3 = block & MASK32, block >> 32, block * 0 + stream, block * 0
    k0, k1 = seed & MASK32, seed >> 32
    for _ in range(10):
        low, high = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (
            ((high >> 32) & MASK32) ^ c1 ^ k0,
            high & MASK32,
            ((low >> 32) & MASK32) ^ c3 ^ k1,
            low & MASK32,
        )
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return c0, c1, c2, c3


def odd_integers(words: Any) -> Any:
    """2n + 1 - 2**24 of each word's upper 24 bits n: uniform, symmetric, exact in FP32."""
    return 2 * (words >> 8) + (1 - (1 << 24))


def tensor(shape: tuple[int, ...], stream: int, log2_half_width: int, seed: int) -> Any:
    """One BF16 input on the GPU."""
    import torch

    out = torch.empty(shape, dtype=torch.bfloat16, device="cuda")
    flat = out.view(-1)
    for first in range(0, flat.numel() // 4, CHUNK):
        block = torch.arange(first, min(first + CHUNK, flat.numel() // 4), device="cuda")
        words = torch.stack(philox(block, stream, seed), dim=1).view(-1)
        exact = odd_integers(words).float() * 2.0 ** (log2_half_width - 24)
        flat[4 * first : 4 * first + exact.numel()] = exact.bfloat16()
    return out


def digests(tensors: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of each tensor's little-endian bytes."""

    def digest(on_gpu: Any) -> str:
        host = on_gpu.cpu()
        size = host.numel() * host.element_size()
        return hashlib.sha256((ctypes.c_char * size).from_address(host.data_ptr())).hexdigest()

    with ThreadPoolExecutor(len(tensors)) as pool:
        return dict(zip(tensors, pool.map(digest, tensors.values()), strict=True))


def sample(q: Any, k: Any, v: Any, warmup: int, repeat: int) -> float:
    """The mean of ``repeat`` launches after ``warmup`` others, in milliseconds."""
    import torch
    from flash_attn_interface import flash_attn_func

    for _ in range(warmup):
        flash_attn_func(q, k, v, causal=True)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeat):
        flash_attn_func(q, k, v, causal=True)
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / repeat


def inputs(dims: dict[str, int], seed: int) -> dict[str, Any]:
    """Q, K and V of a shape."""
    shape = tuple(dims[axis] for axis in "BSHD")
    return {name: tensor(shape, stream, width, seed) for name, stream, width in TENSORS}


def answers(requests: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What is answered to each request, beside its head."""
    import platform

    import torch

    held: dict[str, Any] = {}
    for request in requests:
        if request["op"] == "hello":
            import flash_attn_interface  # noqa: F401 - so that no sample waits for it

            yield {
                "protocol": 1,
                "python": platform.python_version(),
                "versions": {"torch": torch.__version__},
                "clock": "cuda-events",
            }
        elif request["op"] == "prepare":
            held.clear()
            torch.cuda.empty_cache()
            held.update(inputs(request["shape"], request["seed"]))
            yield {"inputs": digests(held), "setup_ms": {}}
        elif request["op"] == "time":
            counts = {"warmup": request["warmup"], "repeat": request["repeat"]}
            yield {"ms": sample(**held, **counts), "clock": "cuda-events", **counts}
        else:
            yield {}


def serve() -> int:
    """Answer requests on standard input until ``quit`` or its end."""
    # Libraries print; answers must be alone on their line.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request: dict[str, Any] = {}

    def requests() -> Iterator[dict[str, Any]]:
        nonlocal request
        for line in sys.stdin:
            request = json.loads(line)
            yield request

    for answer in answers(requests()):
        head = {"op": request["op"], "id": request["id"], "backend": "bare"}
        print(json.dumps({**head, **answer}), file=out, flush=True)
        if request["op"] == "quit":
            break
    return 0


def alone() -> int:
    """Three samples of each shape, as one JSON document."""
    import torch

    rows = []
    for length in LENGTHS:
        tensors = inputs({"B": BATCH, "S": length, "H": HEADS, "D": DIM}, SEED)
        samples = [sample(**tensors, warmup=WARMUP, repeat=REPEAT) for _ in range(ROUNDS)]
        median = statistics.median(samples)
        tflops = 2 * BATCH * HEADS * length * length * DIM / (median * 1e9)
        rows.append({"S": length, "ms": samples, "median_ms": median, "tflops": tflops})
    json.dump({"device": torch.cuda.get_device_name(), "rows": rows}, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(serve() if "--serve" in sys.argv[1:] else alone())
