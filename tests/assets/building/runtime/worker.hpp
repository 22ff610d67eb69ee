// A worker for the host: it speaks the worker protocol with made-up figures that pass the gates.
// The file that includes it defines BACKEND and FACTOR. Started without --worker it prints the
// rows that the variable STAND_IN_N asks for. C's headers only: they compile in no time.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The value behind "key": in one line of JSON, up to the next comma or bracket.
static const char* value(const char* line, const char* key, char* into, size_t size) {
  char mark[64];
  snprintf(mark, sizeof mark, "\"%s\":", key);
  const char* at = strstr(line, mark);
  into[0] = 0;
  if (!at) return into;
  at += strlen(mark);
  at += strspn(at, " \"");
  const size_t length = strcspn(at, ",}\"]\n");
  snprintf(into, size, "%.*s", int(length), at);
  return into;
}

static int number(const char* line, const char* key) {
  char text[64];
  return atoi(value(line, key, text, sizeof text));
}

static void print_figures(int rows, int columns, double error) {
  printf("{\"elements\":%d,\"rows\":%d,\"nonfinite\":0,\"outside_tolerance\":0,\"max_abs\":%g,"
         "\"max_abs0\":0.001,\"bands\":[",
         rows * columns, rows, error);
  for (int first = 0; first < rows; first += 4) {
    const int last = first + 4 < rows ? first + 3 : rows - 1;
    printf("%s{\"first\":%d,\"last\":%d,\"rows\":%d,\"e_max\":%g,\"e_rms\":%g,\"e0_max\":0.001,"
           "\"e0_rms\":0.0005}",
           first ? "," : "", first, last, last - first + 1, error, error / 2);
  }
  printf("]}");
}

static int work(const char* backend) {
  static char line[1 << 16];
  int rows = 0, columns = 0;
  while (fgets(line, sizeof line, stdin)) {
    char op[64];
    value(line, "op", op, sizeof op);
    printf("{\"op\":\"%s\",\"id\":%d,\"backend\":\"%s\"", op, number(line, "id"), backend);
    if (!strcmp(op, "hello")) {
      printf(",\"protocol\":1,\"clock\":\"host-monotonic\",\"python\":null,\"versions\":{\"g++\":\"%s\"}",
             __VERSION__);
    } else if (!strcmp(op, "prepare")) {
      rows = number(line, "N");
      columns = number(line, "M");
      printf(",\"inputs\":{\"x\":\"%032d%032d\"},\"setup_ms\":{\"inputs\":1.0}", rows, columns);
    } else if (!strcmp(op, "check")) {
      printf(",\"figures\":");
      print_figures(rows, columns, 0.001);
      printf(",\"controls\":[{\"name\":\"zeros\",\"position\":null,\"figures\":");
      print_figures(rows, columns, 1.0);
      printf("}]");
    } else if (!strcmp(op, "witness")) {
      printf(",\"facts\":{\"implementation\":\"stand-in\",\"symbol\":\"kernel_of_%s\",\"spills\":0,"
             "\"factor\":%d}",
             backend, FACTOR);
    } else if (!strcmp(op, "time")) {
      timespec begin, end;
      clock_gettime(CLOCK_MONOTONIC, &begin);
      volatile double sum = 0;
      for (int i = 0; i < 20000; ++i) sum = sum + FACTOR;
      clock_gettime(CLOCK_MONOTONIC, &end);
      const double ms = (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) / 1e6;
      printf(",\"ms\":%.9f,\"clock\":\"host-monotonic\",\"warmup\":%d,\"repeat\":%d",
             ms / number(line, "repeat"), number(line, "warmup"), number(line, "repeat"));
    }
    printf("}\n");
    fflush(stdout);
    if (!strcmp(op, "quit")) return 0;
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && !strcmp(argv[1], "--worker")) return work(BACKEND);
  const char* rows = getenv("STAND_IN_N");
  printf("%s: N=%s M=2, factor %d\n", BACKEND, rows ? rows : "8", FACTOR);
  return 0;
}
