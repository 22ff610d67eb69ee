"""The real toolkit: one small translation unit through the whole build."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from blake3 import blake3

from artifact.bench import buildphase
from artifact.bench.buildphase import BuildOptions
from artifact.build.failures import BuildFailed
from artifact.build.plan import choose, make_units
from artifact.build.regenerate import stamp
from artifact.build.toolchain import find_companion, find_nvcc
from artifact.errors import EnvironmentUnmet
from artifact.integrity.documents import load_manifest
from artifact.integrity.lockfile import write_lock
from artifact.model.build import KernelBuild

BUILDING = Path(__file__).parents[1] / "assets/building"
COMPILER_FLAGS = ("-t", "stand-in", "-DWIDTH=4")
"""Of every kernel of the manifest there: another set is refused before anything is compiled."""

HEADER = """
#pragma once
static __device__ int counter;  // a name with internal linkage: nvcc puts a path into it
namespace {
__global__ void oracle(float* x) { x[threadIdx.x] *= 2; counter++; }
}
"""
KERNEL = """
#include "../runtime/helper.cuh"
#include <cstdio>
extern "C" __global__ void __launch_bounds__(256, 1) kernel_of_one(float* x, int n) {
  extern __shared__ float s[];
  __shared__ float t[32];
  s[threadIdx.x] = x[threadIdx.x];
  t[threadIdx.x % 32] = x[0];
  asm volatile("setmaxnreg.inc.sync.aligned.u32 168;");
  __syncthreads();
  x[threadIdx.x] = s[(threadIdx.x + 1) % n] + t[0];
}
int main() {
  oracle<<<1, 32>>>(nullptr);
  std::printf("%d\\n", int(cudaDeviceSynchronize() != cudaSuccess));
}
"""


@pytest.fixture(autouse=True)
def real_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no host compiler")
    try:
        nvcc = find_nvcc()
    except EnvironmentUnmet as error:
        pytest.skip(error.what)
    if find_companion("cuobjdump", nvcc) is None:
        pytest.skip("no cuobjdump")
    if nvcc.version != "13.0.88":
        pytest.skip(f"nvcc {nvcc.version}")


def tree(root: Path, kernel: str = KERNEL) -> Path:
    for path, text in (
        ("runtime/helper.cuh", HEADER),
        ("kernels/one.co", "one\n"),
        ("kernels/two.co", "two\n"),
        ("generated/one.cu", kernel),
        ("generated/two.cu", kernel),
        ("manifests/artifact.toml", (BUILDING / "artifact.toml").read_text()),
    ):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if path.startswith("generated/"):
            source = f"kernels/{file.stem}.co"
            digest = blake3(f"{file.stem}\n".encode()).hexdigest()
            text = stamp(source, digest, "by hand 1", COMPILER_FLAGS).decode() + text
        file.write_text(text)
    manifest = root / "manifests/artifact.toml"
    text = manifest.read_text().replace('sass = ["HGMMA"]', 'sass = ["USETMAXREG"]')
    gencode = '"-gencode=arch=compute_90a,code=sm_90a", "-Xptxas"'
    manifest.write_text(text.replace('"-Xptxas"', gencode))
    write_lock(root)
    return root


def build(root: Path, name: str = "one") -> KernelBuild:
    manifest = load_manifest(root)
    units = make_units(manifest, choose(manifest, (name,)))
    options = BuildOptions()
    verified = buildphase.verify_tree(root, manifest, units, options, False)
    facts, _ = buildphase.make(
        root, manifest, units, options, verified, unlocked=False,
        done=lambda *a: None, failed=lambda *a: None, say=lambda text: None,
    )  # fmt: skip
    return facts.kernels[0].build


def test_two_directories_give_one_machine_code(tmp_path: Path) -> None:
    one = build(tree(tmp_path / "one"))
    two = build(tree(tmp_path / "deeper/and/elsewhere"))
    assert one.cubin_sha256 == two.cubin_sha256
    assert one.executable_sha256 == two.executable_sha256
    assert one.front_end == one.nvcc == "13.0.88"
    assert list(one.headers) == ["runtime/helper.cuh"]
    assert {library.name for library in one.libraries} == {"system", "toolkit"}
    measured = {entry.symbol: entry for entry in one.entries if entry.measured}
    assert list(measured) == ["kernel_of_one"] and len(one.entries) == 2
    assert measured["kernel_of_one"].static_shared_bytes == 128
    assert one.sass == {"USETMAXREG": 1}
    held = (tmp_path / "one/build/one").read_bytes()
    assert os.fsencode(tmp_path) not in held
    # It stands on its own: the runtime is linked into it.
    assert os.access(tmp_path / "one/build/one", os.X_OK)


def test_a_register_that_the_assembler_takes_back_fails_the_build(tmp_path: Path) -> None:
    """Without a bound on its threads ptxas ignores setmaxnreg, and says so (C7508 and its kind)."""
    kernel = KERNEL.replace("__launch_bounds__(256, 1) ", "")
    with pytest.raises(BuildFailed) as caught:
        build(tree(tmp_path, kernel))
    assert "setmaxnreg" in str(caught.value.found)


def test_the_driver_can_be_linked_where_there_is_none(tmp_path: Path) -> None:
    """A compiler's output may call the driver by name, as the published kernels do."""
    text = KERNEL.replace("#include <cstdio>", "#include <cstdio>\n#include <cuda.h>")
    calls = 'CUdeviceptr p;\n  std::printf("%d\\n", int(cuInit(0)) + int(cuMemAlloc(&p, 4)));\n'
    root = tree(tmp_path, text.replace("  oracle<<<", f"  {calls}  oracle<<<"))
    manifest = root / "manifests/artifact.toml"
    manifest.write_text(manifest.read_text().replace('"-std=c++17"', '"-std=c++17", "-lcuda"'))
    write_lock(root)
    build(root)
    # It is the driver's own library that is asked for, not the one that was linked against.
    assert b"libcuda.so.1\0" in (root / "build/one").read_bytes()


def test_an_error_of_the_compiler_is_shown_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed) as caught:
        build(tree(tmp_path, KERNEL.replace("threadIdx.x + 1", "threadIdx.y + nowhere")))
    assert any('identifier "nowhere" is undefined' in line for line in caught.value.details)
    assert all(str(tmp_path) not in line for line in caught.value.details)
