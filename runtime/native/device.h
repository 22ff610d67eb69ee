// The device as the harness uses it: calls that throw, memory that is freed, events that are timed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

namespace native {

// A request that cannot be carried out; becomes an error answer of the worker protocol. `next` is the command that a
// person at a terminal types next.
class Refused : public std::runtime_error {
 public:
  Refused(std::string kind, const std::string& message, std::string expected = "", std::string found = "",
          std::string next = "")
      : std::runtime_error(message),
        kind(std::move(kind)),
        expected(std::move(expected)),
        found(std::move(found)),
        next(std::move(next)) {}
  const std::string kind, expected, found, next;
};

inline std::string text_of(const Refused& error) {
  std::string text = error.what();
  if (!error.expected.empty()) text += ": expected " + error.expected;
  if (!error.found.empty()) text += std::string(error.expected.empty() ? ":" : ",") + " found " + error.found;
  return text;
}

// Says `error` to a person at a terminal.
inline void complain(const std::string& program, const Refused& error) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), text_of(error).c_str());
  if (!error.next.empty()) std::fprintf(stderr, "next: %s\n", error.next.c_str());
}

// A call of the CUDA runtime that failed.
class CudaFailure : public std::runtime_error {
 public:
  CudaFailure(cudaError_t code, const std::string& what)
      : std::runtime_error(what + ": " + cudaGetErrorName(code) + " (" + cudaGetErrorString(code) + ")"), code(code) {}
  const cudaError_t code;
};

inline void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw CudaFailure(code, what);
}

// Errors of the launches before, without waiting for them.
inline void check_launch(const char* what) { check(cudaGetLastError(), what); }

// `count` elements of device memory, not initialised.
template <typename T>
class Buffer {
 public:
  explicit Buffer(std::size_t count) : count_(count) {
    void* data = nullptr;
    const cudaError_t code = cudaMalloc(&data, bytes());
    if (code != cudaSuccess)
      throw CudaFailure(code, "allocating " + std::to_string(bytes()) + " bytes of device memory");
    data_ = static_cast<T*>(data);
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* get() const { return data_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  void fill_bytes(int value) { check(cudaMemset(data_, value, bytes()), "filling device memory"); }
  void copy_from(const Buffer& other) {
    check(cudaMemcpy(data_, other.data_, bytes(), cudaMemcpyDeviceToDevice), "copying on the device");
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "making a CUDA event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record() { check(cudaEventRecord(event_), "recording a CUDA event"); }
  // Milliseconds from `start` to this one; waits for both.
  double since(const Event& start) const {
    check(cudaEventSynchronize(event_), "waiting for the timed launches");
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, start.event_, event_), "reading the CUDA events");
    return double(ms);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

inline void synchronize(const char* what) { check(cudaDeviceSynchronize(), what); }

// Make the first visible device current, and see that `kernel` has code for it. Returns the device's name.
// Throws Refused where there is no device, or another one than the executable was built for.
inline std::string require_device(const void* kernel) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess || count < 1) {
    cudaGetLastError();
    throw Refused("failed", "there is no GPU to run on", "one CUDA device",
                  found != cudaSuccess ? cudaGetErrorString(found) : "none",
                  "nvidia-smi (it shows the driver and its GPUs; CUDA_VISIBLE_DEVICES may hide some of them)");
  }
  check(cudaSetDevice(0), "using the GPU");
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "reading the GPU's properties");
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) {
    const std::string reason = cudaGetErrorString(cudaGetLastError());
    throw Refused("failed", "the executable has no code for this GPU", "compute capability 9.0 (sm_90a)",
                  std::string(device.name) + ", compute capability " + std::to_string(device.major) + "." +
                      std::to_string(device.minor) + ": " + reason,
                  "nvidia-smi --query-gpu=index,name,compute_cap --format=csv, then: CUDA_VISIBLE_DEVICES=INDEX");
  }
  return device.name;
}

}  // namespace native
