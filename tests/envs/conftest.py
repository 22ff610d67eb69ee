"""Fixtures of the environment tests."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from types import ModuleType

import pytest

from artifact.model.backend import Environment


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
