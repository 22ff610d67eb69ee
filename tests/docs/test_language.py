"""docs/language/ and docs/walkthrough.md against the compiler: what they quote is what is there.

A fenced block says by its info string what it is:

* ``co file``, ``co kernel``, ``co threads``, ``co consumer``: a whole file, or statements in the
  surroundings of that name of docs/language/diagnostics.md. It compiles without a finding; with
  ``error=CODE`` or ``warning=CODE`` it gives that finding and no other.
* ``cuda``: lines of what the last ``co`` block before it that compiles becomes.
* ``co from=PATH``: lines of that file; ``cuda from=PATH``: lines of that file, or of what that
  ``.co`` file becomes.
* ``text finding``: what the compiler says of the ``co`` block before it.
* ``python`` and ``text output``: a program that has that block's text in ``program``, and what it
  prints.
* ``console`` and ``text``: commands and figures, which are not compared.

Indentation and empty lines of a quotation do not count. A line ``...`` stands for any number of
lines. The comments with source lines that generated text is full of may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from artifact.choreo import Compiled, compile_text, interpret, syntax
from artifact.choreo.analysis import analyse
from artifact.choreo.diagnostics import CompileError, Diagnostic, Diagnostics, render
from artifact.choreo.interpret_error import Fault
from artifact.choreo.parse import parse_file

ROOT = Path(__file__).resolve().parents[2]
LANGUAGE = ROOT / "docs" / "language"
DIAGNOSTICS = LANGUAGE / "diagnostics.md"
PAGES = [*sorted(LANGUAGE.glob("*.md")), ROOT / "docs" / "walkthrough.md"]
# tests/choreo/test_diagnostics_page.py compiles the examples of diagnostics.md.
OURS = [page for page in PAGES if page != DIAGNOSTICS]
SURROUNDINGS = dict(
    re.findall(r"```co surroundings=(\w+)\n(.*?)```", DIAGNOSTICS.read_text(), re.DOTALL)
)

_FENCE = re.compile(r"^```(\S*) *(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SOURCE_LINE = re.compile(r"// \d+: ")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, what it is, and the program that it is or belongs to."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    options: dict[str, str]
    text: str
    program: str | None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    program = compiling = None
    for found in _FENCE.finditer(text):
        language, info, body = found.groups()
        options = dict(word.split("=", 1) for word in info.split() if "=" in word)
        words = tuple(word for word in info.split() if "=" not in word)
        if language == "co" and "from" not in options:
            (where,) = words
            program = body if where == "file" else surrounded(where, body)
            if "error" not in options:
                compiling = program
        line = text.count("\n", 0, found.start()) + 1
        of = compiling if language == "cuda" else program
        yield Block(page, line, language, words, options, body, of)


def surrounded(where: str, example: str) -> str:
    """Statements in their surroundings, at the line of dots."""
    outside = SURROUNDINGS[where]
    (dots,) = [line for line in outside.splitlines() if line.strip() == "..."]
    indent = dots[: -len("...")]
    return outside.replace(f"{dots}\n", "".join(indent + line for line in example.splitlines(True)))


ALL = [block for page in OURS for block in blocks(page)]


def some(language: str, *, quoted: bool | None = None) -> list[object]:
    """The blocks of a language, as parameters of a test."""
    chosen = [b for b in ALL if b.language == language]
    if quoted is not None:
        chosen = [b for b in chosen if ("from" in b.options) == quoted]
    return [pytest.param(block, id=str(block)) for block in chosen]


@cache
def compiled(program: str, path: str = "example.co") -> Compiled:
    return compile_text(program, path)


def findings(program: str) -> tuple[Diagnostic, ...]:
    """What is said of a program that does not compile."""
    with pytest.raises(CompileError) as caught:
        compiled(program)
    return caught.value.diagnostics


def contains(text: str, excerpt: str) -> bool:
    """Whether a quotation is literal: see this module's first lines."""
    have = [line.strip() for line in text.splitlines() if line.strip()]
    parts: list[list[str]] = [[]]
    for line in excerpt.splitlines():
        if line.strip() == "...":
            parts.append([])
        elif line.strip():
            parts[-1].append(line.strip())
    start: int | None = 0
    for part in parts:
        if start is None:
            return False
        ends = (_end(have, first, part) for first in range(start, len(have) + 1))
        start = next((end for end in ends if end is not None), None)
    return start is not None


def _end(have: Sequence[str], at: int, wanted: Sequence[str]) -> int | None:
    """Where the lines that begin at ``at`` end, if they are the wanted ones."""
    for line in wanted:
        while at < len(have) and have[at] != line and _SOURCE_LINE.match(have[at]):
            at += 1
        if at == len(have) or have[at] != line:
            return None
        at += 1
    return at


def quoted(block: Block) -> str:
    """The text that a block with ``from=`` quotes."""
    path = block.options["from"]
    text = (ROOT / path).read_text()
    return compiled(text, path).cuda if block.language == "cuda" and path.endswith(".co") else text


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    kinds = {"co", "cuda", "console", "python", "text"}
    assert [str(b) for b in ALL if b.language not in kinds] == []
    assert {w for b in ALL for w in b.words} <= {"file", "finding", "output", *SURROUNDINGS}
    assert {o for b in ALL for o in b.options} <= {"from", "error", "warning"}


@pytest.mark.parametrize("block", some("co", quoted=False))
def test_an_example_compiles_or_gives_its_finding(block: Block) -> None:
    assert block.program is not None
    if "error" in block.options:
        found = findings(block.program)
        assert {d.code for d in found if d.severity != "info"} == {block.options["error"]}
        return
    warnings = compiled(block.program).warnings
    expected = block.options.get("warning")
    if expected is None:
        assert warnings == ()
    else:
        assert all(f"[{expected}]" in warning for warning in warnings)
        assert warnings


@pytest.mark.parametrize("block", some("co", quoted=True) + some("cuda", quoted=True))
def test_a_quotation_of_a_file_is_literal(block: Block) -> None:
    assert contains(quoted(block), block.text)


@pytest.mark.parametrize("block", some("cuda", quoted=False))
def test_an_example_becomes_the_cuda_that_is_shown(block: Block) -> None:
    assert block.program is not None
    cuda = compiled(block.program).cuda
    assert contains(cuda, block.text), cuda


@pytest.mark.parametrize("block", [p for p in some("text") if "finding" in p.values[0].words])
def test_a_finding_is_what_the_compiler_says(block: Block) -> None:
    assert block.program is not None
    said = [render(d, "example.co", block.program) for d in findings(block.program)]
    assert block.text.rstrip("\n") in said, said


@pytest.mark.parametrize("block", some("python"))
def test_a_program_prints_what_is_shown(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    exec(block.text, {"program": block.program})
    after = ALL[ALL.index(block) + 1]
    assert after.words == ("output",)
    assert capsys.readouterr().out == after.text


def events_and_futures() -> list[object]:
    """The examples of the pages about what happens at run time."""
    pages = (LANGUAGE / "events.md", LANGUAGE / "futures.md")
    chosen = [b for b in ALL if b.language == "co" and b.page in pages and not b.options]
    return [pytest.param(block, id=str(block)) for block in chosen]


@pytest.mark.parametrize("block", events_and_futures())
def test_an_example_runs_on_the_interpreter_without_a_fault(block: Block) -> None:
    assert block.program is not None
    diagnostics = Diagnostics("example.co", block.program)
    file = parse_file(block.program, "example.co", {}, diagnostics)
    assert file is not None
    tables = analyse(file, diagnostics)
    (function,) = tables
    tile = np.full((1, 256, 1, 128), 0.25, np.float32)
    tensors = {p.name: tile for p in function.params if isinstance(p, syntax.TensorParam)}
    interpret.run(file, tables, "example", tensors, {"n": 2}, seed=block.line)


def test_the_page_of_the_interpreter_lists_every_fault() -> None:
    page = (LANGUAGE / "interpreter.md").read_text()
    assert set(re.findall(r"(?m)^\| `([\w-]+)` \|", page)) == set(get_args(Fault))


def test_a_quotation_that_has_become_wrong_is_found() -> None:
    text = "a;\n// 7: b\nb;\nc;\nd;\ne;\n"
    for right in ("a;\n  b;\n", "a;\n// 7: b\nb;\n", "a;\n...\nd;\ne;\n", "\nb;\n\nc;\n"):
        assert contains(text, right)
    for wrong in ("a;\nc;\n", "a;\n// 8: b\nb;\n", "d;\n...\na;\n", "e;\nf;\n", "a;\n...\nf;\n"):
        assert not contains(text, wrong)


def test_the_reference_has_an_example_of_every_construct() -> None:
    shown = set()
    for block in blocks(LANGUAGE / "reference.md"):
        if block.language == "co" and "from" not in block.options and not block.options:
            assert block.program is not None
            file = parse_file(block.program, "", {}, Diagnostics("", block.program))
            assert file is not None
            shown |= {type(node) for node in syntax.walk(file)}
    every = {*syntax.Stmt.__args__, *syntax.Expr.__args__, *syntax.ViewOp.__args__}
    assert sorted(node.__name__ for node in every - shown) == []


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", OURS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", page.read_text())):
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.exists(), target
        if anchor:
            headings = re.findall(r"(?m)^#+ (.*)$", _FENCE.sub("", other.read_text()))
            assert anchor in {slug(h) for h in headings}, target
