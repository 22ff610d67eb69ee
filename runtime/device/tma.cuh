// Bulk tensor copies between global and shared memory. One thread issues; a load completes on the
// transaction bytes of an mbarrier, a store is waited for by the thread that issued it.
//
// Maps have two dimensions (column, row), or three (column in panel, row, panel) where a tile is
// wider than its swizzle; see runtime/choreo/tensormap.h.
#pragma once

#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/copy_sm90_tma.hpp>

#include <cstdint>

namespace choreo::cuda {

// L2 policies of `.evict_first` and `.evict_last`, and of no hint (evict_normal).
constexpr uint64_t kEvictFirst = 0x12F0000000000000ull;
constexpr uint64_t kEvictLast = 0x14F0000000000000ull;
constexpr uint64_t kEvictNormal = 0x1000000000000000ull;

__device__ __forceinline__ void tma_prefetch(const CUtensorMap* map) {
  cute::prefetch_tma_descriptor(reinterpret_cast<const cute::TmaDescriptor*>(map));
}

__device__ __forceinline__ void tma_load(void* tile, const CUtensorMap* map, uint64_t* barrier, uint64_t policy,
                                         int column, int row) {
  cute::SM90_TMA_LOAD_2D::copy(map, barrier, policy, tile, column, row);
}
__device__ __forceinline__ void tma_load(void* tile, const CUtensorMap* map, uint64_t* barrier, uint64_t policy,
                                         int column, int row, int panel) {
  cute::SM90_TMA_LOAD_3D::copy(map, barrier, policy, tile, column, row, panel);
}

__device__ __forceinline__ void tma_store(const CUtensorMap* map, const void* tile, int column, int row) {
  cute::SM90_TMA_STORE_2D::copy(map, tile, column, row);
}
__device__ __forceinline__ void tma_store(const CUtensorMap* map, const void* tile, int column, int row, int panel) {
  cute::SM90_TMA_STORE_3D::copy(map, tile, column, row, panel);
}
__device__ __forceinline__ void tma_store_commit() { cute::tma_store_arrive(); }
// Until at most `kPending` of this thread's stores still read shared memory.
template <int kPending>
__device__ __forceinline__ void tma_store_wait_read() {
  cute::tma_store_wait<kPending>();
}

}  // namespace choreo::cuda
