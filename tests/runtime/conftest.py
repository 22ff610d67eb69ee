"""Programs of the native runtime, each compiled once a session; none of them needs a GPU here."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from artifact.build.toolchain import find_nvcc
from artifact.errors import ArtifactError

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests/assets/native"

FLAGS = (
    "-gencode=arch=compute_90a,code=sm_90a", "-std=c++17", "--use_fast_math",
    "--expt-relaxed-constexpr", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra",
)  # fmt: skip


@pytest.fixture(scope="session")
def compile_native(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile a source of tests/assets/native/ against runtime/, warnings being errors."""
    try:
        nvcc = find_nvcc().path
    except ArtifactError as error:
        pytest.fail(f"these tests compile the runtime with nvcc, and there is none: {error}")

    def build(name: str, *flags: str) -> Path:
        program = tmp_path_factory.mktemp("native") / name
        source = SOURCES / f"{name}.cu"
        command = [str(nvcc), *FLAGS, *flags, "-I", str(ROOT / "runtime"), str(source), "-o"]
        done = subprocess.run(
            [*command, str(program)], capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return program

    return build


@pytest.fixture(scope="session")
def checks(compile_native: Callable[..., Path]) -> Path:
    """The parts that need no GPU, a command each."""
    return compile_native("checks", "-O1")


@pytest.fixture(scope="session")
def naive(compile_native: Callable[..., Path]) -> Path:
    """A kernel's program with a plain kernel, compiled with the flags of the kernels."""
    return compile_native("naive", "-O3")


@pytest.fixture
def ask(checks: Path) -> Callable[..., str]:
    """What a command of ``checks`` prints."""

    def run(*arguments: str, given: str | bytes = b"", status: int = 0, **env: str) -> str:
        done = subprocess.run(
            [str(checks), *arguments],
            input=given.encode() if isinstance(given, str) else given,
            capture_output=True,
            timeout=120,
            env=env,
            check=False,
        )
        assert done.returncode == status, done.stderr.decode()
        return done.stdout.decode("utf-8")

    return run
