// Tensor maps (cuTensorMapEncodeTiled): what TMA instructions address global memory through.
//
// A map is described by a TensorMapSpec, dimensions innermost first. Element strides are 1, nothing is
// interleaved, L2 promotion is 128 bytes, and what lies outside of the tensor reads as zero. The driver's
// function is found at run time, so that nothing links against libcuda.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "error.h"
#include "types.h"

namespace choreo {

constexpr unsigned kMaxTensorMapRank = 5;

// What a map says. Members that the rank does not use are zero, so that equality is that of all members.
struct TensorMapSpec {
  const void* base = nullptr;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  unsigned element_bytes = 0;
  unsigned rank = 0;
  std::uint64_t dims[kMaxTensorMapRank] = {};         // elements, innermost first
  std::uint64_t pitches[kMaxTensorMapRank - 1] = {};  // bytes from one index to the next of dimensions 1, 2, ...
  std::uint32_t box[kMaxTensorMapRank] = {};          // elements of a tile
  int swizzle_bytes = 0;                              // 0 (none), 32, 64 or 128

  bool operator==(const TensorMapSpec& other) const {
    bool same = base == other.base && type == other.type && element_bytes == other.element_bytes &&
                rank == other.rank && swizzle_bytes == other.swizzle_bytes;
    for (unsigned i = 0; i < kMaxTensorMapRank; ++i) same = same && dims[i] == other.dims[i] && box[i] == other.box[i];
    for (unsigned i = 0; i + 1 < kMaxTensorMapRank; ++i) same = same && pitches[i] == other.pitches[i];
    return same;
  }
};

namespace detail {

template <typename T>
constexpr CUtensorMapDataType tensor_map_type() {
  if constexpr (std::is_same_v<T, bf16>) return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  else if constexpr (std::is_same_v<T, f16>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  else if constexpr (std::is_same_v<T, float>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  else if constexpr (std::is_same_v<T, double>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
  else if constexpr (std::is_same_v<T, u8>) return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  else if constexpr (std::is_same_v<T, u16>) return CU_TENSOR_MAP_DATA_TYPE_UINT16;
  else if constexpr (std::is_same_v<T, u32>) return CU_TENSOR_MAP_DATA_TYPE_UINT32;
  else if constexpr (std::is_same_v<T, s32>) return CU_TENSOR_MAP_DATA_TYPE_INT32;
  else if constexpr (std::is_same_v<T, u64>) return CU_TENSOR_MAP_DATA_TYPE_UINT64;
  else {
    static_assert(std::is_same_v<T, s64>, "tensor maps have no such element type");
    return CU_TENSOR_MAP_DATA_TYPE_INT64;
  }
}

// Why the hardware has no such map, by the limits of the driver API's reference; empty where it has one.
inline std::string tensor_map_problem(const TensorMapSpec& spec) {
  auto at = [](const char* name, unsigned i) { return std::string(name) + "[" + std::to_string(i) + "]"; };
  if (spec.rank < 1 || spec.rank > kMaxTensorMapRank)
    return "the rank is " + std::to_string(spec.rank) + ", not 1 to 5";
  if (spec.base == nullptr || reinterpret_cast<std::uintptr_t>(spec.base) % 16 != 0)
    return "the address is null or no multiple of 16 bytes";
  const int swizzle = spec.swizzle_bytes;
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128) {
    return "a swizzle of " + std::to_string(swizzle) + " bytes is none of 0, 32, 64, 128";
  }
  for (unsigned i = 0; i < spec.rank; ++i) {
    if (spec.dims[i] < 1 || spec.dims[i] > (1ull << 32))
      return at("dims", i) + " is " + std::to_string(spec.dims[i]) + ", not 1 to 2^32";
    if (spec.box[i] < 1 || spec.box[i] > 256)
      return at("box", i) + " is " + std::to_string(spec.box[i]) + ", not 1 to 256";
  }
  for (unsigned i = 0; i + 1 < spec.rank; ++i) {
    if (spec.pitches[i] % 16 != 0 || spec.pitches[i] >= (1ull << 40)) {
      return at("pitches", i) + " is " + std::to_string(spec.pitches[i]) + " bytes, no multiple of 16 below 2^40";
    }
  }
  const std::uint64_t inner = std::uint64_t(spec.box[0]) * spec.element_bytes;
  if (inner % 16 != 0) return "a row of the box has " + std::to_string(inner) + " bytes, no multiple of 16";
  if (swizzle != 0 && inner > std::uint64_t(swizzle)) {
    return "a row of the box has " + std::to_string(inner) + " bytes, more than the swizzle's " +
           std::to_string(swizzle);
  }
  return "";
}

inline std::string tensor_map_text(const TensorMapSpec& spec) {
  std::string text = "tensor map of rank " + std::to_string(spec.rank);
  auto add = [&text](const char* name, const auto* values, unsigned count) {
    text += std::string(", ") + name + " {";
    for (unsigned i = 0; i < count && i < kMaxTensorMapRank; ++i) text += (i ? ", " : "") + std::to_string(values[i]);
    text += "}";
  };
  add("dims", spec.dims, spec.rank);
  add("pitches", spec.pitches, spec.rank > 0 ? spec.rank - 1 : 0);
  add("box", spec.box, spec.rank);
  return text + ", swizzle " + std::to_string(spec.swizzle_bytes);
}

inline auto tensor_map_encoder() {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult state = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t code =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &state);
    if (code != cudaSuccess) throw CudaError(code, "looking for cuTensorMapEncodeTiled in the driver");
    runtime_check(found != nullptr && state == cudaDriverEntryPointSuccess,
                  "the driver has no cuTensorMapEncodeTiled: it is older than CUDA 12.0");
    return reinterpret_cast<Encode>(found);
  }();
  return encode;
}

}  // namespace detail

// The description of a map. `dims` and `box` have one value a dimension, `pitches` one less; innermost first.
template <typename T>
TensorMapSpec tensor_map_spec(const T* base, std::initializer_list<std::uint64_t> dims,
                              std::initializer_list<std::uint64_t> pitches, std::initializer_list<std::uint32_t> box,
                              int swizzle_bytes) {
  runtime_check(dims.size() >= 1 && dims.size() <= kMaxTensorMapRank, "a tensor map has 1 to 5 dimensions");
  runtime_check(box.size() == dims.size() && pitches.size() + 1 == dims.size(),
                "a tensor map of rank n has n dims, n box extents and n - 1 pitches");
  TensorMapSpec spec;
  spec.base = base;
  spec.type = detail::tensor_map_type<T>();
  spec.element_bytes = sizeof(T);
  spec.rank = unsigned(dims.size());
  std::copy(dims.begin(), dims.end(), spec.dims);
  std::copy(pitches.begin(), pitches.end(), spec.pitches);
  std::copy(box.begin(), box.end(), spec.box);
  spec.swizzle_bytes = swizzle_bytes;
  return spec;
}

// Throws with dims, pitches and box where there is no such map.
inline CUtensorMap encode_tensor_map(const TensorMapSpec& spec) {
  const std::string problem = detail::tensor_map_problem(spec);
  if (!problem.empty()) throw Error(detail::tensor_map_text(spec) + ": " + problem);
  cuuint64_t dims[kMaxTensorMapRank], pitches[kMaxTensorMapRank];
  cuuint32_t box[kMaxTensorMapRank], ones[kMaxTensorMapRank];
  for (unsigned i = 0; i < kMaxTensorMapRank; ++i) {
    dims[i] = spec.dims[i];
    pitches[i] = i + 1 < kMaxTensorMapRank ? spec.pitches[i] : 0;
    box[i] = spec.box[i];
    ones[i] = 1;
  }
  const CUtensorMapSwizzle swizzle = spec.swizzle_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : spec.swizzle_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                     : spec.swizzle_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                                : CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMap map;
  const CUresult code = detail::tensor_map_encoder()(
      &map, spec.type, spec.rank, const_cast<void*>(spec.base), dims, pitches, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS)
    throw Error(detail::tensor_map_text(spec) + ": the driver refuses it with CUresult " + std::to_string(int(code)));
  return map;
}

// A BF16 map, encoded at once.
inline CUtensorMap encode_bf16_map(const bf16* base, std::initializer_list<std::uint64_t> dims,
                                   std::initializer_list<std::uint64_t> pitches,
                                   std::initializer_list<std::uint32_t> box, int swizzle_bytes) {
  return encode_tensor_map(tensor_map_spec(base, dims, pitches, box, swizzle_bytes));
}

// The map of one TMA statement: encoded when its description changes, otherwise the one of the call before.
class CachedTensorMap {
 public:
  const CUtensorMap& get(const TensorMapSpec& spec) {
    if (!known_ || !(spec == spec_)) {
      known_ = false;
      map_ = encode_tensor_map(spec);
      spec_ = spec;
      known_ = true;
    }
    return map_;
  }

 private:
  bool known_ = false;
  TensorMapSpec spec_;
  CUtensorMap map_;
};

}  // namespace choreo
