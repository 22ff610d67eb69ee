"""Who may import whom in the package: the arrows of docs/architecture.md, lazy imports included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "artifact"

_BASE = {"integrity", "model", "errors"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "model": {"errors"},
    "integrity": {"model", "errors"},
    "archive": _BASE,
    "envs": _BASE,
    "choreo": {"errors"},
    "build": _BASE | {"choreo"},
    "report": _BASE | {"archive", "envs"},
    "bench": _BASE | {"archive", "envs", "report", "build"},
    "doctor": _BASE | {"envs", "build", "bench"},
    "cli": _BASE | {"archive", "envs", "report", "build", "bench", "doctor"},
    "__main__": {"cli"},
    "__init__": set(),
}


def imported(source: str, package: list[str], modules: set[str]) -> Iterator[tuple[int, str]]:
    """Line and top-level name of each import of the package, wherever in the file it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            # The version is an attribute of the package itself, no module of it.
            if top == "artifact" and rest.partition(".")[0] in modules:
                yield node.lineno, rest.partition(".")[0]


def violations(package: Path) -> list[str]:
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        allowed = ALLOWED[parts[0]] | {parts[0]}
        here = ["artifact", *parts[:-1]]
        for line, name in imported(path.read_text(encoding="utf-8"), here, set(ALLOWED)):
            if name not in allowed:
                found.append(f"{path.relative_to(package)}:{line} imports artifact.{name}")
    return found


def test_every_part_has_its_place() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py"}
    parts |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert parts == set(ALLOWED)


def test_imports_follow_the_arrows() -> None:
    assert violations(PACKAGE) == []


def test_the_arrows_are_those_of_the_document() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    chain = next(line for line in text.splitlines() if line.startswith("    cli -> "))
    layers = [set(layer.split(", ")) for layer in chain.strip().split(" -> ")]
    assert set().union(*layers) == {name for name in ALLOWED if not name.startswith("__")}
    for number, layer in enumerate(layers):
        below = set().union(*layers[number + 1 :])
        for name in layer:
            assert ALLOWED[name] <= below, name


def test_the_arrows_make_no_circle() -> None:
    left = dict(ALLOWED)
    while left:
        leaves = [name for name, uses in left.items() if not uses & set(left)]
        assert leaves, left
        for name in leaves:
            del left[name]


@pytest.mark.parametrize(
    "statement",
    [
        "from artifact.bench.compare import compare",
        "import artifact.bench.compare",
        "from artifact import bench",
        "from ..bench import compare",
        "from ..bench.compare import compare",
        "def late():\n    from artifact.bench import compare",
        "if TYPE_CHECKING:\n    from artifact.bench.compare import Claim",
    ],
)
def test_an_arrow_that_points_up_is_found(tmp_path: Path, statement: str) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report/page.py").write_text(statement + "\n")
    (line,) = violations(tmp_path)
    assert line.endswith("imports artifact.bench")
    (tmp_path / "report").rename(tmp_path / "doctor")
    assert violations(tmp_path) == []
