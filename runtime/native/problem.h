// What a kernel's main() hands to the harness: an implementation of causal attention, and the problem that it is
// given. Of namespace choreo only the names that every compiler's choreo.h has are used here.
#pragma once

// Another compiler's headers, where they are searched first, bring a choreo.h of their own.
#if __has_include(<choreo.h>)
#include <choreo.h>
#else
#include "../choreo.h"
#endif

#include <functional>
#include <map>
#include <string>

namespace attention {

// One shape with its tensors in device memory, all BSHD: [batch, seq, heads, dim], contiguous, BF16. seq is that
// of queries and of keys, heads that of queries and of keys and values.
struct Problem {
  int batch = 0, seq = 0, heads = 0, dim = 0;
  choreo::bf16 *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr;
  std::map<std::string, int> parameters;  // launch arguments of the target, by the names of the manifest

  // The parameter `name`, or `fallback` where the target states none.
  int parameter(const std::string& name, int fallback) const {
    const auto found = parameters.find(name);
    return found == parameters.end() ? fallback : found->second;
  }

  using View = choreo::spanned_view<choreo::bf16, 4>;
  View q_view() const { return view(q); }
  View k_view() const { return view(k); }
  View v_view() const { return view(v); }
  View out_view() const { return view(out); }

 private:
  View view(choreo::bf16* data) const {
    return choreo::make_spanview<choreo::bf16, 4>(
        data, {std::size_t(batch), std::size_t(seq), std::size_t(heads), std::size_t(dim)});
  }
};

struct Implementation {
  std::string name;
  // Once a shape, outside of timing: schedules, tables, tensor maps. Its milliseconds are reported. Optional.
  std::function<void(const Problem&)> setup;
  // Enqueue one launch on the default stream; it does not wait. This is what is timed.
  std::function<void(const Problem&)> launch;
  // Why this shape is not supported beyond what the harness refuses itself; empty where it is. Optional. The
  // tensors are not there yet.
  std::function<std::string(const Problem&)> refuses;
};

}  // namespace attention
