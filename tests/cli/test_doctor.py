"""``artifact doctor`` as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def doctor(root: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    # An empty list hides every GPU, so that a machine with one tells the same.
    return subprocess.run(
        [sys.executable, "-m", "artifact", "doctor", *map(str, arguments)],
        cwd=root,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_one_line_a_check_and_a_verdict(fake_artifact: Path) -> None:
    done = doctor(fake_artifact)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ok      tree")
    starts = {line.index("as pinned") for line in lines if "as pinned" in line}
    assert len(starts) == 1
    gpu = next(i for i, line in enumerate(lines) if line.startswith("absent  gpu "))
    assert lines[gpu].endswith("(this workload does not need it)")
    assert any(line.strip().startswith("mend:     ") for line in lines[gpu : gpu + 3])
    assert lines[-1] == "ready: the workload tiny can run"


def test_what_is_missing_is_exit_code_3_with_what_can_run(fake_artifact: Path) -> None:
    done = doctor(fake_artifact, "--workload", "demo")
    assert done.returncode == 3
    assert done.stdout.splitlines()[-2:] == [
        "not ready: the workload demo cannot run: environment other",
        "can run on the processor: artifact run --workload tiny",
    ]
    quiet = doctor(fake_artifact, "--workload", "demo", "--quiet")
    assert quiet.stdout == "not ready: the workload demo cannot run: environment other\n"


def test_one_document(fake_artifact: Path) -> None:
    done = doctor(fake_artifact, "--json", "--workload", "demo")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert (document["ready"], document["runnable"]) == (False, ["tiny"])
    assert {check["verdict"] for check in document["checks"]} <= {"ok", "warn", "bad", "absent"}


@pytest.mark.parametrize("arguments", [("--workload", "none"), ("--python", "p")])
def test_usage(fake_artifact: Path, arguments: tuple[str, ...]) -> None:
    done = doctor(fake_artifact, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")


def test_it_changes_nothing(fake_artifact: Path) -> None:
    def everything() -> dict[str, bytes]:
        return {
            str(path.relative_to(fake_artifact)): path.read_bytes()
            for path in fake_artifact.rglob("*")
            if path.is_file()
        }

    before = everything()
    doctor(fake_artifact)
    assert everything() == before
    assert not (fake_artifact / "results").exists()
