// Fragments: what 128 threads of a warpgroup hold of a [64, N] tile.
//
// Accumulator, FP32: float acc[N / 2]; register r of thread t is element
//     row    = 16 * (t / 32) + (t % 32) / 4 + 8 * ((r / 2) % 2)
//     column = 8 * (r / 4) + 2 * (t % 4) + r % 2
// so that a thread owns 2 rows, and 4 neighbouring lanes share each.
// Operand, BF16: unsigned p[N / 4], the same map, two neighbouring columns to a register.
// Row vector: float v[2], one value for each owned row, the same in the 4 lanes that share it.
#pragma once

#include <cuda_bf16.h>

namespace choreo::cuda {

// The first row that this thread owns; the other one is 8 further.
__device__ __forceinline__ int fragment_row() { return 16 * (int(threadIdx.x) % 128 / 32) + int(threadIdx.x) % 32 / 4; }
// The first column that this thread owns.
__device__ __forceinline__ int fragment_column() { return 2 * (int(threadIdx.x) % 4); }

// The register of the e-th element that a thread owns in its row (0 or 1), and its column's distance
// from fragment_column().
__host__ __device__ constexpr int element(int row, int e) { return 4 * (e / 2) + 2 * row + e % 2; }
__host__ __device__ constexpr int column_of(int e) { return 8 * (e / 2) + e % 2; }

// A row vector's maxima of the four lanes become their maximum, in all four.
__device__ __forceinline__ void all_reduce_max(float (&v)[2]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    v[row] = fmaxf(v[row], __shfl_xor_sync(0xffffffffu, v[row], 2));
    v[row] = fmaxf(v[row], __shfl_xor_sync(0xffffffffu, v[row], 1));
  }
}

// The maximum of each row, overwriting `out`, the same in all four lanes; of a row with a NaN the NaN or a number.
//
// Bit patterns are compared as integers, of which one instruction (VIMNMX3) takes the greatest of three: two elements
// a step, where FMNMX takes one. As signed integers the patterns of floats without a sign are in their order, and
// above all with one. So what a thread finds is its maximum unless that has a sign. Then all its elements of the row
// have, and their order is the opposite: the least pattern is the maximum. A row's maximum is right where one of its
// four lanes found one without a sign. The warp votes on that, so that all its lanes can exchange what they have: at
// first on what each found itself, for which the shuffles of the common case need not wait.
// Two chains a row: each step of one waits for the step before, and the other runs meanwhile.
template <int kRegisters>
__device__ __forceinline__ void reduce_max(float (&out)[2], const float (&acc)[kRegisters]) {
  int own[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    int top[2] = {__float_as_int(acc[element(row, 0)]), __float_as_int(acc[element(row, 1)])};
#pragma unroll
    for (int e = 2; e < kRegisters / 2; e += 2) {
      int& chain = top[e / 2 % 2];
      chain = __vimax3_s32(chain, __float_as_int(acc[element(row, e)]), __float_as_int(acc[element(row, e + 1)]));
    }
    own[row] = max(top[0], top[1]);
  }
  const bool below = __any_sync(0xffffffffu, own[0] < 0 || own[1] < 0);
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    int top = max(own[row], __shfl_xor_sync(0xffffffffu, own[row], 2));
    top = max(top, __shfl_xor_sync(0xffffffffu, top, 1));
    out[row] = __int_as_float(top);
  }
  if (below && __any_sync(0xffffffffu, __float_as_int(out[0]) < 0 || __float_as_int(out[1]) < 0)) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      unsigned least[2] = {__float_as_uint(acc[element(row, 0)]), __float_as_uint(acc[element(row, 1)])};
#pragma unroll
      for (int e = 2; e < kRegisters / 2; e += 2) {
        unsigned& chain = least[e / 2 % 2];
        chain = __vimin3_u32(chain, __float_as_uint(acc[element(row, e)]), __float_as_uint(acc[element(row, e + 1)]));
      }
      out[row] = own[row] < 0 ? __uint_as_float(min(least[0], least[1])) : __int_as_float(own[row]);
    }
    all_reduce_max(out);
  }
}

// Whether some element that this thread owns is greater than its row's limit; perhaps also true where a limit is
// negative or an element is a NaN. The bit patterns are compared as signed integers, of which one instruction
// (VIMNMX3) takes the maximum of three: two elements a step, where FMNMX takes one. For a limit without a sign the
// order is that of the floats: patterns of floats >= 0 are in their order, and one with a sign is a negative integer,
// below them all. Negative floats are in the opposite order, so a limit with a sign (also -0) gives true.
template <int kRegisters>
__device__ __forceinline__ bool above(const float (&acc)[kRegisters], const float (&limit)[2]) {
  bool found = false;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    // Two chains, as in reduce_max.
    int top[2] = {__float_as_int(acc[element(row, 0)]), __float_as_int(acc[element(row, 1)])};
#pragma unroll
    for (int e = 2; e < kRegisters / 2; e += 2) {
      int& chain = top[e / 2 % 2];
      chain = __vimax3_s32(chain, __float_as_int(acc[element(row, e)]), __float_as_int(acc[element(row, e + 1)]));
    }
    const int bound = __float_as_int(limit[row]);
    found = found || bound < 0 || max(top[0], top[1]) > bound;
  }
  return found;
}

// A row vector's partial sums of the four lanes become their sum, in all four.
__device__ __forceinline__ void all_reduce_sum(float (&v)[2]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    v[row] += __shfl_xor_sync(0xffffffffu, v[row], 2);
    v[row] += __shfl_xor_sync(0xffffffffu, v[row], 1);
  }
}

template <int kRegisters>
__device__ __forceinline__ void reduce_sum(float (&out)[2], const float (&acc)[kRegisters]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float sum = acc[element(row, 0)];
#pragma unroll
    for (int e = 1; e < kRegisters / 2; ++e) sum += acc[element(row, e)];
    out[row] = sum;
  }
  all_reduce_sum(out);
}

// Two floats to two BF16, round to nearest even; `low` is the lower column.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ __forceinline__ float unpack_low(unsigned packed) { return __uint_as_float(packed << 16); }
__device__ __forceinline__ float unpack_high(unsigned packed) { return __uint_as_float(packed & 0xffff0000u); }

// The e-th element of a row in the register that it shares with its neighbour.
__device__ __forceinline__ float get_bf16(unsigned packed, int e) { return e % 2 ? unpack_high(packed) : unpack_low(packed); }
__device__ __forceinline__ void set_bf16(unsigned& packed, int e, float value) {
  packed = e % 2 ? pack_bf16(unpack_low(packed), value) : pack_bf16(value, unpack_high(packed));
}

}  // namespace choreo::cuda
