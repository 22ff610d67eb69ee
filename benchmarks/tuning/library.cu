// The variants of variants.cuh and the generated kernels behind one C interface, for tune.py: a list of
// named implementations, a shape to set them up for, and a window of launches.
//
// Build (from the root): see README.md beside this file.
#include "variants.cuh"

#define main unused_main_v1
#include "../../generated/v1_manual_baseline.cu"
#undef main
#define main unused_main_v2
#include "../../generated/v2_manual_s2_1p2c_tma.cu"
#undef main
#define main unused_main_v4
#include "../../generated/v4_nonpersistent_fa.cu"
#undef main
#define main unused_main_v3
#include "../../generated/v3_fa3_overlap.cu"
#undef main

namespace tuning {
namespace {

struct Lists {
  choreo::u32 *tasks = nullptr, *offsets = nullptr;
  size_t count = 0;

  // `lists` CTAs (or clusters) over `tiles` query tiles (or pairs of them).
  void make(int batch, int heads, int tiles, int lists, int fixed_cost) {
    const attention::Schedule made =
        attention::make_schedule(unsigned(batch), unsigned(heads), unsigned(tiles), unsigned(lists), fixed_cost);
    choreo::abend_true(cudaFree(tasks));
    choreo::abend_true(cudaFree(offsets));
    count = made.tasks.size();
    choreo::abend_true(cudaMalloc(&tasks, 4 * made.tasks.size()));
    choreo::abend_true(cudaMalloc(&offsets, 4 * made.offsets.size()));
    choreo::abend_true(cudaMemcpy(tasks, made.tasks.data(), 4 * made.tasks.size(), cudaMemcpyHostToDevice));
    choreo::abend_true(cudaMemcpy(offsets, made.offsets.data(), 4 * made.offsets.size(), cudaMemcpyHostToDevice));
  }
};

struct Setting {
  int batch = 0, seq = 0, heads = 0, sms = 0;
  choreo::bf16 *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
  Lists single, pairs;

  choreo::spanned_view<choreo::bf16, 4> view(choreo::bf16* p) const {
    return choreo::make_spanview<4>(p, {size_t(batch), size_t(seq), size_t(heads), size_t(128)});
  }
  CUtensorMap map(const choreo::bf16* p, unsigned rows, unsigned panels) const {
    const uint64_t h = uint64_t(heads);
    return choreo::encode_bf16_map(p, {64, uint64_t(batch) * uint64_t(seq), 2 * h}, {256 * h, 128}, {64, rows, panels}, 128);
  }
} setting;

struct Implementation {
  std::string name;
  std::function<void()> launch;
};

template <int F>
Implementation variant(const char* name) {
  return {name, [] {
            const Setting& n = setting;
            constexpr bool pair = (F & kCluster) != 0;
            const Lists& lists = pair ? n.pairs : n.single;
            choreo::abend_true(cudaFuncSetAttribute(attention<F>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
            cudaLaunchConfig_t launch = {};
            launch.gridDim = (F & kGrid) ? dim3(unsigned(n.seq / 128), unsigned(n.heads), unsigned(n.batch)) : dim3(unsigned(n.sms));
            launch.blockDim = dim3(384);
            launch.dynamicSmemBytes = kSharedBytes;
            cudaLaunchAttribute cluster = {};
            cluster.id = cudaLaunchAttributeClusterDimension;
            cluster.val.clusterDim = {pair ? 2u : 1u, 1, 1};
            launch.attrs = &cluster;
            launch.numAttrs = 1;
            choreo::abend_true(cudaLaunchKernelEx(&launch, attention<F>, unsigned(n.seq),
                                                  static_cast<const unsigned*>(lists.tasks),
                                                  static_cast<const unsigned*>(lists.offsets), n.map(n.q, 128, 2),
                                                  n.map(n.k, 128, pair ? 1 : 2), n.map(n.v, 128, pair ? 1 : 2),
                                                  n.map(n.o, (F & kSplitStore) ? 64 : 128, 2)));
          }};
}

std::vector<Implementation> implementations() {
  auto plain = [](auto kernel) {
    return [kernel] { kernel(setting.view(setting.q), setting.view(setting.k), setting.view(setting.v), setting.view(setting.o)); };
  };
  std::vector<Implementation> all = {
      {"v1", plain(attention_v1)},
      {"v2", plain(attention_v2)},
      {"v4", plain(attention_v4)},
      {"v3", [] {
         const Setting& n = setting;
         attention_v3(n.view(n.q), n.view(n.k), n.view(n.v), n.view(n.o),
                      choreo::make_spanview<1>(n.single.tasks, {n.single.count}),
                      choreo::make_spanview<1>(n.single.offsets, {size_t(n.sms) + 1}), n.sms);
       }},
  };
#include "chosen.inc"
  return all;
}

const std::vector<Implementation>& known() {
  static const std::vector<Implementation> all = implementations();
  return all;
}

}  // namespace
}  // namespace tuning

extern "C" {

int tuning_count() { return int(tuning::known().size()); }
const char* tuning_name(int i) { return tuning::known()[size_t(i)].name.c_str(); }

// The tensors and the shape of all launches from now on.
void tuning_shape(void* q, void* k, void* v, void* o, int batch, int seq, int heads) {
  tuning::Setting& n = tuning::setting;
  n.batch = batch, n.seq = seq, n.heads = heads;
  n.q = static_cast<choreo::bf16*>(q), n.k = static_cast<choreo::bf16*>(k);
  n.v = static_cast<choreo::bf16*>(v), n.o = static_cast<choreo::bf16*>(o);
  choreo::abend_true(cudaDeviceGetAttribute(&n.sms, cudaDevAttrMultiProcessorCount, 0));
  n.single.make(batch, heads, seq / 128, n.sms, 4);
  // A pair costs 2 * (2 * i + 2) + 4 for tile pair i: twice (2 * (i + 1) + 2).
  n.pairs.make(batch, heads, seq / 256, n.sms / 2, 2);
}

// Milliseconds of one launch, the mean of `repeat`.
double tuning_time(int i, int repeat) {
  cudaEvent_t from, to;
  choreo::abend_true(cudaEventCreate(&from));
  choreo::abend_true(cudaEventCreate(&to));
  choreo::abend_true(cudaEventRecord(from));
  for (int n = 0; n < repeat; ++n) tuning::known()[size_t(i)].launch();
  choreo::abend_true(cudaEventRecord(to));
  choreo::abend_true(cudaEventSynchronize(to));
  float ms = 0;
  choreo::abend_true(cudaEventElapsedTime(&ms, from, to));
  choreo::abend_true(cudaEventDestroy(from));
  choreo::abend_true(cudaEventDestroy(to));
  return double(ms) / repeat;
}

// Cycles and nanoseconds that CTA 0's consumers took in a variant's last launch.
void tuning_clocks(double* cycles, double* nanoseconds) {
  unsigned long long read[4];
  choreo::abend_true(cudaMemcpyFromSymbol(read, tuning::clocks, sizeof read));
  *cycles = double(read[2] - read[0]), *nanoseconds = double(read[3] - read[1]);
}

}  // extern "C"
