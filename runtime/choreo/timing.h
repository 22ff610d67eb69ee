// Timing with CUDA events on the default stream.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "error.h"

namespace choreo {

struct TimerOption {
  int warmup = 10;
  int repeat = 100;
  bool sync = false;  // wait for the device after every call, so that none overlaps the next one's launch
};

// An event that can be timed; destroyed with its owner.
class TimingEvent {
 public:
  TimingEvent() { abend_true(cudaEventCreate(&event_)); }
  ~TimingEvent() { cudaEventDestroy(event_); }
  TimingEvent(const TimingEvent&) = delete;
  TimingEvent& operator=(const TimingEvent&) = delete;
  void record(cudaStream_t stream = nullptr) { abend_true(cudaEventRecord(event_, stream)); }
  // Waits for both.
  float milliseconds_since(const TimingEvent& start) const {
    abend_true(cudaEventSynchronize(event_));
    float ms = 0.0f;
    abend_true(cudaEventElapsedTime(&ms, start.event_, event_));
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Mean milliseconds of one `function(args...)` over `option.repeat` calls after `option.warmup` ones that are not
// timed. Throws where a call left an error behind.
template <typename F, typename... A>
float timing(F&& function, TimerOption option = {}, A&&... args) {
  runtime_check(option.warmup >= 0 && option.repeat >= 1, "timing needs warmup >= 0 and repeat >= 1");
  for (int i = 0; i < option.warmup; ++i) function(args...);
  abend_true(cudaDeviceSynchronize());
  TimingEvent start, end;
  start.record();
  for (int i = 0; i < option.repeat; ++i) {
    function(args...);
    if (option.sync) abend_true(cudaDeviceSynchronize());
  }
  end.record();
  const float ms = end.milliseconds_since(start) / float(option.repeat);
  abend_true(cudaGetLastError());
  return ms;
}

}  // namespace choreo
