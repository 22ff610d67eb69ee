"""This artifact's own kernels: generated/ is what they compile to, and nvcc takes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from blake3 import blake3

from artifact.build.building import bit_identical
from artifact.build.compile import Context, compile_unit
from artifact.build.compiler import find_compiler
from artifact.build.plan import make_units
from artifact.build.process import Processes
from artifact.build.regenerate import generate, require_same
from artifact.build.toolchain import find_companion
from artifact.build.tools import ToolOptions, Tools, find_tools
from artifact.errors import EnvironmentUnmet
from artifact.integrity.documents import load_lock, load_manifest

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = load_manifest(ROOT)
UNITS = make_units(MANIFEST, MANIFEST.backends)

REGISTERS = {"v1": 255, "v2": 168, "v3": 168, "v4": 168, "v5": 168}
"""At most, for each thread: a launch of 384 threads has 168, which setmaxnreg deals out."""


@pytest.mark.parametrize("kernel", MANIFEST.kernels, ids=lambda kernel: kernel.name)
def test_the_generated_file_is_what_its_source_compiles_to(kernel) -> None:
    require_same(generate(ROOT, MANIFEST, kernel, find_compiler()))


@pytest.fixture
def tools() -> Tools:
    if shutil.which("g++") is None:
        pytest.skip("no host compiler")
    try:
        found = find_tools(ToolOptions())
    except EnvironmentUnmet as error:
        pytest.skip(error.what)
    if found.cutlass is None:
        pytest.skip("no CUTLASS headers")
    if find_companion("cuobjdump", found.nvcc) is None:
        pytest.skip("no cuobjdump")
    if found.differences(MANIFEST, cutlass=True):
        pytest.skip("another toolkit than the pinned one")
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.backend)
def test_nvcc_makes_the_executable_that_the_manifest_asks_for(
    unit, tools: Tools, tmp_path: Path
) -> None:
    """No spills, no serialized wgmma, no warning, every expected instruction, the pinned code."""
    root = tmp_path / "tree"
    pins = {}
    for folder in ("kernels", "generated", "runtime"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "build").mkdir()
    for path in root.rglob("*"):
        if path.is_file():
            name = path.relative_to(root).as_posix()
            pins[name] = blake3(path.read_bytes()).hexdigest()
    context = Context(root, MANIFEST, tools, pins, False, Processes())
    build, new = compile_unit(context, unit)
    assert new and build.differences == ()
    assert "warning" not in unit.log(root).read_text(encoding="utf-8")
    (entry,) = (entry for entry in build.entries if entry.measured)
    assert entry.registers <= REGISTERS[unit.backend]
    link = next((link for link in load_lock(ROOT).chain if link.kernel == unit.kernel.name), None)
    assert bit_identical(build, link) in (None, True)
