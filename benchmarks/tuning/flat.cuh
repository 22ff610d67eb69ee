// A persistent attention kernel whose pipeline does not stop between tasks: the last PV of a task is issued with
// the first QK of the next one, as any PV is with the QK after it. Q is a register operand, each warpgroup
// stores its rows by itself.
//
// BF16 [B, S, H, 128], S a multiple of 128 (256 in clusters). 384 threads: a producer warpgroup, two consumer
// warpgroups of 64 query rows. Task lists as runtime/schedule.h makes them; with kDynamic one list for all.
#pragma once

#include "common.cuh"

namespace tuning {

template <int F>
constexpr int kFlatShared = (5 + ((F & kThreeK) ? 2 : 1)) * kTile + 1024 + 256;

// K and V maps have boxes of one panel in clusters, else of two; O's have 64 rows.
template <int F>
__global__ void __launch_bounds__(384, 1)
flat(unsigned S, const unsigned* __restrict__ tasks, const unsigned* __restrict__ offsets, unsigned* __restrict__ counter,
     const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
     const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap o_map) {
  constexpr bool kPair = (F & kCluster) != 0;
  constexpr unsigned kKs = (F & kThreeK) ? 3 : 2;
  extern __shared__ unsigned char dynamic_shared[];
  unsigned char* const base = cu::align_1024(dynamic_shared);
  unsigned char* const q_tile = base;
  unsigned char* const v_buf = base + kTile;
  unsigned char* const o_buf = base + 3 * kTile;
  unsigned char* const k_buf = base + 4 * kTile;
  uint64_t* const qf = reinterpret_cast<uint64_t*>(k_buf + kKs * kTile);
  uint64_t *const qe = qf + 1, *const kf = qf + 2, *const vf = qf + 5, *const ke = qf + 7, *const ve = qf + 10;
  unsigned* const drawn = reinterpret_cast<unsigned*>(qf + 12);
  if (threadIdx.x == 0) {
    cu::mbarrier_init(qf, 1);
    cu::mbarrier_init(qe, 8);
    for (unsigned slot = 0; slot < 3; ++slot) {
      if (slot < kKs) cu::mbarrier_init(&kf[slot], 1);
      if (slot < kKs) cu::mbarrier_init(&ke[slot], kPair ? 16 : 8);
      if (slot < 2) cu::mbarrier_init(&vf[slot], 1);
      if (slot < 2) cu::mbarrier_init(&ve[slot], kPair ? 16 : 8);
    }
    cu::fence_barrier_init();
  }
  if (kPair) cluster_sync();
  else __syncthreads();

  const unsigned rank = kPair ? cluster_rank() : 0;
  const unsigned list = (F & kDynamic) ? 0 : kPair ? blockIdx.x / 2 : blockIdx.x;
  const int p = cu::warpgroup_index(), t = cu::warpgroup_thread();
  unsigned position = offsets[list];
  const unsigned end = offsets[list + 1];
  // A task is taken apart where it is used, so that it takes one register.
  auto query_tile = [&](unsigned task) { return kPair ? 2 * (task & 255) + rank : task & 255; };
  // The first KV tile: the diagonal of a pair's second query tile.
  auto top_tile = [&](unsigned task) { return kPair ? 2 * (task & 255) + 1 : task & 255; };
  auto first_panel = [&](unsigned task) { return int(task >> 8 & 63) * 2; };
  auto first_row = [&](unsigned task) { return int((task >> 14) * S); };

  if (p == 0) {
    cu::setreg_dec<24>();
    const bool elected = !(F & kWarpLoader) || t == 0;
    if (t == 0 || (t == 32 && (F & kTwoLoaders)) || (t < 32 && (F & kWarpLoader))) {
      unsigned k_order = 0, v_order = 0, q_order = 0;
      auto load = [&](unsigned char* tile, const CUtensorMap* map, uint64_t* full, int row, int panel) {
        if (!elected) return;
        cu::mbarrier_arrive_expect(full, kTile);
        if (kPair)
          cute::SM90_TMA_LOAD_MULTICAST_3D::copy(map, full, uint16_t(3), cu::kEvictLast, tile + rank * (kTile / 2), 0, row,
                                                 panel + int(rank));
        else
          cu::tma_load(tile, map, full, cu::kEvictLast, 0, row, panel);
      };
      while (true) {
        if (F & kDynamic) position = atomicAdd(counter, 1u);
        if (position >= end) break;
        const unsigned packed = tasks[position];
        const int row = first_row(packed), panel = first_panel(packed);
        const bool loads_k = t == 0 || (F & kWarpLoader);
        if (loads_k) {
          cu::mbarrier_wait(qe, (q_order++ & 1) ^ 1);
          if (F & kDynamic) *drawn = packed;
          if (elected) {
            cu::mbarrier_arrive_expect(qf, kTile);
            cu::tma_load(q_tile, &q_map, qf, cu::kEvictFirst, 0, row + int(query_tile(packed) * 128), panel);
          }
        }
        for (unsigned issue = 0; issue <= top_tile(packed); ++issue) {
          const int bn = int(top_tile(packed) - issue);
          if (loads_k) {
            cu::mbarrier_wait(&ke[k_order % kKs], (k_order / kKs & 1) ^ 1);
            load(k_buf + k_order % kKs * kTile, &k_map, &kf[k_order % kKs], row + bn * 128, panel);
            ++k_order;
          }
          if (t == 32 || !(F & kTwoLoaders)) {
            cu::mbarrier_wait(&ve[v_order % 2], (v_order / 2 & 1) ^ 1);
            load(v_buf + v_order % 2 * kTile, &v_map, &vf[v_order % 2], row + bn * 128, panel);
            ++v_order;
          }
        }
        ++position;
      }
      if (F & kDynamic) {
        cu::mbarrier_wait(qe, (q_order & 1) ^ 1);
        *drawn = ~0u;
        cu::mbarrier_arrive(qf);
      }
    }
  } else {
    cu::setreg_inc<240>();
    const int cid = p - 1;
    note(began);
    unsigned k_order = 0, v_order = 0, q_order = 0;
    // With turns the second warpgroup issues after the first, which has waited.
    const bool waits = !((F & kOrdered) && (F & kPeek)) || cid == 0;
    auto wait_k = [&] { if (waits) cu::mbarrier_wait(&kf[k_order % kKs], k_order / kKs & 1); };
    auto wait_v = [&] { if (waits) cu::mbarrier_wait(&vf[v_order % 2], v_order / 2 & 1); };
    auto release = [](uint64_t* empty) {
      if (!kPair) return cu::mbarrier_arrive_warp(empty);
      // Both CTAs load into both: each must know that both have read. Default semantics: an explicit
      // .release.cluster costs a fence of the whole GPU's memory.
      __syncwarp();
      if (threadIdx.x % 32 < 2) {
        unsigned remote;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                     : "=r"(remote)
                     : "r"(cu::shared_address(empty)), "r"(threadIdx.x % 32));
        asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
      }
    };
    auto release_k = [&] { release(&ke[k_order % kKs]), ++k_order; };
    auto release_v = [&] { release(&ve[v_order % 2]), ++v_order; };
    auto my_turn = [&] { if (F & kOrdered) cu::named_barrier_sync(8 + cid, 256); };
    auto your_turn = [&] { if (F & kOrdered) cu::named_barrier_arrive(9 - cid, 256); };
    if ((F & kOrdered) && cid == 1) cu::named_barrier_arrive(8, 256);

    unsigned probabilities[32], q[32];
    float s[64], o[64], top[2], sum[2], scale[2];
    // Cycles since the point before, summed by point; -1 only sets the time.
    unsigned spent[kPoints] = {}, steps = 0, before = 0;
    auto point = [&](int i) {
      if (!(F & kTimeline)) return;
      unsigned now;
      asm volatile("mov.u32 %0, %%clock;" : "=r"(now) :: "memory");
      if (i >= 0) spent[i] += now - before;
      before = now;
    };
    auto qk = [&] {
      const cu::Descriptor b = cu::k_major<128>(k_buf + k_order % kKs * kTile);
      cu::wgmma_fence_registers(q);
      cu::wgmma_begin(s);
#pragma unroll
      for (int k = 0; k < 8; ++k) cu::wgmma_nk<128>(s, q + 4 * k, b.at(unsigned(k / 4 * 16384 + k % 4 * 32)), k > 0);
      cu::wgmma_commit();
    };
    auto pv_steps = [&](int from, int to) {
      const cu::Descriptor b = cu::mn_major<128>(v_buf + v_order % 2 * kTile, 16384);
      cu::wgmma_fence_registers(probabilities);
      cu::wgmma_begin(o);
#pragma unroll
      for (int k = from; k < to; ++k) cu::wgmma_kn<128>(o, probabilities + 4 * k, b.at(unsigned(k * 2048)));
      cu::wgmma_commit();
    };
    auto pv = [&] { pv_steps(0, 8); };
    auto convert_part = [&](int from, int to) {
#pragma unroll
      for (int r = from; r < to; r += 2) probabilities[r / 2] = cu::pack_bf16(s[r], s[r + 1]);
    };
    auto convert = [&] { convert_part(0, 64); };
    auto scale_output = [&](const float(&by)[2]) {
#pragma unroll
      for (int row = 0; row < 2; ++row)
#pragma unroll
        for (int e = 0; e < 32; ++e) o[cu::element(row, e)] *= by[row];
    };
    bool grown = false;
    auto rescale = [&] {
      if (F & kLocalMax) {
        if (grown) scale_output(scale);
        return;
      }
      if (!(F & kSkipScale) || __any_sync(0xffffffffu, scale[0] != 1.0f || scale[1] != 1.0f)) scale_output(scale);
    };
    auto exponentials_part = [&](int from, int to) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float shift = top[row] * kScale;
#pragma unroll
        for (int e = from; e < to; ++e) {
          const float x = s[cu::element(row, e)] * kScale - shift;
          s[cu::element(row, e)] = (F & kPolynomial) && e % 4 == 3 ? exp2_polynomial(x) : exp2f(x);
        }
        float part = 0.0f;
#pragma unroll
        for (int e = from; e < to; ++e) part += s[cu::element(row, e)];
        sum[row] += part;
      }
    };
    auto exponentials = [&] { exponentials_part(0, 32); };
    auto first_softmax = [&] {
#pragma unroll
      for (int row = 0; row < 2; ++row)
#pragma unroll
        for (int e = 0; e < 32; ++e)
          if (cu::fragment_column() + cu::column_of(e) > cid * 64 + cu::fragment_row() + 8 * row)
            s[cu::element(row, e)] = -INFINITY;
      cu::reduce_max(top, s);
      sum[0] = sum[1] = 0.0f;
      exponentials();
    };
    auto clear_output = [&] {
#pragma unroll
      for (int r = 0; r < 64; ++r) o[r] = 0.0f;
    };
    // The task that comes now, if any, with its Q in registers.
    auto next_task = [&](unsigned& task) -> bool {
      if (F & kDynamic) {
        cu::mbarrier_wait(qf, q_order++ & 1);
        task = *drawn;
        if (task == ~0u) return false;
      } else {
        if (position >= end) return false;
        task = tasks[position++];
        cu::mbarrier_wait(qf, q_order++ & 1);
      }
      load_q(q, q_tile, cid * 64);
      if (F & kLoadFence) cu::fence_async_proxy();
      cu::mbarrier_arrive_warp(qe);
      if (kPair && rank == 0) {
        // The pair's first KV tile lies right of this query tile's diagonal.
        wait_k(), release_k();
      }
      wait_k();
      return true;
    };
    auto skip_v = [&] {
      if (kPair && rank == 0) wait_v(), release_v();
    };
    unsigned char* const o_tile = o_buf + cid * (kTile / 2);
    // Divides the output by its sum and sends it off.
    auto store = [&](unsigned task) {
      if (t == 0) cu::tma_store_wait_read<0>();
      cu::named_barrier_sync(12 + cid, 128);
      scale_output(scale);
      cu::store_fragment<128>(o_tile, o, 0, 64);
      cu::fence_async_proxy();
      cu::named_barrier_sync(12 + cid, 128);
      if (t == 0) {
        cu::tma_store(&o_map, o_tile, 0, first_row(task) + int(query_tile(task)) * 128 + cid * 64, first_panel(task));
        cu::tma_store_commit();
      }
    };

    unsigned task;
    bool more = next_task(task);
    if (more) {
      my_turn();
      qk();
      your_turn();
      cu::wgmma_wait<0>();
      cu::wgmma_end(s);
      release_k();
      first_softmax();
      convert();
      clear_output();
      if (F & kLateScale) scale[0] = scale[1] = 1.0f, grown = false;
      skip_v();
    }
    while (more) {
      unsigned ready = 0;
      for (unsigned step = 0; step < query_tile(task); ++step) {
        point(step ? 7 : -1);
        if (!ready) wait_k();
        point(0);
        my_turn();
        point(1);
        qk();
        if ((F & kEarlyTurn) && !(F & kSplitPv)) your_turn();
        if (F & kLateScale) rescale();
        point(2);
        wait_v();
        if (F & kSplitPv) {
          pv_steps(0, 4);
          if (F & kEarlyTurn) your_turn();
        } else {
          pv();
          if (!(F & kEarlyTurn)) your_turn();
        }
        point(3);
        cu::wgmma_wait<1>();
        cu::wgmma_end(s);
        release_k();
        point(4);
        if (F & kLocalMax) {
          float own[2];
          bool over;
          if (F & kIntegers) {
            const float limit[2] = {top[0] + 8.0f / kScale, top[1] + 8.0f / kScale};
            over = exceeds(s, limit);
          } else {
            own_max(own, s);
            over = fmaxf(own[0] - top[0], own[1] - top[1]) * kScale > 8.0f;
          }
          grown = __any_sync(0xffffffffu, over);
          if (grown) {
            if (F & kIntegers) own_max(own, s);
            cu::all_reduce_max(own);
#pragma unroll
            for (int row = 0; row < 2; ++row) {
              own[row] = fmaxf(own[row], top[row]);
              scale[row] = exp2f((top[row] - own[row]) * kScale);
              sum[row] *= scale[row];
              top[row] = own[row];
            }
          }
        } else {
          const float old[2] = {top[0], top[1]};
          cu::reduce_max(top, s);
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            if (F & kSkipScale) top[row] = (top[row] - old[row]) * kScale > 8.0f ? top[row] : old[row];
            else top[row] = fmaxf(top[row], old[row]);
            scale[row] = exp2f(old[row] * kScale - top[row] * kScale);
            sum[row] *= scale[row];
          }
        }
        if (F & kSplitPv) {
          cu::wgmma_fence_registers(s);
          pv_steps(4, 8);
          if (!(F & kEarlyTurn)) your_turn();
        }
        if (F & kHalves) {
          exponentials_part(0, 16);
          point(5);
          cu::wgmma_fence_registers(s);
          cu::wgmma_wait_after<0>(sum);
          cu::wgmma_end(o);
          if ((F & kPeek) && cid == 0) ready = peek(&kf[k_order % kKs], k_order / kKs & 1);
          release_v();
          convert_part(0, 32);
          exponentials_part(16, 32);
          point(6);
          convert_part(32, 64);
        } else {
          exponentials();
          cu::wgmma_fence_registers(s);
          point(5);
          cu::wgmma_wait_after<0>(sum);
          cu::wgmma_end(o);
          if ((F & kPeek) && cid == 0) ready = peek(&kf[k_order % kKs], k_order / kKs & 1);
          release_v();
          point(6);
          convert();
        }
        if (!(F & kLateScale)) rescale();
        ++steps;
      }
      const unsigned last = task;
      more = next_task(task);
      if (more) {
        my_turn();
        qk();
        if (F & kEarlyTurn) your_turn();
        if (F & kLateScale) rescale();
        wait_v();
        pv();
        if (!(F & kEarlyTurn)) your_turn();
        cu::wgmma_wait<1>();
        cu::wgmma_end(s);
        release_k();
        cu::all_reduce_sum(sum);
        scale[0] = 1.0f / sum[0], scale[1] = 1.0f / sum[1];
        first_softmax();
        cu::wgmma_fence_registers(s);
        cu::wgmma_wait_after<0>(sum);
        cu::wgmma_end(o);
        release_v();
        convert();
        store(last);
        clear_output();
        if (F & kLateScale) scale[0] = scale[1] = 1.0f, grown = false;
        skip_v();
      } else {
        if (F & kLateScale) rescale();
        wait_v();
        pv();
        cu::all_reduce_sum(sum);
        scale[0] = 1.0f / sum[0], scale[1] = 1.0f / sum[1];
        cu::wgmma_wait_after<0>(scale);
        cu::wgmma_end(o);
        release_v();
        store(last);
      }
    }
    if ((F & kOrdered) && cid == 0) cu::named_barrier_sync(8, 256);
    if (t == 0) cu::tma_store_wait_read<0>();
    note(ended);
    if ((F & kTimeline) && blockIdx.x == 0 && t == 0) {
      for (int i = 0; i < kPoints; ++i) timeline[cid][i] = spent[i];
      timeline[cid][kPoints] = steps;
    }
  }
  // A CTA must not end while the other may still arrive at its barriers.
  if (kPair) cluster_sync();
}

}  // namespace tuning
