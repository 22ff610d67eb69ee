// Warpgroup MMA: m64nNk16, BF16 in, FP32 accumulators in registers, over tiles in shared memory.
//
// Order of one statement: wgmma_begin(acc), the k steps, wgmma_commit(). After the wait that
// completes it: wgmma_end(acc). Both fences tie the accumulator's registers to their place in the
// program, so that no read or write of them is moved into the time in which the operation owns them;
// ptxas would otherwise have to serialize the pipeline (its warning C7510).
#pragma once

#include <cute/arch/mma_sm90_gmma.hpp>
#include <cute/arch/mma_sm90_gmma_ext.hpp>

#include <cstdint>
#include <utility>

#include "barrier.cuh"

namespace choreo::cuda {

template <int kRegisters>
__device__ __forceinline__ void wgmma_fence_registers(float (&acc)[kRegisters]) {
#pragma unroll
  for (int r = 0; r < kRegisters; ++r) cute::warpgroup_fence_operand(acc[r]);
}
template <int kRegisters>
__device__ __forceinline__ void wgmma_fence_registers(unsigned (&operand)[kRegisters]) {
#pragma unroll
  for (int r = 0; r < kRegisters; ++r) cute::warpgroup_fence_operand(operand[r]);
}

template <int kRegisters>
__device__ __forceinline__ void wgmma_begin(float (&acc)[kRegisters]) {
  wgmma_fence_registers(acc);
  cute::warpgroup_arrive();
}
__device__ __forceinline__ void wgmma_commit() { cute::warpgroup_commit_batch(); }
// Until at most `kPending` committed groups are in flight.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  cute::warpgroup_wait<kPending>();
}
// The same, behind the arithmetic that made `row`. ptxas takes a wait for long and moves it up over
// independent instructions; work that is meant to run beside the operation would then come after it.
// A second wait under a condition that depends on `row` holds the place: it is never true, because no
// arithmetic makes this NaN, and ptxas cannot know.
template <int kPending>
__device__ __forceinline__ void wgmma_wait_after(const float (&row)[2]) {
  asm volatile(
      "{\n\t.reg .pred never;\n\t.reg .b32 low;\n\t"
      "min.u32 low, %1, %2;\n\t"
      "setp.eq.u32 never, low, 0xffc0dead;\n\t"
      "@never wgmma.wait_group.sync.aligned %0;\n\t"
      "wgmma.wait_group.sync.aligned %0;\n\t}" ::"n"(kPending),
      "r"(__float_as_uint(row[0])), "r"(__float_as_uint(row[1]))
      : "memory");
}
template <int kRegisters>
__device__ __forceinline__ void wgmma_end(float (&acc)[kRegisters]) {
  wgmma_fence_registers(acc);
}

// Where a swizzled tile lies, as wgmma wants to be told. Only the address in the low word moves from
// step to step; the high word (stride and swizzle mode) is one constant for the tile.
struct Descriptor {
  unsigned low, high;
  __device__ __forceinline__ uint64_t at(unsigned bytes) const { return uint64_t(high) << 32 | (low + (bytes >> 4)); }
};

namespace detail {
// Layout field of a descriptor by swizzle bytes: bits 62-63.
__host__ __device__ constexpr unsigned swizzle_mode(int swizzle) {
  return swizzle == 128 ? 1u : swizzle == 64 ? 2u : swizzle == 32 ? 3u : 0u;
}
}  // namespace detail

// A tile whose rows run along K ([M, K] of A, [N, K] of B): 8 rows of a panel are one swizzle atom.
template <int kSwizzle>
__device__ __forceinline__ Descriptor k_major(const void* tile) {
  unsigned address = shared_address(tile);
  return {(address & 0x3ffffu) >> 4 | 1u << 16, unsigned(8 * kSwizzle) >> 4 | detail::swizzle_mode(kSwizzle) << 30};
}
// A tile whose rows run along N ([K, N] of B). `panel_bytes`: from a panel to the next one.
template <int kSwizzle>
__device__ __forceinline__ Descriptor mn_major(const void* tile, unsigned panel_bytes) {
  unsigned address = shared_address(tile);
  return {(address & 0x3ffffu) >> 4 | (panel_bytes >> 4) << 16,
          unsigned(8 * kSwizzle) >> 4 | detail::swizzle_mode(kSwizzle) << 30};
}

namespace detail {

using cute::SM90::GMMA::Major;
using cute::SM90::GMMA::ScaleOut;

// CUTLASS has one struct for each N.
template <int kN, Major kB>
struct Bf16;
#define CHOREO_WGMMA(N)                                                                  \
  template <Major kB>                                                                    \
  struct Bf16<N, kB> {                                                                   \
    using SS = cute::SM90::GMMA::MMA_64x##N##x16_F32BF16BF16_SS<Major::K, kB>;           \
    using RS = cute::SM90::GMMA::MMA_64x##N##x16_F32BF16BF16_RS<Major::K, kB>;           \
  };
CHOREO_WGMMA(8) CHOREO_WGMMA(16) CHOREO_WGMMA(24) CHOREO_WGMMA(32) CHOREO_WGMMA(40) CHOREO_WGMMA(48) CHOREO_WGMMA(56) CHOREO_WGMMA(64)
CHOREO_WGMMA(72) CHOREO_WGMMA(80) CHOREO_WGMMA(88) CHOREO_WGMMA(96) CHOREO_WGMMA(104) CHOREO_WGMMA(112) CHOREO_WGMMA(120) CHOREO_WGMMA(128)
CHOREO_WGMMA(136) CHOREO_WGMMA(144) CHOREO_WGMMA(152) CHOREO_WGMMA(160) CHOREO_WGMMA(168) CHOREO_WGMMA(176) CHOREO_WGMMA(184) CHOREO_WGMMA(192)
CHOREO_WGMMA(200) CHOREO_WGMMA(208) CHOREO_WGMMA(216) CHOREO_WGMMA(224) CHOREO_WGMMA(232) CHOREO_WGMMA(240) CHOREO_WGMMA(248) CHOREO_WGMMA(256)
#undef CHOREO_WGMMA

template <class Op, int... kR>
__device__ __forceinline__ void ss(uint64_t a, uint64_t b, float* acc, ScaleOut scale,
                                   std::integer_sequence<int, kR...>) {
  Op::fma(a, b, acc[kR]..., scale);
}
template <class Op, int... kR>
__device__ __forceinline__ void rs(const unsigned* a, uint64_t b, float* acc, ScaleOut scale,
                                   std::integer_sequence<int, kR...>) {
  Op::fma(a[0], a[1], a[2], a[3], b, acc[kR]..., scale);
}

}  // namespace detail

// One k step, acc = A * B + (accumulate ? acc : 0). `_nk`: B is [N, K] (mma.row.row); `_kn`: B is
// [K, N] (mma.row.col).
template <int kN>
__device__ __forceinline__ void wgmma_nk(float (&acc)[kN / 2], uint64_t a, uint64_t b, bool accumulate = true) {
  using Op = typename detail::Bf16<kN, detail::Major::K>::SS;
  detail::ss<Op>(a, b, acc, detail::ScaleOut(accumulate), std::make_integer_sequence<int, kN / 2>());
}
template <int kN>
__device__ __forceinline__ void wgmma_kn(float (&acc)[kN / 2], uint64_t a, uint64_t b, bool accumulate = true) {
  using Op = typename detail::Bf16<kN, detail::Major::MN>::SS;
  detail::ss<Op>(a, b, acc, detail::ScaleOut(accumulate), std::make_integer_sequence<int, kN / 2>());
}
template <int kN>
__device__ __forceinline__ void wgmma_nk(float (&acc)[kN / 2], const unsigned* a, uint64_t b, bool accumulate = true) {
  using Op = typename detail::Bf16<kN, detail::Major::K>::RS;
  detail::rs<Op>(a, b, acc, detail::ScaleOut(accumulate), std::make_integer_sequence<int, kN / 2>());
}
template <int kN>
__device__ __forceinline__ void wgmma_kn(float (&acc)[kN / 2], const unsigned* a, uint64_t b, bool accumulate = true) {
  using Op = typename detail::Bf16<kN, detail::Major::MN>::RS;
  detail::rs<Op>(a, b, acc, detail::ScaleOut(accumulate), std::make_integer_sequence<int, kN / 2>());
}

}  // namespace choreo::cuda
