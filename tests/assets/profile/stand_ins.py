"""Puts ncu, CUDA and NVML of no machine into a folder, and a backend for them into a tree."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

KERNEL = ["_Z5deltav", "delta()", [4, 2, 1], [384, 1, 1], {"gpu__time_duration.sum": 5000}]
HELPER = ["fill", "fill", [1, 1, 1], [32, 1, 1], {"gpu__time_duration.sum": 9000}]

BACKEND = """
[[backends]]
name = "delta"
title = "Delta"
kind = "python"
device = "gpu"
worker = "workers/fake.py"
workloads = ["big"]
witness = {{ symbol = '{symbol}', threads = 384, implementation = "fake" }}

[[targets]]"""


def make_ncu(folder: Path) -> Path:
    """An ncu that tells of HELPER and KERNEL."""
    folder.mkdir()
    path = folder / "ncu"
    path.write_text(f"#!{sys.executable}\n{(HERE / 'ncu.py').read_text()}")
    path.chmod(0o755)
    (folder / "LAUNCHES").write_text(json.dumps([HELPER, KERNEL]))
    return path


def make_cuda(folder: Path, log: Path) -> None:
    """A libcuda that writes its calls into ``log``."""
    folder.mkdir()
    command = ["gcc", "-shared", "-fPIC", f'-DLOG="{log}"', "-o", folder / "libcuda.so.1"]
    subprocess.run([*command, HERE / "cuda.c"], check=True)


def with_backend(root: Path, symbol: str) -> None:
    """Let the tree at ``root`` have a backend whose kernel matches ``symbol``."""
    from artifact.integrity.lockfile import write_lock

    path = root / "manifests/artifact.toml"
    text = path.read_text().replace("[[targets]]", BACKEND.format(symbol=symbol))
    path.write_text(text.replace("outside = [", 'outside = ["build/", '))
    write_lock(root)


def module(name: str):
    """The module of a file of this folder, under another name."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(f"profile_assets_{name}", HERE / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found
