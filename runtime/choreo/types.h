// Element types under the names that the `.co` language has for them, and arithmetic on sizes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <type_traits>

namespace choreo {

using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using f16 = __half;
using bf16 = __nv_bfloat16;
using f32 = float;
using f64 = double;
using half = f16;
using bfp16 = bf16;

// The value as FP32; exact for every type of 16 bits.
template <typename T>
__host__ __device__ inline float to_f32(T value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return __bfloat162float(value);
  } else if constexpr (std::is_same_v<T, f16>) {
    return __half2float(value);
  } else {
    return static_cast<float>(value);
  }
}

// FP32 as T: floating types round to nearest, ties to even; integers truncate.
template <typename T>
__host__ __device__ inline T from_f32(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return __float2bfloat16_rn(value);
  } else if constexpr (std::is_same_v<T, f16>) {
    return __float2half_rn(value);
  } else {
    return static_cast<T>(value);
  }
}

// a / b, rounded up. Both positive.
template <typename A, typename B>
__host__ __device__ constexpr std::common_type_t<A, B> cdiv(A a, B b) {
  return (a + b - 1) / b;
}

namespace utils {

using choreo::cdiv;
using choreo::from_f32;
using choreo::to_f32;

// The next multiple of `unit`, which is positive.
template <typename A, typename B>
__host__ __device__ constexpr std::common_type_t<A, B> align_up(A value, B unit) {
  return cdiv(value, unit) * unit;
}

// An environment variable, or `fallback` where it is not set.
inline std::string env_string(const char* name, const std::string& fallback = "") {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : value;
}

// Whether a switch such as CHOREO_DISABLE_TIMING is on: set, and neither empty nor 0.
inline bool env_switch(const char* name) {
  const std::string value = env_string(name);
  return !value.empty() && value != "0";
}

}  // namespace utils
}  // namespace choreo
