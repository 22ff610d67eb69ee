// One implementation with one shape in device memory: launch it, check it, time it, see what ran. Worker and
// direct use are two faces of this.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device.h"
#include "figures.h"
#include "inputs.h"
#include "problem.h"
#include "reference.h"

// Elements of two outputs that are not the same bits: their number, and the lowest index. `first` starts as the
// largest number, `differing` as zero. `count` is a multiple of 8; both arrays are 16-byte aligned.
extern "C" __global__ void harness_compare(const uint4* a, const uint4* b, unsigned long long count,
                                           unsigned long long* differing, unsigned long long* first) {
  const unsigned long long step = (unsigned long long)(gridDim.x) * blockDim.x;
  unsigned long long bad = 0, lowest = ~0ull;
  for (unsigned long long i = (unsigned long long)(blockIdx.x) * blockDim.x + threadIdx.x; i < count / 8; i += step) {
    const uint4 x = a[i], y = b[i];
    const unsigned change[4] = {x.x ^ y.x, x.y ^ y.y, x.z ^ y.z, x.w ^ y.w};
    for (int j = 0; j < 8; ++j) {
      if ((change[j / 2] >> (16 * (j % 2))) & 0xffffu) {
        ++bad;
        if (8 * i + j < lowest) lowest = 8 * i + j;
      }
    }
  }
  if (bad > 0) {
    atomicAdd(differing, bad);
    atomicMin(first, lowest);
  }
}

namespace native {

constexpr int kHeadDimension = 128;

// Throws Refused, naming what is not supported, for a shape that the harness's oracle and these kernels do not
// support: the head dimension is 128, and S a multiple of 128 of at least two tiles.
inline void require_supported(const Shape& shape) {
  if (shape.dim != kHeadDimension) {
    throw Refused("unsupported_shape", "another head dimension is not supported", std::to_string(kHeadDimension),
                  std::to_string(shape.dim));
  }
  if (shape.seq % kControlTile != 0 || shape.seq < 2 * kControlTile) {
    throw Refused("unsupported_shape", "a sequence tail is not supported", "S a multiple of 128, at least 256",
                  std::to_string(shape.seq));
  }
  // Grids have heads and batch in y and z.
  if (shape.heads > 65535 || shape.batch > 65535) {
    throw Refused("unsupported_shape", "the grid is too large", "B and H of at most 65535",
                  "B=" + std::to_string(shape.batch) + ", H=" + std::to_string(shape.heads));
  }
  // Rows of the flattened tensors are 32-bit coordinates of TMA; sizes in bytes then fit 64 bits too.
  if (std::int64_t(shape.batch) * shape.seq > std::int64_t(1) << 30) {
    throw Refused("unsupported_shape", "there are too many rows", "B*S of at most 1073741824",
                  "B=" + std::to_string(shape.batch) + ", S=" + std::to_string(shape.seq));
  }
}

inline double milliseconds_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Facts of the kernel that a launch ran, as read from the loaded module and from the record of launches.
struct KernelFacts {
  std::string symbol;
  dim3 grid, block;
  std::int64_t threads = 0, cluster = 1, registers = 0, local_bytes = 0, static_shared = 0, dynamic_shared = 0,
               launches = 0;
};

class Session {
 public:
  // Allocates, and refuses what the implementation does not support. Nothing is filled yet.
  Session(const attention::Implementation& implementation, const Shape& shape, std::uint64_t seed,
          const std::map<std::string, int>& parameters)
      : implementation_(implementation), shape_(shape), seed_(seed) {
    problem_.batch = shape.batch, problem_.seq = shape.seq, problem_.heads = shape.heads, problem_.dim = shape.dim;
    problem_.parameters = parameters;
    if (implementation.refuses) {
      const std::string reason = implementation.refuses(problem_);
      if (!reason.empty()) throw Refused("unsupported_shape", reason);
    }
    inputs_ = std::make_unique<Inputs>(shape);
    out_ = std::make_unique<Bits>(shape.elements());
    problem_.q = values(inputs_->q), problem_.k = values(inputs_->k), problem_.v = values(inputs_->v),
    problem_.out = values(*out_);
  }

  const Shape& shape() const { return shape_; }
  const Bits& output() const { return *out_; }

  void fill_on_device() {
    Bits* all[3] = {&inputs_->q, &inputs_->k, &inputs_->v};
    for (int i = 0; i < 3; ++i) native::fill_on_device(all[i]->get(), all[i]->count(), seed_, kInputs[i], 0);
    synchronize("generating inputs");
  }

  // The same bits without a kernel launch.
  void fill_on_host() {
    Bits* all[3] = {&inputs_->q, &inputs_->k, &inputs_->v};
    const std::size_t count = all[0]->count();
    const std::unique_ptr<std::uint16_t[]> host(new std::uint16_t[count]);
    for (int i = 0; i < 3; ++i) {
      native::fill_on_host(host.get(), count, seed_, kInputs[i]);
      check(cudaMemcpy(all[i]->get(), host.get(), all[i]->bytes(), cudaMemcpyHostToDevice),
            "copying inputs to the device");
    }
  }

  std::map<std::string, std::string> digests() const {
    return native::digests({inputs_->q.get(), inputs_->k.get(), inputs_->v.get()}, inputs_->q.count());
  }

  // The implementation's own preparation of this shape: its milliseconds.
  double set_up() {
    const auto begin = std::chrono::steady_clock::now();
    if (implementation_.setup) implementation_.setup(problem_);
    synchronize("setting the implementation up");
    return milliseconds_of(std::chrono::steady_clock::now() - begin);
  }

  // Every element of the output becomes NaN, so that one that nobody writes is seen. No kernel of ours: the first
  // kernel of a process can be the implementation's.
  void poison() { out_->fill_bytes(0xff); }

  void launch() {
    implementation_.launch(problem_);
    check_launch("launching the implementation");
  }

  void launch_and_wait() {
    launch();
    synchronize("running the implementation");
  }

  std::unique_ptr<Reference> reference() const { return std::make_unique<Reference>(shape_, seed_, *inputs_); }

  // Mean milliseconds of one launch, between two CUDA events.
  double time(std::int64_t warmup, std::int64_t repeat) {
    Event start, end;
    for (std::int64_t i = 0; i < warmup; ++i) launch();
    synchronize("running the warm-ups");
    start.record();
    for (std::int64_t i = 0; i < repeat; ++i) implementation_.launch(problem_);
    end.record();
    const double ms = end.since(start) / double(repeat);
    check_launch("running the timed launches");
    return ms;
  }

  // Facts of one more launch. Throws Refused where it was not made through choreo::launch.
  KernelFacts facts() {
#ifdef CHOREO_RECORDS_LAUNCHES
    const unsigned long long before = choreo::last_launch().count;
    launch_and_wait();
    const choreo::LaunchRecord record = choreo::last_launch();
    if (record.count > before) {
      KernelFacts facts = attributes_of(record.function);
      facts.grid = record.grid, facts.block = record.block;
      facts.threads = std::int64_t(record.block.x) * record.block.y * record.block.z;
      facts.dynamic_shared = std::int64_t(record.dynamic_shared_bytes);
      facts.launches = std::int64_t(record.count - before);
      return facts;
    }
#endif
    throw Refused("failed", "no launch of the implementation is on record", "a kernel launched through choreo::launch",
                  "none");
  }

  // Launches whose output is not the first one's, bit for bit, of `launches` further ones.
  struct Instability {
    std::int64_t launches = 0, differing = 0;
    std::int64_t first_launch = -1;                 // counted from 1
    std::uint64_t elements = 0, first_element = 0;  // of that launch
  };
  Instability stress(std::int64_t launches) {
    poison();
    launch_and_wait();
    Bits expected(out_->count());
    expected.copy_from(*out_);
    Buffer<unsigned long long> differing(launches), first(launches);
    differing.fill_bytes(0), first.fill_bytes(0xff);
    for (std::int64_t i = 0; i < launches; ++i) {
      check(cudaMemsetAsync(out_->get(), 0xff, out_->bytes()), "filling the output");
      launch();
      harness_compare<<<2048, 256>>>(reinterpret_cast<const uint4*>(expected.get()),
                                     reinterpret_cast<const uint4*>(out_->get()), out_->count(), differing.get() + i,
                                     first.get() + i);
      check_launch("comparing outputs");
    }
    synchronize("running the implementation");
    std::vector<unsigned long long> counts(launches), places(launches);
    check(cudaMemcpy(counts.data(), differing.get(), differing.bytes(), cudaMemcpyDeviceToHost), "comparing outputs");
    check(cudaMemcpy(places.data(), first.get(), first.bytes(), cudaMemcpyDeviceToHost), "comparing outputs");
    Instability result;
    result.launches = launches;
    for (std::int64_t i = 0; i < launches; ++i) {
      if (counts[i] == 0) continue;
      if (result.differing++ == 0)
        result.first_launch = i + 1, result.elements = counts[i], result.first_element = places[i];
    }
    return result;
  }

 private:
  static choreo::bf16* values(const Bits& bits) { return reinterpret_cast<choreo::bf16*>(bits.get()); }

  static KernelFacts attributes_of(const void* function) {
    KernelFacts facts;
    const char* mangled = nullptr;
    check(cudaFuncGetName(&mangled, function), "reading the kernel's name");
    facts.symbol = mangled;
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, function), "reading the kernel's attributes");
    facts.registers = attributes.numRegs;
    facts.local_bytes = std::int64_t(attributes.localSizeBytes);
    facts.static_shared = std::int64_t(attributes.sharedSizeBytes);
    const int sides[3] = {attributes.requiredClusterWidth, attributes.requiredClusterHeight,
                          attributes.requiredClusterDepth};
    for (int side : sides) facts.cluster *= side > 0 ? side : 1;
    return facts;
  }

  const attention::Implementation& implementation_;
  const Shape shape_;
  const std::uint64_t seed_;
  attention::Problem problem_;
  std::unique_ptr<Inputs> inputs_;
  std::unique_ptr<Bits> out_;
};

inline std::string text_of(dim3 n) {
  return std::to_string(n.x) + "x" + std::to_string(n.y) + "x" + std::to_string(n.z);
}

// A device that this executable has code for.
inline std::string require_device() { return require_device(reinterpret_cast<const void*>(oracle_figures)); }

}  // namespace native
