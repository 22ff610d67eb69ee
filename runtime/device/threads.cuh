// Threads of a block: warpgroups, roles and their registers.
//
// A role's variables come out of here uniform over a warp, and the compiler can see it: descriptors
// and loop bounds computed from them then live in uniform registers.
#pragma once

#include <cutlass/arch/reg_reconfig.h>

namespace choreo::cuda {

// The warpgroup (128 threads) that this thread belongs to, the same in all lanes of a warp.
__device__ __forceinline__ int warpgroup_index() { return __shfl_sync(0xffffffffu, int(threadIdx.x) / 128, 0); }

// This thread's number in its warpgroup.
__device__ __forceinline__ int warpgroup_thread() { return int(threadIdx.x) % 128; }

// Whether something holds in any thread of the warp: all 32 ask together, and get one answer.
__device__ __forceinline__ bool warp_any(bool condition) { return __any_sync(0xffffffffu, condition) != 0; }

// setmaxnreg: all 128 threads of a warpgroup execute it. `dec` gives registers back to the block's
// pool, `inc` waits until the pool has them.
template <int kRegisters>
__device__ __forceinline__ void setreg_dec() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "setmaxnreg: 24, 32, ... 256");
  cutlass::arch::warpgroup_reg_dealloc<kRegisters>();
}
template <int kRegisters>
__device__ __forceinline__ void setreg_inc() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "setmaxnreg: 24, 32, ... 256");
  cutlass::arch::warpgroup_reg_alloc<kRegisters>();
}

// Dynamic shared memory from the first address that 128-byte swizzling and its panels allow. The
// launch reserves the slack.
__device__ __forceinline__ unsigned char* align_1024(unsigned char* base) {
  return base + ((1024u - (static_cast<unsigned>(__cvta_generic_to_shared(base)) & 1023u)) & 1023u);
}

}  // namespace choreo::cuda
