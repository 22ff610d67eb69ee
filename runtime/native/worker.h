// The worker protocol, version 1 (docs/worker-protocol.md), for one native implementation.
#pragma once

#include <cuda_profiler_api.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "../json.h"
#include "session.h"

namespace native {

class Worker {
 public:
  // `window`: a profiler is told to look during `time` requests and at nothing else.
  Worker(std::string backend, const attention::Implementation& implementation, bool window)
      : backend_(std::move(backend)), implementation_(implementation), window_(window) {}

  struct Reply {
    std::string line;
    bool last = false;  // the answer to `quit`
  };

  // The answer to one line, whatever stands in it. A line without a usable id gets id -1.
  Reply answer(const std::string& line) {
    std::int64_t id = -1;
    std::string op;
    try {
      json::Value request;
      try {
        request = json::parse(line);
      } catch (const json::ParseError& error) {
        throw Refused("failed", std::string("the line is not JSON: ") + error.what(), "one JSON object a line",
                      shown(json::Value(line)));
      }
      if (request.object() == nullptr)
        throw Refused("failed", "the request is no JSON object", "an object", shown(request));
      const json::Value* number = request.find("id");
      if (number == nullptr ||
          !number->integer(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), id)) {
        id = -1;
        throw Refused("failed", "the request has no id", "an integer", shown(number));
      }
      const json::Value* name = request.find("op");
      if (name != nullptr && name->text() != nullptr) op = *name->text();
      json::Value::Object answer = head(op, id);
      json::Value::Object more = perform(op, request);
      answer.insert(answer.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
      return {json::Value(std::move(answer)).dump(), op == "quit"};
    } catch (const Refused& error) {
      return failure(id, error.kind, error.what(), error.expected, error.found);
    } catch (const std::bad_alloc&) {
      return failure(id, "out_of_memory", "the host has too little memory");
    } catch (const std::exception& error) {
      // Reading the error also clears it, unless it is one that the context does not survive.
      const bool memory = cudaGetLastError() == cudaErrorMemoryAllocation;
      std::fprintf(stderr, "%s\n", error.what());
      return failure(id, memory ? "out_of_memory" : "failed", error.what());
    }
  }

 private:
  json::Value::Object head(const std::string& op, std::int64_t id) const {
    return {{"op", op}, {"id", id}, {"backend", backend_}};
  }

  Reply failure(std::int64_t id, const std::string& kind, const std::string& message, const std::string& expected = "",
                const std::string& found = "") const {
    json::Value::Object answer = head("error", id);
    answer.emplace_back("kind", kind);
    answer.emplace_back("message", message);
    if (!expected.empty()) answer.emplace_back("expected", expected);
    if (!found.empty()) answer.emplace_back("found", found);
    return {json::Value(std::move(answer)).dump(), false};
  }

  // A value of a request as an error shows it.
  static std::string shown(const json::Value& value) {
    std::string text = value.dump();
    if (text.size() <= 200) return text;
    // Not within a UTF-8 sequence.
    std::size_t end = 200;
    while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    return text.substr(0, end) + "...";
  }
  static std::string shown(const json::Value* value) { return value == nullptr ? "nothing" : shown(*value); }

  static std::int64_t integer(const json::Value& request, const std::string& name, std::int64_t low,
                              std::int64_t high) {
    const json::Value* value = request.find(name);
    std::int64_t number = 0;
    if (value == nullptr || !value->integer(low, high, number)) {
      throw Refused("failed", name + " is not valid",
                    "an integer from " + std::to_string(low) + " to " + std::to_string(high), shown(value));
    }
    return number;
  }

  static double number(const json::Value& request, const std::string& name) {
    const json::Value* value = request.find(name);
    double result = 0;
    if (value == nullptr || !value->number(result) || !(result >= 0)) {
      throw Refused("failed", name + " is not valid", "a number >= 0", shown(value));
    }
    return result;
  }

  json::Value::Object perform(const std::string& op, const json::Value& request) {
    if (op == "hello") return hello(request);
    if (op == "prepare") return prepare(request);
    if (op == "check") return check_output(request);
    if (op == "witness") return witness();
    if (op == "time") return time(request);
    if (op == "quit") return {};
    throw Refused("failed", "no such request", "hello, prepare, check, witness, time, quit", shown(request.find("op")));
  }

  void load() {
    if (!device_.empty()) return;
    device_ = require_device();
  }

  Session& session() {
    if (session_ == nullptr) throw Refused("failed", "nothing is prepared", "prepare first", "no prepare");
    return *session_;
  }

  json::Value::Object hello(const json::Value& request) {
    const json::Value* version = request.find("protocol");
    std::int64_t number = 0;
    if (version == nullptr || !version->integer(1, 1, number)) {
      throw Refused("wrong_version", "another protocol version", "1", shown(version));
    }
    load();
    int runtime = 0;
    check(cudaRuntimeGetVersion(&runtime), "reading the version of the CUDA runtime");
    const std::string nvcc = std::to_string(__CUDACC_VER_MAJOR__) + "." + std::to_string(__CUDACC_VER_MINOR__) + "." +
                             std::to_string(__CUDACC_VER_BUILD__);
    const std::string cudart = std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10);
    return {{"protocol", 1},
            {"versions", json::Value::Object{{"nvcc", nvcc}, {"cudart", cudart}}},
            {"clock", "cuda-events"}};
  }

  static Shape shape_of(const json::Value* dims) {
    if (dims == nullptr || dims->object() == nullptr)
      throw Refused("unsupported_shape", "the request has no shape", "an object of dimensions", shown(dims));
    Shape shape;
    const std::pair<const char*, int*> names[4] = {
        {"B", &shape.batch}, {"S", &shape.seq}, {"H", &shape.heads}, {"D", &shape.dim}};
    for (const auto& [name, target] : names) {
      const json::Value* value = dims->find(name);
      std::int64_t extent = 0;
      if (value == nullptr || !value->integer(1, std::numeric_limits<int>::max(), extent)) {
        throw Refused("unsupported_shape", "a dimension is missing", std::string(name) + " >= 1", shown(value));
      }
      *target = int(extent);
    }
    std::string unknown;
    for (const json::Value::Member& member : *dims->object()) {
      if (member.first != "B" && member.first != "S" && member.first != "H" && member.first != "D")
        unknown += (unknown.empty() ? "" : ", ") + member.first;
    }
    if (!unknown.empty()) throw Refused("unsupported_shape", "a dimension is not supported", "B, S, H, D", unknown);
    require_supported(shape);
    return shape;
  }

  static std::map<std::string, int> parameters_of(const json::Value* given) {
    std::map<std::string, int> parameters;
    if (given == nullptr) return parameters;
    if (given->object() == nullptr)
      throw Refused("failed", "parameters is no object", "an object of integers", shown(*given));
    for (const json::Value::Member& member : *given->object()) {
      std::int64_t value = 0;
      if (!member.second.integer(std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), value)) {
        throw Refused("failed", "the parameter " + member.first + " is not valid", "an integer of 32 bits",
                      shown(member.second));
      }
      parameters[member.first] = int(value);
    }
    return parameters;
  }

  json::Value::Object prepare(const json::Value& request) {
    session_.reset();
    const Shape shape = shape_of(request.find("shape"));
    std::uint64_t seed = 0;
    const json::Value* given = request.find("seed");
    if (given == nullptr || !given->natural(seed))
      throw Refused("failed", "seed is not valid", "an integer from 0 to 2^64 - 1", shown(given));
    const std::map<std::string, int> parameters = parameters_of(request.find("parameters"));
    load();
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    auto session = std::make_unique<Session>(implementation_, shape, seed, parameters);
    session->fill_on_device();
    json::Value::Object inputs;
    for (const auto& [name, digest] : session->digests()) inputs.emplace_back(name, digest);
    const double inputs_ms = milliseconds_of(Clock::now() - began);
    const double setup_ms = session->set_up();
    const auto launching = Clock::now();
    session->launch_and_wait();
    const double launch_ms = milliseconds_of(Clock::now() - launching);
    session_ = std::move(session);
    return {{"inputs", std::move(inputs)},
            {"setup_ms",
             json::Value::Object{{"inputs", inputs_ms}, {"implementation", setup_ms}, {"first launch", launch_ms}}}};
  }

  json::Value::Object check_output(const json::Value& request) {
    Session& held = session();
    const json::Value* given = request.find("gates");
    if (given == nullptr || given->object() == nullptr)
      throw Refused("failed", "the request lacks gates", "an object", shown(given));
    Gates gates;
    gates.atol = number(*given, "atol");
    gates.rtol = number(*given, "rtol");
    gates.band_rows = int(integer(*given, "band_rows", 1, std::numeric_limits<int>::max()));
    const json::Value* axis = given->find("band_axis");
    if (axis == nullptr || axis->text() == nullptr || *axis->text() != "S") {
      throw Refused("failed", "another band axis is not supported", "S", shown(axis));
    }
    const std::vector<std::pair<std::string, std::string>> controls = controls_of(request.find("controls"));
    held.poison();
    held.launch_and_wait();
    const std::unique_ptr<Reference> reference = held.reference();
    json::Value figures = to_json(reference->measure(held.output(), gates));
    json::Value::Array measured;
    Bits wrong(held.output().count());
    for (const auto& [name, position] : controls) {
      reference->control(name, position, held.output(), wrong);
      measured.push_back(json::Value::Object{{"name", name},
                                             {"position", position.empty() ? json::Value() : json::Value(position)},
                                             {"figures", to_json(reference->measure(wrong, gates))}});
    }
    return {{"figures", std::move(figures)}, {"controls", std::move(measured)}};
  }

  // Name and position of each control; an empty position stands for null.
  static std::vector<std::pair<std::string, std::string>> controls_of(const json::Value* given) {
    std::vector<std::pair<std::string, std::string>> controls;
    if (given == nullptr) return controls;
    if (given->array() == nullptr) throw Refused("failed", "controls is no list", "a list of objects", shown(*given));
    for (const json::Value& control : *given->array()) {
      const json::Value *name = control.find("name"), *position = control.find("position");
      const bool placed = position != nullptr && !position->is_null();
      const bool good = name != nullptr && name->text() != nullptr &&
                        (!placed || (position->text() != nullptr && !position->text()->empty()));
      if (!good) throw Refused("failed", "a control is not valid", "a name, and a position or null", shown(control));
      controls.emplace_back(*name->text(), placed ? *position->text() : "");
    }
    return controls;
  }

  json::Value::Object witness() {
    const KernelFacts facts = session().facts();
    json::Value::Object all = {{"implementation", implementation_.name},
                               {"symbol", facts.symbol},
                               {"kernels", facts.launches},
                               {"grid", text_of(facts.grid)},
                               {"block", text_of(facts.block)},
                               {"threads", facts.threads},
                               {"cluster", facts.cluster},
                               {"registers", facts.registers},
                               {"spills", facts.local_bytes},
                               {"static_shared_bytes", facts.static_shared},
                               {"dynamic_shared_bytes", facts.dynamic_shared},
                               {"module_sha256", digest_of_executable()}};
    return {{"facts", std::move(all)}};
  }

  static std::string digest_of_executable() {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    Sha256 digest;
    std::vector<char> chunk(1 << 20);
    while (file.read(chunk.data(), std::streamsize(chunk.size())) || file.gcount() > 0)
      digest.update(chunk.data(), std::size_t(file.gcount()));
    if (!file.eof()) throw Refused("failed", "the executable cannot be read", "/proc/self/exe", "a failed read");
    return digest.hex();
  }

  json::Value::Object time(const json::Value& request) {
    constexpr std::int64_t kMost = 1000000;
    Session& held = session();
    const std::int64_t warmup = integer(request, "warmup", 0, kMost), repeat = integer(request, "repeat", 1, kMost);
    if (window_) check(cudaProfilerStart(), "telling the profiler to look");
    const double ms = held.time(warmup, repeat);
    if (window_) check(cudaProfilerStop(), "telling the profiler to stop");
    return {{"ms", ms}, {"clock", "cuda-events"}, {"warmup", warmup}, {"repeat", repeat}};
  }

  const std::string backend_;
  const attention::Implementation& implementation_;
  const bool window_;
  std::string device_;
  std::unique_ptr<Session> session_;
};

// Answer requests on standard input until `quit` or its end. Returns the exit status.
inline int serve(const std::string& backend, const attention::Implementation& implementation, bool window) {
  // Answers are alone on their lines: they have a descriptor of their own, everything else goes to standard error.
  const int answers = dup(1);
  if (answers < 0 || dup2(2, 1) < 0) {
    std::perror("the worker cannot arrange its output");
    return 1;
  }
  Worker worker(backend, implementation, window);
  std::string line;
  while (std::getline(std::cin, line)) {
    Worker::Reply reply = worker.answer(line);
    reply.line += '\n';
    for (std::size_t sent = 0; sent < reply.line.size();) {
      const ssize_t count = write(answers, reply.line.data() + sent, reply.line.size() - sent);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        std::perror("an answer cannot be written");
        return 1;
      }
      sent += std::size_t(count);
    }
    if (reply.last) return 0;
  }
  return 0;
}

}  // namespace native
