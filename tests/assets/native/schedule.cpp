// Prints the task lists of runtime/schedule.h: schedule BATCH HEADS TILES CTAS [FIXED_COST].
// One line a list, "cost: tile/head/batch ...". Without FIXED_COST the environment decides, as in a kernel.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "schedule.h"

int main(int argc, char** argv) try {
  auto number = [&](int i) { return unsigned(std::strtoul(argv[i], nullptr, 10)); };
  const int fixed = argc > 5 ? int(number(5)) : attention::schedule_fixed_cost();
  const attention::Schedule schedule = attention::make_schedule(number(1), number(2), number(3), number(4), fixed);
  for (size_t list = 0; list + 1 < schedule.offsets.size(); ++list) {
    std::printf("%lld:", static_cast<long long>(schedule.costs[list]));
    for (uint32_t i = schedule.offsets[list]; i < schedule.offsets[list + 1]; ++i) {
      const uint32_t task = schedule.tasks[i];
      std::printf(" %u/%u/%u", task & 255u, task >> 8 & 63u, task >> 14);
    }
    std::printf("\n");
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
