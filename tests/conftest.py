"""Fixtures that several packages' tests share."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

WORKERS = Path(__file__).parent / "assets" / "workers"
TINY = Path(__file__).parent / "assets" / "envs" / "tiny.py"

# A shell starts what it puts in the background with SIGINT ignored, nohup with SIGHUP; children
# inherit that, and Python then installs no handler. The commands under test would be immune to
# the signals that the tests send them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# One BLAS thread, as workers have it: on a busy machine more of them spin for one another, and a
# test of two seconds takes thirty. It is read when numpy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Stamps of validated documents belong to the tests, not to whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def once(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, Callable[[Path], object]], Path]:
    """A folder that one process of the session fills for all of them: ``once(name, fill)``."""
    base = tmp_path_factory.getbasetemp()
    # Each process of xdist has a folder of its own in that of the session.
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once"
    shared.mkdir(exist_ok=True)

    def made(name: str, fill: Callable[[Path], object]) -> Path:
        folder, filled = shared / name, shared / f"{name}.filled"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not filled.exists():
                # What another process began and failed to fill.
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                filled.touch()
        return folder

    return made


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Waits for a condition, however slow the machine is; fails when it is not met in a minute."""

    def wait(condition: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.005)

    return wait


@pytest.fixture
def ends_its_threads(wait_until):
    """No thread that a test began may outlive it."""
    before = set(threading.enumerate())
    yield
    wait_until(lambda: set(threading.enumerate()) <= before)


@pytest.fixture(scope="session")
def fake_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A locked artifact with fake workers. Shared: write nothing into it but results."""
    from artifact.integrity.lockfile import write_lock

    root = tmp_path_factory.mktemp("fake-artifact")
    (root / "manifests").mkdir()
    shutil.copy(WORKERS / "artifact.toml", root / "manifests/artifact.toml")
    (root / "workers").mkdir()
    shutil.copy(WORKERS / "fake.py", root / "workers/fake.py")
    (root / "other.lock").write_text("# nothing but Python itself\n")
    write_lock(root)
    return root


@pytest.fixture
def fake_artifact(fake_tree: Path, tmp_path: Path) -> Path:
    """A copy of :func:`fake_tree` for one test alone."""
    root = tmp_path / "tree"
    shutil.copytree(fake_tree, root)
    return root


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    """tests/assets/envs/tiny.py as a module: tiny wheels, channels and artifacts."""
    spec = importlib.util.spec_from_file_location("envs_assets_tiny", TINY)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def own_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run side by side do not wait for one another's device locks."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 2 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.fixture
def start_artifact(tmp_path: Path):
    """Starts ``python -m artifact ARGS`` as a process; what still runs at the end is ended.

    It is asked to end first, so that it ends what it started itself.
    """
    started: list[subprocess.Popen[str]] = []

    def start(*args: str | Path, cwd: Path, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "artifact", *map(str, args)],
            cwd=cwd,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


BUILDING = Path(__file__).parent / "assets" / "building"


@pytest.fixture
def native_tools(tmp_path: Path) -> Path:
    """A folder with stand-ins of nvcc and cuobjdump in ``bin/``, and of another ``choreo``."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ for the stand-in of nvcc")
    folder = tmp_path / "tools"
    (folder / "bin").mkdir(parents=True)
    for name in ("bin/nvcc", "bin/cuobjdump", "choreo"):
        script = BUILDING / f"{Path(name).name}.py"
        # A copy, so that the stand-in leaves its traces beside itself.
        copy = shutil.copy(script, folder / f"{name}.py")
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{copy}" "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def native_artifact(native_tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A locked artifact of two native backends; CUDA_HOME names the stand-in toolkit."""
    from artifact.build.compiler import find_compiler
    from artifact.build.regenerate import generate, write
    from artifact.integrity.documents import load_manifest
    from artifact.integrity.lockfile import write_lock

    root = tmp_path / "native"
    (root / "manifests").mkdir(parents=True)
    shutil.copy(BUILDING / "artifact.toml", root / "manifests/artifact.toml")
    for folder in ("kernels", "runtime"):
        shutil.copytree(BUILDING / folder, root / folder)
    monkeypatch.setenv("CUDA_HOME", str(native_tools))
    monkeypatch.delenv("CUTE_HOME", raising=False)
    manifest = load_manifest(root)
    compiler = find_compiler(native_tools / "choreo")
    for kernel in manifest.kernels:
        write(root, generate(root, manifest, kernel, compiler), ())
    write_lock(root)
    return root
