// The oracle: causal attention over all elements in FP32, the plain BF16 implementation that the
// strict gate measures against, known-wrong outputs, and the figures of any output.
//
// One file for both sides: the C++ harness includes it, the Python workers compile it with NVRTC. It
// needs no header. All tensors are BSHD, [B, S, H, 128], BF16 as 16-bit words; row statistics are
// [B, H, S] FP32. S must be a multiple of 128 (what the workload's kernels support).
//
//   scores      s = (q . k) * scale_log2, FP32 sums over d in order
//   exact       sum_n exp2(s - m) v / l               FP32 throughout, m and l over all visible keys
//   plain       FP32 softmax exp2(s - m) / l, rounded to BF16 before PV, the result rounded to BF16
//
// Two passes (row statistics first) instead of an online softmax: what is computed has then no
// order of tiles in it, so that it is no copy of what the kernels do.
//
// Quotients and roots are the correctly rounded intrinsics, so that the options with which a kernel
// beside it is compiled (--use_fast_math) leave the figures as they are.
//
// Every kernel: block of 256 threads as 16 x 16; a tile is 64 query rows by 64 keys; dynamic shared
// memory as the constants below say.
#pragma once

namespace oracle {

using bf16_t = unsigned short;

constexpr int kDim = 128;       // head dimension
constexpr int kTile = 64;       // rows and keys of one tile
constexpr int kPitch = 68;      // 64 plus 4 words: 16-byte accesses stay aligned and spread over the banks
constexpr int kThreads = 256;

constexpr int kScoreWords = 2 * kDim * kPitch;                                 // Q and K, d-major
constexpr int kStatsBytes = kScoreWords * 4;
constexpr int kOutputBytes = (kScoreWords + kTile * kDim + 2 * kTile * kPitch) * 4;  // + V, P, rounded P

__device__ __forceinline__ float to_float(bf16_t bits) { return __uint_as_float(unsigned(bits) << 16); }

// Round to nearest, ties to even; NaN stays NaN.
__device__ __forceinline__ bf16_t to_bf16(float x) {
  unsigned bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bf16_t(0x7fff);
  return bf16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

struct Shape {
  int batch, seq, heads;
  __device__ __forceinline__ size_t row(int b, int s, int h) const {
    return ((size_t(b) * seq + s) * heads + h) * kDim;
  }
  __device__ __forceinline__ size_t stat(int b, int h, int s) const {
    return (size_t(b) * heads + h) * seq + s;
  }
};

// 64 rows of one head into shared memory, d-major: dst[d * kPitch + row].
__device__ __forceinline__ void load_transposed(float* dst, const bf16_t* src, Shape n, int b, int s0, int h) {
  for (int i = threadIdx.x; i < kTile * kDim / 2; i += kThreads) {
    int row = i / (kDim / 2), d = 2 * (i % (kDim / 2));
    unsigned two = *reinterpret_cast<const unsigned*>(src + n.row(b, s0 + row, h) + d);
    dst[d * kPitch + row] = __uint_as_float(two << 16);
    dst[(d + 1) * kPitch + row] = __uint_as_float(two & 0xffff0000u);
  }
}

// 64 rows of one head into shared memory, row-major: dst[row * kDim + d].
__device__ __forceinline__ void load_rows(float* dst, const bf16_t* src, Shape n, int b, int s0, int h) {
  for (int i = threadIdx.x; i < kTile * kDim / 2; i += kThreads) {
    int row = i / (kDim / 2), d = 2 * (i % (kDim / 2));
    unsigned two = *reinterpret_cast<const unsigned*>(src + n.row(b, s0 + row, h) + d);
    dst[row * kDim + d] = __uint_as_float(two << 16);
    dst[row * kDim + d + 1] = __uint_as_float(two & 0xffff0000u);
  }
}

// This thread's 4 x 4 scores: rows 4*ty.., keys 4*tx.., scaled; masked ones are -inf.
__device__ __forceinline__ void tile_scores(float (&s)[4][4], const float* q, const float* k, float scale_log2,
                                            int q0, int k0, bool causal) {
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) s[i][j] = 0.0f;
#pragma unroll 8
  for (int d = 0; d < kDim; ++d) {
    float4 a = *reinterpret_cast<const float4*>(q + d * kPitch + 4 * ty);
    float4 c = *reinterpret_cast<const float4*>(k + d * kPitch + 4 * tx);
    float av[4] = {a.x, a.y, a.z, a.w}, cv[4] = {c.x, c.y, c.z, c.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) s[i][j] = fmaf(av[i], cv[j], s[i][j]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      bool hidden = causal && k0 + 4 * tx + j > q0 + 4 * ty + i;
      s[i][j] = hidden ? -__int_as_float(0x7f800000) : s[i][j] * scale_log2;
    }
}

// acc[4][8] += P^T-tile times V-tile: rows 4*ty.., columns 4*tx.. and 64+4*tx...
__device__ __forceinline__ void tile_values(float (&acc)[4][8], const float* p, const float* v) {
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll 4
  for (int n = 0; n < kTile; ++n) {
    float4 a = *reinterpret_cast<const float4*>(p + n * kPitch + 4 * ty);
    float4 lo = *reinterpret_cast<const float4*>(v + n * kDim + 4 * tx);
    float4 hi = *reinterpret_cast<const float4*>(v + n * kDim + 64 + 4 * tx);
    float av[4] = {a.x, a.y, a.z, a.w};
    float vv[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) acc[i][j] = fmaf(av[i], vv[j], acc[i][j]);
  }
}

__device__ __forceinline__ int column(int tx, int j) { return (j < 4 ? 0 : 64) + 4 * tx + j % 4; }

// Sum over the 16 threads that share a row.
__device__ __forceinline__ float row_sum(float x) {
#pragma unroll
  for (int step = 8; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
__device__ __forceinline__ float row_max(float x) {
#pragma unroll
  for (int step = 8; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

}  // namespace oracle

// Row maximum m and denominator l (in units of exp2) of every row. Grid: (S/64, H, B).
extern "C" __global__ void __launch_bounds__(256, 1)
oracle_row_stats(const unsigned short* q, const unsigned short* k, int batch, int seq, int heads, float scale_log2,
                 float* m_out, float* l_out) {
  using namespace oracle;
  extern __shared__ float shared[];
  float* qs = shared;
  float* ks = shared + kDim * kPitch;
  Shape n{batch, seq, heads};
  int q0 = (gridDim.x - 1 - blockIdx.x) * kTile, h = blockIdx.y, b = blockIdx.z;
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  load_transposed(qs, q, n, b, q0, h);
  float m[4], l[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) m[i] = -__int_as_float(0x7f800000), l[i] = 0.0f;
  for (int k0 = 0; k0 <= q0; k0 += kTile) {
    __syncthreads();
    load_transposed(ks, k, n, b, k0, h);
    __syncthreads();
    float s[4][4];
    tile_scores(s, qs, ks, scale_log2, q0, k0, k0 == q0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float top = row_max(fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3])));
      float next = fmaxf(m[i], top);
      float part = 0.0f;
#pragma unroll
      for (int j = 0; j < 4; ++j) part += exp2f(s[i][j] - next);
      l[i] = l[i] * exp2f(m[i] - next) + row_sum(part);
      m[i] = next;
    }
  }
  if (tx == 0)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      m_out[n.stat(b, h, q0 + 4 * ty + i)] = m[i];
      l_out[n.stat(b, h, q0 + 4 * ty + i)] = l[i];
    }
}

// exact [B,S,H,D] FP32 (may be null), plain_sum [B,S,H,D] FP32: the plain implementation before its
// last rounding (may be null), plain [B,S,H,D] BF16. Grid: (rows / 64, H, B) from first_row on.
extern "C" __global__ void __launch_bounds__(256, 1)
oracle_outputs(const unsigned short* q, const unsigned short* k, const unsigned short* v, int batch, int seq, int heads,
               float scale_log2, int first_row, const float* m_in, const float* l_in, float* exact, float* plain_sum,
               unsigned short* plain) {
  using namespace oracle;
  extern __shared__ float shared[];
  float* qs = shared;
  float* ks = shared + kDim * kPitch;
  float* vs = shared + kScoreWords;
  float* ps = vs + kTile * kDim;
  float* rs = ps + kTile * kPitch;
  Shape n{batch, seq, heads};
  int q0 = first_row + (gridDim.x - 1 - blockIdx.x) * kTile, h = blockIdx.y, b = blockIdx.z;
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  load_transposed(qs, q, n, b, q0, h);
  float m[4], inverse[4], e_acc[4][8], p_acc[4][8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    m[i] = m_in[n.stat(b, h, q0 + 4 * ty + i)];
    inverse[i] = __frcp_rn(l_in[n.stat(b, h, q0 + 4 * ty + i)]);
#pragma unroll
    for (int j = 0; j < 8; ++j) e_acc[i][j] = p_acc[i][j] = 0.0f;
  }
  for (int k0 = 0; k0 <= q0; k0 += kTile) {
    __syncthreads();
    load_transposed(ks, k, n, b, k0, h);
    load_rows(vs, v, n, b, k0, h);
    __syncthreads();
    float s[4][4];
    tile_scores(s, qs, ks, scale_log2, q0, k0, k0 == q0);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float p = exp2f(s[i][j] - m[i]);
        ps[(4 * tx + j) * kPitch + 4 * ty + i] = p;
        rs[(4 * tx + j) * kPitch + 4 * ty + i] = to_float(to_bf16(p * inverse[i]));
      }
    __syncthreads();
    if (exact != nullptr) tile_values(e_acc, ps, vs);
    tile_values(p_acc, rs, vs);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    size_t row = n.row(b, q0 + 4 * ty + i, h);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      size_t at = row + column(tx, j);
      if (exact != nullptr) exact[at] = e_acc[i][j] * inverse[i];
      if (plain_sum != nullptr) plain_sum[at] = p_acc[i][j];
      plain[at] = to_bf16(p_acc[i][j]);
    }
  }
}

// A fault of whole KV tiles of 128 keys: sign -1 takes KV tile `kv_tile` out of every query row from
// query tile `kv_tile` on (only the keys that the row sees); sign +1 lets query tile `query_tile` also
// see KV tile `kv_tile`, which lies right of its diagonal. Rows that are not touched are not written.
// Grid: (touched rows / 64, H, B), with first_row the first touched row.
extern "C" __global__ void __launch_bounds__(256, 1)
oracle_tile_fault(const unsigned short* q, const unsigned short* k, const unsigned short* v, int batch, int seq, int heads,
                  float scale_log2, int first_row, int kv_tile, int sign, const float* m_in, const float* l_in,
                  const float* plain_sum, unsigned short* out) {
  using namespace oracle;
  extern __shared__ float shared[];
  float* qs = shared;
  float* ks = shared + kDim * kPitch;
  float* vs = shared + kScoreWords;
  float* rs = vs + kTile * kDim;
  Shape n{batch, seq, heads};
  int q0 = first_row + blockIdx.x * kTile, h = blockIdx.y, b = blockIdx.z;
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  load_transposed(qs, q, n, b, q0, h);
  float m[4], whole[4], l[4], acc[4][8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    m[i] = m_in[n.stat(b, h, q0 + 4 * ty + i)];
    whole[i] = l_in[n.stat(b, h, q0 + 4 * ty + i)];
    l[i] = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; ++j) acc[i][j] = 0.0f;
  }
  for (int k0 = 128 * kv_tile; k0 < 128 * (kv_tile + 1); k0 += kTile) {
    if (sign < 0 && k0 > q0) break;
    __syncthreads();
    load_transposed(ks, k, n, b, k0, h);
    load_rows(vs, v, n, b, k0, h);
    __syncthreads();
    float s[4][4];
    tile_scores(s, qs, ks, scale_log2, q0, k0, sign < 0 && k0 == q0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float part = 0.0f;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float p = exp2f(s[i][j] - m[i]);
        part += p;
        rs[(4 * tx + j) * kPitch + 4 * ty + i] = to_float(to_bf16(__fdiv_rn(p, whole[i])));
      }
      l[i] += row_sum(part);
    }
    __syncthreads();
    tile_values(acc, rs, vs);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int s = q0 + 4 * ty + i;
    // A row whose every key was taken out has nothing to divide by: it stays zero, as a kernel that
    // skips the tile would leave it.
    bool empty = sign < 0 && s < 128 && kv_tile == 0;
    float share = __fdiv_rn(whole[i], whole[i] + float(sign) * l[i]);
    size_t row = n.row(b, s, h);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      size_t at = row + column(tx, j);
      out[at] = empty ? bf16_t(0) : to_bf16((plain_sum[at] + float(sign) * acc[i][j]) * share);
    }
  }
}

// The figures of one output, summed over bands of `band` rows of S. One warp a row.
//   band_max[2*i], band_max[2*i+1]     largest e and e0 of band i, as the bits of a non-negative float
//   band_sum[2*i], band_sum[2*i+1]     sums of e^2 and e0^2
//   extremes[0], extremes[1]           largest absolute error of the output and of plain, as float bits
//   counts[0], counts[1]               elements not finite; elements outside atol + rtol*abs(exact)
// NaN sorts above infinity as bits, so a maximum over NaN is NaN. All arrays start as zeros.
extern "C" __global__ void oracle_figures(const unsigned short* out, const float* exact, const unsigned short* plain, int batch,
                                          int seq, int heads, int band, float atol, float rtol, unsigned* band_max,
                                          double* band_sum, unsigned* extremes, unsigned long long* counts) {
  using namespace oracle;
  size_t rows = size_t(batch) * seq * heads;
  int lane = threadIdx.x % 32;
  for (size_t r = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; r < rows; r += size_t(gridDim.x) * blockDim.x / 32) {
    int s = int(r / heads % seq);
    float e = 0.0f, e0 = 0.0f, top = 0.0f, top0 = 0.0f;
    unsigned bad = 0, outside = 0;
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) {
      size_t at = r * kDim + 32 * j + lane;
      float ref = exact[at];
      float o = to_float(out[at]);
      float d = fabsf(o - ref), d0 = fabsf(to_float(plain[at]) - ref);
      e = fmaf(d, d, e);
      e0 = fmaf(d0, d0, e0);
      top = __uint_as_float(max(__float_as_uint(top), __float_as_uint(d)));
      top0 = __uint_as_float(max(__float_as_uint(top0), __float_as_uint(d0)));
      bad += !(fabsf(o) <= 3.4028234e38f);
      outside += !(d <= atol + rtol * fabsf(ref));
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      e += __shfl_xor_sync(0xffffffffu, e, step);
      e0 += __shfl_xor_sync(0xffffffffu, e0, step);
      top = __uint_as_float(max(__float_as_uint(top), __shfl_xor_sync(0xffffffffu, __float_as_uint(top), step)));
      top0 = __uint_as_float(max(__float_as_uint(top0), __shfl_xor_sync(0xffffffffu, __float_as_uint(top0), step)));
      bad += __shfl_xor_sync(0xffffffffu, bad, step);
      outside += __shfl_xor_sync(0xffffffffu, outside, step);
    }
    if (lane == 0) {
      int i = s / band;
      float rms = __fsqrt_rn(e * (1.0f / kDim)), rms0 = __fsqrt_rn(e0 * (1.0f / kDim));
      atomicMax(band_max + 2 * i, __float_as_uint(rms) & 0x7fffffffu);
      atomicMax(band_max + 2 * i + 1, __float_as_uint(rms0) & 0x7fffffffu);
      atomicAdd(band_sum + 2 * i, double(e) / kDim);
      atomicAdd(band_sum + 2 * i + 1, double(e0) / kDim);
      atomicMax(extremes, __float_as_uint(top) & 0x7fffffffu);
      atomicMax(extremes + 1, __float_as_uint(top0) & 0x7fffffffu);
      if (bad) atomicAdd(counts, (unsigned long long)bad);
      if (outside) atomicAdd(counts + 1, (unsigned long long)outside);
    }
  }
}
