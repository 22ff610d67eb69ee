// Faults for benchmarks/sanitize.sh to find: a write beyond an allocation, and with an argument a read of shared memory
// without a barrier.
#include <cstdio>
#include <cstring>
__global__ void beyond(int* p, int n) { p[n + threadIdx.x] = 1; }
__global__ void race(int* out) {
  __shared__ int word[128];
  word[threadIdx.x] = int(threadIdx.x);
  out[threadIdx.x] = word[127 - threadIdx.x];  // no barrier in between
}
int main(int argc, char** argv) {
  int* p = nullptr;
  cudaMalloc(&p, 128 * sizeof(int));
  if (argc > 1 && !std::strcmp(argv[1], "race")) race<<<1, 128>>>(p);
  else beyond<<<1, 32>>>(p, 128);
  std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
