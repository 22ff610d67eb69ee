// A kernel's executable used by itself: launch, check, time, print. Its first kernel launch in the process is the
// implementation's, so that a profiler asked for one launch gets that one: inputs are made on the processor.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "options.h"
#include "session.h"

namespace native {

enum ExitStatus { kDone = 0, kFailed = 1, kUsage = 2, kEnvironment = 3, kGateFailed = 4 };

// 2 B H S S D / (ms * 1e9): useful causal QK and PV work.
inline double tflops(const Shape& shape, double ms) {
  return 2.0 * shape.batch * shape.heads * double(shape.seq) * shape.seq * shape.dim / (ms * 1e9);
}

// Returns whether both gates, and the stress where it was asked for, passed.
inline bool run_shape(const Options& options, const attention::Implementation& implementation, const Shape& shape,
                      const std::string& device) {
  // `artifact profile` reads the shape of its launch from this line.
  std::printf("%s: B=%d S=%d H=%d D=%d, seed %llu, %s\n", implementation.name.c_str(), shape.batch, shape.seq,
              shape.heads, shape.dim, static_cast<unsigned long long>(options.seed), device.c_str());
  Session session(implementation, shape, options.seed, options.parameters);
  session.fill_on_host();
  const double setup_ms = session.set_up();
  session.poison();
  session.launch_and_wait();
  const Gates gates;
  const Figures figures = session.reference()->measure(session.output(), gates);
  const double ratio = worst_ratio(figures);
  const bool published = published_gate(figures), strict = ratio <= kStrictFactor;
  std::printf("  setup   %.3f ms\n", setup_ms);
  std::printf("  error   max abs %.5g (plain BF16 %.5g) over %lld elements, %llu not finite\n", figures.max_abs,
              figures.max_abs0, static_cast<long long>(figures.elements),
              static_cast<unsigned long long>(figures.nonfinite));
  std::printf("  gates   published %s (%llu elements outside), strict %s (worst ratio %.3f, allowed %.0f)\n",
              published ? "PASS" : "FAIL", static_cast<unsigned long long>(figures.outside_tolerance),
              strict ? "PASS" : "FAIL", ratio, kStrictFactor);
  bool good = published && strict;
  if (options.stress > 0) {
    const Session::Instability found = session.stress(options.stress);
    std::printf("  stress  %lld of %lld launches differ from the first\n", static_cast<long long>(found.differing),
                static_cast<long long>(found.launches));
    if (found.differing > 0) {
      std::printf("          launch %lld first: %llu elements, the lowest index %llu\n",
                  static_cast<long long>(found.first_launch), static_cast<unsigned long long>(found.elements),
                  static_cast<unsigned long long>(found.first_element));
    }
    good = good && found.differing == 0;
  }
  if (options.timing && good) {
    const double ms = session.time(options.warmup, options.repeat);
    std::printf("  time    %.4f ms, %.1f TFLOPS (%lld warm-ups, %lld launches, CUDA events)\n", ms, tflops(shape, ms),
                static_cast<long long>(options.warmup), static_cast<long long>(options.repeat));
  }
  std::fflush(stdout);
  return good;
}

inline int run_direct(const Options& options, const attention::Implementation& implementation) {
  try {
    for (int length : options.lengths) require_supported({options.batch, length, options.heads, kHeadDimension});
  } catch (const Refused& error) {
    throw UsageError(text_of(error));
  }
  std::string device;
  try {
    device = require_device();
  } catch (const Refused& error) {
    complain(implementation.name, error);
    return kEnvironment;
  }
  bool good = true;
  for (int length : options.lengths)
    good = run_shape(options, implementation, {options.batch, length, options.heads, kHeadDimension}, device) && good;
  return good ? kDone : kGateFailed;
}

}  // namespace native
