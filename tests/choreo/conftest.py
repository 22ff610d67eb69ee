"""What the tests of the passes share: a program to its tables and findings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from artifact.choreo import syntax
from artifact.choreo.analysis import analyse
from artifact.choreo.diagnostics import Diagnostic, Diagnostics, render
from artifact.choreo.interpret import Outcome, run
from artifact.choreo.parse import parse_file
from artifact.choreo.tables import EventPlan, FragmentPlan, Symbol, Tables, TransferPlan, WaitPlan

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
CANDIDATES = KERNELS.parent / "benchmarks" / "tuning" / "candidates"

# Three warpgroups with views, buffers and events at hand.
_THREADS = """\
__co__ void example(global bf16 [B, S, H, 128] Q, global bf16 [B, S, H, 128] O,
                    global u32 [N] ids, int n) {
  parallel.async {tile, head, batch} by [cdiv(S, 128), H, B] : block {
    q = Q.subspan(1, S, 1, 128).at(batch, 0, head, 0).sqz();
    o = O.subspan(1, S, 1, 128).at(batch, 0, head, 0).sqz();
    shared bf16 [128, 128] q_tile, ring[2];
    shared event full[2], empty[2] = ready, loaded, done, taken = ready;
    parallel p by 3 : group-4, t by 128 : thread {
BODY
    }
  }
}
"""

# A role of two warpgroups, with a tile of Q and one of K loaded.
_CONSUMER = """\
inthreads.async (p == 0 && t < 32) {
  q_load = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;
  k_load = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[0];
  trigger loaded after q_load, k_load;
}
inthreads.async (p > 0) {
  cid = p - 1;
  wait loaded;
BODY
}
"""


@dataclass(frozen=True)
class Analysed:
    """The tables of a file's one function, and what was found."""

    text: str
    tables: Tables
    diagnostics: Diagnostics

    @property
    def codes(self) -> list[str]:
        """Codes of errors and warnings, by place."""
        return [d.code for d in self.diagnostics.in_order() if d.severity != "info"]

    def said(self, code: str) -> Diagnostic:
        """The one finding of a code."""
        (found,) = [d for d in self.diagnostics.found if d.code == code]
        return found

    def place(self, code: str) -> str:
        """The source text that the one finding of a code points at."""
        span = self.said(code).span
        assert span.line == span.end_line
        return self.text.splitlines()[span.line - 1][span.column - 1 : span.end_column - 1]

    def clean(self) -> Analysed:
        """Itself, if nothing is wrong."""
        shown = [render(d, "t.co", self.text) for d in self.diagnostics.found]
        assert self.codes == [], "\n".join(shown)
        return self

    def symbol(self, name: str) -> Symbol:
        """The first symbol of a name."""
        return next(s for s in self.tables.symbols if s.name == name)

    def event(self, name: str) -> EventPlan:
        """The plan of an event."""
        return self.tables.events[self.symbol(name)]

    def fragment(self, name: str) -> FragmentPlan:
        """The plan of a fragment."""
        return next(p for s, p in self.tables.fragments.items() if s.name == name)

    def waits(self, name: str) -> list[WaitPlan]:
        """The plans of the waits for an event or a future, by place."""
        found = [(t.span.line, p) for t, p in self.tables.waits.items() if t.name.id == name]
        return [plan for _, plan in sorted(found, key=lambda pair: pair[0])]

    def transfers(self) -> list[TransferPlan]:
        """The plans of the transfers, by place."""
        pairs = sorted(self.tables.transfers.items(), key=lambda pair: pair[0].span.line)
        return [plan for _, plan in pairs]

    def all(self, kind: type[syntax.Node]) -> list[syntax.Node]:
        """The nodes of a kind, in source order."""
        return [n for n in syntax.walk(self.tables.function) if isinstance(n, kind)]


def _analysed(text: str) -> Analysed:
    diagnostics = Diagnostics("t.co", text)
    file = parse_file(text, "t.co", {}, diagnostics)
    assert file is not None, [render(d, "t.co", text) for d in diagnostics.found]
    (tables,) = analyse(file, diagnostics).values()
    return Analysed(text, tables, diagnostics)


@pytest.fixture
def whole() -> Callable[[str], Analysed]:
    """Analyses a whole file with one function."""
    return _analysed


@pytest.fixture
def threads() -> Callable[[str], Analysed]:
    """Analyses statements at the level of threads: three warpgroups p of 128 threads t."""
    return lambda body: _analysed(_THREADS.replace("BODY", body))


@pytest.fixture
def consumer() -> Callable[[str], Analysed]:
    """Analyses statements of a role of two warpgroups, cid 0 and 1, with tiles loaded."""
    return lambda body: _analysed(_THREADS.replace("BODY", _CONSUMER.replace("BODY", body)))


@pytest.fixture
def kernel() -> Callable[[str], Analysed]:
    """Analyses one of the repository's kernels, by the beginning of its name."""

    def analysed(name: str) -> Analysed:
        (path,) = KERNELS.glob(f"{name}_*.co")
        return _analysed(path.read_text())

    return analysed


@dataclass(frozen=True)
class Program:
    """A file that the interpreter runs, whatever the compiler thinks of it."""

    text: str
    file: syntax.File
    function: syntax.Function
    """As the source has it: the tables may be about a tree with statements at other places."""
    tables: Tables
    codes: tuple[str, ...]
    """Of the compiler's errors."""

    def run(
        self,
        tensors: Mapping[str, Any] | None = None,
        scalars: Mapping[str, int | float | bool] | None = None,
        *,
        seed: int = 0,
    ) -> Outcome:
        """Run the file's one function."""
        tables = {self.function: self.tables}
        return run(self.file, tables, self.function.name, tensors or {}, scalars, seed=seed)

    def line(self, text: str) -> int:
        """The one line that has a text."""
        (found,) = [n for n, line in enumerate(self.text.split("\n"), 1) if text in line]
        return found


@functools.lru_cache(maxsize=8)
def _program(text: str, move: bool = True) -> Program:
    """The tables are only read, so that several runs may share them."""
    diagnostics = Diagnostics("t.co", text)
    file = parse_file(text, "t.co", {}, diagnostics)
    assert file is not None, [render(d, "t.co", text) for d in diagnostics.found]
    ((function, tables),) = analyse(file, diagnostics, move=move).items()
    errors = tuple(d.code for d in diagnostics.in_order() if d.severity == "error")
    return Program(text, file, function, tables, errors)


#: Edits of v3 that let its consumers begin each task together: then nothing that they wait for
#: needs the meeting at its store, and the compiler splits it.
TOGETHER = (
    ("    shared event second_begins;\n", ""),
    ("          inthreads (p == 2) {\n            wait second_begins;\n          }\n", ""),
    ("          inthreads (p == 1) {\n            trigger second_begins;\n          }\n", ""),
)  # fmt: skip


@pytest.fixture
def program() -> Callable[..., Program]:
    """A file with one function, for the interpreter; with ``move=False`` in the source's order."""
    return _program


@pytest.fixture
def edited(program: Callable[..., Program]) -> Callable[..., Program]:
    """A kernel (by the beginning of its name) or a candidate (by all of it) with edits.

    An edit is a pair of an old text, found once, and a new one. With ``move=False`` the statements
    run in the source's order.
    """

    def made(name: str, *edits: tuple[str, str], move: bool = True) -> Program:
        path = CANDIDATES / f"{name}.co"
        if not path.exists():
            (path,) = KERNELS.glob(f"{name}_*.co")
        text = path.read_text()
        for old, new in edits:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return program(text, move)

    return made
