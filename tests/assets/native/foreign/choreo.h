// Stands for the choreo.h of another compiler: it has the names that host code uses, in its own way, and no
// record of launches.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <initializer_list>

namespace choreo {

using bf16 = __nv_bfloat16;

template <typename T, int Rank>
struct spanned_view {
  T* pointer;
  std::size_t sizes[Rank];
  T* data() const { return pointer; }
  const std::size_t* shape() const { return sizes; }
};

template <typename T, int Rank>
spanned_view<T, Rank> make_spanview(T* pointer, std::initializer_list<std::size_t> sizes) {
  spanned_view<T, Rank> view{pointer, {}};
  int i = 0;
  for (std::size_t size : sizes) view.sizes[i++] = size;
  return view;
}

class Error {};
inline void abend_true(cudaError_t) {}

}  // namespace choreo

namespace croq = choreo;
