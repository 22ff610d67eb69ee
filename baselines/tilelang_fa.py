"""Causal attention in TileLang: 128 x 128 tiles, two stages, BSHD.

One loop over the KV tiles up to the diagonal, every tile masked; TileLang pipelines the
copies and, on Hopper, makes a producer warpgroup for them by itself.
"""

# No postponed annotations here: TileLang evaluates those of the kernel's parameters.
import hashlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "runtime"))
import harness

BLOCK_M, BLOCK_N, STAGES, THREADS = 128, 128, 2, 256


def build(batch: int, seq: int, heads: int, dim: int) -> Any:
    """The compiled kernel of one shape: (q, k, v) -> o, all [batch, seq, heads, dim] BF16."""
    import tilelang
    import tilelang.language as T  # noqa: N812 (what TileLang's own documentation calls it)

    scale = 1.4426950408889634 / dim**0.5
    shape = [batch, seq, heads, dim]
    kind = "bfloat16"

    @tilelang.jit(out_idx=[3], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    def compile_() -> Any:
        @T.prim_func
        def attention(
            q: T.Tensor(shape, kind),
            k: T.Tensor(shape, kind),
            v: T.Tensor(shape, kind),
            o: T.Tensor(shape, kind),
        ):
            with T.Kernel(T.ceildiv(seq, BLOCK_M), heads, batch, threads=THREADS) as (x, h, b):
                q_tile = T.alloc_shared([BLOCK_M, dim], kind)
                k_tile = T.alloc_shared([BLOCK_N, dim], kind)
                v_tile = T.alloc_shared([BLOCK_N, dim], kind)
                o_tile = T.alloc_shared([BLOCK_M, dim], kind)
                s = T.alloc_fragment([BLOCK_M, BLOCK_N], "float")
                p = T.alloc_fragment([BLOCK_M, BLOCK_N], kind)
                acc = T.alloc_fragment([BLOCK_M, dim], "float")
                m = T.alloc_fragment([BLOCK_M], "float")
                m_before = T.alloc_fragment([BLOCK_M], "float")
                alpha = T.alloc_fragment([BLOCK_M], "float")
                part = T.alloc_fragment([BLOCK_M], "float")
                total = T.alloc_fragment([BLOCK_M], "float")

                # Long query tiles first: the last wave is then made of short ones.
                tile = T.ceildiv(seq, BLOCK_M) - 1 - x
                T.copy(q[b, tile * BLOCK_M : (tile + 1) * BLOCK_M, h, :], q_tile)
                T.fill(acc, 0)
                T.fill(total, 0)
                T.fill(m, -T.infinity("float"))
                for n in T.Pipelined(tile + 1, num_stages=STAGES):
                    T.copy(k[b, n * BLOCK_N : (n + 1) * BLOCK_N, h, :], k_tile)
                    for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                        s[i, j] = T.if_then_else(
                            tile * BLOCK_M + i >= n * BLOCK_N + j, 0, -T.infinity("float")
                        )
                    T.gemm(q_tile, k_tile, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(m, m_before)
                    T.reduce_max(s, m, dim=1, clear=False)
                    for i in T.Parallel(BLOCK_M):
                        alpha[i] = T.exp2(m_before[i] * scale - m[i] * scale)
                    for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                        s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                    T.reduce_sum(s, part, dim=1)
                    for i in T.Parallel(BLOCK_M):
                        total[i] = total[i] * alpha[i] + part[i]
                    T.copy(s, p)
                    for i, j in T.Parallel(BLOCK_M, dim):
                        acc[i, j] *= alpha[i]
                    T.copy(v[b, n * BLOCK_N : (n + 1) * BLOCK_N, h, :], v_tile)
                    T.gemm(p, v_tile, acc, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(BLOCK_M, dim):
                    acc[i, j] /= total[i]
                T.copy(acc, o_tile)
                T.copy(o_tile, o[b, tile * BLOCK_M : (tile + 1) * BLOCK_M, h, :])

        return attention

    return compile_()


class TileLang(harness.Backend):
    """TileLang allocates the output in every launch."""

    distributions = ("tilelang", "apache-tvm-ffi", "torch-c-dlpack-ext", "z3-solver")

    def load(self) -> None:
        import tilelang

        if getattr(tilelang, "__version__", None) is None:
            raise harness.Refused("fallback", "the module tilelang is not TileLang")

    def prepare(self, q: Any, k: Any, v: Any) -> None:
        self.inputs = (q, k, v)
        self.sample = q
        self.kernel = build(*q.shape)

    def launch(self) -> Any:
        return self.kernel(*self.inputs)

    def facts(self) -> dict[str, Any]:
        source = self.kernel.get_kernel_source().encode()
        return {
            "implementation": "TileLang",
            "distribution": f"tilelang=={harness.version_of('tilelang')}",
            "source_sha256": hashlib.sha256(source).hexdigest(),
        }


if __name__ == "__main__":
    harness.serve(TileLang())
