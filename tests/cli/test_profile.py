"""``artifact profile`` as a process; its library is tested in tests/bench/test_profiling.py."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from artifact.bench.profiling import Profile, Program
from artifact.build.profile import Launch
from artifact.cli.output import Output
from artifact.cli.profile import _print

ASSETS = Path(__file__).parents[1] / "assets/profile"
spec = importlib.util.spec_from_file_location("profile_assets_cli", ASSETS / "stand_ins.py")
assert spec is not None and spec.loader is not None
stand_ins = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stand_ins)


def profile(root: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    for name in ("CUDA_HOME", "CUDA_VISIBLE_DEVICES"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-m", "artifact", "profile", *map(str, arguments)],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_without_ncu_it_says_what_to_install(fake_artifact: Path) -> None:
    done = profile(fake_artifact, "alpha", "--ncu", "/nowhere/ncu")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("error: there is no profiler\n")
    assert "install Nsight Compute" in done.stderr
    document = json.loads(profile(fake_artifact, "alpha", "--ncu", "/no/ncu", "--json").stdout)
    assert document["exit_code"] == 3


def test_a_backend_of_the_processor_is_a_usage_error(fake_artifact: Path, tmp_path: Path) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text("#!/bin/sh\n")
    ncu.chmod(0o755)
    done = profile(fake_artifact, "alpha", "--ncu", ncu)
    assert done.returncode == 2
    assert "error: the profiler looks at kernels of a GPU" in done.stderr


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_a_launch_from_end_to_end(fake_artifact: Path, tmp_path: Path) -> None:
    stand_ins.with_backend(fake_artifact, "delta.*")
    ncu = stand_ins.make_ncu(tmp_path / "ncu")
    stand_ins.make_cuda(tmp_path / "cuda", tmp_path / "calls")
    machine = {
        "PATH": f"{ncu.parent}{os.pathsep}{os.environ['PATH']}",
        # The stand-in for pynvml; the module of that name is found before the installed one.
        "PYTHONPATH": f"{ASSETS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "LD_LIBRARY_PATH": str(tmp_path / "cuda"),
    }
    arguments = ("delta", "--workload", "big", "--shape", "N=8")
    done = profile(fake_artifact, *arguments, **machine)
    assert done.returncode == 0, done.stderr
    report = fake_artifact / "build/delta-n8.ncu-rep"
    assert done.stdout.splitlines() == [
        "kernel:     delta()",
        "grid:       4x2x1",
        "block:      384x1x1 (384 threads)",
        "                     5,000  duration, ns",
        "checked:    symbol: delta.*",
        "checked:    threads: 384",
        f"report:     {report}",
        f"next:       ncu --import {report} --page details",
    ]
    assert "held the clocks at their base; its duration is no benchmark figure" in done.stderr
    assert "marks:" not in done.stdout
    assert report.is_file()
    again = profile(fake_artifact, *arguments, "--force", "--keep-clocks", "--json", **machine)
    asked = [json.loads(line)[0] for line in (ncu.parent / "CALLS").read_text().splitlines()]
    captures = [options for options in asked if "--set" in options]
    assert [options.get("--clock-control") for options in captures] == [None, "none"]
    document = json.loads(again.stdout)
    assert (document["kernel"], document["others"]) == (["_Z5deltav", "delta()"], ["fill"])
    assert (document["marks"], document["modified"]) == ([], [])
    refused = profile(fake_artifact, *arguments, **machine)
    assert refused.returncode == 2 and "--force" in refused.stderr
    wrong = profile(fake_artifact, *arguments[:-1], "N=9", **machine)
    assert wrong.returncode == 2 and "one of: N=8" in wrong.stderr


def test_marks_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = Launch(("k",), (1, 1, 1), (32, 1, 1), {})
    program = Program(tmp_path / "build/one", ("UNLOCKED", "MODIFIED"), ("kernels/one.co",))
    done = Profile("one", "N=8", tmp_path / "r", launch, (), (), program)
    _print(Output(json=False, quiet=True, verbose=False, color=False), done)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "marks:      UNLOCKED, MODIFIED: kernels/one.co"


def test_usage(fake_artifact: Path) -> None:
    assert profile(fake_artifact).returncode == 2
    help_page = profile(fake_artifact, "--help").stdout
    assert "--seq" in help_page and "--shape" in help_page
