// Checks of host code. Each throws choreo::Error with the place of the call; nothing here ends the process,
// so that a worker can report what failed. A program that does not catch ends through std::terminate, which
// prints the text and aborts.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace choreo {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A call of the CUDA runtime that did not succeed.
class CudaError : public Error {
 public:
  CudaError(cudaError_t code, const std::string& what)
      : Error(what + ": " + cudaGetErrorName(code) + " (" + cudaGetErrorString(code) + ")"), code_(code) {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

namespace detail {

inline std::string place(const char* file, int line) { return std::string(file) + ":" + std::to_string(line); }

}  // namespace detail

// Throws unless a CUDA call succeeded.
inline void abend_true(cudaError_t code, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (code != cudaSuccess) throw CudaError(code, detail::place(file, line) + ": a CUDA call failed");
}

// Throws unless a call of the driver API succeeded.
inline void abend_true(CUresult code, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (code != CUDA_SUCCESS) {
    throw Error(detail::place(file, line) + ": a call of the CUDA driver failed with CUresult " +
                std::to_string(int(code)));
  }
}

// Throws if `failed` holds.
inline void abend_true(bool failed, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (failed) throw Error(detail::place(file, line) + ": a call failed");
}

// Throws unless `condition` holds. Generated host functions check shapes with it.
inline void runtime_check(bool condition, const char* text, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  if (!condition) throw Error(detail::place(file, line) + ": " + text);
}
inline void runtime_check(bool condition, const std::string& text, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  runtime_check(condition, text.c_str(), file, line);
}

// An assertion of host and device code. On the device it prints and traps: the launch then ends with an error.
__host__ __device__ inline void choreo_assert(bool condition, const char* text, const char* file = __builtin_FILE(),
                                              int line = __builtin_LINE()) {
  if (condition) return;
#ifdef __CUDA_ARCH__
  printf("%s:%d: assertion failed: %s\n", file, line, text);
  __trap();
#else
  throw Error(detail::place(file, line) + ": assertion failed: " + text);
#endif
}

}  // namespace choreo
