"""Causal attention in Triton, autotuned, without warp specialization. Contiguous BHSD tensors.

The BSHD inputs are converted once, outside timing. Tiles left of the diagonal run without a
mask, the diagonal ones in a second loop with it.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "runtime"))
import harness

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError as error:  # the kernels below need the module to be defined at all
    harness.serve(harness.Missing(error))
    raise SystemExit(0) from None

# (rows of a query tile, keys of a KV tile, warps, stages); rows are a multiple of keys.
CONFIGURATIONS = (
    (128, 128, 8, 3),
    (128, 128, 8, 2),
    (128, 64, 8, 3),
    (128, 64, 4, 3),
    (64, 64, 4, 3),
    (64, 64, 4, 4),
)


@triton.jit
def _steps(
    acc, total, m, q, k_base, v_base, rows, first, last, scale_log2,
    DIM: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    d = tl.arange(0, DIM)
    n = tl.arange(0, BLOCK_N)
    for start in tl.range(first, last, BLOCK_N):
        k = tl.load(k_base + (start + n)[None, :] * DIM + d[:, None])
        s = tl.dot(q, k)
        if MASKED:
            s = tl.where(rows[:, None] >= (start + n)[None, :], s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1) * scale_log2)
        p = tl.math.exp2(s * scale_log2 - m_new[:, None])
        alpha = tl.math.exp2(m - m_new)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_base + (start + n)[:, None] * DIM + d[None, :])
        acc = tl.dot(p.to(tl.bfloat16), v, acc)
        m = m_new
    return acc, total, m


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": bm, "BLOCK_N": bn}, num_warps=warps, num_stages=stages)
        for bm, bn, warps, stages in CONFIGURATIONS
    ],
    key=["seq"],
)
@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, seq, scale_log2,
    DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One query tile of one head. Grid: (seq / BLOCK_M, batch * heads), long tiles first."""
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * seq * DIM
    d = tl.arange(0, DIM)
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    q = tl.load(q_ptr + base + rows[:, None] * DIM + d[None, :])
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, DIM], tl.float32)
    diagonal = tile * BLOCK_M
    acc, total, m = _steps(
        acc,
        total,
        m,
        q,
        k_ptr + base,
        v_ptr + base,
        rows,
        0,
        diagonal,
        scale_log2,
        DIM,
        BLOCK_N,
        False,
    )
    acc, total, m = _steps(
        acc,
        total,
        m,
        q,
        k_ptr + base,
        v_ptr + base,
        rows,
        diagonal,
        diagonal + BLOCK_M,
        scale_log2,
        DIM,
        BLOCK_N,
        True,
    )
    tl.store(
        o_ptr + base + rows[:, None] * DIM + d[None, :], (acc / total[:, None]).to(tl.bfloat16)
    )


class Triton(harness.Backend):
    """The output buffer is allocated in every launch, as a wrapper for users would do."""

    distributions = ("triton",)

    def load(self) -> None:
        pass

    def prepare(self, q: Any, k: Any, v: Any) -> None:
        self.q, self.k, self.v = (t.transpose(1, 2).contiguous() for t in (q, k, v))
        self.sample = self.q
        self.batch, self.heads, self.seq, self.dim = self.q.shape
        self.scale_log2 = 1.4426950408889634 / self.dim**0.5

    def launch(self) -> Any:
        import torch

        out = torch.empty_like(self.q)
        grid = lambda meta: (self.seq // meta["BLOCK_M"], self.batch * self.heads)  # noqa: E731
        self.compiled = attention[grid](
            self.q, self.k, self.v, out, self.seq, self.scale_log2, DIM=self.dim
        )
        return out

    def as_bshd(self, output: Any) -> Any:
        return output.transpose(1, 2).contiguous()

    def facts(self) -> dict[str, Any]:
        best = attention.best_config
        return {
            "implementation": "Triton",
            "distribution": f"triton=={harness.version_of('triton')}",
            "cubin_sha256": hashlib.sha256(self.compiled.asm["cubin"]).hexdigest(),
            "spills": self.compiled.n_spills,
            "configuration": f"{best.kwargs['BLOCK_M']}x{best.kwargs['BLOCK_N']}, "
            f"{best.num_warps} warps, {best.num_stages} stages",
        }


if __name__ == "__main__":
    harness.serve(Triton())
