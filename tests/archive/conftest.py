"""Fixtures of the archive tests: a tiny artifact, and the scripts that make test archives."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ASSETS = Path(__file__).parent.parent / "assets" / "archives"


def load(name: str) -> ModuleType:
    """The script ``tests/assets/archives/<name>.py`` as a module."""
    if (known := sys.modules.get(f"archive_assets_{name}")) is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"archive_assets_{name}", ASSETS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    # Stamps of validated documents belong to the test, not to whoever runs it.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def make_tree() -> Callable[..., Path]:
    return load("tiny").make_tree


@pytest.fixture
def tree(tmp_path: Path, make_tree: Callable[..., Path]) -> Path:
    return make_tree(tmp_path / "tree")
