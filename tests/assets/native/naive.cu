// A plain attention kernel to drive the harness with: right, slow, and written for no one to time. One warp has one
// query row, each lane 4 of the 128 dimensions; online softmax in FP32.
#include "attention.h"

__global__ void naive_attention(const choreo::bf16* q, const choreo::bf16* k, const choreo::bf16* v, choreo::bf16* out,
                                int seq, int heads, long long rows) {
  const long long row = (long long)(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;  // (b * seq + s) * heads + h
  if (row >= rows) return;
  const int lane = threadIdx.x % 32, h = int(row % heads), s = int(row / heads % seq);
  const long long first = row / heads / seq * seq;  // b * seq
  float x[4], acc[4] = {0, 0, 0, 0}, m = -INFINITY, l = 0;
  for (int i = 0; i < 4; ++i) x[i] = choreo::to_f32(q[row * 128 + 4 * lane + i]);
  for (int n = 0; n <= s; ++n) {
    const long long at = ((first + n) * heads + h) * 128 + 4 * lane;
    float score = 0;
    for (int i = 0; i < 4; ++i) score += x[i] * choreo::to_f32(k[at + i]);
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
    score *= 0.12751743f;
    const float next = fmaxf(m, score), scale = exp2f(m - next), p = exp2f(score - next);
    l = l * scale + p;
    for (int i = 0; i < 4; ++i) acc[i] = acc[i] * scale + p * choreo::to_f32(v[at + i]);
    m = next;
  }
  for (int i = 0; i < 4; ++i) out[row * 128 + 4 * lane + i] = choreo::from_f32<choreo::bf16>(acc[i] / l);
}

void naive(const choreo::spanned_view<choreo::bf16, 4>& q, const choreo::spanned_view<choreo::bf16, 4>& k,
           const choreo::spanned_view<choreo::bf16, 4>& v, const choreo::spanned_view<choreo::bf16, 4>& out) {
  const auto& shape = q.shape();
  const long long rows = (long long)(shape[0] * shape[1] * shape[2]);
  choreo::launch(naive_attention, dim3(unsigned(choreo::cdiv(rows, 8))), dim3(256), 0, nullptr, q.data(), k.data(),
                 v.data(), out.data(), int(shape[1]), int(shape[2]), rows);
}

int main(int argc, char** argv) {
  attention::Implementation implementation;
  implementation.name = "naive";
  implementation.launch = [](const attention::Problem& p) { naive(p.q_view(), p.k_view(), p.v_view(), p.out_view()); };
  implementation.refuses = [](const attention::Problem& p) {
    return p.parameter("most-heads", 1024) < p.heads ? "more heads than most-heads" : "";
  };
  return attention::run(argc, argv, implementation);
}
