"""What a worker's environment holds, and what never gets there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from artifact.bench.childenv import child_environment, command_line, make_scratch, parse_options
from artifact.errors import UsageError
from artifact.model.backend import Backend

LEAKS = {
    "MHA_SEQ": "8192",
    "CHOREO_SCHED_FIXED_COST": "9",
    "CHOREO_DISABLE_TIMING": "1",
    "CPATH": "/evil",
    "C_INCLUDE_PATH": "/evil",
    "NVCC_PREPEND_FLAGS": "-O0",
    "NVCC_APPEND_FLAGS": "-G",
    "PYTHONPATH": "/evil",
    "PYTHONHOME": "/evil",
    "PYTHONSTARTUP": "/evil.py",
    "PYTHONOPTIMIZE": "2",
    "LD_PRELOAD": "/evil.so",
    "TRITON_INTERPRET": "1",
    "TRITON_CACHE_DIR": "/evil",
    "TILELANG_CACHE_DIR": "/evil",
    "CUDA_LAUNCH_BLOCKING": "1",
    "CUDA_VISIBLE_DEVICES": "7",
    "OMP_NUM_THREADS": "64",
    "LC_NUMERIC": "de_DE.UTF-8",
    "TZ": "America/Los_Angeles",
    "VIRTUAL_ENV": "/evil",
}
CALLER = {"PATH": "/usr/bin", "HOME": "/home/me", "LD_LIBRARY_PATH": "/cuda/lib", **LEAKS}


def backend(device: str = "cpu", **fields: object) -> Backend:
    return Backend.model_validate(
        {
            "name": "alpha",
            "title": "Alpha",
            "kind": "python",
            "device": device,
            "worker": "workers/alpha.py",
            "workloads": ("tiny",),
            **fields,
        }
    )


def test_nothing_leaks() -> None:
    found = child_environment(backend(), caller=CALLER, scratch=Path("/s"), chosen={}).values
    for name, value in LEAKS.items():
        assert found.get(name) != value, name
    assert set(found) == {
        "PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "CUDA_CACHE_PATH", "CUPY_CACHE_DIR",
        "TILELANG_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "LANG", "LC_ALL",
        "TZ", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
        "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    }  # fmt: skip
    assert found["LC_ALL"] == "C.UTF-8"
    assert found["TZ"] == "UTC"
    assert found["CUDA_VISIBLE_DEVICES"] == ""


def test_a_gpu_backend_finds_its_libraries_and_sees_one_card() -> None:
    found = child_environment(
        backend("gpu"), caller=CALLER, scratch=Path("/s"), chosen={}, device_uuid="GPU-1"
    )
    assert found.values["LD_LIBRARY_PATH"] == "/cuda/lib"
    assert found.values["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert "OMP_NUM_THREADS" not in found.values
    assert found.recorded["CUDA_VISIBLE_DEVICES"] == "$GPU"


def test_the_manifest_then_the_command_decide_and_everything_is_recorded() -> None:
    found = child_environment(
        backend(env={"A": "manifest", "B": "manifest", "OMP_NUM_THREADS": "2"}),
        caller=CALLER,
        scratch=Path("/s"),
        chosen={"B": "command"},
    )
    assert (found.values["A"], found.values["B"]) == ("manifest", "command")
    assert found.values["OMP_NUM_THREADS"] == "2"
    assert set(found.recorded) == set(found.values)
    assert found.recorded["HOME"] == "$HOME"
    assert found.recorded["PATH"] == "$PATH"
    assert found.recorded["TRITON_CACHE_DIR"] == "$SCRATCH/cache/triton"
    assert found.recorded["B"] == "command"


def test_every_run_has_its_own_caches(tmp_path: Path) -> None:
    make_scratch(tmp_path)
    found = child_environment(backend(), caller=CALLER, scratch=tmp_path, chosen={}).values
    for name in ("TRITON_CACHE_DIR", "TILELANG_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR"):
        assert Path(found[name]).is_dir()
        assert tmp_path in Path(found[name]).parents


def test_options() -> None:
    options = ["alpha:X=1", "alpha:Y=a=b:c", "beta:X="]
    assert parse_options(options, ["alpha", "beta"]) == {
        "alpha": {"X": "1", "Y": "a=b:c"},
        "beta": {"X": ""},
    }


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["alpha"], "does not say what to set"),
        (["X=1"], "does not say what to set"),
        (["alpha:1X=1"], "does not say what to set"),
        (["gamma:X=1"], "not in this run"),
        (["alpha:X=1", "alpha:X=2"], "sets one variable twice"),
        (["alpha:CUDA_VISIBLE_DEVICES=1"], "sets this variable itself"),
    ],
)
def test_bad_options(options: list[str], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        parse_options(options, ["alpha", "beta"])


def test_the_working_directory_is_not_searched_for_modules(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    worker = tmp_path / "workers/alpha.py"
    worker.write_text("import json, sys; print(json.dumps([sys.path, sys.argv[1:]]))")
    # Either would stand in for the standard library's.
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "workers/json.py").write_text("raise SystemExit('shadowed')")
    command = command_line(backend(args=("--tile", "128")), Path(sys.executable), tmp_path)
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, check=True
    )
    paths, args = json.loads(done.stdout)
    assert not {"", str(tmp_path), str(worker.parent)} & set(paths)
    assert args == ["--tile", "128", "--backend", "alpha"]


def test_a_native_worker_is_the_program_itself() -> None:
    command = command_line(backend(kind="native", args=("x",)), Path("/b/v1"), Path("/r"))
    assert command == ["/b/v1", "--worker", "--backend", "alpha", "x"]
