"""The note and the mark of a backend that did not run with the libraries of its lock."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from artifact.model.results import Interpreter
from artifact.model.unlocked import is_unlocked, unlocked_libraries
from artifact.report import plots, tables
from artifact.report.base import render
from artifact.report.page import PageReport
from artifact.report.text import summary_table

TORCH = "torch: expected 2.14.0, found 2.11.0"


def interpreter(environment, *differences):
    return Interpreter(
        environment=environment,
        python="3.12.3",
        implementation="CPython",
        locked=False,
        differences=differences,
    )


TWICE = "z3-solver: expected one installation, found 2"


@pytest.mark.parametrize(
    ("differences", "said"),
    [
        ((), None),
        (("numpy: expected 2.5.5, found 2.5.2", "torchaudio: expected nothing, found 2"), None),
        (("$P/lib/torch: expected nothing, found a file",), None),
        (("numpy: expected 2.5.5, found 2.5.2", TORCH), TORCH),
        ((TORCH, TWICE), f"{TORCH}; {TWICE}"),
    ],
)
def test_libraries_that_the_worker_names_make_the_note(published, differences, said):
    versions = {"torch": "2.11.0", "Z3_solver": "4.15"}
    backend = published.backends[-1].model_copy(update={"versions": versions})
    found = [interpreter("main", TORCH), interpreter(backend.environment, *differences)]
    wanted = None if said is None else f"{backend.title} did not run as locked: {said}."
    assert unlocked_libraries(backend, found) == wanted
    native = backend.model_copy(update={"environment": None})
    assert unlocked_libraries(native, found) is None


def test_every_format_marks_the_rows_and_says_why(published):
    last, anchor = published.backends[-1], published.backends[0]
    notes = [f"{b.title} did not run as locked: {TORCH}." for b in (last, anchor)]
    marked = published.model_copy(update={"notes": tuple(notes)})
    assert not any(is_unlocked(published, b) for b in published.backends)
    assert [b.name for b in marked.backends if is_unlocked(marked, b)] == [anchor.name, last.name]
    labels = [f"{last.title} (not as locked)", f"{anchor.title} (anchor, not as locked)"]
    for table in (tables.times(marked), tables.ratios(marked), tables.ranges(marked)):
        shown = [row[0].text for row in table.rows]
        assert set(labels) <= set(shown) and "Croqtile v1: sequential" in shown
    page = PageReport().render(marked, {})["report.html"].decode("utf-8")
    summary = render(marked)["summary.md"].decode("utf-8")
    for text in (page, summary):
        assert all(said in text for said in (*labels, *notes))
    assert all(label in summary_table(marked, 160) for label in labels)


def test_verdicts_samples_and_the_figure_mark_them_too(published):
    last, anchor = published.backends[-1], published.backends[0]
    notes = tuple(f"{b.title} did not run as locked: {TORCH}." for b in (last, anchor))
    marked = published.model_copy(update={"notes": notes})
    label = f"{last.title} (not as locked)"
    assert label in {row[0].text for row in tables.verdicts(marked).rows}
    named = {row[2].text for row in tables.samples(marked).rows}
    assert {label, f"{anchor.title} (not as locked)", "Croqtile v1: sequential"} <= named
    table = render(marked)["summary.csv"]
    remarks = {row["backend"]: row["remark"] for row in csv.DictReader(StringIO(table.decode()))}
    assert {b for b, remark in remarks.items() if remark == "not as locked"} == {
        anchor.name, last.name,
    }  # fmt: skip
    assert set(remarks.values()) == {"", "not as locked"}
    axes = plots.figure(plots.read(table)).axes[0]
    shown = [" ".join(text.get_text().split()) for text in axes.get_yticklabels()]
    assert {label, f"{anchor.title} (anchor, not as locked)"} <= set(shown)
