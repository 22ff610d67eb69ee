"""Programs of the native runtime, each compiled once a session; none of them needs a GPU here."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from artifact.build.tools import ToolOptions, find_tools
from artifact.errors import EnvironmentUnmet

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests/assets/native"

FLAGS = (
    "-gencode=arch=compute_90a,code=sm_90a", "-std=c++17", "--expt-relaxed-constexpr",
    "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra",
)  # fmt: skip
FAST = "--use_fast_math"
"""The published flags have it."""
SANITIZED = ("-Xcompiler", "-fsanitize=address")

Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def compile_native(once: Callable[[str, Callable[[Path], object]], Path]) -> Compile:
    """Compile or link files against runtime/; warnings are errors. One command runs once."""
    try:
        tools = find_tools(ToolOptions())
    except EnvironmentUnmet as error:
        pytest.skip(error.what)

    def build(output: str, *arguments: str | Path) -> Path:
        includes = ("-I", ROOT / "runtime")
        command = [tools.nvcc.path, *FLAGS, *arguments, *includes, *tools.link_flags, "-o"]

        def fill(folder: Path) -> None:
            done = subprocess.run(
                [str(word) for word in (*command, folder / output)],
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr

        name = hashlib.sha256("\0".join([output, *map(str, command)]).encode()).hexdigest()[:12]
        return once(f"{output}-{name}", fill) / output

    return build


@pytest.fixture(scope="session")
def checks(compile_native: Compile) -> Path:
    """The parts that need no GPU, a command each."""
    return compile_native("checks", "-O1", FAST, SOURCES / "checks.cu")


@pytest.fixture(scope="session")
def naive_object(compile_native: Compile) -> Path:
    """A kernel's program with a plain kernel, not yet linked."""
    return compile_native("naive.o", "-O1", FAST, *SANITIZED, "-c", SOURCES / "naive.cu")


@pytest.fixture(scope="session")
def naive(compile_native: Compile, naive_object: Path) -> Path:
    """That program with the CUDA runtime."""
    return compile_native("naive", *SANITIZED, naive_object)


@pytest.fixture(scope="session")
def faked(compile_native: Compile, naive_object: Path) -> Path:
    """That program with a stand-in for the CUDA runtime, whose device is the processor."""
    fake = SOURCES / "fakecuda.cpp"
    return compile_native("faked", "-O2", *SANITIZED, "-cudart", "none", naive_object, fake)


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
