// The figures of one output, as the worker protocol has them, and the verdicts of both gates over them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "../json.h"

namespace native {

// The sizes of a problem: BSHD.
struct Shape {
  int batch = 0, seq = 0, heads = 0, dim = 0;
  std::int64_t rows() const { return std::int64_t(batch) * seq * heads; }
  std::int64_t elements() const { return rows() * dim; }
};

struct Gates {
  double atol = 0.05, rtol = 0.1;  // the published tolerance
  int band_rows = 1024;            // indices of S in one band
};

// The plain implementation's errors may be exceeded by this factor; used without a runner only, which has its own.
constexpr double kStrictFactor = 2.0;

// Errors of the rows `first` to `last` (both inclusive) of S, of every batch and head: maximum and root mean
// square of the rows' e, and of e0, the plain implementation's.
struct Band {
  int first = 0, last = 0;
  std::int64_t rows = 0;
  double e_max = 0, e_rms = 0, e0_max = 0, e0_rms = 0;
};

struct Figures {
  std::int64_t elements = 0, rows = 0;
  std::uint64_t nonfinite = 0, outside_tolerance = 0;
  double max_abs = 0, max_abs0 = 0;
  std::vector<Band> bands;
};

// What oracle_figures leaves behind, copied to the host; its arrays are described there.
struct RawFigures {
  explicit RawFigures(int bands) : band_max(2 * bands), band_sum(2 * bands) {}
  std::vector<std::uint32_t> band_max;  // bits of floats
  std::vector<double> band_sum;
  std::uint32_t extremes[2] = {};  // bits of floats
  std::uint64_t counts[2] = {};
};

inline int band_count(const Shape& shape, int band_rows) { return (shape.seq - 1) / band_rows + 1; }

inline Figures figures_from(const RawFigures& raw, const Shape& shape, int band_rows) {
  const auto real = [](std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return double(value);
  };
  const auto root = [](double value) {
    return value >= 0 ? std::sqrt(value) : std::numeric_limits<double>::quiet_NaN();
  };
  Figures result;
  result.elements = shape.elements();
  result.rows = shape.rows();
  result.nonfinite = raw.counts[0];
  result.outside_tolerance = raw.counts[1];
  result.max_abs = real(raw.extremes[0]);
  result.max_abs0 = real(raw.extremes[1]);
  for (int i = 0; i < band_count(shape, band_rows); ++i) {
    Band band;
    band.first = i * band_rows;
    band.last = int(std::min<std::int64_t>(std::int64_t(band.first) + band_rows, shape.seq)) - 1;
    band.rows = std::int64_t(shape.batch) * shape.heads * (band.last - band.first + 1);
    band.e_max = real(raw.band_max[2 * i]);
    band.e0_max = real(raw.band_max[2 * i + 1]);
    band.e_rms = root(raw.band_sum[2 * i] / double(band.rows));
    band.e0_rms = root(raw.band_sum[2 * i + 1] / double(band.rows));
    result.bands.push_back(band);
  }
  return result;
}

// As the worker protocol says it; what is not finite is null.
inline json::Value to_json(const Figures& figures) {
  json::Value::Array bands;
  for (const Band& band : figures.bands) {
    bands.push_back(json::Value::Object{{"first", band.first},
                                        {"last", band.last},
                                        {"rows", band.rows},
                                        {"e_max", band.e_max},
                                        {"e_rms", band.e_rms},
                                        {"e0_max", band.e0_max},
                                        {"e0_rms", band.e0_rms}});
  }
  return json::Value::Object{{"elements", figures.elements},   {"rows", figures.rows},
                             {"nonfinite", figures.nonfinite}, {"outside_tolerance", figures.outside_tolerance},
                             {"max_abs", figures.max_abs},     {"max_abs0", figures.max_abs0},
                             {"bands", std::move(bands)}};
}

// The published gate: every element finite and within the tolerance.
inline bool published_gate(const Figures& figures) {
  return figures.nonfinite == 0 && figures.outside_tolerance == 0 && figures.max_abs >= 0 &&
         std::isfinite(figures.max_abs);
}

// The largest ratio that the strict gate judges: error to the plain implementation's, over the bands' maxima and
// root mean squares and the largest absolute error. Infinite where an error is no finite number, or there is
// one where the plain implementation makes none.
inline double worst_ratio(const Figures& figures) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double worst = figures.nonfinite == 0 ? 0.0 : kInfinite;
  const auto add = [&worst](double error, double plain) {
    const bool usable = error >= 0 && std::isfinite(error) && plain >= 0 && std::isfinite(plain);
    const double ratio = !usable ? kInfinite : error == 0 ? 0.0 : plain == 0 ? kInfinite : error / plain;
    worst = std::max(worst, ratio);
  };
  add(figures.max_abs, figures.max_abs0);
  for (const Band& band : figures.bands) {
    add(band.e_max, band.e0_max);
    add(band.e_rms, band.e0_rms);
  }
  return worst;
}

}  // namespace native
