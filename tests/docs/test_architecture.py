"""docs/architecture.md names every module of the package and every file of runtime/, no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PARTS = {
    heading.split(":")[0].removeprefix("artifact/"): body
    for heading, _, body in (part.partition("\n") for part in re.split(r"(?m)^## ", TEXT)[1:])
}
PACKAGES = sorted(path.parent.name for path in (ROOT / "artifact").glob("*/__init__.py"))
SUFFIXES = (".py", ".lark", ".h", ".cuh")


def named(part: str) -> set[str]:
    """Files of code in the section of a package."""
    return {word for word in re.findall(r"`([\w/]+\.\w+)`", PARTS[part]) if word.endswith(SUFFIXES)}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_is_named(package: str) -> None:
    folder = ROOT / "artifact" / package
    there = {p.name for p in folder.iterdir() if p.suffix in SUFFIXES and p.name != "__init__.py"}
    assert named(package) == there


def test_every_file_of_the_runtime_is_named() -> None:
    there = {path.name for path in (ROOT / "runtime").rglob("*") if path.suffix in SUFFIXES}
    assert named("runtime") == there
