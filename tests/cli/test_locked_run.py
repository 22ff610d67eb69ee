"""A run in an interpreter that was made from its lock: real lock, real pip, real interpreter."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cli.conftest import Run

COMMAND = ("run", "--workload", "demo", "--rounds", "1")


@pytest.fixture
def python(run: Run, tiny: ModuleType, fake_artifact: Path, tmp_path: Path) -> Path:
    """The interpreter of the environment ``other``, whose lock has one distribution."""
    _, digest = tiny.wheel(tmp_path / "wheels", "foo", "1.0")
    (fake_artifact / "other.lock").write_text(tiny.lock_line("foo", "1.0", digest))
    manifest = fake_artifact / "manifests/artifact.toml"
    text = manifest.read_text().replace('python = "3.12"', f'python = "{tiny.PYTHON}"')
    manifest.write_text(text.replace('["**/__pycache__/",', '["**/__pycache__/", "build/",'))
    assert run("lock", cwd=fake_artifact).returncode == 0
    pip = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}
    wheels = str(tmp_path / "wheels")
    made = run("env", "create", "other", cwd=fake_artifact, PIP_FIND_LINKS=wheels, **pip)
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
    run: Run, fake_artifact: Path, python: Path, tiny: ModuleType
) -> None:
    command = (*COMMAND, "--ws-python", python)
    done = run(*command, cwd=fake_artifact)
    assert done.returncode == 0, done.stderr
    document = results(fake_artifact)
    found = other(document)
    assert (found["locked"], found["digests"], found["differences"]) == (True, True, [])
    assert "UNLOCKED" not in document["marks"] and "UNLOCKED" not in done.stdout
    folder = fake_artifact / "results" / document["run_id"]
    assert "as locked" in (folder / "summary.md").read_text()
    assert run("verify", folder, cwd=fake_artifact).returncode == 0

    # One byte of one installed file, whose name and version are as they were.
    module = tiny.site(python.parents[1]) / "foo/__init__.py"
    module.write_text(module.read_text() + "#")
    refused = run(*command, cwd=fake_artifact)
    assert refused.returncode == 3
    assert "foo: found foo/__init__.py, which was changed after it was" in refused.stderr
    assert "--unlocked-env" in refused.stderr

    taken = run(*command, "--unlocked-env", cwd=fake_artifact)
    assert taken.returncode == 0, taken.stderr
    document = results(fake_artifact)
    assert other(document)["locked"] is False
    assert "UNLOCKED" in document["marks"]
    assert "UNLOCKED" in taken.stdout
