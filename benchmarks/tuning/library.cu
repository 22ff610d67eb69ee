// The variants of variants.cuh and the generated kernels behind one C interface, for tune.py: a list of
// named implementations, a shape to set them up for, and a window of launches.
//
// Build (from the root): see README.md beside this file.
#include "flat.cuh"
#include "three.cuh"
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
#define main unused_main_v5
#define prepare prepare_v5
#define lists lists_v5
#define TaskLists TaskLists_v5
#define persistent_ctas persistent_ctas_v5
#include "../../generated/v5_continuous.cu"
#undef persistent_ctas
#undef TaskLists
#undef lists
#undef prepare
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
  // Of query tiles; of pairs of them; one list of all, for a counter; of tiles of 192 rows.
  Lists single, pairs, drawn, tall;
  unsigned* counter = nullptr;

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

// Launches `kernel` on `grid` CTAs, in clusters of `cluster`; 0 without that attribute.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, int shared, unsigned cluster, Arguments... arguments) {
  choreo::abend_true(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  cudaLaunchConfig_t to = {};
  to.gridDim = grid;
  to.blockDim = dim3(unsigned(threads));
  to.dynamicSmemBytes = size_t(shared);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster, 1, 1};
  to.attrs = &attribute;
  to.numAttrs = cluster ? 1 : 0;
  choreo::abend_true(cudaLaunchKernelEx(&to, kernel, Parameters(arguments)...));
}

template <int F>
Implementation variant(const char* name) {
  return {name, [] {
            const Setting& n = setting;
            constexpr bool pair = (F & kCluster) != 0;
            const Lists& lists = pair ? n.pairs : n.single;
            const dim3 grid = (F & kGrid) ? dim3(unsigned(n.seq / 128), unsigned(n.heads), unsigned(n.batch)) : dim3(unsigned(n.sms));
            launch(attention<F>, grid, 384, kSharedBytes, pair ? 2 : 1, unsigned(n.seq), lists.tasks, lists.offsets,
                   n.map(n.q, 128, 2), n.map(n.k, 128, pair ? 1 : 2), n.map(n.v, 128, pair ? 1 : 2),
                   n.map(n.o, (F & kSplitStore) ? 64 : 128, 2));
          }};
}

template <int F>
Implementation flat_variant(const char* name) {
  return {name, [] {
            const Setting& n = setting;
            constexpr bool pair = (F & kCluster) != 0;
            const Lists& lists = pair ? n.pairs : (F & kDynamic) ? n.drawn : n.single;
            if (F & kDynamic) choreo::abend_true(cudaMemsetAsync(n.counter, 0, sizeof(unsigned)));
            launch(flat<F>, dim3(unsigned(n.sms)), 384, kFlatShared<F>, pair ? 2 : (F & kPlainLaunch) ? 0 : 1, unsigned(n.seq), lists.tasks,
                   lists.offsets, n.counter, n.map(n.q, 128, 2), n.map(n.k, 128, pair ? 1 : 2),
                   n.map(n.v, 128, pair ? 1 : 2), n.map(n.o, 64, 2));
          }};
}

template <int F>
Implementation three_variant(const char* name) {
  return {name, [] {
            const Setting& n = setting;
            launch(three<F>, dim3(unsigned(n.sms)), 512, kThreeShared, 1, unsigned(n.seq), n.tall.tasks, n.tall.offsets,
                   n.map(n.q, 64, 2), n.map(n.k, 128, 2), n.map(n.v, 128, 2), n.map(n.o, 64, 2));
          }};
}

std::vector<Implementation> implementations() {
  auto persistent = [](auto kernel) {
    return [kernel] {
      const Setting& n = setting;
      kernel(n.view(n.q), n.view(n.k), n.view(n.v), n.view(n.o), choreo::make_spanview<1>(n.single.tasks, {n.single.count}),
             choreo::make_spanview<1>(n.single.offsets, {size_t(n.sms) + 1}), n.sms);
    };
  };
  auto plain = [](auto kernel) {
    return [kernel] { kernel(setting.view(setting.q), setting.view(setting.k), setting.view(setting.v), setting.view(setting.o)); };
  };
  std::vector<Implementation> all = {
      {"v1", plain(attention_v1)},
      {"v2", plain(attention_v2)},
      {"v4", plain(attention_v4)},
      {"v3", persistent(attention_v3)},
      {"v5", persistent(attention_v5)},
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
  n.drawn.make(batch, heads, seq / 128, 1, 4);
  n.tall.make(batch, heads, (seq + 191) / 192, n.sms, 3);
  if (!n.counter) choreo::abend_true(cudaMalloc(&n.counter, sizeof(unsigned)));
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

// The mean cycles of a step between its points, of both consumers, in the last launch that took them.
void tuning_timeline(double* cycles) {
  unsigned long long read[2][tuning::kPoints + 1];
  choreo::abend_true(cudaMemcpyFromSymbol(read, tuning::timeline, sizeof read));
  for (int w = 0; w < 2; ++w)
    for (int i = 0; i < tuning::kPoints; ++i)
      cycles[w * tuning::kPoints + i] = read[w][tuning::kPoints] ? double(read[w][i]) / double(read[w][tuning::kPoints]) : 0;
}

// The clock in GHz over all CTAs of a variant's last launch, and the share of its time that a CTA had work.
void tuning_clocks(double* ghz, double* busy) {
  static tuning::Clock began[tuning::kMaxCtas], ended[tuning::kMaxCtas];
  choreo::abend_true(cudaMemcpyFromSymbol(began, tuning::began, sizeof began));
  choreo::abend_true(cudaMemcpyFromSymbol(ended, tuning::ended, sizeof ended));
  double cycles = 0, time = 0;
  unsigned long long first = ~0ull, last = 0;
  const int ctas = std::min(tuning::setting.sms, tuning::kMaxCtas);
  for (int i = 0; i < ctas; ++i) {
    cycles += double(ended[i].cycles - began[i].cycles);
    time += double(ended[i].nanoseconds - began[i].nanoseconds);
    first = std::min(first, began[i].nanoseconds), last = std::max(last, ended[i].nanoseconds);
  }
  // A kernel that takes no times leaves none behind.
  static const tuning::Clock none[tuning::kMaxCtas] = {};
  choreo::abend_true(cudaMemcpyToSymbol(tuning::began, none, sizeof none));
  choreo::abend_true(cudaMemcpyToSymbol(tuning::ended, none, sizeof none));
  *ghz = time > 0 ? cycles / time : 0;
  *busy = last > first ? time / ctas / double(last - first) : 0;
}

}  // extern "C"
