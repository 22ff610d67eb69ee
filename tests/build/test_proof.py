"""Nothing is pinned as our compiler's work that is not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from artifact.build.compiler import find_compiler
from artifact.build.proof import require_generated
from artifact.build.regenerate import generate, write
from artifact.errors import VerificationError
from artifact.integrity.documents import load_manifest

ASSETS = Path(__file__).parents[1] / "assets"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two kernels, both compiled by the compiler of this package."""
    root = tmp_path / "own"
    (root / "manifests").mkdir(parents=True)
    shutil.copy(ASSETS / "building/artifact.toml", root / "manifests/artifact.toml")
    shutil.copytree(ASSETS / "building/runtime", root / "runtime")
    manifest = load_manifest(root)
    for kernel in manifest.kernels:
        (root / kernel.source).parent.mkdir(exist_ok=True)
        shutil.copy(ASSETS / "choreo/rows.co", root / kernel.source)
        write(root, generate(root, manifest, kernel, find_compiler()), ())
    return root


def generated(root: Path) -> Path:
    return root / load_manifest(root).kernels[0].generated


def lock(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "artifact", "lock"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_what_the_compiler_makes_is_pinned(tree: Path) -> None:
    require_generated(tree)
    done = lock(tree)
    assert done.returncode == 0, done.stderr
    assert "content id" in done.stdout


def test_an_edit_below_an_intact_stamp_is_not(tree: Path) -> None:
    path = generated(tree)
    path.write_text(path.read_text() + "// one more line\n")
    with pytest.raises(VerificationError):
        require_generated(tree)
    done = lock(tree)
    assert done.returncode == 1
    assert str(path.relative_to(tree)) in done.stderr
    assert "artifact regenerate" in done.stderr
    assert not (tree / "manifests/lock.json").exists()


def test_what_another_compiler_made_is_left_alone(tree: Path) -> None:
    path = generated(tree)
    text = path.read_text().replace(find_compiler().name, "another 1.0", 1)
    path.write_text(text + "// its own way\n")
    require_generated(tree)


@pytest.mark.parametrize("damage", ["missing", "no stamp"])
def test_what_pinning_refuses_by_itself(tree: Path, damage: str) -> None:
    path = generated(tree)
    path.unlink()
    if damage == "no stamp":
        path.write_text("int main() {}\n")
    require_generated(tree)
