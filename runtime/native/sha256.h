// SHA-256 (FIPS 180-4), in portable C++ and with the SHA instructions of x86 where the processor has them: a
// shape's inputs are up to 1.6 GB, hashed at every prepare.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#if defined(__x86_64__) && defined(__GNUC__)
#define NATIVE_SHA_INSTRUCTIONS 1
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace native {

namespace sha256 {

constexpr std::uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

inline std::uint32_t rotate(std::uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

inline void blocks_portable(State& state, const unsigned char* data, std::size_t count) {
  for (; count > 0; --count, data += 64) {
    std::uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      w[i] = std::uint32_t(data[4 * i]) << 24 | std::uint32_t(data[4 * i + 1]) << 16 |
             std::uint32_t(data[4 * i + 2]) << 8 | data[4 * i + 3];
    }
    for (int i = 16; i < 64; ++i) {
      const std::uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const std::uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    State v = state;
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
      const std::uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
      const std::uint32_t t1 = v[7] + s1 + choice + kRound[i] + w[i];
      const std::uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
      const std::uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
      v = {t1 + s0 + majority, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
    }
    for (int i = 0; i < 8; ++i) state[i] += v[i];
  }
}

#ifdef NATIVE_SHA_INSTRUCTIONS

inline bool have_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1)) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 29));
}

// Rounds 4 i to 4 i + 3 with the words w0, which then become those of sixteen rounds later. sha256rnds2 does two
// rounds on the state as two registers, (a b e f) and (c d g h); sha256msg1 and sha256msg2 make the next four
// words of the schedule out of the last sixteen.
__attribute__((target("sha,sse4.1,ssse3"))) inline void four_rounds(__m128i& abef, __m128i& cdgh, int i, __m128i& w0,
                                                                    const __m128i& w1, const __m128i& w2,
                                                                    const __m128i& w3) {
  const __m128i sum = _mm_add_epi32(w0, _mm_loadu_si128(reinterpret_cast<const __m128i*>(kRound) + i));
  cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
  abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
  w0 = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4)), w3);
}

__attribute__((target("sha,sse4.1,ssse3"))) inline void blocks_instructions(State& state, const unsigned char* data,
                                                                            std::size_t count) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  auto* words = reinterpret_cast<__m128i*>(state.data());
  const __m128i dcba = _mm_loadu_si128(words), hgfe = _mm_loadu_si128(words + 1);
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; count > 0; --count, data += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i), swap);
    for (int i = 0; i < 16; i += 4) {
      four_rounds(abef, cdgh, i, w[0], w[1], w[2], w[3]);
      four_rounds(abef, cdgh, i + 1, w[1], w[2], w[3], w[0]);
      four_rounds(abef, cdgh, i + 2, w[2], w[3], w[0], w[1]);
      four_rounds(abef, cdgh, i + 3, w[3], w[0], w[1], w[2]);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

#else

inline bool have_instructions() { return false; }
inline void blocks_instructions(State& state, const unsigned char* data, std::size_t count) {
  blocks_portable(state, data, count);
}

#endif

}  // namespace sha256

class Sha256 {
 public:
  explicit Sha256(bool instructions = sha256::have_instructions()) : instructions_(instructions) {}

  void update(const void* bytes, std::size_t size) {
    const auto* data = static_cast<const unsigned char*>(bytes);
    length_ += size;
    if (held_ > 0) {
      const std::size_t taken = std::min(size, buffer_.size() - held_);
      std::memcpy(buffer_.data() + held_, data, taken);
      held_ += taken, data += taken, size -= taken;
      if (held_ < buffer_.size()) return;
      blocks(buffer_.data(), 1);
      held_ = 0;
    }
    blocks(data, size / 64);
    held_ = size % 64;
    if (held_ > 0) std::memcpy(buffer_.data(), data + size - held_, held_);
  }

  // The digest of everything so far as 64 hexadecimal digits. Nothing may follow.
  std::string hex() {
    const std::uint64_t bits = 8 * length_;
    unsigned char tail[128] = {0x80};
    const std::size_t padding = (held_ < 56 ? 56 : 120) - held_;
    for (int i = 0; i < 8; ++i) tail[padding + i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
    update(tail, padding + 8);
    std::string text;
    for (std::uint32_t word : state_) {
      for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(word >> shift) & 15];
    }
    return text;
  }

 private:
  void blocks(const unsigned char* data, std::size_t count) {
    if (instructions_) sha256::blocks_instructions(state_, data, count);
    else sha256::blocks_portable(state_, data, count);
  }

  sha256::State state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> buffer_{};
  std::size_t held_ = 0;
  std::uint64_t length_ = 0;
  bool instructions_;
};

}  // namespace native
