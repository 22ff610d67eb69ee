// Copies by ordinary threads: a tile from global to shared memory in TMA's swizzled layout, and
// accumulators to shared or global memory as BF16; and from shared memory into the registers of an operand.
//
// A [rows, columns] BF16 tile lies in panels of kSwizzle / 2 columns, one panel after the other, `pitch`
// rows each. Row r of a panel begins at r * kSwizzle bytes; in address bits the 16-byte chunk (bits 4
// up) is exclusive-ored with bits 7 up: 3 bits of them at 128 bytes, 2 at 64, 1 at 32.
#pragma once

#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/copy_sm90.hpp>
#include <cutlass/arch/memory_sm80.h>

#include "barrier.cuh"
#include "fragment.cuh"

namespace choreo::cuda {

// The byte at which the 16-byte chunk with column `column` (a multiple of 8) of row `row` begins.
template <int kSwizzle>
__host__ __device__ constexpr unsigned swizzled(unsigned row, unsigned column, unsigned pitch_rows) {
  static_assert(kSwizzle == 128 || kSwizzle == 64 || kSwizzle == 32, "a swizzle of 32, 64 or 128 bytes");
  unsigned panel = column / (kSwizzle / 2), inner = column % (kSwizzle / 2) * 2;
  unsigned offset = row * kSwizzle + inner;
  unsigned mask = (offset >> 7) & (kSwizzle / 16 - 1);
  return panel * pitch_rows * kSwizzle + (offset ^ (mask << 4));
}

// kThreads threads (number `thread` of them) copy a [kRows, kColumns] tile, 16 bytes a piece. The
// caller puts barriers around it; wait_copies ends this thread's part.
template <int kRows, int kColumns, int kSwizzle, int kThreads, typename T>
__device__ __forceinline__ void copy_tile_async(unsigned char* tile, const T* source, size_t row_pitch, int thread) {
  static_assert(kColumns * sizeof(T) % 16 == 0, "a row is a multiple of 16 bytes");
  constexpr int kChunks = kColumns * sizeof(T) / 16, kAll = kRows * kChunks;
#pragma unroll
  for (int i = 0; i < (kAll + kThreads - 1) / kThreads; ++i) {
    int chunk = i * kThreads + thread;
    if (kAll % kThreads != 0 && chunk >= kAll) break;
    int row = chunk / kChunks, place = chunk % kChunks;
    unsigned char* to = tile;
    if constexpr (kSwizzle == 0) {
      to += chunk * 16;
    } else {
      to += swizzled<kSwizzle>(row, place * 8, kRows);
    }
    const T* from = source + row * row_pitch + place * (16 / sizeof(T));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
  }
}
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  fence_async_proxy();
}

// The accumulator [64, 2 * kRegisters] as BF16 into a tile, from its row `first_row`. `pitch`: the rows of
// the whole tile; of one without a swizzle, the bytes of its rows.
// stmatrix.x4 stores two 8x8 blocks of 16 columns at a time, .x2 of 8: lane l gives the address of one row of one.
template <int kSwizzle, int kRegisters>
__device__ __forceinline__ void store_fragment(unsigned char* tile, const float (&acc)[kRegisters], int first_row,
                                               int pitch) {
  int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) % 128 / 32;
  int row = first_row + 16 * warp + lane % 8 + 8 * (lane / 8 % 2);
  auto place = [&](int column) {
    if constexpr (kSwizzle == 0) {
      return shared_address(tile + row * pitch + column * 2);
    } else {
      return shared_address(tile + swizzled<kSwizzle>(row, column, pitch));
    }
  };
#pragma unroll
  for (int step = 0; step < kRegisters / 8; ++step) {
    unsigned packed[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) packed[q] = pack_bf16(acc[8 * step + 2 * q], acc[8 * step + 2 * q + 1]);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(place(8 * (lane / 16) + 16 * step)),
                 "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                 : "memory");
  }
  if constexpr (kRegisters % 8 != 0) {
    constexpr int kLast = kRegisters - 4;
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(place(2 * kLast)),
                 "r"(pack_bf16(acc[kLast], acc[kLast + 1])), "r"(pack_bf16(acc[kLast + 2], acc[kLast + 3]))
                 : "memory");
  }
}

// The other way: 64 rows of a tile of BF16, from its row `first_row`, as the A operand of 4 * kRegisters columns.
// ldmatrix.x4 loads the four 8x8 blocks of one k step, 16 rows x 16 columns a warp: lane l gives the address of
// row l % 8 of block l / 8, and the blocks come in the order of wgmma's registers: first the rows, then the columns.
// The fence puts a later arrival at a barrier behind the reads, as TMA sees them: ptxas lets a named barrier's arrival
// overtake an ldmatrix, and the tile that is handed back is written by TMA.
template <int kSwizzle, int kRegisters>
__device__ __forceinline__ void load_fragment(unsigned (&operand)[kRegisters], const unsigned char* tile, int first_row,
                                              int pitch) {
  static_assert(kRegisters % 4 == 0, "K is a multiple of 16");
  int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) % 128 / 32;
  int row = first_row + 16 * warp + lane % 8 + 8 * (lane / 8 % 2);
#pragma unroll
  for (int step = 0; step < kRegisters / 4; ++step) {
    unsigned* to = operand + 4 * step;
    const unsigned char* from = tile + swizzled<kSwizzle>(row, 8 * (lane / 16) + 16 * step, pitch);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
  }
  fence_async_proxy();
}

// The accumulator to global memory, in pairs; rows from `rows` on are left out.
template <int kRegisters>
__device__ __forceinline__ void store_fragment_global(__nv_bfloat16* target, size_t row_pitch, int rows,
                                                      const float (&acc)[kRegisters]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    int r = fragment_row() + 8 * row;
    if (r >= rows) continue;
    unsigned* to = reinterpret_cast<unsigned*>(target + r * row_pitch + fragment_column());
#pragma unroll
    for (int e = 0; e < kRegisters / 2; e += 2)
      to[column_of(e) / 2] = pack_bf16(acc[element(row, e)], acc[element(row, e + 1)]);
  }
}

}  // namespace choreo::cuda
