// Kernel launches of generated host functions: the attribute for much shared memory is set once, errors of the
// launch are reported at once without waiting for the device, and what was launched is on record.
#pragma once

#include <cuda_runtime.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "error.h"

// Says that choreo::last_launch() is there: the harness also compiles against a choreo.h that has none.
#define CHOREO_RECORDS_LAUNCHES 1

namespace choreo {

// The last launch of this process, as it was handed to the CUDA runtime. Launches and readers are on one thread.
struct LaunchRecord {
  const void* function = nullptr;  // the host's handle of the kernel, for cudaFuncGetAttributes and cudaFuncGetName
  dim3 grid{1, 1, 1}, block{1, 1, 1};
  std::size_t dynamic_shared_bytes = 0;
  unsigned long long count = 0;  // launches since the process began
};

namespace detail {

inline LaunchRecord& launch_record() {
  static LaunchRecord record;
  return record;
}

inline std::string dimensions(dim3 n) {
  return std::to_string(n.x) + "x" + std::to_string(n.y) + "x" + std::to_string(n.z);
}

inline std::string kernel_name(const void* function) {
  const char* name = nullptr;
  return cudaFuncGetName(&name, function) == cudaSuccess && name != nullptr ? name : "a kernel";
}

// A kernel may use 48 KiB of dynamic shared memory unless it asked for more, on each device apart.
inline void allow_dynamic_shared(const void* function, std::size_t bytes) {
  if (bytes <= 48 * 1024) return;
  struct Allowed {
    const void* function;
    int device;
    std::size_t bytes;
  };
  static std::mutex mutex;
  static std::vector<Allowed> all;
  int device = 0;
  abend_true(cudaGetDevice(&device));
  std::lock_guard<std::mutex> lock(mutex);
  for (const Allowed& one : all) {
    if (one.function == function && one.device == device && one.bytes >= bytes) return;
  }
  const cudaError_t code = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
  if (code != cudaSuccess) {
    int most = 0;
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    throw CudaError(code, kernel_name(function) + " needs " + std::to_string(bytes) +
                              " bytes of dynamic shared memory; a block of this device has at most " +
                              std::to_string(most));
  }
  all.push_back({function, device, bytes});
}

}  // namespace detail

inline const LaunchRecord& last_launch() { return detail::launch_record(); }

// Enqueue `kernel(args...)` on `stream`. Arguments convert to the kernel's parameters as in a call.
template <typename... P, typename... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, cudaStream_t stream,
            A&&... args) {
  static_assert(sizeof...(P) == sizeof...(A), "a kernel is launched with as many arguments as it has parameters");
  const void* function = reinterpret_cast<const void*>(kernel);
  detail::allow_dynamic_shared(function, dynamic_shared_bytes);
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = dynamic_shared_bytes;
  config.stream = stream;
  const cudaError_t code = cudaLaunchKernelEx(&config, kernel, std::forward<A>(args)...);
  if (code != cudaSuccess) {
    throw CudaError(code, "launch of " + detail::kernel_name(function) + ", grid " + detail::dimensions(grid) +
                              ", block " + detail::dimensions(block) + ", dynamic shared memory " +
                              std::to_string(dynamic_shared_bytes));
  }
  LaunchRecord& record = detail::launch_record();
  record.function = function;
  record.grid = grid;
  record.block = block;
  record.dynamic_shared_bytes = dynamic_shared_bytes;
  ++record.count;
}

}  // namespace choreo
