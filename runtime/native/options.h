// The command line of a kernel's executable, and the two environment variables of its direct use.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace native {

// A command line or environment that cannot be followed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Options {
  bool help = false, worker = false, profile_window = false;
  std::string backend;
  int batch = 4, heads = 32;
  std::vector<int> lengths = {4096, 8192, 16384};  // those of the published measurements
  std::uint64_t seed = 42;
  bool timing = true;
  std::int64_t warmup = 50, repeat = 200;
  std::int64_t stress = 0;
  std::map<std::string, int> parameters;
};

inline constexpr const char kOptionsHelp[] =
    "  --worker --backend NAME  speak the worker protocol on standard input and output\n"
    "  --profile-window         with --worker: let a profiler look during `time` requests only\n"
    "\n"
    "Without --worker: launch, check every element against the FP32 oracle, and time.\n"
    "  --seq N                  one sequence length (MHA_SEQ; otherwise 4096, 8192 and 16384)\n"
    "  --batch N --heads N      other sizes than 4 and 32; the head dimension is 128\n"
    "  --seed N                 seed of the inputs (42)\n"
    "  --warmup N --repeat N    launches before and within the timed window (50, 200)\n"
    "  --no-timing              check only (CHOREO_DISABLE_TIMING=1)\n"
    "  --stress N               N further launches, each compared bit for bit with the first\n"
    "  --parameter NAME=VALUE   a launch argument of the target\n"
    "\n"
    "Exit status: 0 done, 1 a CUDA call failed, 2 usage, 3 no usable GPU or too little memory, 4 a gate failed.\n";

namespace detail {

inline std::int64_t whole_number(const std::string& where, const std::string& text, std::int64_t low,
                                 std::int64_t high) {
  errno = 0;
  char* end = nullptr;
  const bool digits =
      !text.empty() && text.find_first_not_of("0123456789", text[0] == '-' ? 1 : 0) == std::string::npos;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (!digits || *end != '\0' || errno != 0 || value < low || value > high) {
    throw UsageError(where + " takes an integer from " + std::to_string(low) + " to " + std::to_string(high) +
                     ", not \"" + text + "\"");
  }
  return value;
}

inline std::uint64_t seed_of(const std::string& text) {
  errno = 0;
  char* end = nullptr;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  if (!digits || *end != '\0' || errno != 0)
    throw UsageError("--seed takes an integer from 0 to 2^64 - 1, not \"" + text + "\"");
  return value;
}

}  // namespace detail

// Throws UsageError. `environment` looks a variable up, as std::getenv does; a worker does not ask it.
template <typename Environment>
Options parse_options(const std::vector<std::string>& arguments, Environment&& environment) {
  constexpr std::int64_t kInt = std::numeric_limits<int>::max(), kLaunches = 1000000;
  Options options;
  std::string direct_only, worker_only;  // an option of one use only, for the error
  bool seq_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 >= arguments.size()) throw UsageError(name + " needs a value");
      return arguments[++i];
    };
    const auto number = [&](std::int64_t low, std::int64_t high) {
      direct_only = name;
      return detail::whole_number(name, value(), low, high);
    };
    if (name == "--help" || name == "-h") options.help = true;
    else if (name == "--worker") options.worker = true;
    else if (name == "--backend") options.backend = value(), worker_only = name;
    else if (name == "--profile-window") options.profile_window = true, worker_only = name;
    else if (name == "--seq") options.lengths = {int(number(1, kInt))}, seq_given = true;
    else if (name == "--batch") options.batch = int(number(1, kInt));
    else if (name == "--heads") options.heads = int(number(1, kInt));
    else if (name == "--seed") options.seed = detail::seed_of(value()), direct_only = name;
    else if (name == "--warmup") options.warmup = number(0, kLaunches);
    else if (name == "--repeat") options.repeat = number(1, kLaunches);
    else if (name == "--no-timing") options.timing = false, direct_only = name;
    else if (name == "--stress") options.stress = number(1, kLaunches);
    else if (name == "--parameter") {
      direct_only = name;
      const std::string text = value();
      const std::size_t equals = text.find('=');
      if (equals == std::string::npos || equals == 0)
        throw UsageError("--parameter takes NAME=VALUE, not \"" + text + "\"");
      options.parameters[text.substr(0, equals)] = int(detail::whole_number(
          "--parameter " + text.substr(0, equals), text.substr(equals + 1), std::numeric_limits<int>::min(), kInt));
    } else throw UsageError("there is no option \"" + name + "\"");
  }
  if (options.help) return options;
  if (options.worker) {
    if (options.backend.empty()) throw UsageError("--worker needs --backend NAME");
    if (!direct_only.empty()) throw UsageError(direct_only + " does not go with --worker");
    return options;
  }
  if (!worker_only.empty()) throw UsageError(worker_only + " needs --worker");
  if (const char* length = environment("MHA_SEQ"); length != nullptr && !seq_given) {
    options.lengths = {int(detail::whole_number("MHA_SEQ", length, 1, kInt))};
  }
  if (const char* off = environment("CHOREO_DISABLE_TIMING");
      off != nullptr && std::string(off) != "" && std::string(off) != "0")
    options.timing = false;
  return options;
}

}  // namespace native
