// The input generator: Philox4x32-10 (Salmon et al., SC 2011), counter based, so that any element can
// be made by itself and every backend gets the same bits. docs/numerics.md is its specification.
//
// Element i of a tensor is made of word i % 4 of Philox with the counter (block, stream, 0), where
// block = i / 4 takes two words, the low one first, and the key is the seed, low word first. The
// word's upper 24 bits n become the odd integer 2n + 1 - 2^24, which FP32 holds exactly; a power of two
// scales it, exact again; one rounding makes it BF16.
#pragma once

namespace philox {

struct Words {
  unsigned w[4];
};

__host__ __device__ inline Words philox4x32_10(Words c, unsigned k0, unsigned k1) {
  for (int round = 0; round < 10; ++round) {
    unsigned long long low = (unsigned long long)(0xD2511F53u) * c.w[0];
    unsigned long long high = (unsigned long long)(0xCD9E8D57u) * c.w[2];
    c = Words{{unsigned(high >> 32) ^ c.w[1] ^ k0, unsigned(high), unsigned(low >> 32) ^ c.w[3] ^ k1, unsigned(low)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// The bits of a float and back, on either side; NVRTC has no header to take them from.
__host__ __device__ inline float as_float(unsigned bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
#endif
}
__host__ __device__ inline unsigned as_bits(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

// One word as BF16 in [-h, h], h = 2^log2_half_width. Values are finite and never subnormal.
__host__ __device__ inline unsigned short to_input(unsigned word, int log2_half_width) {
  int centred = 2 * int(word >> 8) + 1 - (1 << 24);
  float value = float(centred) * as_float(unsigned(127 + log2_half_width - 24) << 23);
  unsigned bits = as_bits(value);
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace philox

// `count` BF16 values (a multiple of 4). Any grid; out is 8-byte aligned.
extern "C" __global__ void philox_fill(unsigned short* out, unsigned long long count, unsigned long long seed, unsigned stream,
                                       int log2_half_width) {
  unsigned long long step = (unsigned long long)(gridDim.x) * blockDim.x;
  for (unsigned long long block = (unsigned long long)(blockIdx.x) * blockDim.x + threadIdx.x; block < count / 4; block += step) {
    philox::Words c = philox::philox4x32_10({{unsigned(block), unsigned(block >> 32), stream, 0u}}, unsigned(seed), unsigned(seed >> 32));
    ushort4 four = {philox::to_input(c.w[0], log2_half_width), philox::to_input(c.w[1], log2_half_width),
                    philox::to_input(c.w[2], log2_half_width), philox::to_input(c.w[3], log2_half_width)};
    reinterpret_cast<ushort4*>(out)[block] = four;
  }
}
