// What the hand-written kernels of this folder share: the flags of their variants, the clocks that they read,
// and what the language has no word for. docs/tuning.md says what came of each flag.
#pragma once

#include "runtime/device/barrier.cuh"
#include "runtime/device/copy.cuh"
#include "runtime/device/fragment.cuh"
#include "runtime/device/threads.cuh"
#include "runtime/device/tma.cuh"
#include "runtime/device/wgmma.cuh"

namespace tuning {

namespace cu = choreo::cuda;

enum Flag : int {
  kOrdered = 1 << 0,     // the warpgroups issue their MMAs in turn
  kQRegisters = 1 << 1,  // Q as a register operand
  kSkipScale = 1 << 2,   // no rescale while the maximum grows by less than 2^8
  kSplitStore = 1 << 3,  // each warpgroup stores its rows by itself
  kGrid = 1 << 4,        // one CTA a query tile instead of lists
  kCluster = 1 << 5,     // two CTAs share the K and V of neighbouring query tiles
  kNormal = 1 << 6,      // no L2 hint on K and V
  kTwoLoaders = 1 << 11,  // K and V are loaded by two warps
  kThreeK = 1 << 12,      // three slots for K
  kPolynomial = 1 << 13,  // every fourth exponential by polynomial
  kDynamic = 1 << 14,     // the next task is drawn from a counter, long ones first
  kEarlyTurn = 1 << 15,   // the turn passes on before PV is issued
  kLateScale = 1 << 16,   // O is rescaled beside the next QK, just before the PV that adds to it
  kTimeline = 1 << 17,    // cycles between the points of a step
  kSplitPv = 1 << 18,     // PV as two operations: the row maxima are found after the first, where QK is done
  kLocalMax = 1 << 19,    // a maximum is only looked for among the lanes when some lane's own grew by 2^8
  kHalves = 1 << 20,      // the first half of P is converted beside the exponentials of the second
  kPeek = 1 << 21,        // K's barrier is asked before it is needed; only the first warpgroup in turn waits for K and V
  kIntegers = 1 << 22,    // local maxima: the elements are held against the limit as integers, two an instruction
  kWarpLoader = 1 << 23,  // a whole warp waits for free slots, and one of its threads loads
  kLoadFence = 1 << 24,   // a proxy fence after Q was loaded into registers
  kPlainLaunch = 1 << 25,  // launched without the attribute of a cluster of one
  // Diagnosis: something is left out, the result is wrong.
  kNoLoad = 1 << 7,
  kNoSoftmax = 1 << 8,
  kNoExp = 1 << 9,
  kNoMax = 1 << 10,
};

constexpr float kScale = 0.12751743f;
constexpr int kTile = 32768;  // bytes of 128 x 128 BF16
constexpr int kSharedBytes = 6 * kTile + 1024 + 256;

// When each CTA's first consumer began and ended, in the last launch: cycles and nanoseconds.
constexpr int kMaxCtas = 256;
struct Clock {
  unsigned long long cycles, nanoseconds;
};
__device__ Clock began[kMaxCtas], ended[kMaxCtas];
__device__ __forceinline__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
__device__ __forceinline__ void note(Clock (&when)[kMaxCtas]) {
  if (threadIdx.x == 128 && blockIdx.y + blockIdx.z == 0 && blockIdx.x < kMaxCtas)
    when[blockIdx.x] = {static_cast<unsigned long long>(clock64()), nanoseconds()};
}

// Where the cycles of a step go: sums over the steps of CTA 0's first thread of each consumer.
constexpr int kPoints = 8;
__device__ unsigned long long timeline[2][kPoints + 1];

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// 64 rows of Q from `first_row` as the A operand of eight k steps.
__device__ __forceinline__ void load_q(unsigned (&q)[32], const unsigned char* tile, int first_row) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) % 128 / 32;
  const int row = first_row + 16 * warp + lane % 8 + 8 * (lane / 8 % 2);
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    const unsigned char* from = tile + cu::swizzled<128>(unsigned(row), unsigned(8 * (lane / 16) + 16 * step), 128);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(q[4 * step]), "=r"(q[4 * step + 1]), "=r"(q[4 * step + 2]), "=r"(q[4 * step + 3])
                 : "r"(cu::shared_address(from))
                 : "memory");
  }
}

// Whether the phase with this parity is complete, asked once; mbarrier_wait must follow where it is not.
__device__ __forceinline__ unsigned peek(uint64_t* barrier, unsigned parity) {
  unsigned complete;
  asm volatile(
      "{\n\t.reg .pred complete;\n\t"
      "mbarrier.test_wait.parity.shared::cta.b64 complete, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, complete;\n\t}"
      : "=r"(complete)
      : "r"(cu::shared_address(barrier)), "r"(parity)
      : "memory");
  return complete;
}

// The maximum of a thread's elements of each row: two chains a row, half as deep as one.
__device__ __forceinline__ void own_max(float (&out)[2], const float (&acc)[64]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float even = acc[cu::element(row, 0)], odd = acc[cu::element(row, 1)];
#pragma unroll
    for (int e = 2; e < 32; e += 2) {
      even = fmaxf(even, acc[cu::element(row, e)]);
      odd = fmaxf(odd, acc[cu::element(row, e + 1)]);
    }
    out[row] = fmaxf(even, odd);
  }
}
// Whether some element of a row is greater than its limit. Floats compare as integers where one of them is not
// negative; below zero the answer is "perhaps", which is yes.
__device__ __forceinline__ bool exceeds(const float (&acc)[64], const float (&limit)[2]) {
  bool over = false;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    int first = __float_as_int(acc[cu::element(row, 0)]), second = __float_as_int(acc[cu::element(row, 1)]);
#pragma unroll
    for (int e = 2; e < 30; e += 4) {
      first = __vimax3_s32(first, __float_as_int(acc[cu::element(row, e)]), __float_as_int(acc[cu::element(row, e + 1)]));
      second = __vimax3_s32(second, __float_as_int(acc[cu::element(row, e + 2)]), __float_as_int(acc[cu::element(row, e + 3)]));
    }
    first = __vimax3_s32(first, __float_as_int(acc[cu::element(row, 30)]), __float_as_int(acc[cu::element(row, 31)]));
    over = over || limit[row] < 0.0f || max(first, second) > __float_as_int(limit[row]);
  }
  return over;
}

// 2^x for -126 <= x <= 127 without the special function unit: the fraction in [-1/2, 1/2] by a polynomial
// (relative error 4e-5; P is rounded to BF16), the integer part added to the exponent.
__device__ __forceinline__ float exp2_polynomial(float x) {
  const float shifted = fmaxf(x, -126.0f) + 12582912.0f;
  const float f = fmaxf(x, -126.0f) - (shifted - 12582912.0f);
  float y = 0.00960396f;
  y = y * f + 0.05549527f;
  y = y * f + 0.24022651f;
  y = y * f + 0.69314718f;
  y = y * f + 1.0f;
  return __int_as_float(__float_as_int(y) + (__float_as_int(shifted) << 23));
}

}  // namespace tuning
