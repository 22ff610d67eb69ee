"""docs/language/diagnostics.md: every code of the compiler, each with an example that gives it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from artifact.choreo.analysis import analyse
from artifact.choreo.diagnostics import Diagnostics, render
from artifact.choreo.parse import parse_file

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "language" / "diagnostics.md").read_text()
SECTIONS = {
    section.partition("\n")[0].strip(): section for section in re.split(r"(?m)^### ", PAGE)[1:]
}
SURROUNDINGS = dict(re.findall(r"```co surroundings=(\w+)\n(.*?)```", PAGE, re.DOTALL))
EXAMPLES = [
    pytest.param(code, where, example, id=f"{code}-{number}")
    for code, section in SECTIONS.items()
    for number, (where, example) in enumerate(
        re.findall(r"```co (\w+)\n(.*?)```", section, re.DOTALL)
    )
]


def program(where: str, example: str) -> str:
    """An example in its surroundings."""
    if where == "file":
        return example
    outside = SURROUNDINGS[where]
    (dots,) = [line for line in outside.splitlines() if line.strip() == "..."]
    indent = dots[: -len("...")]
    return outside.replace(f"{dots}\n", "".join(indent + line for line in example.splitlines(True)))


@pytest.mark.parametrize(("code", "where", "example"), EXAMPLES)
def test_an_example_gives_exactly_its_finding(code: str, where: str, example: str) -> None:
    text = program(where, example)
    diagnostics = Diagnostics("example.co", text)
    file = parse_file(text, "example.co", {}, diagnostics)
    if file is not None:
        analyse(file, diagnostics)
    # What an example of an error tells beside it, as an info, is no second finding.
    info = SECTIONS[code].split("\n", 2)[2].startswith("An info")
    found = [d for d in diagnostics.found if info or d.severity != "info"]
    shown = "\n".join(render(d, "example.co", text) for d in found)
    assert {d.code for d in found} == {code}, shown
    severity = re.search(r"An? (error|warning|info)", SECTIONS[code])
    assert severity is not None
    assert {d.severity for d in found} == {severity[1]}
    lines = text.splitlines()
    for d in found:
        assert 1 <= d.span.line <= len(lines)
        assert 1 <= d.span.column <= len(lines[d.span.line - 1]) + 1


# Which argument of which method is a code; `fail` is the parser's.
_CODE_ARGUMENT = {"error": 0, "fail": 0, "_error": 0, "add": 1}


def codes_of_the_sources() -> set[str]:
    """The codes that the compiler's modules name."""
    found = set()
    for path in (ROOT / "artifact" / "choreo").glob("*.py"):
        if path.name.startswith("interpret_"):
            # What a run of a program finds is no finding of the compiler.
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            position = _CODE_ARGUMENT.get(node.func.attr)
            if node.func.attr == "fail" and not path.name.startswith("tree_"):
                continue
            if position is None or len(node.args) <= position:
                continue
            for part in ast.walk(node.args[position]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found.add(part.value)
    return found


def test_the_page_lists_every_code_and_no_other() -> None:
    assert set(SECTIONS) == codes_of_the_sources() - {"internal"}
    assert "`internal`" in PAGE


def test_every_error_names_its_rule_and_repair() -> None:
    for example in EXAMPLES:
        code, where, text = example.values
        text = program(str(where), str(text))
        diagnostics = Diagnostics("example.co", text)
        file = parse_file(text, "example.co", {}, diagnostics)
        if file is None:
            continue
        analyse(file, diagnostics)
        assert all(d.rule and d.repair for d in diagnostics.found), code
