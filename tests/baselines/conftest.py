"""The CPU reference as a module: it is a worker file, not part of any package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def worker_file() -> Path:
    return ROOT / "baselines" / "cpu_reference.py"


@pytest.fixture(scope="session")
def cpu(worker_file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("cpu_reference_under_test", worker_file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def numerics() -> str:
    """The specification, whose test vectors the code is held to."""
    return (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")
