// A CUDA runtime without a GPU: linked in place of libcudart, it runs the kernels of naive.cu on the processor, one
// block after the other, from their contracts alone (tensors BSHD; oracle.cuh, philox.cuh and session.h say the rest).
// Memory is the host's, every copy and fill is held against what was allocated, and what is left over at the end
// of the process is an error. The environment makes it fail:
//
//   FAKE_CUDA_LOG=FILE    a line for each launch, profiler switch and fill
//   FAKE_CUDA_BYTES=N     memory of the device
//   FAKE_CUDA_FAULT=WORD  no-image: no code for this device; zeros, unwritten, nan: what naive_attention leaves
//                         behind; unstable: its third launch differs in one element; illegal: it faults
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

using Bits = std::uint16_t;
constexpr int kDim = 128, kRows = 64, kTile = 128;

std::recursive_mutex mutex;
cudaError_t last_error = cudaSuccess, sticky = cudaSuccess;

std::map<const void*, std::string>& functions() {
  static std::map<const void*, std::string> all;
  return all;
}
std::map<const void*, int>& shared_limits() {
  static std::map<const void*, int> all;
  return all;
}
std::map<std::uintptr_t, std::size_t>& memory() {
  static std::map<std::uintptr_t, std::size_t> all;
  return all;
}

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
bool fault(const char* word) { return setting("FAKE_CUDA_FAULT") == word; }

void log(const std::string& line) {
  const std::string path = setting("FAKE_CUDA_LOG");
  if (path.empty()) return;
  if (std::FILE* file = std::fopen(path.c_str(), "a")) {
    std::fprintf(file, "%s\n", line.c_str());
    std::fclose(file);
  }
}

[[noreturn]] void broken(const std::string& what) {
  std::fprintf(stderr, "fake CUDA: %s\n", what.c_str());
  std::_Exit(99);
}

cudaError_t fail(cudaError_t code) { return last_error = code; }

// Whether all of a range is device memory.
bool inside(const void* data, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  auto next = memory().upper_bound(at);
  if (next == memory().begin()) return false;
  --next;
  return at + bytes <= next->first + next->second;
}
void require(const void* data, std::size_t bytes, const char* what) {
  if (!inside(data, bytes)) broken(std::string(what) + " outside of device memory");
}

float to_float(Bits bits) {
  const std::uint32_t wide = std::uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
Bits to_bits(float value) {
  std::uint32_t u;
  std::memcpy(&u, &value, sizeof u);
  if (std::isnan(value)) return 0x7fff;
  return Bits((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
unsigned float_bits(double value) {
  const float real = std::fabs(float(value));
  unsigned u;
  std::memcpy(&u, &real, sizeof u);
  return u;
}

// Arguments of a launch, by position.
struct Launch {
  dim3 grid;
  void** arguments;
  template <typename T>
  T get(int i) const {
    return *static_cast<T*>(arguments[i]);
  }
};

struct Sizes {
  int batch, seq, heads;
  std::size_t row(int b, int s, int h) const { return ((std::size_t(b) * seq + s) * heads + h) * kDim; }
  std::size_t stat(int b, int h, int s) const { return (std::size_t(b) * heads + h) * seq + s; }
};

double score(const Bits* q, const Bits* k, double scale) {
  float sum = 0;
  for (int d = 0; d < kDim; ++d) sum += to_float(q[d]) * to_float(k[d]);
  return double(sum) * scale;
}

void philox_fill(const Launch& launch) {
  Bits* out = launch.get<Bits*>(0);
  const auto count = launch.get<unsigned long long>(1), seed = launch.get<unsigned long long>(2);
  const auto stream = launch.get<unsigned>(3);
  const float step = std::ldexp(1.0f, launch.get<int>(4) - 24);
  require(out, 2 * count, "philox_fill");
  for (unsigned long long block = 0; block < count / 4; ++block) {
    std::uint32_t c[4] = {std::uint32_t(block), std::uint32_t(block >> 32), stream, 0};
    std::uint32_t key[2] = {std::uint32_t(seed), std::uint32_t(seed >> 32)};
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t(0xD2511F53) * c[0], b = std::uint64_t(0xCD9E8D57) * c[2];
      const std::uint32_t next[4] = {std::uint32_t(b >> 32) ^ c[1] ^ key[0], std::uint32_t(b),
                                     std::uint32_t(a >> 32) ^ c[3] ^ key[1], std::uint32_t(a)};
      std::copy(next, next + 4, c);
      key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
    }
    for (int i = 0; i < 4; ++i) out[4 * block + i] = to_bits(float(int(2 * (c[i] >> 8)) + 1 - (1 << 24)) * step);
  }
}

// The rows of a launch whose grid is (rows / 64, H, B).
template <typename F>
void each_row(const Launch& launch, const Sizes& n, int first, F&& visit) {
  if (int(launch.grid.y) != n.heads || int(launch.grid.z) != n.batch) broken("a grid is not (rows / 64, H, B)");
  if (first + int(launch.grid.x) * kRows > n.seq) broken("a grid has more rows than the sequence");
  for (int b = 0; b < n.batch; ++b)
    for (int h = 0; h < n.heads; ++h)
      for (int s = first; s < first + int(launch.grid.x) * kRows; ++s) visit(b, h, s);
}

void oracle_row_stats(const Launch& launch) {
  const auto *q = launch.get<const Bits*>(0), *k = launch.get<const Bits*>(1);
  const Sizes n{launch.get<int>(2), launch.get<int>(3), launch.get<int>(4)};
  const double scale = launch.get<float>(5);
  auto *m = launch.get<float*>(6), *l = launch.get<float*>(7);
  each_row(launch, n, 0, [&](int b, int h, int s) {
    std::vector<double> scores;
    for (int key = 0; key <= s; ++key) scores.push_back(score(q + n.row(b, s, h), k + n.row(b, key, h), scale));
    const double top = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (double one : scores) total += std::exp2(one - top);
    m[n.stat(b, h, s)] = float(top), l[n.stat(b, h, s)] = float(total);
  });
}

void oracle_outputs(const Launch& launch) {
  const auto *q = launch.get<const Bits*>(0), *k = launch.get<const Bits*>(1), *v = launch.get<const Bits*>(2);
  const Sizes n{launch.get<int>(3), launch.get<int>(4), launch.get<int>(5)};
  const double scale = launch.get<float>(6);
  const auto *m = launch.get<const float*>(8), *l = launch.get<const float*>(9);
  auto *exact = launch.get<float*>(10), *plain_sum = launch.get<float*>(11);
  auto* plain = launch.get<Bits*>(12);
  each_row(launch, n, launch.get<int>(7), [&](int b, int h, int s) {
    double sum[kDim] = {};
    float rounded[kDim] = {};
    const double top = m[n.stat(b, h, s)], total = l[n.stat(b, h, s)];
    for (int key = 0; key <= s; ++key) {
      const double p = std::exp2(score(q + n.row(b, s, h), k + n.row(b, key, h), scale) - top) / total;
      const float weight = to_float(to_bits(float(p)));
      for (int d = 0; d < kDim; ++d) {
        const float value = to_float(v[n.row(b, key, h) + d]);
        sum[d] += p * value, rounded[d] += weight * value;
      }
    }
    for (int d = 0; d < kDim; ++d) {
      const std::size_t at = n.row(b, s, h) + d;
      if (exact != nullptr) exact[at] = float(sum[d]);
      if (plain_sum != nullptr) plain_sum[at] = rounded[d];
      plain[at] = to_bits(rounded[d]);
    }
  });
}

void oracle_tile_fault(const Launch& launch) {
  const auto *q = launch.get<const Bits*>(0), *k = launch.get<const Bits*>(1), *v = launch.get<const Bits*>(2);
  const Sizes n{launch.get<int>(3), launch.get<int>(4), launch.get<int>(5)};
  const double scale = launch.get<float>(6);
  const int kv_tile = launch.get<int>(8), sign = launch.get<int>(9);
  const auto *m = launch.get<const float*>(10), *l = launch.get<const float*>(11),
             *plain_sum = launch.get<const float*>(12);
  auto* out = launch.get<Bits*>(13);
  if (kTile * (kv_tile + 1) > n.seq) broken("a tile lies behind the sequence");
  each_row(launch, n, launch.get<int>(7), [&](int b, int h, int s) {
    const double top = m[n.stat(b, h, s)], total = l[n.stat(b, h, s)];
    double part = 0, sum[kDim] = {};
    for (int key = kTile * kv_tile; key < kTile * (kv_tile + 1) && (sign > 0 || key <= s); ++key) {
      const double p = std::exp2(score(q + n.row(b, s, h), k + n.row(b, key, h), scale) - top);
      const float weight = to_float(to_bits(float(p / total)));
      part += p;
      for (int d = 0; d < kDim; ++d) sum[d] += weight * to_float(v[n.row(b, key, h) + d]);
    }
    const bool empty = sign < 0 && s < kTile && kv_tile == 0;
    for (int d = 0; d < kDim; ++d) {
      const std::size_t at = n.row(b, s, h) + d;
      out[at] = empty ? 0 : to_bits(float((plain_sum[at] + sign * sum[d]) * total / (total + sign * part)));
    }
  });
}

void oracle_figures(const Launch& launch) {
  const auto* out = launch.get<const Bits*>(0);
  const auto* exact = launch.get<const float*>(1);
  const auto* plain = launch.get<const Bits*>(2);
  const Sizes n{launch.get<int>(3), launch.get<int>(4), launch.get<int>(5)};
  const int band = launch.get<int>(6);
  const float atol = launch.get<float>(7), rtol = launch.get<float>(8);
  auto* band_max = launch.get<unsigned*>(9);
  auto* band_sum = launch.get<double*>(10);
  auto* extremes = launch.get<unsigned*>(11);
  auto* counts = launch.get<unsigned long long*>(12);
  const std::size_t bands = std::size_t((n.seq - 1) / band + 1);
  require(band_max, 8 * bands, "oracle_figures"), require(band_sum, 16 * bands, "oracle_figures");
  require(extremes, 8, "oracle_figures"), require(counts, 16, "oracle_figures");
  for (int b = 0; b < n.batch; ++b)
    for (int s = 0; s < n.seq; ++s)
      for (int h = 0; h < n.heads; ++h) {
        double e[2] = {0, 0};
        for (int d = 0; d < kDim; ++d) {
          const std::size_t at = n.row(b, s, h) + d;
          const float value = to_float(out[at]), error = std::fabs(value - exact[at]),
                      error0 = std::fabs(to_float(plain[at]) - exact[at]);
          e[0] += double(error) * error, e[1] += double(error0) * error0;
          extremes[0] = std::max(extremes[0], float_bits(error)),
          extremes[1] = std::max(extremes[1], float_bits(error0));
          counts[0] += !std::isfinite(value), counts[1] += !(error <= atol + rtol * std::fabs(exact[at]));
        }
        for (int i = 0; i < 2; ++i) {
          band_max[2 * (s / band) + i] = std::max(band_max[2 * (s / band) + i], float_bits(std::sqrt(e[i] / kDim)));
          band_sum[2 * (s / band) + i] += e[i] / kDim;
        }
      }
}

void harness_compare(const Launch& launch) {
  const auto *a = launch.get<const Bits*>(0), *b = launch.get<const Bits*>(1);
  auto *differing = launch.get<unsigned long long*>(3), *first = launch.get<unsigned long long*>(4);
  for (unsigned long long i = 0; i < launch.get<unsigned long long>(2); ++i) {
    if (a[i] != b[i]) ++*differing, *first = std::min(*first, i);
  }
}

void naive_attention(const Launch& launch) {
  const auto *q = launch.get<const Bits*>(0), *k = launch.get<const Bits*>(1), *v = launch.get<const Bits*>(2);
  auto* out = launch.get<Bits*>(3);
  const int seq = launch.get<int>(4), heads = launch.get<int>(5);
  const auto rows = launch.get<long long>(6);
  const Sizes n{int(rows / heads / seq), seq, heads};
  static int launches = 0;
  ++launches;
  if (fault("illegal")) sticky = cudaErrorIllegalAddress;
  for (int b = 0; b < n.batch; ++b)
    for (int h = 0; h < heads; ++h)
      for (int s = 0; s < seq - (fault("unwritten") ? 1 : 0); ++s) {
        double top = -std::numeric_limits<double>::infinity(), total = 0, sum[kDim] = {};
        std::vector<double> scores;
        for (int key = 0; key <= s; ++key)
          scores.push_back(
              score(q + n.row(b, s, h), k + n.row(b, key, h), std::log2(std::exp(1.0)) / std::sqrt(128.0)));
        top = *std::max_element(scores.begin(), scores.end());
        for (int key = 0; key <= s; ++key) {
          const double p = std::exp2(scores[key] - top);
          total += p;
          for (int d = 0; d < kDim; ++d) sum[d] += p * to_float(v[n.row(b, key, h) + d]);
        }
        for (int d = 0; d < kDim; ++d) out[n.row(b, s, h) + d] = fault("zeros") ? 0 : to_bits(float(sum[d] / total));
      }
  if (fault("nan")) out[77] = 0x7fc0;
  if (fault("unstable") && launches == 3) out[123] ^= 1;
}

cudaError_t run(const void* function, dim3 grid, dim3 block, std::size_t shared, void** arguments) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (sticky != cudaSuccess) return fail(sticky);
  const auto found = functions().find(function);
  if (found == functions().end()) return fail(cudaErrorInvalidDeviceFunction);
  if (block.x * block.y * block.z > 1024 || grid.y > 65535 || grid.z > 65535)
    return fail(cudaErrorInvalidConfiguration);
  if (shared > std::size_t(48 * 1024) && shared > std::size_t(shared_limits()[function]))
    return fail(cudaErrorInvalidValue);
  const std::string& name = found->second;
  log(name);
  const Launch launch{grid, arguments};
  if (name == "philox_fill") philox_fill(launch);
  else if (name == "oracle_row_stats") oracle_row_stats(launch);
  else if (name == "oracle_outputs") oracle_outputs(launch);
  else if (name == "oracle_tile_fault") oracle_tile_fault(launch);
  else if (name == "oracle_figures") oracle_figures(launch);
  else if (name == "harness_compare") harness_compare(launch);
  else if (name.find("naive_attention") != std::string::npos) naive_attention(launch);
  else broken("no such kernel: " + name);
  return cudaSuccess;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

struct AtExit {
  ~AtExit() {
    if (!memory().empty()) broken(std::to_string(memory().size()) + " allocations of device memory were not freed");
  }
};

}  // namespace

// An event is the moment at which it was recorded.
struct CUevent_st {
  std::chrono::steady_clock::time_point at;
};

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  functions()[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid, *block = top.block, *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t) {
  return run(kernel, grid, block, shared, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return run(function, config->gridDim, config->blockDim, config->dynamicSmemBytes, arguments);
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  static AtExit check;
  const std::string limit = setting("FAKE_CUDA_BYTES");
  std::size_t used = bytes;
  for (const auto& [at, size] : memory()) used += size;
  if (used > (limit.empty() ? std::size_t(4) << 30 : std::strtoull(limit.c_str(), nullptr, 10)))
    return fail(cudaErrorMemoryAllocation);
  *data = std::malloc(bytes);
  std::memset(*data, 0xa5, bytes);
  memory()[reinterpret_cast<std::uintptr_t>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (data != nullptr && memory().erase(reinterpret_cast<std::uintptr_t>(data)) == 0)
    broken("freed what was not allocated");
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (sticky != cudaSuccess) return fail(sticky);
  if (kind != cudaMemcpyHostToDevice) require(from, bytes, "a copy");
  if (kind != cudaMemcpyDeviceToHost) require(to, bytes, "a copy");
  if ((kind == cudaMemcpyHostToDevice && inside(from, 1)) || (kind == cudaMemcpyDeviceToHost && inside(to, 1)))
    broken("a copy has another direction");
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (sticky != cudaSuccess) return fail(sticky);
  require(data, bytes, "a fill");
  log("fill " + std::to_string(value));
  std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(data, value, bytes);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st{};
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->at = std::chrono::steady_clock::now();
  if (stream == nullptr) log("event");
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return sticky != cudaSuccess ? fail(sticky) : cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new int);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<int*>(stream);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return sticky != cudaSuccess ? fail(sticky) : cudaSuccess; }
cudaError_t cudaGetLastError() {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const cudaError_t code = sticky != cudaSuccess ? sticky : last_error;
  last_error = cudaSuccess;
  return code;
}
const char* cudaGetErrorName(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
         : code == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress"
                                           : "cudaError";
}
const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "out of memory" : "a fault of the fake device";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : fail(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 232448;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* device, int) {
  *device = {};
  std::strcpy(device->name, "Fake GPU");
  device->major = 9;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (functions().count(function) == 0) return fail(cudaErrorInvalidDeviceFunction);
  if (fault("no-image")) return fail(cudaErrorNoKernelImageForDevice);
  *attributes = {};
  attributes->numRegs = 40, attributes->sharedSizeBytes = 16, attributes->localSizeBytes = 8;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) shared_limits()[function] = value;
  return cudaSuccess;
}
cudaError_t cudaFuncGetName(const char** name, const void* function) {
  if (functions().count(function) == 0) return fail(cudaErrorInvalidDeviceFunction);
  *name = functions()[function].c_str();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaProfilerStart() {
  log("profiler start");
  return cudaSuccess;
}
cudaError_t cudaProfilerStop() {
  log("profiler stop");
  return cudaSuccess;
}

}  // extern "C"
