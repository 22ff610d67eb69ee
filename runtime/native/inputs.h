// The inputs of a shape: philox.cuh on the device or on the processor, the same bits; and their digests.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../philox.cuh"
#include "device.h"
#include "sha256.h"

namespace native {

struct InputTensor {
  const char* name;
  unsigned stream;      // of Philox, in input set 0
  int log2_half_width;  // values lie in [-2^w, 2^w]
};

constexpr InputTensor kInputs[3] = {{"q", 0, 1}, {"k", 1, 1}, {"v", 2, 0}};
constexpr unsigned kStreamsOfASet = 3;  // input set g uses streams 3 g, 3 g + 1, 3 g + 2

// `count` (a multiple of 4) BF16 values of `tensor` in input set `set`, on the device.
inline void fill_on_device(std::uint16_t* out, std::size_t count, std::uint64_t seed, const InputTensor& tensor,
                           unsigned set) {
  philox_fill<<<4096, 256>>>(out, count, seed, tensor.stream + set * kStreamsOfASet, tensor.log2_half_width);
  check_launch("generating inputs");
}

// The same on the processor, of input set 0, by all its threads: a process whose first kernel has to be the
// implementation's makes its inputs so.
inline void fill_on_host(std::uint16_t* out, std::size_t count, std::uint64_t seed, const InputTensor& tensor) {
  const auto fill = [=](std::size_t first, std::size_t last) {
    for (std::size_t block = first; block < last; ++block) {
      const philox::Words words = philox::philox4x32_10({{unsigned(block), unsigned(block >> 32), tensor.stream, 0u}},
                                                        unsigned(seed), unsigned(seed >> 32));
      for (int i = 0; i < 4; ++i) out[4 * block + i] = philox::to_input(words.w[i], tensor.log2_half_width);
    }
  };
  const std::size_t blocks = count / 4;
  const std::size_t workers =
      std::max<std::size_t>(1, std::min<std::size_t>(std::thread::hardware_concurrency(), blocks / 65536));
  std::vector<std::future<void>> jobs;
  for (std::size_t i = 0; i < workers; ++i) {
    jobs.push_back(std::async(std::launch::async, fill, blocks * i / workers, blocks * (i + 1) / workers));
  }
  for (auto& job : jobs) job.get();
}

namespace detail {

// SHA-256 of device memory: copied through two pinned buffers, one of which is hashed while the other fills.
inline std::string digest_of_device(const void* data, std::size_t bytes) {
  constexpr std::size_t kChunk = std::size_t(8) << 20;
  struct Pinned {
    unsigned char* data = nullptr;
    cudaEvent_t filled = nullptr;
    ~Pinned() {
      if (filled != nullptr) cudaEventDestroy(filled);
      if (data != nullptr) cudaFreeHost(data);
    }
  };
  struct Stream {
    cudaStream_t stream = nullptr;
    ~Stream() {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
  };
  std::array<Pinned, 2> buffers;
  Stream copies;
  check(cudaStreamCreateWithFlags(&copies.stream, cudaStreamNonBlocking), "making a stream");
  for (Pinned& one : buffers) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, kChunk), "allocating pinned memory");
    one.data = static_cast<unsigned char*>(memory);
    check(cudaEventCreateWithFlags(&one.filled, cudaEventDisableTiming), "making a CUDA event");
  }
  const std::size_t chunks = (bytes + kChunk - 1) / kChunk;
  const auto size = [&](std::size_t chunk) { return std::min(kChunk, bytes - chunk * kChunk); };
  const auto begin = [&](std::size_t chunk) {
    Pinned& buffer = buffers[chunk % 2];
    const auto* source = static_cast<const unsigned char*>(data) + chunk * kChunk;
    check(cudaMemcpyAsync(buffer.data, source, size(chunk), cudaMemcpyDeviceToHost, copies.stream),
          "copying inputs to the host");
    check(cudaEventRecord(buffer.filled, copies.stream), "recording a CUDA event");
  };
  Sha256 digest;
  if (chunks > 0) begin(0);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    if (chunk + 1 < chunks) begin(chunk + 1);
    check(cudaEventSynchronize(buffers[chunk % 2].filled), "copying inputs to the host");
    digest.update(buffers[chunk % 2].data, size(chunk));
  }
  return digest.hex();
}

}  // namespace detail

// SHA-256 of each tensor's bytes, little-endian as on the device; one thread a tensor.
inline std::map<std::string, std::string> digests(const std::array<const std::uint16_t*, 3>& tensors,
                                                  std::size_t count) {
  synchronize("generating inputs");
  std::array<std::future<std::string>, 3> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs[i] = std::async(std::launch::async, [data = tensors[i], count] {
      check(cudaSetDevice(0), "using the GPU");
      return detail::digest_of_device(data, count * sizeof(std::uint16_t));
    });
  }
  std::map<std::string, std::string> result;
  for (int i = 0; i < 3; ++i) result[kInputs[i].name] = jobs[i].get();
  return result;
}

// SHA-256 of memory of the host.
inline std::string digest_of_host(const void* data, std::size_t bytes) {
  Sha256 digest;
  digest.update(data, bytes);
  return digest.hex();
}

}  // namespace native
