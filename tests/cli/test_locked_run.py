"""A run in an interpreter that was made from its lock: real lock, real pip, real interpreter."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TINY = Path(__file__).parent.parent / "assets" / "envs" / "tiny.py"
RUN = ("run", "--workload", "demo", "--rounds", "1")


@pytest.fixture(scope="module")
def tiny() -> ModuleType:
    spec = importlib.util.spec_from_file_location("envs_assets_tiny_run", TINY)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def artifact(root: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "artifact", *map(str, arguments)],
        cwd=root,
        env={**os.environ, "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def python(tiny: ModuleType, fake_artifact: Path, tmp_path: Path) -> Path:
    """The interpreter of the environment ``other``, whose lock has one distribution."""
    _, digest = tiny.wheel(tmp_path / "wheels", "foo", "1.0")
    (fake_artifact / "other.lock").write_text(tiny.lock_line("foo", "1.0", digest))
    manifest = fake_artifact / "manifests/artifact.toml"
    text = manifest.read_text().replace('python = "3.12"', f'python = "{tiny.PYTHON}"')
    manifest.write_text(text.replace('["**/__pycache__/",', '["**/__pycache__/", "build/",'))
    assert artifact(fake_artifact, "lock").returncode == 0
    made = artifact(
        fake_artifact, "env", "create", "other", PIP_FIND_LINKS=str(tmp_path / "wheels")
    )
    assert made.returncode == 0, made.stderr
    return fake_artifact / "build/envs/other/bin/python"


def results(root: Path) -> dict[str, Any]:
    latest = max((root / "results").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    found: dict[str, Any] = json.loads((latest / "results.json").read_bytes())
    return found


def other(document: dict[str, Any]) -> dict[str, Any]:
    (found,) = (i for i in document["interpreters"] if i["environment"] == "other")
    return found


def test_the_locked_path_from_lock_to_tables(
    fake_artifact: Path, python: Path, tiny: ModuleType
) -> None:
    done = artifact(fake_artifact, *RUN, "--ws-python", python)
    assert done.returncode == 0, done.stderr
    document = results(fake_artifact)
    found = other(document)
    assert (found["locked"], found["digests"], found["differences"]) == (True, True, [])
    assert "UNLOCKED" not in document["marks"] and "UNLOCKED" not in done.stdout
    run = fake_artifact / "results" / document["run_id"]
    assert "as locked" in (run / "summary.md").read_text()
    assert artifact(fake_artifact, "verify", run).returncode == 0

    # One byte of one installed file, whose name and version are as they were.
    module = tiny.site(python.parents[1]) / "foo/__init__.py"
    module.write_text(module.read_text() + "#")
    refused = artifact(fake_artifact, *RUN, "--ws-python", python)
    assert refused.returncode == 3
    assert "foo: found foo/__init__.py, which was changed after it was" in refused.stderr
    assert "--unlocked-env" in refused.stderr

    taken = artifact(fake_artifact, *RUN, "--ws-python", python, "--unlocked-env")
    assert taken.returncode == 0, taken.stderr
    document = results(fake_artifact)
    assert other(document)["locked"] is False
    assert "UNLOCKED" in document["marks"]
    assert "UNLOCKED" in taken.stdout
