"""The names that a libcuda for the linker has."""

from __future__ import annotations

from artifact.build.driverstub import names

HEADER = """
#define cuMemAlloc                          cuMemAlloc_v2
    #define cuMemcpy                            __CUDA_API_PTDS(cuMemcpy)
#define CUDA_VERSION 13000
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
CUresult CUDAAPI
 cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount);
typedef void (CUDA_CB *CUstreamCallback)(CUstream hStream);
"""


def test_declared_and_renamed_functions_are_there() -> None:
    assert names(HEADER) == ("cuInit", "cuMemAlloc", "cuMemAlloc_v2", "cuMemcpy")
