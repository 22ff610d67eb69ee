"""Fragments on the device: what ``above`` and ``reduce_max`` find, compiled for the host."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What the header takes from CUDA, of a warp with four lanes: a row's.
CUDA = r"""
#include <algorithm>
#include <barrier>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>
#define __device__
#define __host__
#define __forceinline__ inline
static struct { unsigned x; } threadIdx;
using std::max;
using std::min;
inline int __float_as_int(float x) { int bits; std::memcpy(&bits, &x, 4); return bits; }
inline unsigned __float_as_uint(float x) { return unsigned(__float_as_int(x)); }
inline float __int_as_float(int bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline float __uint_as_float(unsigned bits) { return __int_as_float(int(bits)); }
thread_local int lane = 0;
std::barrier meet(4);
int given[4];
inline int exchange(int x, int with) {
  given[lane] = x;
  meet.arrive_and_wait();
  const int got = given[lane ^ with];
  meet.arrive_and_wait();
  return got;
}
inline int __shfl_xor_sync(unsigned, int x, int with) { return exchange(x, with); }
inline float __shfl_xor_sync(unsigned, float x, int with) {
  return __int_as_float(exchange(__float_as_int(x), with));
}
inline bool __any_sync(unsigned, bool x) {
  x |= exchange(x, 1);
  return x | exchange(x, 2);
}
inline int __vimax3_s32(int a, int b, int c) { return max(a, max(b, c)); }
inline unsigned __vimin3_u32(unsigned a, unsigned b, unsigned c) { return min(a, min(b, c)); }
"""
VALUES = r"""
#include "runtime/device/fragment.cuh"
namespace cu = choreo::cuda;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kValues[] = {0.0f, -0.0f, 1e-42f, -1e-42f, 1.0f, -1.0f, 1.5f, -1.5f, 3e38f, -3e38f,
                         kInfinity, -kInfinity};
std::mt19937 engine(7);
float some() {
  if (engine() % 2) return kValues[engine() % 12];
  return std::uniform_real_distribution<float>(-2, 2)(engine);
}

"""
ABOVE = r"""
template <int kRegisters>
int wrong() {
  int found = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    float acc[kRegisters], limit[2] = {std::fabs(some()), std::fabs(some())};
    // Mostly below the limits, so that one element decides.
    for (int row = 0; row < 2; ++row)
      for (int e = 0; e < kRegisters / 2; ++e)
        acc[cu::element(row, e)] = engine() % kRegisters ? -std::fabs(some()) : some();
    bool exact = false;
    for (int row = 0; row < 2; ++row)
      for (int e = 0; e < kRegisters / 2; ++e) exact |= acc[cu::element(row, e)] > limit[row];
    found += cu::above(acc, limit) != exact;
    // Perhaps, that is yes, whatever the elements are.
    limit[trial % 2] = -limit[trial % 2];
    found += !cu::above(acc, limit);
    // One element of all, at each place.
    for (float& x : acc) x = -1.0f;
    float bounds[2] = {0.5f, 0.5f};
    found += cu::above(acc, bounds);
    acc[trial % kRegisters] = 0.75f;
    found += !cu::above(acc, bounds);
  }
  return found;
}

int main() { std::printf("%d %d %d %d\n", wrong<4>(), wrong<8>(), wrong<12>(), wrong<64>()); }
"""
MAXIMUM = r"""
template <int kRegisters>
int wrong() {
  int found = 0;
  for (int trial = 0; trial < 256; ++trial) {
    // Lanes with and without a sign in all elements of a row, in each combination.
    float acc[4][kRegisters], top[4][2], exact[2] = {-kInfinity, -kInfinity};
    for (int of = 0; of < 4; ++of)
      for (int row = 0; row < 2; ++row)
        for (int e = 0; e < kRegisters / 2; ++e) {
          const float x = trial >> (2 * of + row) & 1 ? -std::fabs(some()) : some();
          acc[of][cu::element(row, e)] = x;
          exact[row] = max(exact[row], x);
        }
    std::vector<std::thread> lanes;
    for (int of = 0; of < 4; ++of)
      lanes.emplace_back([&, of] { lane = of, cu::reduce_max(top[of], acc[of]); });
    for (std::thread& each : lanes) each.join();
    for (int of = 0; of < 4; ++of)
      for (int row = 0; row < 2; ++row) found += top[of][row] != exact[row];
  }
  return found;
}

int main() { std::printf("%d %d %d %d\n", wrong<4>(), wrong<8>(), wrong<12>(), wrong<64>()); }
"""


def wrong(body: str, folder: Path) -> list[str]:
    """How many answers of the program are wrong, for four sizes of a fragment."""
    (folder / "cuda_bf16.h").touch()
    source = folder / "fragment.cpp"
    source.write_text(CUDA + VALUES + body)
    include = [f"-I{folder}", f"-I{ROOT}"]
    built = folder / "fragment"
    subprocess.run(
        ["g++", "-std=c++20", "-O1", "-pthread", *include, source, "-o", built], check=True
    )
    return subprocess.run([built], check=True, capture_output=True, text=True).stdout.split()


def test_above_is_exact_for_limits_without_a_sign_and_true_for_others(tmp_path: Path) -> None:
    assert wrong(ABOVE, tmp_path) == ["0", "0", "0", "0"]


def test_the_maximum_of_a_row_is_exact_with_and_without_a_sign(tmp_path: Path) -> None:
    assert wrong(MAXIMUM, tmp_path) == ["0", "0", "0", "0"]
