// A persistent attention kernel with three consumer warpgroups: query tiles of 192 rows, so that K and V come from
// L2 for a third fewer bytes a multiply-add. 160 registers a consumer leave no room for a second QK in flight:
// a warpgroup does QK, softmax and PV in turn, and the other two fill the tensor cores meanwhile.
//
// BF16 [B, S, H, 128], S a multiple of 128. 512 threads. Each warpgroup skips the KV tiles right of its own
// diagonal and the rows beyond S.
#pragma once

#include "common.cuh"

namespace tuning {

constexpr int kThreeShared = 7 * kTile + 1024 + 256;  // Q and O: 48 KB each; K and V: two slots each

template <int F>
__global__ void __launch_bounds__(512, 1)
three(unsigned S, const unsigned* __restrict__ tasks, const unsigned* __restrict__ offsets,
      const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
      const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap o_map) {
  extern __shared__ unsigned char dynamic_shared[];
  unsigned char* const base = cu::align_1024(dynamic_shared);
  unsigned char* const k_buf = base;
  unsigned char* const v_buf = base + 2 * kTile;
  unsigned char* const q_tiles = base + 4 * kTile;  // 64 rows, 16 KB each
  unsigned char* const o_tiles = q_tiles + 3 * (kTile / 2);
  uint64_t* const qf = reinterpret_cast<uint64_t*>(base + 7 * kTile);
  uint64_t *const qe = qf + 3, *const kf = qf + 6, *const vf = qf + 8, *const ke = qf + 10, *const ve = qf + 12;
  if (threadIdx.x == 0) {
    for (int w = 0; w < 3; ++w) cu::mbarrier_init(&qf[w], 1), cu::mbarrier_init(&qe[w], 4);
    for (int slot = 0; slot < 2; ++slot) {
      cu::mbarrier_init(&kf[slot], 1);
      cu::mbarrier_init(&vf[slot], 1);
      cu::mbarrier_init(&ke[slot], 12);
      cu::mbarrier_init(&ve[slot], 12);
    }
    cu::fence_barrier_init();
  }
  __syncthreads();

  const int p = cu::warpgroup_index(), t = cu::warpgroup_thread();
  unsigned position = offsets[blockIdx.x];
  const unsigned end = offsets[blockIdx.x + 1];
  struct Task {
    unsigned row, top, head, batch;  // first query row, first KV tile
  };
  auto task_at = [&](unsigned i) -> Task {
    const unsigned task = tasks[i], row = (task & 255) * 192;
    return {row, min(row + 191, S - 1) / 128, task >> 8 & 63, task >> 14};
  };

  if (p == 0) {
    cu::setreg_dec<24>();
    if (t == 0 || t == 32) {
      unsigned k_order = 0, v_order = 0, q_order = 0;
      for (; position < end; ++position) {
        const Task task = task_at(position);
        const int row = int(task.batch * S), panel = int(task.head) * 2;
        if (t == 0) {
          for (int w = 0; w < 3; ++w) {
            cu::mbarrier_wait(&qe[w], (q_order & 1) ^ 1);
            cu::mbarrier_arrive_expect(&qf[w], kTile / 2);
            cu::tma_load(q_tiles + w * (kTile / 2), &q_map, &qf[w], cu::kEvictFirst, 0, row + int(task.row) + 64 * w, panel);
          }
          ++q_order;
        }
        for (unsigned issue = 0; issue <= task.top; ++issue) {
          const int bn = int(task.top - issue);
          if (t == 0) {
            cu::mbarrier_wait(&ke[k_order % 2], (k_order / 2 & 1) ^ 1);
            cu::mbarrier_arrive_expect(&kf[k_order % 2], kTile);
            cu::tma_load(k_buf + k_order % 2 * kTile, &k_map, &kf[k_order % 2], cu::kEvictLast, 0, row + bn * 128, panel);
            ++k_order;
          } else {
            cu::mbarrier_wait(&ve[v_order % 2], (v_order / 2 & 1) ^ 1);
            cu::mbarrier_arrive_expect(&vf[v_order % 2], kTile);
            cu::tma_load(v_buf + v_order % 2 * kTile, &v_map, &vf[v_order % 2], cu::kEvictLast, 0, row + bn * 128, panel);
            ++v_order;
          }
        }
      }
    }
  } else {
    cu::setreg_inc<160>();
    const int cid = p - 1;
    note(began);
    unsigned order = 0, q_order = 0;
    unsigned char *const q_tile = q_tiles + cid * (kTile / 2), *const o_tile = o_tiles + cid * (kTile / 2);
    float s[64], o[64], top[2], sum[2], scale[2];
    for (; position < end; ++position) {
      const Task task = task_at(position);
      const unsigned first_row = task.row + 64 * unsigned(cid);
      const bool idle = first_row >= S;
      const unsigned diagonal = first_row / 128;
      cu::mbarrier_wait(&qf[cid], q_order++ & 1);
      top[0] = top[1] = -INFINITY, sum[0] = sum[1] = 0.0f;
#pragma unroll
      for (int r = 0; r < 64; ++r) o[r] = 0.0f;
      for (unsigned issue = 0; issue <= task.top; ++issue, ++order) {
        const unsigned slot = order % 2, phase = order / 2 & 1, bn = task.top - issue;
        cu::mbarrier_wait(&kf[slot], phase);
        const bool skip = idle || bn > diagonal;
        if (!skip) {
          const cu::Descriptor a = cu::k_major<128>(q_tile), b = cu::k_major<128>(k_buf + slot * kTile);
          cu::wgmma_begin(s);
#pragma unroll
          for (int k = 0; k < 8; ++k)
            cu::wgmma_nk<128>(s, a.at(unsigned(k / 4 * 8192 + k % 4 * 32)), b.at(unsigned(k / 4 * 16384 + k % 4 * 32)), k > 0);
          cu::wgmma_commit();
          cu::wgmma_wait<0>();
          cu::wgmma_end(s);
        }
        cu::mbarrier_arrive_warp(&ke[slot]);
        if (!skip) {
          if (bn == diagonal) {
#pragma unroll
            for (int row = 0; row < 2; ++row)
#pragma unroll
              for (int e = 0; e < 32; ++e)
                if (cu::fragment_column() + cu::column_of(e) > int(first_row % 128) + cu::fragment_row() + 8 * row)
                  s[cu::element(row, e)] = -INFINITY;
          }
          bool grown = true;
          if (F & kLocalMax) {
            float own[2];
            own_max(own, s);
            grown = __any_sync(0xffffffffu, !(fmaxf(own[0] - top[0], own[1] - top[1]) * kScale <= 8.0f));
            if (grown) {
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
            if (F & kSkipScale) grown = __any_sync(0xffffffffu, scale[0] != 1.0f || scale[1] != 1.0f);
          }
          // Nothing is in flight: the output can be rescaled at once.
          if (grown) {
#pragma unroll
            for (int row = 0; row < 2; ++row)
#pragma unroll
              for (int e = 0; e < 32; ++e) o[cu::element(row, e)] *= scale[row];
          }
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            const float shift = top[row] * kScale;
            float part = 0.0f;
#pragma unroll
            for (int e = 0; e < 32; ++e) {
              const float x = exp2f(s[cu::element(row, e)] * kScale - shift);
              s[cu::element(row, e)] = x;
              part += x;
            }
            sum[row] += part;
          }
#pragma unroll
          for (int r = 0; r < 64; r += 2) s[r / 2] = __uint_as_float(cu::pack_bf16(s[r], s[r + 1]));
        }
        cu::mbarrier_wait(&vf[slot], phase);
        if (!skip) {
          const cu::Descriptor b = cu::mn_major<128>(v_buf + slot * kTile, 16384);
          // P lies in the first half of S's registers: there are no 32 others.
          unsigned probabilities[32];
#pragma unroll
          for (int r = 0; r < 32; ++r) probabilities[r] = __float_as_uint(s[r]);
          cu::wgmma_fence_registers(probabilities);
          cu::wgmma_begin(o);
#pragma unroll
          for (int k = 0; k < 8; ++k) cu::wgmma_kn<128>(o, probabilities + 4 * k, b.at(unsigned(k * 2048)));
          cu::wgmma_commit();
          cu::wgmma_wait<0>();
          cu::wgmma_end(o);
        }
        cu::mbarrier_arrive_warp(&ve[slot]);
      }
      cu::mbarrier_arrive_warp(&qe[cid]);
      if (!idle) {
        cu::all_reduce_sum(sum);
        if (t == 0) cu::tma_store_wait_read<0>();
        cu::named_barrier_sync(12 + cid, 128);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const float by = 1.0f / sum[row];
#pragma unroll
          for (int e = 0; e < 32; ++e) o[cu::element(row, e)] *= by;
        }
        cu::store_fragment<128>(o_tile, o, 0, 64);
        cu::fence_async_proxy();
        cu::named_barrier_sync(12 + cid, 128);
        if (t == 0) {
          cu::tma_store(&o_map, o_tile, 0, int(task.batch * S + first_row), int(task.head) * 2);
          cu::tma_store_commit();
        }
      }
    }
    if (t == 0) cu::tma_store_wait_read<0>();
    note(ended);
  }
}

}  // namespace tuning
