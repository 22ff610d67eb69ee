// The parts of the runtime that need no GPU, for tests/runtime/: one command a process, JSON on standard input where
// it takes any, results on standard output.
#include "attention.h"

#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>

namespace {

std::string everything(std::istream& in) {
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<double> numbers(const json::Value* list) {
  std::vector<double> result;
  for (const json::Value& item : *list->array()) {
    double value = std::numeric_limits<double>::quiet_NaN();
    item.number(value);
    result.push_back(value);
  }
  return result;
}

std::uint32_t bits_of(double value) {
  const float real = float(value);
  std::uint32_t bits;
  std::memcpy(&bits, &real, sizeof bits);
  return bits;
}

// Each line as a document: written again, or why it is none.
void json_lines() {
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      std::printf("%s\n", json::parse(line).dump().c_str());
    } catch (const json::ParseError& error) {
      std::printf("error: %s\n", error.what());
    }
  }
}

// SHA-256 of standard input, fed in pieces: portable, then with the processor's instructions.
void sha256(std::size_t piece) {
  const std::string data = everything(std::cin);
  for (bool instructions : {false, native::sha256::have_instructions()}) {
    native::Sha256 digest(instructions);
    for (std::size_t at = 0; at < data.size(); at += piece)
      digest.update(data.data() + at, std::min(piece, data.size() - at));
    std::printf("%s\n", digest.hex().c_str());
  }
}

void inputs(std::uint64_t seed, std::size_t count) {
  std::vector<std::uint16_t> values(count);
  for (const native::InputTensor& tensor : native::kInputs) {
    native::fill_on_host(values.data(), count, seed, tensor);
    std::printf("%s %s\n", tensor.name, native::digest_of_host(values.data(), 2 * count).c_str());
  }
}

void figures() {
  const json::Value given = json::parse(everything(std::cin));
  const std::vector<double> sizes = numbers(given.find("shape"));
  const native::Shape shape{int(sizes[0]), int(sizes[1]), int(sizes[2]), int(sizes[3])};
  std::int64_t band_rows = 0;
  given.find("band_rows")->integer(1, std::numeric_limits<int>::max(), band_rows);
  native::RawFigures raw(native::band_count(shape, int(band_rows)));
  raw.band_sum = numbers(given.find("band_sum"));
  const std::vector<double> tops = numbers(given.find("band_max")), extremes = numbers(given.find("extremes")),
                            counts = numbers(given.find("counts"));
  for (std::size_t i = 0; i < tops.size(); ++i) raw.band_max[i] = bits_of(tops[i]);
  for (int i = 0; i < 2; ++i) raw.extremes[i] = bits_of(extremes[i]), raw.counts[i] = std::uint64_t(counts[i]);
  const native::Figures result = native::figures_from(raw, shape, int(band_rows));
  const json::Value::Object all = {{"figures", native::to_json(result)},
                                   {"published", native::published_gate(result)},
                                   {"ratio", native::worst_ratio(result)}};
  std::printf("%s\n", json::Value(all).dump().c_str());
}

void options(const std::vector<std::string>& arguments) {
  const native::Options parsed = native::parse_options(arguments, [](const char* name) { return std::getenv(name); });
  json::Value::Array lengths;
  for (int length : parsed.lengths) lengths.push_back(length);
  json::Value::Object parameters;
  for (const auto& [name, value] : parsed.parameters) parameters.emplace_back(name, value);
  const json::Value::Object all = {{"lengths", lengths},      {"batch", parsed.batch},   {"heads", parsed.heads},
                                   {"seed", parsed.seed},     {"timing", parsed.timing}, {"warmup", parsed.warmup},
                                   {"repeat", parsed.repeat}, {"stress", parsed.stress}, {"parameters", parameters}};
  std::printf("%s\n", json::Value(all).dump().c_str());
}

// Why the map of each line's description does not exist; an empty line where it does.
void tensor_maps() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const json::Value given = json::parse(line);
    choreo::TensorMapSpec spec;
    double base = 0, swizzle = 0;
    given.find("base")->number(base);
    given.find("swizzle")->number(swizzle);
    spec.base = reinterpret_cast<const void*>(std::uintptr_t(base));
    spec.element_bytes = 2;
    spec.swizzle_bytes = int(swizzle);
    const std::vector<double> dims = numbers(given.find("dims")), pitches = numbers(given.find("pitches")),
                              box = numbers(given.find("box"));
    spec.rank = unsigned(dims.size());
    for (std::size_t i = 0; i < dims.size() && i < choreo::kMaxTensorMapRank; ++i)
      spec.dims[i] = std::uint64_t(dims[i]), spec.box[i] = std::uint32_t(box[i]);
    for (std::size_t i = 0; i < pitches.size() && i + 1 < choreo::kMaxTensorMapRank; ++i)
      spec.pitches[i] = std::uint64_t(pitches[i]);
    std::printf("%s\n", choreo::detail::tensor_map_problem(spec).c_str());
  }
}

__global__ void nothing(int) {}

template <typename F>
void report(const char* name, F&& call) {
  try {
    call();
    std::printf("%s: no error\n", name);
  } catch (const choreo::Error& error) {
    std::printf("%s: %s\n", name, error.what());
  }
}

void errors() {
  report("cuda", [] { choreo::abend_true(cudaErrorInvalidValue); });
  report("driver", [] { choreo::abend_true(CUDA_ERROR_INVALID_VALUE); });
  report("success", [] { choreo::abend_true(cudaSuccess), choreo::abend_true(CUDA_SUCCESS), choreo::abend_true(0); });
  report("flag", [] { choreo::abend_true(1); });
  report("check", [] { choreo::runtime_check(1 + 1 == 3, "sums are wrong"); });
  report("assert", [] { choreo::choreo_assert(false, "never"); });
  report("extent", [] { choreo::make_spandata<float>(2, -1); });
  report("index", [] { choreo::make_spandata<float>(2, 2)[1][2] = 1; });
  report("ranks",
         [] { choreo::tensor_map_spec(static_cast<choreo::bf16*>(nullptr), {64, 2}, {128, 128}, {64, 2}, 128); });
  report("launch", [] { choreo::launch(nothing, dim3(1), dim3(32), 100000, nullptr, 1); });
  std::printf("launches: %llu\n", choreo::last_launch().count);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string command = words.empty() ? "" : words[0];
  try {
    if (command == "json") json_lines();
    else if (command == "sha256") sha256(std::stoull(words.at(1)));
    else if (command == "inputs") inputs(std::stoull(words.at(1)), std::stoull(words.at(2)));
    else if (command == "figures") figures();
    else if (command == "options") options({words.begin() + 1, words.end()});
    else if (command == "tensor-maps") tensor_maps();
    else if (command == "errors") errors();
    else return 2;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  return 0;
}
