// What events are made of: mbarriers (a word of shared memory that counts arrivals and transaction
// bytes, one phase bit a generation) and named hardware barriers.
//
// The waits clobber memory, so that no ordinary access of shared memory is moved over them; this is
// why CUTLASS's wrappers of the same instructions are not used here.
#pragma once

#include <cstdint>

namespace choreo::cuda {

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// One thread initialises; fence_barrier_init and a meeting of the block (__syncthreads, or
// wait_for_first_warp where thread 0 has initialised) make it visible to everybody.
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// One arrival for the whole warp, after all its lanes came here.
__device__ __forceinline__ void mbarrier_arrive_warp(uint64_t* barrier) {
  __syncwarp();
  asm volatile(
      "{\n\t.reg .pred elected;\n\telect.sync _|elected, 0xffffffff;\n\t"
      "@elected mbarrier.arrive.shared::cta.b64 _, [%0];\n\t}" ::"r"(shared_address(barrier))
      : "memory");
}

// The generation completes when `bytes` have landed: the arrival of a transaction.
__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// Blocks until the phase with this parity is complete. A barrier that never completed a phase answers
// "complete" for parity 1: that is what a ready event waits for first.
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{\n\t.reg .pred complete;\n\t"
      "again:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n\t"
      "@!complete bra again;\n\t}" ::"r"(shared_address(barrier)), "r"(parity)
      : "memory");
}

// Named barriers: `threads` is everybody who arrives or waits. Ids 8 to 15 are the compiler's.
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// All of a block's `Threads` threads come here, those of the first warp without waiting for the others,
// who see what it has written before. The block's only meeting at barrier 0: a warp that went on could
// be counted at the next one before everybody has left this one.
template <int Threads>
__device__ __forceinline__ void wait_for_first_warp() {
  static_assert(Threads > 32 && Threads % 32 == 0, "whole warps, and more than the first");
  if (threadIdx.x < 32) {
    __syncwarp();
    named_barrier_arrive(0, Threads);
  } else {
    named_barrier_sync(0, Threads);
  }
}

// Shared memory that ordinary stores wrote becomes visible to the async proxy (TMA, wgmma): by every
// writer, before the barrier that the reader waits for.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace choreo::cuda
