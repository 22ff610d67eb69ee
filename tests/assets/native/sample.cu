// Host code as the main part of a `.co` file has it, of every name that choreo.h promises to such code. It makes
// tensors, fills and reads them on the host; what needs a GPU comes last, and says so where there is none.
#include "choreo.h"

#include <cstdio>
#include <vector>

using namespace choreo;

__global__ void double_kernel(const bf16* x, bf16* y, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  choreo::choreo_assert(n > 0, "nothing to do");
  if (i < n) y[i] = from_f32<bf16>(2.0f * to_f32(x[i]));
}

// As a compiler would write it for `__co__ void twice(global bf16 [M, N] x, global bf16 [M, N] y)`.
void twice(const choreo::spanned_view<choreo::bf16, 2>& x, const choreo::spanned_view<choreo::bf16, 2>& y) {
  choreo::runtime_check(x.shape() == y.shape(), "x and y differ in shape");
  const u32 n = u32(x.element_count());
  choreo::launch(double_kernel, dim3(cdiv(n, 256u)), dim3(256), 0, nullptr, x.data(), y.data(), n);
}

int main() {
  const int rows = 6;
  const std::size_t columns = 8;
  auto x = choreo::make_spandata<choreo::bf16>(rows, columns);
  x.fill_random(-2.0f, 2.0f);
  auto counts = croq::make_spandata<croq::u32>(5);
  counts.fill_random(3, 4);
  auto halves = choreo::make_spandata<choreo::f16>(2, 2, 2);
  halves[1][0][1] = choreo::f16(0.5f);

  bool good =
      x.view().shape()[1] == columns && x.element_count() == 48 && x.bytes() == 96 && to_f32(halves[1][0][1]) == 0.5f;
  bool varied = false;
  for (int i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const float value = choreo::to_f32(x[i][j]);
      good = good && value >= -2.0f && value <= 2.0f && value == to_f32(x.view()[i][j]) &&
             value == float(x.data()[i * columns + j]);
      varied = varied || value != to_f32(x[0][0]);
    }
  }
  for (int i = 0; i < 5; ++i) good = good && (counts[i] == 3 || counts[i] == 4);

  std::vector<choreo::bf16> flat(24);
  flat[23] = from_f32<bf16>(7.0f);
  auto typed = choreo::make_spanview<choreo::bf16, 3>(flat.data(), {2, 3u, std::size_t(4)});
  auto ranked = choreo::make_spanview<3>(flat.data(), {2, 3, 4});
  auto deduced = choreo::make_spanview(flat.data(), {2, 3, 4});
  choreo::spanned_view<const choreo::bf16, 3> constant = typed;
  good = good && to_f32(typed[1][2][3]) == 7.0f && to_f32(ranked[1][2][3]) == 7.0f &&
         to_f32(deduced[1][2][3]) == 7.0f && to_f32(constant[1][2][3]) == 7.0f;
  good = good && choreo::utils::align_up(130, 128) == 256 && choreo::utils::cdiv(7, 2) == 4 &&
         choreo::utils::env_string("SAMPLE_NOT_SET", "none") == "none";
  std::printf("host: %s\n", good && varied ? "good" : "wrong");

  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("device: none\n");
    return good && varied ? 0 : 1;
  }
  choreo::bf16 *in = nullptr, *out = nullptr;
  choreo::abend_true(cudaMalloc(&in, x.bytes()));
  choreo::abend_true(cudaMalloc(&out, x.bytes()));
  choreo::abend_true(cudaMemcpy(in, x.data(), x.bytes(), cudaMemcpyHostToDevice));
  auto in_view = choreo::make_spanview<2>(in, {rows, columns}),
       out_view = choreo::make_spanview<2>(out, {rows, columns});
  TimerOption option;
  option.warmup = 2;
  option.repeat = 10;
  option.sync = true;
  const float ms = choreo::timing([&] { twice(in_view, out_view); }, option);
  const float again = choreo::timing(twice, TimerOption{1, 2, false}, in_view, out_view);
  auto y = choreo::make_spandata<choreo::bf16>(rows, columns);
  choreo::abend_true(cudaMemcpy(y.data(), out, y.bytes(), cudaMemcpyDeviceToHost));
  for (int i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) good = good && to_f32(y[i][j]) == 2.0f * to_f32(x[i][j]);
  }
  good = good && ms > 0 && again > 0 && choreo::last_launch().count == 15;
  std::printf("device: %s\n", good ? "good" : "wrong");
  cudaFree(in);
  cudaFree(out);
  return good ? 0 : 1;
}
