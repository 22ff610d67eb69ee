"""How an error looks on a terminal, and that it says what to do."""

from __future__ import annotations

import ast
from pathlib import Path

from artifact import errors
from artifact.errors import ArtifactError

PACKAGE = Path(errors.__file__).parent


def test_what_a_terminal_acts_on_is_written_as_text() -> None:
    bad = "a\x1b[31m\rb\x9b\nc"
    error = ArtifactError(
        bad, where=bad, expected=bad, found=bad, cause=bad, next=bad, details=(bad,)
    )
    text = error.render()
    assert text.replace("\n", "").isprintable()
    assert text.count(r"a\x1b[31m\x0db\x9b") == 7


def test_every_line_of_an_answer_is_aligned() -> None:
    assert ArtifactError("x", found="a\nb\n", next="").render().splitlines() == [
        "error: x",
        "  found:    a",
        "            b",
        "  next:     ",
    ]


COMPLETED = {"bench/session.py", "bench/worker.py", "bench/timing.py"}
"""Raised within a run alone, whose end names the raw log and the command (bench/ending.py)."""


def test_every_error_names_what_to_do_next() -> None:
    """But those of the command line, for which the command adds its own help."""
    trees = {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent.name != "choreo"
    }
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }

    def is_error(name: str) -> bool:
        return name == "ArtifactError" or any(is_error(each) for each in bases.get(name, ()))

    seen, silent = 0, []
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if not is_error(node.func.id) or node.func.id == "UsageError":
                continue
            seen += 1
            if name not in COMPLETED and "next" not in {word.arg for word in node.keywords}:
                silent.append(f"{name}:{node.lineno}")
    assert seen > 100
    assert silent == []
