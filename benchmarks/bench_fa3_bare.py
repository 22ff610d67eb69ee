"""FlashAttention-3 in a bare loop, to hold the runner's figure for it against.

    PYTHON benchmarks/bench_fa3_bare.py > bare.json

PYTHON is an interpreter with torch and flash_attn_interface. Nothing of this repository is
imported: inputs come from torch, the loop is the one that anybody would write. One sample is the
mean of 200 launches after 50 warm-ups, between two CUDA events; three samples a shape.
"""

from __future__ import annotations

import json
import statistics
import sys

BATCH, HEADS, DIM = 4, 32, 128
LENGTHS = (4096, 8192, 16384)
WARMUP, REPEAT, ROUNDS = 50, 200, 3


def main() -> int:
    import torch
    from flash_attn_interface import flash_attn_func

    rows = []
    for length in LENGTHS:
        shape = (BATCH, length, HEADS, DIM)
        q, k, v = ((torch.rand(shape, device="cuda") * 2 - 1).bfloat16() for _ in range(3))
        q, k = 2 * q, 2 * k
        samples = []
        for _ in range(ROUNDS):
            for _ in range(WARMUP):
                flash_attn_func(q, k, v, causal=True)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            for _ in range(REPEAT):
                flash_attn_func(q, k, v, causal=True)
            end.record()
            torch.cuda.synchronize()
            samples.append(start.elapsed_time(end) / REPEAT)
        median = statistics.median(samples)
        tflops = 2 * BATCH * HEADS * length * length * DIM / (median * 1e9)
        rows.append({"S": length, "ms": samples, "median_ms": median, "tflops": tflops})
    json.dump({"device": torch.cuda.get_device_name(), "rows": rows}, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
