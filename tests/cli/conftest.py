"""A small artifact, and its commands as processes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifact.integrity.lockfile import write_lock

ROWSUM = Path(__file__).parents[1] / "assets" / "rowsum"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The second artifact, locked by the code under test."""
    root = tmp_path / "tree"
    shutil.copytree(ROWSUM, root, ignore=shutil.ignore_patterns("__pycache__"))
    write_lock(root)
    return root


@pytest.fixture
def run(start_artifact: Any, tmp_path: Path) -> Run:
    """Runs a command to its end; its streams are text, and hold no traceback."""

    def call(*args: str | Path, cwd: Path, **environment: str) -> Any:
        environment.setdefault("XDG_CACHE_HOME", str(tmp_path / "cache"))
        process = start_artifact(*args, cwd=cwd, **environment)
        out, err = process.communicate(timeout=120)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    return call
