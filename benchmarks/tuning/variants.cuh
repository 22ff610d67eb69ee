// Variants of one persistent attention kernel by hand, with the device wrappers of generated code: what a flag
// changes can be timed before it is taught to the compiler. docs/tuning.md says what came of each.
//
// BF16 [B, S, H, 128], S a multiple of 128 (256 in clusters). 384 threads: a producer thread, two consumer
// warpgroups of 64 query rows. Task lists as runtime/schedule.h makes them.
#pragma once

#include "common.cuh"

namespace tuning {

// K and V maps have boxes of one panel in clusters, else of two.
template <int F>
__global__ void __launch_bounds__(384, 1)
attention(unsigned S, const unsigned* __restrict__ tasks, const unsigned* __restrict__ offsets,
          const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
          const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap o_map) {
  constexpr bool kPair = (F & kCluster) != 0;
  constexpr uint64_t kHint = (F & kNormal) ? cu::kEvictNormal : cu::kEvictLast;
  extern __shared__ unsigned char dynamic_shared[];
  unsigned char* const base = cu::align_1024(dynamic_shared);
  unsigned char* const q_tile = base;
  unsigned char* const k_buf = base + kTile;
  unsigned char* const v_buf = base + 3 * kTile;
  unsigned char* const o_buf = base + 5 * kTile;
  uint64_t* const qf = reinterpret_cast<uint64_t*>(base + 6 * kTile);
  uint64_t *const qe = qf + 1, *const kf = qf + 2, *const vf = qf + 4, *const ke = qf + 6, *const ve = qf + 8;
  if (threadIdx.x == 0) {
    cu::mbarrier_init(qf, 1);
    cu::mbarrier_init(qe, 8);
    for (int slot = 0; slot < 2; ++slot) {
      cu::mbarrier_init(&kf[slot], 1);
      cu::mbarrier_init(&vf[slot], 1);
      cu::mbarrier_init(&ke[slot], kPair ? 16 : 8);
      cu::mbarrier_init(&ve[slot], kPair ? 16 : 8);
    }
    cu::fence_barrier_init();
  }
  if (kPair) cluster_sync();
  else __syncthreads();

  const unsigned rank = kPair ? cluster_rank() : 0;
  const unsigned list = kPair ? blockIdx.x / 2 : blockIdx.x;
  const int p = cu::warpgroup_index(), t = cu::warpgroup_thread();
  unsigned position = (F & kGrid) ? 0 : offsets[list];
  const unsigned end = (F & kGrid) ? 1 : offsets[list + 1];
  struct Task {
    unsigned bm, top, head, batch;  // top: the first KV tile, the diagonal of a pair's second query tile
  };
  auto task_at = [&](unsigned i) -> Task {
    if (F & kGrid) return {gridDim.x - 1 - blockIdx.x, gridDim.x - 1 - blockIdx.x, blockIdx.y, blockIdx.z};
    const unsigned task = tasks[i], tile = task & 255;
    return {kPair ? 2 * tile + rank : tile, kPair ? 2 * tile + 1 : tile, task >> 8 & 63, task >> 14};
  };

  if (p == 0) {
    cu::setreg_dec<(F & kQRegisters) ? 24 : 40>();
    if (t == 0 && !(F & kNoLoad)) {
      unsigned k_order = 0, v_order = 0, q_order = 0;
      auto load = [&](unsigned char* tile, const CUtensorMap* map, uint64_t* full, int row, int panel) {
        cu::mbarrier_arrive_expect(full, kTile);
        if (kPair)
          cute::SM90_TMA_LOAD_MULTICAST_3D::copy(map, full, uint16_t(3), kHint, tile + rank * (kTile / 2), 0, row,
                                                 panel + int(rank));
        else
          cu::tma_load(tile, map, full, kHint, 0, row, panel);
      };
      for (; position < end; ++position) {
        const Task task = task_at(position);
        const int row = int(task.batch * S), panel = int(task.head) * 2;
        cu::mbarrier_wait(qe, (q_order++ & 1) ^ 1);
        cu::mbarrier_arrive_expect(qf, kTile);
        cu::tma_load(q_tile, &q_map, qf, cu::kEvictFirst, 0, row + int(task.bm * 128), panel);
        for (unsigned issue = 0; issue <= task.top; ++issue) {
          const int bn = int(task.top - issue);
          cu::mbarrier_wait(&ke[k_order % 2], (k_order / 2 & 1) ^ 1);
          load(k_buf + k_order % 2 * kTile, &k_map, &kf[k_order % 2], row + bn * 128, panel);
          ++k_order;
          cu::mbarrier_wait(&ve[v_order % 2], (v_order / 2 & 1) ^ 1);
          load(v_buf + v_order % 2 * kTile, &v_map, &vf[v_order % 2], row + bn * 128, panel);
          ++v_order;
        }
      }
    }
  } else {
    cu::setreg_inc<(F & kQRegisters) ? 240 : 232>();
    const int cid = p - 1;
    note(began);
    unsigned k_order = 0, v_order = 0, q_order = 0;
    auto wait_full = [](uint64_t* full, unsigned order) {
      if (!(F & kNoLoad)) cu::mbarrier_wait(&full[order % 2], order / 2 & 1);
    };
    auto release = [](uint64_t* empty, unsigned order) {
      if (!kPair) return cu::mbarrier_arrive_warp(&empty[order % 2]);
      // Both CTAs load into both: each must know that both have read. Default semantics: an explicit
      // .release.cluster costs a fence of the whole GPU's memory.
      __syncwarp();
      if (threadIdx.x % 32 < 2) {
        unsigned remote;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                     : "=r"(remote)
                     : "r"(cu::shared_address(&empty[order % 2])), "r"(threadIdx.x % 32));
        asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
      }
    };
    auto my_turn = [&] { if (F & kOrdered) cu::named_barrier_sync(8 + cid, 256); };
    auto your_turn = [&] { if (F & kOrdered) cu::named_barrier_arrive(9 - cid, 256); };
    if ((F & kOrdered) && cid == 1) cu::named_barrier_arrive(8, 256);

    unsigned probabilities[32], q[32];
    float s[64], o[64];
    auto qk = [&] {
      const cu::Descriptor a = cu::k_major<128>(q_tile + cid * 8192);
      const cu::Descriptor b = cu::k_major<128>(k_buf + k_order % 2 * kTile);
      if (F & kQRegisters) cu::wgmma_fence_registers(q);
      cu::wgmma_begin(s);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const unsigned step = unsigned(k / 4 * 16384 + k % 4 * 32);
        if (F & kQRegisters) cu::wgmma_nk<128>(s, q + 4 * k, b.at(step), k > 0);
        else cu::wgmma_nk<128>(s, a.at(step), b.at(step), k > 0);
      }
      cu::wgmma_commit();
    };
    auto pv = [&] {
      const cu::Descriptor b = cu::mn_major<128>(v_buf + v_order % 2 * kTile, 16384);
      cu::wgmma_fence_registers(probabilities);
      cu::wgmma_begin(o);
#pragma unroll
      for (int k = 0; k < 8; ++k) cu::wgmma_kn<128>(o, probabilities + 4 * k, b.at(unsigned(k * 2048)));
      cu::wgmma_commit();
    };
    auto convert = [&] {
#pragma unroll
      for (int r = 0; r < 64; r += 2) probabilities[r / 2] = cu::pack_bf16(s[r], s[r + 1]);
    };
    auto scale_output = [&](const float(&by)[2]) {
#pragma unroll
      for (int row = 0; row < 2; ++row)
#pragma unroll
        for (int e = 0; e < 32; ++e) o[cu::element(row, e)] *= by[row];
    };
    auto exponentials = [&](const float(&top)[2], float(&sum)[2]) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float shift = top[row] * kScale;
#pragma unroll
        for (int e = 0; e < 32; ++e) {
          const float x = s[cu::element(row, e)] * kScale - shift;
          s[cu::element(row, e)] = (F & kNoExp) ? x : exp2f(x);
        }
        float part = 0.0f;
#pragma unroll
        for (int e = 0; e < 32; ++e) part += s[cu::element(row, e)];
        sum[row] += part;
      }
    };

    for (; position < end; ++position) {
      const Task task = task_at(position);
      float top[2], sum[2] = {0.0f, 0.0f}, scale[2];
      if (!(F & kNoLoad)) cu::mbarrier_wait(qf, q_order++ & 1);
      if (F & kQRegisters) {
        load_q(q, q_tile, cid * 64);
        cu::mbarrier_arrive_warp(qe);
      }
      if (kPair && rank == 0) {
        // The pair's first KV tile lies right of this query tile's diagonal.
        wait_full(kf, k_order), release(ke, k_order++);
        wait_full(vf, v_order), release(ve, v_order++);
      }
      wait_full(kf, k_order);
      qk();
      cu::wgmma_wait<0>();
      cu::wgmma_end(s);
      release(ke, k_order++);
#pragma unroll
      for (int row = 0; row < 2; ++row)
#pragma unroll
        for (int e = 0; e < 32; ++e)
          if (cu::fragment_column() + cu::column_of(e) > cid * 64 + cu::fragment_row() + 8 * row)
            s[cu::element(row, e)] = -INFINITY;
      cu::reduce_max(top, s);
      exponentials(top, sum);
      convert();
#pragma unroll
      for (int r = 0; r < 64; ++r) o[r] = 0.0f;

      for (unsigned step = 0; step < task.bm; ++step) {
        wait_full(kf, k_order);
        my_turn();
        qk();
        wait_full(vf, v_order);
        pv();
        your_turn();
        cu::wgmma_wait<1>();
        cu::wgmma_end(s);
        release(ke, k_order++);
        if (F & kNoSoftmax) {
          scale[0] = scale[1] = 1.0f;
        } else {
          const float old[2] = {top[0], top[1]};
          if (!(F & kNoMax)) cu::reduce_max(top, s);
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            if (F & kSkipScale) top[row] = (top[row] - old[row]) * kScale > 8.0f ? top[row] : old[row];
            else top[row] = fmaxf(top[row], old[row]);
            scale[row] = exp2f(old[row] * kScale - top[row] * kScale);
            sum[row] *= scale[row];
          }
          exponentials(top, sum);
        }
        cu::wgmma_fence_registers(s);
        cu::wgmma_wait_after<0>(sum);
        cu::wgmma_end(o);
        release(ve, v_order++);
        convert();
        if (!(F & kSkipScale) || __any_sync(0xffffffffu, scale[0] != 1.0f || scale[1] != 1.0f)) scale_output(scale);
      }
      if (!(F & kQRegisters)) cu::mbarrier_arrive_warp(qe);
      wait_full(vf, v_order);
      pv();
      cu::all_reduce_sum(sum);
      scale[0] = 1.0f / sum[0], scale[1] = 1.0f / sum[1];
      // The last task's store has read the buffer.
      const bool stores = (F & kSplitStore) ? t == 0 : threadIdx.x == 128;
      auto meet = [&] {
        if (F & kSplitStore) cu::named_barrier_sync(12 + cid, 128);
        else cu::named_barrier_sync(15, 256);
      };
      if (stores) cu::tma_store_wait_read<0>();
      meet();
      cu::wgmma_wait_after<0>(scale);
      cu::wgmma_end(o);
      release(ve, v_order++);
      scale_output(scale);
      const int row = int(task.batch * S + task.bm * 128), panel = int(task.head) * 2;
      if (F & kSplitStore) cu::store_fragment<128>(o_buf + cid * (kTile / 2), o, 0, 64);
      else cu::store_fragment<128>(o_buf, o, cid * 64, 128);
      cu::fence_async_proxy();
      meet();
      if (stores) {
        if (F & kSplitStore) cu::tma_store(&o_map, o_buf + cid * (kTile / 2), 0, row + cid * 64, panel);
        else cu::tma_store(&o_map, o_buf, 0, row, panel);
        cu::tma_store_commit();
      }
    }
    if ((F & kOrdered) && cid == 0) cu::named_barrier_sync(8, 256);
    if (threadIdx.x % 128 == 0) cu::tma_store_wait_read<0>();
    note(ended);
  }
  // A CTA must not end while the other may still arrive at its barriers.
  if (kPair) cluster_sync();
}

}  // namespace tuning
