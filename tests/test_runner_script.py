"""run.sh as it is started where its artifact is not around it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

NEEDED = ("envs/ensure-venv.sh", "envs/tool/requirements.lock", "manifests/artifact.toml")


@pytest.mark.parametrize("there", [(), NEEDED[:1], NEEDED[1:]], ids=str)
def test_alone_it_names_what_it_lacks_and_does_nothing(
    tmp_path: Path, there: tuple[str, ...]
) -> None:
    shutil.copy(ROOT / "run.sh", tmp_path)
    for name in there:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run(
        ["bash", tmp_path / "run.sh", "--workload", "cpu-demo"],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (3, "")
    head, *rest = done.stderr.splitlines()
    assert head == "error: run.sh is not in the tree of its artifact"
    answers = dict(line.strip().split(":", 1) for line in rest)
    missing = answers["expected"].split(":")[1].split()
    assert set(missing) >= set(NEEDED) - set(there)
    assert not set(missing) & set(there)
    assert answers["where"].strip() == str(tmp_path)
    assert "download the whole artifact" in answers["next"]
    assert sorted(tmp_path.rglob("*")) == before


def test_in_its_tree_it_looks_for_nothing_that_is_not_there(tmp_path: Path) -> None:
    """A Python that is none ends it behind the look at its tree, before anything is made."""
    done = subprocess.run(
        ["bash", ROOT / "run.sh"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": "/no/python", "ARTIFACT_VENV": str(tmp_path / "v")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 3
    assert "$PYTHON names cannot be used" in done.stderr
