"""Fragments on the device: what ``above`` answers, compiled for the host."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What the header takes from CUDA, of one thread.
CUDA = r"""
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#define __device__
#define __host__
#define __forceinline__ inline
static struct { unsigned x; } threadIdx;
using std::max;
inline int __float_as_int(float x) { int bits; std::memcpy(&bits, &x, 4); return bits; }
inline float __uint_as_float(unsigned bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline float __shfl_xor_sync(unsigned, float x, int) { return x; }
inline int __vimax3_s32(int a, int b, int c) { return max(a, max(b, c)); }
"""
PROGRAM = r"""
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


def test_above_is_exact_for_limits_without_a_sign_and_true_for_others(tmp_path: Path) -> None:
    (tmp_path / "cuda_bf16.h").touch()
    source = tmp_path / "above.cpp"
    source.write_text(CUDA + PROGRAM)
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-O1",
            f"-I{tmp_path}",
            f"-I{ROOT}",
            source,
            "-o",
            tmp_path / "above",
        ],
        check=True,
    )
    said = subprocess.run([tmp_path / "above"], check=True, capture_output=True, text=True).stdout
    assert said.split() == ["0", "0", "0", "0"]
