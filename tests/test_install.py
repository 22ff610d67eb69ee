"""The wheel, built and installed without a network, and used far from the checkout."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from artifact import __version__

ROOT = Path(__file__).resolve().parents[1]
ROWSUM = ROOT / "tests" / "assets" / "rowsum"

missing = [name for name in ("pip", "flit_core") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Standard output of a command that succeeds; settings of pip and Python stay outside."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "_"))}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, "PIP_CONFIG_FILE": os.devnull, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def pip(*arguments: str | Path, cwd: Path) -> None:
    offline = ("--no-index", "--no-deps", "--disable-pip-version-check", "--no-cache-dir")
    run(sys.executable, "-m", "pip", *arguments, *offline, cwd=cwd)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the sources: a build writes nothing into the checkout."""
    place = tmp_path_factory.mktemp("wheel")
    copy = place / "copy"
    copy.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("artifact", "licenses"):
        shutil.copytree(ROOT / name, copy / name, ignore=unwanted)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy / name)
    pip("wheel", "--no-build-isolation", "-w", place, copy, cwd=place)
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder that the wheel was installed into."""
    site = wheel.parent / "site"
    pip("install", "--target", site, wheel, cwd=wheel.parent)
    return site


@pytest.fixture
def away(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def artifact(installed: Path, *arguments: str | Path, cwd: Path, **environment: str) -> str:
    command = installed / "bin" / "artifact"
    return run(command, *arguments, cwd=cwd, PYTHONPATH=str(installed), **environment)


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if ".dist-info/" not in name}
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "artifact").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == files


def test_the_installed_package_is_the_one_that_runs(installed: Path, away: Path) -> None:
    program = "import artifact; print(artifact.__file__)"
    where = run(sys.executable, "-c", program, cwd=away, PYTHONPATH=str(installed)).strip()
    assert Path(where) == installed / "artifact" / "__init__.py"
    assert artifact(installed, "--version", cwd=away) == f"artifact {__version__}\n"


def test_it_verifies_an_artifact_elsewhere(installed: Path, away: Path, tmp_path: Path) -> None:
    tree = tmp_path / "rowsum"
    shutil.copytree(ROWSUM, tree, ignore=shutil.ignore_patterns("__pycache__"))
    # The same tree twice: the schemas are read from the package first, then trusted.
    for _ in range(2):
        said = artifact(installed, "verify", "--root", tree, cwd=away)
        assert "everything is as pinned" in said


@pytest.mark.parametrize(
    ("words", "place", "offered"),
    [
        ("artifact ver", 1, ["verify"]),
        ("artifact verify --expect", 2, ["--expect-content-id"]),
        ("artifact run --order ", 3, ["paper", "interleaved"]),
        ("artifact run --interp", 2, ["--interpreter"]),
        ("artifact env c", 2, ["check", "create"]),
    ],
)
def test_the_shell_completes(
    installed: Path, away: Path, words: str, place: int, offered: list[str]
) -> None:
    said = artifact(
        installed,
        cwd=away,
        _ARTIFACT_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(place),
    )
    assert said.split() == offered


def test_the_completion_that_is_printed_asks_this_program(installed: Path, away: Path) -> None:
    said = artifact(installed, cwd=away, _ARTIFACT_COMPLETE="source_bash")
    assert "_ARTIFACT_COMPLETE=complete_bash" in said
