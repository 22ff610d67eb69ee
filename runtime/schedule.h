// Which CTA of a persistent kernel computes which query tiles: a list a CTA, made on the host.
//
// A query tile bm of a causal head costs about 2 * (bm + 1) + fixed_cost: QK and PV of each of its
// bm + 1 KV tiles, and what a task costs whatever its length. Equal numbers of tiles would therefore
// be unequal work. The assignment is static and made once for a shape; nothing is stolen at run time.
//
//   1. Entries of batch x head are taken in pairs, one pair after the other. The query tiles of a pair go,
//      long ones first, each to the CTA with the least work so far. Task by task, not head by head: the
//      CTAs are then within a pair or two of each other, and the K and V in use stay in L2.
//   2. A task moves from the most to the least loaded CTA, or two of one pair change places, while that
//      lessens the heavier of the two.
//   3. Each list is ordered by batch and head, long tiles first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace attention {

// A task in one word: bm in bits 0-7, head in 8-13, batch in 14-31.
constexpr unsigned kTaskTileBits = 8, kTaskHeadBits = 6, kTaskBatchBits = 18;

inline uint32_t pack_task(unsigned bm, unsigned head, unsigned batch) {
  return bm | head << kTaskTileBits | batch << (kTaskTileBits + kTaskHeadBits);
}

// Text that says which field of a task is too narrow for this shape, or nothing.
inline std::string task_refuses(unsigned batch, unsigned heads, unsigned tiles) {
  auto beyond = [](const char* what, unsigned count, unsigned bits) {
    return std::to_string(count) + " " + what + " do not fit the " + std::to_string(bits) + " bits of a task: at most " +
           std::to_string(1u << bits);
  };
  if (tiles > 1u << kTaskTileBits) return beyond("query tiles", tiles, kTaskTileBits);
  if (heads > 1u << kTaskHeadBits) return beyond("heads", heads, kTaskHeadBits);
  if (batch > 1u << kTaskBatchBits) return beyond("batch entries", batch, kTaskBatchBits);
  return {};
}

inline int64_t task_cost(unsigned bm, int fixed_cost) { return 2 * (int64_t(bm) + 1) + fixed_cost; }

// The fixed cost of a task: 4, or CHOREO_SCHED_FIXED_COST where an executable is used by hand.
inline int schedule_fixed_cost() {
  const char* text = std::getenv("CHOREO_SCHED_FIXED_COST");
  if (!text) return 4;
  char* end = nullptr;
  long value = std::strtol(text, &end, 10);
  if (end == text || *end || value < 0 || value > 1'000'000)
    throw std::invalid_argument(std::string("CHOREO_SCHED_FIXED_COST: expected 0 to 1000000, found '") + text + "'");
  return int(value);
}

struct Schedule {
  std::vector<uint32_t> tasks;    // all lists, one after the other
  std::vector<uint32_t> offsets;  // list c is tasks[offsets[c]] to tasks[offsets[c + 1]]
  std::vector<int64_t> costs;     // estimated, by CTA

  // The heaviest list over the mean: 1 is a perfect balance.
  double imbalance() const {
    int64_t sum = 0, top = 0;
    for (int64_t c : costs) sum += c, top = std::max(top, c);
    return sum ? double(top) * double(costs.size()) / double(sum) : 1.0;
  }
};

namespace detail {

struct Task {
  uint32_t entry;  // batch * heads + head
  uint32_t bm;
  int64_t cost;
};

// Moves a task from the heaviest to the lightest bin, or exchanges two of one pair; false when nothing helps.
inline bool rebalance_once(std::vector<std::vector<Task>>& bins, std::vector<int64_t>& costs) {
  auto heavy = size_t(std::max_element(costs.begin(), costs.end()) - costs.begin());
  auto light = size_t(std::min_element(costs.begin(), costs.end()) - costs.begin());
  const int64_t gap = costs[heavy] - costs[light];
  // Passing `by` from heavy to light leaves a gap of |gap - 2 * by|; the best is nearest to half.
  int64_t best = gap;
  size_t give = 0, take = 0;
  bool exchange = false;
  for (size_t i = 0; i < bins[heavy].size(); ++i) {
    const Task& task = bins[heavy][i];
    if (std::abs(gap - 2 * task.cost) < best) best = std::abs(gap - 2 * task.cost), give = i, exchange = false;
    for (size_t j = 0; j < bins[light].size(); ++j) {
      const Task& other = bins[light][j];
      const int64_t by = task.cost - other.cost;
      if (other.entry / 2 == task.entry / 2 && by > 0 && std::abs(gap - 2 * by) < best)
        best = std::abs(gap - 2 * by), give = i, take = j, exchange = true;
    }
  }
  if (best >= gap) return false;
  const Task task = bins[heavy][give];
  costs[heavy] -= task.cost, costs[light] += task.cost;
  if (exchange) {
    const Task other = bins[light][take];
    costs[light] -= other.cost, costs[heavy] += other.cost;
    bins[heavy][give] = other;
    bins[light][take] = task;
  } else {
    bins[heavy].erase(bins[heavy].begin() + std::ptrdiff_t(give));
    bins[light].push_back(task);
  }
  return true;
}

}  // namespace detail

// The lists of `ctas` CTAs for every query tile of every head.
//
// Throws std::invalid_argument where a task's fields are too narrow or there is nothing to schedule on.
inline Schedule make_schedule(unsigned batch, unsigned heads, unsigned tiles, unsigned ctas, int fixed_cost) {
  if (!ctas || !batch || !heads || !tiles) throw std::invalid_argument("a schedule needs CTAs, batch, heads and tiles");
  if (std::string why = task_refuses(batch, heads, tiles); !why.empty()) throw std::invalid_argument(why);
  const unsigned entries = batch * heads;

  std::vector<std::vector<detail::Task>> bins(ctas);
  std::vector<int64_t> costs(ctas, 0);
  // The lightest bin is on top; of equal ones the first.
  std::priority_queue<std::pair<int64_t, size_t>, std::vector<std::pair<int64_t, size_t>>, std::greater<>> lightest;
  for (size_t c = 0; c < ctas; ++c) lightest.push({0, c});
  for (unsigned first = 0; first < entries; first += 2)
    for (unsigned left = tiles; left-- > 0;)
      for (unsigned entry = first; entry < std::min(first + 2, entries); ++entry) {
        const size_t c = lightest.top().second;
        lightest.pop();
        const detail::Task task{entry, left, task_cost(left, fixed_cost)};
        bins[c].push_back(task);
        costs[c] += task.cost;
        lightest.push({costs[c], c});
      }
  // Each step lessens a gap by a whole number, so that this ends; the bound keeps odd shapes quick.
  for (unsigned step = 0; step < 4 * ctas && detail::rebalance_once(bins, costs); ++step) {
  }

  Schedule schedule;
  schedule.costs = costs;
  schedule.offsets.push_back(0);
  for (auto& bin : bins) {
    std::stable_sort(bin.begin(), bin.end(), [](const detail::Task& a, const detail::Task& b) {
      return a.entry != b.entry ? a.entry < b.entry : a.bm > b.bm;
    });
    for (const detail::Task& task : bin)
      schedule.tasks.push_back(pack_task(task.bm, task.entry % heads, task.entry / heads));
    schedule.offsets.push_back(uint32_t(schedule.tasks.size()));
  }
  return schedule;
}

}  // namespace attention
