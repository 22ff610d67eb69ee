// The harness of the attention kernels: what a kernel's main() calls.
//
//   int main(int argc, char** argv) {
//     attention::Implementation v1;
//     v1.name = "v1";
//     v1.launch = [](const attention::Problem& p) { attention_v1(p.q_view(), p.k_view(), p.v_view(), p.out_view()); };
//     return attention::run(argc, argv, v1);
//   }
//
// With --worker the executable speaks the worker protocol (docs/worker-protocol.md), as the Python workers do with
// runtime/harness.py: same inputs, oracle, figures, controls and clock. Without it, it launches, checks every
// element, times and prints; docs/runtime.md shows both. One translation unit includes this file: it defines the
// kernels of philox.cuh, oracle.cuh and session.h, whose symbols begin with philox_, oracle_ and harness_.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "native/direct.h"
#include "native/options.h"
#include "native/problem.h"
#include "native/worker.h"

namespace attention {

// Everything that main() does. Returns the exit status: 0 done, 1 a CUDA call failed, 2 usage, 3 no usable GPU or
// too little memory, 4 a gate failed. A worker ends with 0: what it cannot do, it answers.
inline int run(int argc, char** argv, const Implementation& implementation) {
  const char* program = argc > 0 ? argv[0] : implementation.name.c_str();
  try {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const native::Options options =
        native::parse_options(arguments, [](const char* name) { return std::getenv(name); });
    if (options.help) {
      std::printf("Usage: %s [OPTIONS]\nCausal attention, implementation %s.\n\n%s", program,
                  implementation.name.c_str(), native::kOptionsHelp);
      return native::kDone;
    }
    if (options.worker) return native::serve(options.backend, implementation, options.profile_window);
    return native::run_direct(options, implementation);
  } catch (const native::UsageError& error) {
    std::fprintf(stderr, "%s: %s\n%s --help lists the options\n", program, error.what(), program);
    return native::kUsage;
  } catch (const native::Refused& error) {
    native::complain(program, error);
    return error.kind == "unsupported_shape" ? native::kUsage : native::kFailed;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: the host has too little memory\n", program);
    return native::kEnvironment;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return cudaGetLastError() == cudaErrorMemoryAllocation ? native::kEnvironment : native::kFailed;
  }
}

}  // namespace attention
