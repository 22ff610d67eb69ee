// A worker for the host: it speaks the worker protocol with made-up figures that pass the gates.
// The file that includes it defines BACKEND and FACTOR. Started without --worker it prints the
// rows that the variable STAND_IN_N asks for.
#pragma once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

namespace stand_in {

// The value behind "key": in one line of JSON, up to the next comma or bracket.
inline std::string value(const std::string& line, const std::string& key) {
  const std::string mark = "\"" + key + "\":";
  size_t at = line.find(mark);
  if (at == std::string::npos) return "";
  at = line.find_first_not_of(" \"", at + mark.size());
  return line.substr(at, line.find_first_of(",}\"]", at) - at);
}

inline std::string figures(int rows, int columns, double error) {
  std::string bands;
  for (int first = 0; first < rows; first += 4) {
    const int last = std::min(first + 4, rows) - 1;
    char text[256];
    std::snprintf(text, sizeof text,
                  "%s{\"first\":%d,\"last\":%d,\"rows\":%d,\"e_max\":%g,\"e_rms\":%g,"
                  "\"e0_max\":0.001,\"e0_rms\":0.0005}",
                  first ? "," : "", first, last, last - first + 1, error, error / 2);
    bands += text;
  }
  char text[256];
  std::snprintf(text, sizeof text,
                "{\"elements\":%d,\"rows\":%d,\"nonfinite\":0,\"outside_tolerance\":0,"
                "\"max_abs\":%g,\"max_abs0\":0.001,\"bands\":[",
                rows * columns, rows, error);
  return text + bands + "]}";
}

inline int work(const char* backend) {
  int rows = 0, columns = 0;
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::string op = value(line, "op"), id = value(line, "id");
    std::string rest;
    if (op == "hello") {
      rest = "\"protocol\":1,\"clock\":\"host-monotonic\",\"python\":null,\"versions\":{\"g++\":\"" __VERSION__ "\"}";
    } else if (op == "prepare") {
      rows = std::atoi(value(line, "N").c_str());
      columns = std::atoi(value(line, "M").c_str());
      char digest[65];
      std::snprintf(digest, sizeof digest, "%032d%032d", rows, columns);
      rest = std::string("\"inputs\":{\"x\":\"") + digest + "\"},\"setup_ms\":{\"inputs\":1.0}";
    } else if (op == "check") {
      rest = "\"figures\":" + figures(rows, columns, 0.001) +
             ",\"controls\":[{\"name\":\"zeros\",\"position\":null,\"figures\":" +
             figures(rows, columns, 1.0) + "}]";
    } else if (op == "witness") {
      rest = std::string("\"facts\":{\"implementation\":\"stand-in\",\"symbol\":\"kernel_of_") +
             backend + "\",\"spills\":0,\"factor\":" + std::to_string(FACTOR) + "}";
    } else if (op == "time") {
      const auto begin = std::chrono::steady_clock::now();
      volatile double sum = 0;
      for (int i = 0; i < 20000; ++i) sum = sum + FACTOR;
      const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
      const int repeat = std::atoi(value(line, "repeat").c_str());
      char text[64];
      std::snprintf(text, sizeof text, "\"ms\":%.9f", ms.count() / repeat);
      rest = std::string(text) + ",\"clock\":\"host-monotonic\",\"warmup\":" + value(line, "warmup") +
             ",\"repeat\":" + value(line, "repeat");
    }
    std::cout << "{\"op\":\"" << op << "\",\"id\":" << id << ",\"backend\":\"" << backend << "\""
              << (rest.empty() ? "" : ",") << rest << "}" << std::endl;
    if (op == "quit") return 0;
  }
  return 0;
}

}  // namespace stand_in

int main(int argc, char** argv) {
  if (argc > 1 && !std::strcmp(argv[1], "--worker")) return stand_in::work(BACKEND);
  const char* rows = std::getenv("STAND_IN_N");
  std::printf("%s: %s rows, factor %d\n", BACKEND, rows ? rows : "all", FACTOR);
  return 0;
}
