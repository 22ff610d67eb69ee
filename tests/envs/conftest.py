"""Fixtures of the environment tests: the maker of tiny wheels, channels and artifacts."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

from artifact.model.backend import Environment

TINY = Path(__file__).parent.parent / "assets" / "envs" / "tiny.py"


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    """tests/assets/envs/tiny.py as a module."""
    spec = importlib.util.spec_from_file_location("envs_assets_tiny", TINY)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def quiet_conda_lock() -> None:
    """Imports conda-lock, whose modules warn of one another and of what they use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("conda_lock.conda_lock")


@pytest.fixture
def environment(tiny: ModuleType) -> Environment:
    """The environment ``tiny`` of :func:`tiny.artifact`."""
    return Environment(
        name="tiny",
        title="Tiny",
        python=tiny.PYTHON,
        requirements="envs/tiny/requirements.lock",
        conda_lock="envs/tiny/conda-lock.yml",
        specification="envs/tiny/environment.yml",
    )


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(autouse=True)
def own_caches(caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tool reads or writes its user's cache, and none looks for an index."""
    for name in ("UV_CACHE_DIR", "PIP_CACHE_DIR", "RATTLER_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(caches / name))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
