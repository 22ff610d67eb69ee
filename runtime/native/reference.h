// The oracle of one problem on the device, known-wrong outputs, and the figures of any output: oracle.cuh's
// kernels as docs/numerics.md uses them. runtime/gpu.py does the same for the Python workers, kernel for kernel.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "../oracle.cuh"
#include "device.h"
#include "figures.h"
#include "inputs.h"

namespace native {

using Bits = Buffer<std::uint16_t>;  // BF16 values, BSHD

constexpr int kControlTile = 128;  // rows and keys of a control's fault
constexpr double kWrongScale = 1.1;

// Three input tensors of one shape and seed on the device.
struct Inputs {
  Inputs(const Shape& shape, std::uint64_t seed, unsigned set)
      : q(shape.elements()), k(shape.elements()), v(shape.elements()) {
    Bits* all[3] = {&q, &k, &v};
    for (int i = 0; i < 3; ++i) fill_on_device(all[i]->get(), all[i]->count(), seed, kInputs[i], set);
  }
  // Not filled.
  explicit Inputs(const Shape& shape) : q(shape.elements()), k(shape.elements()), v(shape.elements()) {}
  Bits q, k, v;
};

class Reference {
 public:
  Reference(const Shape& shape, std::uint64_t seed, const Inputs& inputs)
      : shape_(shape),
        seed_(seed),
        inputs_(inputs),
        scale_(std::log2(std::exp(1.0)) / std::sqrt(double(shape.dim))),
        exact_(shape.elements()),
        plain_sum_(shape.elements()),
        plain_(shape.elements()),
        rows_(shape) {
    allow(oracle_row_stats, oracle::kStatsBytes);
    allow(oracle_outputs, oracle::kOutputBytes);
    allow(oracle_tile_fault, oracle::kOutputBytes);
    statistics(inputs_, scale_, rows_);
    outputs(inputs_, scale_, 0, rows_, exact_.get(), plain_sum_.get(), plain_.get());
    synchronize("computing the oracle");
  }

  // The figures of `out` over every element.
  Figures measure(const Bits& out, const Gates& gates) const {
    const int bands = band_count(shape_, gates.band_rows);
    RawFigures raw(bands);
    Buffer<unsigned> band_max(raw.band_max.size()), extremes(2);
    Buffer<double> band_sum(raw.band_sum.size());
    Buffer<unsigned long long> counts(2);
    band_max.fill_bytes(0), extremes.fill_bytes(0), band_sum.fill_bytes(0), counts.fill_bytes(0);
    oracle_figures<<<2048, 256>>>(out.get(), exact_.get(), plain_.get(), shape_.batch, shape_.seq, shape_.heads,
                                  gates.band_rows, float(gates.atol), float(gates.rtol), band_max.get(), band_sum.get(),
                                  extremes.get(), counts.get());
    check_launch("measuring an output");
    fetch(raw.band_max.data(), band_max);
    fetch(raw.band_sum.data(), band_sum);
    fetch(raw.extremes, extremes);
    fetch(raw.counts, counts);
    return figures_from(raw, shape_, gates.band_rows);
  }

  // A known-wrong output in `wrong`. `position` is first, middle or last for a fault that has a place, else
  // empty; `good` is the implementation's own output, which some controls alter in a copy.
  void control(const std::string& name, const std::string& position, const Bits& good, Bits& wrong) const {
    const bool placed = position == "first" || position == "middle" || position == "last";
    if ((name == "dropped-tile" || name == "leaked-tile") && placed) {
      const bool dropped = name == "dropped-tile";
      // A leaked tile lies right of the diagonal, so the last query tile has none.
      const int last = shape_.seq / kControlTile - (dropped ? 1 : 2);
      const int index = position == "first" ? 0 : position == "middle" ? last / 2 : last;
      const int first = index * kControlTile;
      wrong.copy_from(plain_);
      if (dropped) tile_fault(index, first, shape_.seq - first, -1, wrong);
      else tile_fault(index + 1, first, kControlTile, 1, wrong);
    } else if (position.empty() && name == "zeros") {
      wrong.fill_bytes(0);
    } else if (position.empty() && name == "nan") {
      wrong.copy_from(good);
      const std::uint16_t nan = 0x7fff;
      check(cudaMemcpy(wrong.get() + wrong.count() - 1, &nan, sizeof nan, cudaMemcpyHostToDevice),
            "making the control nan");
    } else if (position.empty() && name == "wrong-scale") {
      other(inputs_, scale_ * kWrongScale, 0, wrong);
    } else if (position.empty() && name == "stale-buffer") {
      const Inputs stale(shape_, seed_, 1);
      wrong.copy_from(good);
      other(stale, scale_, shape_.seq - kControlTile, wrong);
    } else {
      throw Refused("failed", "the control does not exist", "one of docs/numerics.md",
                    position.empty() ? name : name + " at " + position);
    }
    synchronize("making a known-wrong output");
  }

 private:
  struct Rows {
    explicit Rows(const Shape& shape) : m(shape.rows()), l(shape.rows()) {}
    Buffer<float> m, l;  // [B, H, S]
  };

  template <typename Kernel>
  static void allow(Kernel kernel, int bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "preparing the oracle");
  }

  template <typename T, typename U>
  static void fetch(T* to, const Buffer<U>& from) {
    static_assert(sizeof(T) == sizeof(U), "the same elements on both sides");
    check(cudaMemcpy(to, from.get(), from.bytes(), cudaMemcpyDeviceToHost), "measuring an output");
  }

  dim3 grid(int rows) const {
    return dim3(unsigned(rows / oracle::kTile), unsigned(shape_.heads), unsigned(shape_.batch));
  }

  void statistics(const Inputs& inputs, double scale, Rows& rows) const {
    oracle_row_stats<<<grid(shape_.seq), oracle::kThreads, oracle::kStatsBytes>>>(
        inputs.q.get(), inputs.k.get(), shape_.batch, shape_.seq, shape_.heads, float(scale), rows.m.get(),
        rows.l.get());
    check_launch("computing row statistics");
  }

  // Exact sums, plain sums and plain output from row `first` on; null: not wanted.
  void outputs(const Inputs& inputs, double scale, int first, const Rows& rows, float* exact, float* plain_sum,
               std::uint16_t* plain) const {
    oracle_outputs<<<grid(shape_.seq - first), oracle::kThreads, oracle::kOutputBytes>>>(
        inputs.q.get(), inputs.k.get(), inputs.v.get(), shape_.batch, shape_.seq, shape_.heads, float(scale), first,
        rows.m.get(), rows.l.get(), exact, plain_sum, plain);
    check_launch("computing outputs");
  }

  // `out` with the rows from `first` on computed of other inputs or another scale.
  void other(const Inputs& inputs, double scale, int first, Bits& out) const {
    Rows rows(shape_);
    statistics(inputs, scale, rows);
    outputs(inputs, scale, first, rows, nullptr, nullptr, out.get());
    synchronize("making a known-wrong output");
  }

  // One KV tile of 128 keys taken out (sign -1) of, or added (+1) to, `rows` rows from `first` on.
  void tile_fault(int kv_tile, int first, int rows, int sign, Bits& out) const {
    oracle_tile_fault<<<grid(rows), oracle::kThreads, oracle::kOutputBytes>>>(
        inputs_.q.get(), inputs_.k.get(), inputs_.v.get(), shape_.batch, shape_.seq, shape_.heads, float(scale_), first,
        kv_tile, sign, rows_.m.get(), rows_.l.get(), plain_sum_.get(), out.get());
    check_launch("making a known-wrong output");
  }

  const Shape shape_;
  const std::uint64_t seed_;
  const Inputs& inputs_;
  const double scale_;
  Buffer<float> exact_, plain_sum_;
  Bits plain_;
  Rows rows_;
};

}  // namespace native
