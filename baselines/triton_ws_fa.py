"""Causal attention in Triton with Hopper warp specialization. Contiguous BHSD tensors.

Device tensor descriptors and one masked causal loop with ``warp_specialize=True``. The
compiler ignores that request without a word for some configurations (256 threads instead
of 384), so the compiled kernel is looked at before anything is timed.
"""

from __future__ import annotations

import hashlib
import re
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

BLOCK_M, BLOCK_N, WARPS, STAGES = 128, 128, 4, 2
THREADS = 384  # three warpgroups: one loads, two compute


@triton.jit
def attention_ws(
    q_ptr, k_ptr, v_ptr, o_ptr, seq, rows_total, scale_log2,
    DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One query tile of one head. Grid: (seq / BLOCK_M, batch * heads), long tiles first."""
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    base = tl.program_id(1) * seq
    q_rows = tl.make_tensor_descriptor(q_ptr, [rows_total, DIM], [DIM, 1], [BLOCK_M, DIM])
    k_rows = tl.make_tensor_descriptor(k_ptr, [rows_total, DIM], [DIM, 1], [BLOCK_N, DIM])
    v_rows = tl.make_tensor_descriptor(v_ptr, [rows_total, DIM], [DIM, 1], [BLOCK_N, DIM])
    o_rows = tl.make_tensor_descriptor(o_ptr, [rows_total, DIM], [DIM, 1], [BLOCK_M, DIM])
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, DIM], tl.float32)
    q = q_rows.load([base + tile * BLOCK_M, 0])
    for start in tl.range(0, (tile + 1) * BLOCK_M, BLOCK_N, warp_specialize=True):
        k = k_rows.load([base + start, 0])
        s = tl.dot(q, k.T)
        columns = start + tl.arange(0, BLOCK_N)
        s = s * scale_log2 + tl.where(rows[:, None] >= columns[None, :], 0.0, -1.0e6)
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - m_new[:, None])
        alpha = tl.math.exp2(m - m_new)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_rows.load([base + start, 0])
        acc = tl.dot(p.to(tl.bfloat16), v, acc)
        m = m_new
    o_rows.store([base + tile * BLOCK_M, 0], (acc / total[:, None]).to(tl.bfloat16))


class TritonWs(harness.Backend):
    """The output buffer is allocated in every launch, as a wrapper for users would do."""

    distributions = ("triton",)

    def load(self) -> None:
        import torch

        # Device-side tensor descriptors live in scratch memory that Triton asks for at launch.
        triton.set_allocator(
            lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")
        )

    def prepare(self, q: Any, k: Any, v: Any) -> None:
        self.q, self.k, self.v = (t.transpose(1, 2).contiguous() for t in (q, k, v))
        self.sample = self.q
        self.batch, self.heads, self.seq, self.dim = self.q.shape
        self.scale_log2 = 1.4426950408889634 / self.dim**0.5
        self.launch()
        ptx = self.compiled.asm["ptx"]
        found = re.search(r"\.reqntid\s+(\d+)", ptx)
        threads = int(found.group(1)) if found else 0
        if threads != THREADS or "setmaxnreg" not in ptx:
            raise harness.Refused(
                "fallback",
                "the compiler did not specialize warps",
                f"{THREADS} threads and setmaxnreg",
                f"{threads} threads{'' if 'setmaxnreg' in ptx else ', no setmaxnreg'}",
            )

    def launch(self) -> Any:
        import torch

        out = torch.empty_like(self.q)
        self.compiled = attention_ws[(self.seq // BLOCK_M, self.batch * self.heads)](
            self.q, self.k, self.v, out,
            self.seq, self.batch * self.heads * self.seq, self.scale_log2,
            DIM=self.dim, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=WARPS, num_stages=STAGES,
        )  # fmt: skip
        return out

    def as_bshd(self, output: Any) -> Any:
        return output.transpose(1, 2).contiguous()

    def facts(self) -> dict[str, Any]:
        return {
            "implementation": "Triton with warp specialization",
            "distribution": f"triton=={harness.version_of('triton')}",
            "cubin_sha256": hashlib.sha256(self.compiled.asm["cubin"]).hexdigest(),
            "spills": self.compiled.n_spills,
        }


if __name__ == "__main__":
    harness.serve(TritonWs())
