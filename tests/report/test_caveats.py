"""The note and the mark of a backend that did not run with the libraries of its lock."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from artifact.model.results import Interpreter
from artifact.model.unlocked import is_unlocked, unlocked_libraries
from artifact.report import facts, plots, tables
from artifact.report.base import render
from artifact.report.page import PageReport
from artifact.report.text import summary_table
from tests.report.conftest import without_column

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


def test_an_anchor_that_is_not_as_locked_is_marked_wherever_it_is_named(published):
    anchor = published.backends[0]
    note = f"{anchor.title} did not run as locked: {TORCH}."
    marked = published.model_copy(update={"notes": (note,)})
    label = f"{anchor.title} (not as locked)"
    assert tables.ratios(marked).title == f"Speed relative to {label}"
    drift = tables.anchor_drift(marked)
    assert drift.title == f"{label} before and after"
    assert drift.headers[1:3] == (f"{label} before, ms", f"{label} after, ms")
    assert f"samples of {label} reach from" in facts.spread(marked)
    made = plots.figure(plots.read(render(marked)["summary.csv"]))
    assert any(f"the anchor, {label}." in text.get_text() for text in made.texts)


@pytest.mark.parametrize("more", [" in many more words than two lines hold" * 3, "W" * 300])
def test_a_long_title_does_not_cut_off_its_remark(published, more):
    anchor = published.backends[0]
    named = anchor.model_copy(update={"title": anchor.title + more})
    note = f"{named.title} did not run as locked: {TORCH}."
    marked = published.model_copy(
        update={"notes": (note,), "backends": (named, *published.backends[1:])}
    )
    axes = plots.figure(plots.read(render(marked)["summary.csv"])).axes[0]
    (lines,) = [
        text.get_text().split("\n")
        for text in axes.get_yticklabels()
        if "not as locked" in text.get_text()
    ]
    assert len(lines) == 2
    assert lines[0].endswith("…") and lines[1] == "(anchor, not as locked)"


def test_a_table_of_the_first_version_has_no_remarks(published):
    table = without_column(render(published)["summary.csv"].decode(), "remark")
    chart = plots.read(table.encode())
    assert chart.remarks == {} and len(chart.titles) == len(published.backends)
