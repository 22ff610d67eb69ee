from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from artifact.envs.requirements import read_lock
from artifact.integrity.documents import load_manifest

ROOT = Path(__file__).resolve().parents[1]
THIRD_PARTY = (ROOT / "licenses/THIRD-PARTY.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def linter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licenses_lint", ROOT / "licenses/lint.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reuse_lint_passes() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "licenses/lint.py", "--lines"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_under_a_licence_without_its_text_fails(linter: ModuleType, tmp_path: Path) -> None:
    linter.stage(ROOT, tmp_path)
    assert (tmp_path / "LICENSES/Apache-2.0.txt").is_file()
    header = "SPDX-License-" + "Identifier: MIT"
    (tmp_path / "kernel.cu").write_text(f"// {header}\n")
    done = subprocess.run(
        [sys.executable, "-m", "reuse", "--root", tmp_path, "lint", "--lines"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "MIT" in done.stdout


def test_no_two_directories_differ_in_case_alone() -> None:
    names = [entry.name for entry in ROOT.iterdir()]
    assert len({name.casefold() for name in names}) == len(names)


def test_every_dependency_of_the_manifest_is_named_with_its_licence() -> None:
    manifest = load_manifest(ROOT)
    for dependency in manifest.dependencies:
        assert dependency.name in THIRD_PARTY
        assert dependency.licence, dependency.name


@pytest.mark.parametrize("name", ["main", "triton-ws"])
def test_every_locked_distribution_is_named(name: str) -> None:
    known = THIRD_PARTY.lower().replace("cupy |", "cupy cupy-cuda13x |")
    for pin in read_lock(ROOT / "envs" / name / "requirements.lock"):
        named = pin.name in known or pin.name == "torch" or pin.name.startswith("nvidia-")
        assert named, pin.name


@pytest.mark.parametrize("name", ["main", "triton-ws"])
def test_what_the_manifest_says_of_the_environments_is_what_is_locked(name: str) -> None:
    manifest = load_manifest(ROOT)
    locked = {str(pin) for pin in read_lock(ROOT / "envs" / name / "requirements.lock")}
    claimed = {
        uri.removeprefix("pkg:pypi/").replace("@", "==")
        for dependency in manifest.dependencies
        if (uri := dependency.uri or "").startswith("pkg:pypi/")
        and (f"environment {name})" in dependency.role or "both" in dependency.role)
    }
    assert claimed and claimed <= locked
