"""A small artifact with a kernel chain, a copy for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROWSUM = Path(__file__).parents[1] / "assets" / "rowsum"


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The second artifact, locked by the code under test. Shared: write nothing into it."""
    from artifact.integrity.lockfile import write_lock

    root = tmp_path_factory.mktemp("artifact") / "tree"
    shutil.copytree(ROWSUM, root, ignore=shutil.ignore_patterns("__pycache__"))
    write_lock(root)
    return root


@pytest.fixture
def tree(tmp_path: Path, locked: Path) -> Path:
    """An artifact that is as pinned, one of its files generated from another."""
    root = tmp_path / "tree"
    shutil.copytree(locked, root)
    return root
