"""``artifact build``, ``run --build-only``, ``--regenerate`` and ``--skip-build`` as typed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from artifact.bench.check import verify_run
from artifact.model.load import check_schema

ROOT = Path(__file__).resolve().parents[2]


def artifact(*args: object, cwd: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "artifact", *map(str, args)],
        cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return done


def answer(*args: object, cwd: Path, status: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(artifact(*args, "--json", cwd=cwd, status=status).stdout)
    return found


def last_run(root: Path) -> tuple[Path, dict[str, Any]]:
    """The newest run. Names of the same second do not sort by time, so its document decides."""
    runs = [
        (folder, json.loads((folder / "results.json").read_bytes()))
        for folder in (root / "results").iterdir()
    ]
    folder, document = max(runs, key=lambda run: str(run[1]["started"]))
    check_schema("results", document, "x")
    return folder, document


def edit(root: Path, name: str) -> None:
    source = root / f"kernels/{name}.co"
    source.write_text(source.read_text().replace("factor 2", "factor 3"))


def test_a_variable_that_leads_nowhere_is_said_and_recorded(
    native_artifact: Path, native_tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "passed over" not in artifact("build", "one", cwd=native_artifact).stderr
    monkeypatch.setenv("CUDA_HOME", "/no/toolkit")
    monkeypatch.setenv("CUTE_HOME", "/no/headers")
    monkeypatch.setenv("PATH", f"{native_tools}/bin", prepend=os.pathsep)
    notes = artifact("build", "one", cwd=native_artifact).stderr
    assert "note: CUDA_HOME=/no/toolkit has no bin/nvcc, and was passed over\n" in notes
    assert "note: CUTE_HOME=/no/headers does not hold them, and was passed over\n" in notes
    done = artifact("run", cwd=native_artifact)
    assert "CUDA_HOME=/no/toolkit has no bin/nvcc" in done.stderr
    folder, results = last_run(native_artifact)
    told = ["CUDA_HOME has no bin/nvcc", "CUTE_HOME does not hold them"]
    assert results["build"]["toolkit"]["passed_over"] == told
    assert "/no/" not in (folder / "results.json").read_text()
    assert "Passed over: CUDA_HOME has no bin/nvcc." in (folder / "report.html").read_text()
    assert verify_run(folder).findings == ()


def test_a_build_and_a_run_of_it(native_artifact: Path, native_tools: Path) -> None:
    out = artifact("build", cwd=native_artifact)
    assert "nvcc:       13.0.88 (found by CUDA_HOME)" in out.stdout
    assert "CUTLASS not needed" in out.stdout
    assert "kernel_of_one: 168 registers, 0 bytes of spills" in out.stdout
    assert "none is pinned" in out.stdout
    assert "cubin sha256:" in artifact("lock", cwd=native_artifact).stdout
    again = answer("run", "--build-only", cwd=native_artifact)
    assert [kernel["how"] for kernel in again["kernels"]] == ["up to date", "up to date"]
    assert [kernel["bit_identical"] for kernel in again["kernels"]] == [True, True]
    assert not (native_artifact / "results").exists()

    artifact("run", cwd=native_artifact)
    folder, results = last_run(native_artifact)
    assert verify_run(folder).findings == ()
    assert results["complete"] and results["marks"] == []
    assert [k["build"]["backend"] for k in results["build"]["kernels"]] == ["one", "two"]
    assert results["build"]["toolkit"]["origin"] == "CUDA_HOME"
    facts = {w["backend"]: w["facts"] for w in results["witnesses"]}
    built = {k["build"]["backend"]: k["build"] for k in results["build"]["kernels"]}
    for name in ("one", "two"):
        assert facts[name]["cubin_sha256"] == built[name]["cubin_sha256"]
        assert facts[name]["module_sha256"] == built[name]["executable_sha256"]
    assert "build" in {time["phase"] for time in results["times"]}
    for page in ("summary.md", "report.html"):
        text = (folder / page).read_text()
        assert "Builds of the native kernels" in text and "bit-identical build" in text
    # The compiler's words are kept, without places of this machine.
    log = (folder / "logs/one-nvcc.log").read_text()
    assert "Used 168 registers" in log and str(native_artifact) not in log
    worker = (folder / "logs/one.log").read_text()
    assert "build/one --worker --backend one" in worker

    artifact("run", "--skip-build", "--backends", "two", cwd=native_artifact)
    folder, results = last_run(native_artifact)
    assert verify_run(folder).findings == ()
    assert results["build"]["toolkit"] is None and results["marks"] == []
    assert [k["how"] for k in results["build"]["kernels"]] == ["as recorded"]


def test_the_edit_example_of_the_worklog(native_artifact: Path, native_tools: Path) -> None:
    """Its two commands, with a stand-in for the compiler, through run.sh's own command."""
    artifact("build", cwd=native_artifact)
    artifact("lock", cwd=native_artifact)
    edit(native_artifact, "one")
    refused = artifact("run", "--backends", "one", cwd=native_artifact, status=1)
    assert "--build-only --regenerate --backends one" in refused.stderr
    artifact("run", "--skip-build", "--backends", "one", cwd=native_artifact, status=1)

    choreo = native_tools / "choreo"
    done = artifact(
        "run", "--build-only", "--regenerate", "--backends", "one", "--choreo", choreo,
        cwd=native_artifact,
    )  # fmt: skip
    assert "MODIFIED:   kernels/one.co" in done.stdout
    assert "generated/one.cu: written, by choreo 1.2.3 sha256:" in done.stderr
    assert "#define FACTOR 3" in (native_artifact / "generated/one.cu").read_text()

    ran = artifact("run", "--skip-build", "--backends", "one", cwd=native_artifact)
    assert "MODIFIED" in ran.stdout
    folder, results = last_run(native_artifact)
    assert verify_run(folder).findings == ()
    assert results["marks"] == ["MODIFIED"]
    assert results["artifact"]["modified"] == ["generated/one.cu", "kernels/one.co"]
    # It is the edited kernel that ran.
    assert {w["facts"]["factor"] for w in results["witnesses"]} == {3}
    for page in ("summary.md", "report.html"):
        assert "MODIFIED" in (folder / page).read_text()

    # The other kernel is not covered, and what is not pinned stays so until it is.
    artifact("run", "--skip-build", "--backends", "two", cwd=native_artifact, status=1)
    artifact("run", "--backends", "one", cwd=native_artifact, status=1)
    artifact("verify", cwd=native_artifact, status=1)
    locked = answer("lock", cwd=native_artifact)
    assert locked["unbuilt"] == []
    artifact("verify", cwd=native_artifact)
    artifact("run", "--skip-build", "--backends", "one", cwd=native_artifact)
    _, results = last_run(native_artifact)
    assert results["marks"] == [] and results["build"]["kernels"][0]["bit_identical"] is True


def test_regenerate_and_run_in_one_command(native_artifact: Path, native_tools: Path) -> None:
    edit(native_artifact, "two")
    options = ("--regenerate", "--choreo", native_tools / "choreo", "--backends", "two")
    artifact("run", *options, cwd=native_artifact)
    folder, results = last_run(native_artifact)
    assert verify_run(folder).findings == ()
    assert results["marks"] == ["MODIFIED"]
    # Nothing has changed since, and everything is as it was: still modified.
    artifact("run", *options, cwd=native_artifact)
    assert last_run(native_artifact)[1]["marks"] == ["MODIFIED"]


@pytest.mark.parametrize("path", ["runtime/worker.hpp", "kernels/two.co", "generated/two.cu"])
def test_regenerate_accepts_the_chosen_kernels_alone(
    native_artifact: Path, native_tools: Path, path: str
) -> None:
    (native_artifact / path).write_text((native_artifact / path).read_text() + "// x\n")
    done = artifact(
        "run", "--build-only", "--regenerate", "--choreo", native_tools / "choreo",
        "--backends", "one", cwd=native_artifact, status=1,
    )  # fmt: skip
    assert path in done.stderr
    assert not (native_artifact / "build/one").exists()


def test_what_was_built_and_changed_again_is_refused(
    native_artifact: Path, native_tools: Path
) -> None:
    edit(native_artifact, "one")
    choreo = ("--choreo", native_tools / "choreo", "--backends", "one")
    artifact("run", "--build-only", "--regenerate", *choreo, cwd=native_artifact)
    source = native_artifact / "kernels/one.co"
    source.write_text(source.read_text() + "// once more\n")
    done = artifact("run", "--skip-build", "--backends", "one", cwd=native_artifact, status=1)
    assert "kernels/one.co was changed since" in done.stderr
    _, results = last_run(native_artifact)
    assert not results["complete"] and results["state"]["error"]["error"] == "StaleBuild"


def test_a_missing_build_says_what_to_type(native_artifact: Path) -> None:
    done = artifact("run", "--skip-build", cwd=native_artifact, status=3)
    assert "artifact build one two" in done.stderr


def test_a_failed_build_stops_the_run_and_keeps_its_words(
    native_artifact: Path, native_tools: Path
) -> None:
    path = native_artifact / "generated/two.cu"
    path.write_text(path.read_text() + "//! fail\n")
    artifact("lock", cwd=native_artifact)
    done = artifact("run", cwd=native_artifact, status=1)
    assert "backend two, phase build" in done.stderr
    assert "error: identifier is undefined" in done.stderr
    folder, results = last_run(native_artifact)
    assert f"raw log: results/{folder.name}/logs/two-nvcc.log" in done.stderr
    error = results["state"]["error"]
    assert (error["phase"], error["backend"], error["log"]) == (
        "build", "two", "logs/two-nvcc.log",
    )  # fmt: skip
    assert "identifier is undefined" in (folder / "logs/two-nvcc.log").read_text()
    assert not results["complete"] and results["backends"] == []


def test_another_toolkit_marks_every_table(native_artifact: Path, native_tools: Path) -> None:
    script = native_tools / "bin/nvcc.py"
    script.write_text(script.read_text().replace('"13.0.88"', '"13.1.80"'))
    refused = artifact("run", "--backends", "one", cwd=native_artifact, status=3)
    assert "nvcc is 13.1.80, the manifest pins 13.0.88" in refused.stderr
    artifact("run", "--backends", "one", "--unlocked-env", cwd=native_artifact)
    folder, results = last_run(native_artifact)
    assert results["marks"] == ["UNLOCKED"]
    assert verify_run(folder).findings == ()
    assert "nvcc is 13.1.80" in (folder / "summary.md").read_text()
    artifact("run", "--skip-build", "--backends", "one", cwd=native_artifact, status=3)
    artifact("run", "--skip-build", "--backends", "one", "--unlocked-env", cwd=native_artifact)
    assert last_run(native_artifact)[1]["marks"] == ["UNLOCKED"]


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("build", "three"), 2, "some of: one, two"),
        (("run", "--build-only", "--backends", "three"), 2, "some of: one, two"),
        (("run", "--build-only", "--workload", "none"), 2, "no such workload"),
        (("run", "--build-only", "--skip-build"), 2, "contradict"),
        (("run", "--regenerate", "--skip-build"), 2, "contradict"),
        (("run", "--choreo", "x"), 2, "--regenerate with it"),
        (("build", "--nvcc", "none"), 3, "no CUDA compiler"),
        (("build", "--cutlass", "none"), 3, "no CUTLASS headers"),
        (("build", "--regenerate", "--choreo", "none"), 3, "no compiler of this name"),
        (("build", "--choreo-include", "none"), 3, "headers of the compiler"),
    ],
)
def test_what_is_refused(
    native_artifact: Path, args: tuple[str, ...], status: int, words: str
) -> None:
    assert words in artifact(*args, cwd=native_artifact, status=status).stderr


def test_without_native_backends_no_toolkit_is_looked_for(
    fake_artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    trap = tmp_path / "bin/nvcc"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    trap.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    artifact("run", "--rounds", "1", cwd=fake_artifact)
    assert not (tmp_path / "asked").exists()
    assert last_run(fake_artifact)[1]["build"] is None
    refused = artifact("build", cwd=fake_artifact, status=2)
    assert "no native backend" in refused.stderr


def test_regenerate_writes_and_checks(native_artifact: Path, native_tools: Path) -> None:
    choreo = ("--choreo", native_tools / "choreo")
    done = artifact("regenerate", "--check", *choreo, cwd=native_artifact)
    assert done.stdout.count("is what its source compiles to") == 2
    edit(native_artifact, "one")
    refused = artifact("regenerate", "--check", *choreo, cwd=native_artifact, status=1)
    assert "-#define FACTOR 2" in refused.stderr and "+#define FACTOR 3" in refused.stderr
    artifact("regenerate", "two", "--check", *choreo, cwd=native_artifact)
    found = answer("regenerate", *choreo, cwd=native_artifact)
    assert [kernel["written"] for kernel in found["kernels"]] == [True, False]
    artifact("regenerate", "--check", *choreo, cwd=native_artifact)
    # Our own compiler says where a source is wrong.
    (native_artifact / "kernels/one.co").write_text("__co__ void one( {\n")
    own = artifact("regenerate", "one", cwd=native_artifact, status=1)
    assert "kernels/one.co" in own.stderr


def test_a_copy_with_its_build_runs_elsewhere(native_artifact: Path, tmp_path: Path) -> None:
    """A build may be made on one machine and run on another, which has no toolkit."""
    artifact("build", "one", cwd=native_artifact)
    other = tmp_path / "far/away"
    shutil.copytree(native_artifact, other)
    shutil.rmtree(native_artifact)
    artifact("run", "--skip-build", "--backends", "one", cwd=other)
    folder, results = last_run(other)
    assert results["complete"] and verify_run(folder).findings == ()
