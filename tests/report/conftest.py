"""Results documents that the report tests share."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from artifact.model.load import load_json, parse_model
from artifact.model.results import RunResults

ASSETS = Path(__file__).parents[1] / "assets" / "results"

#: Text that every format must show as text. Each of them acts somewhere.
HOSTILE = (
    '<script>alert("x")</script>',
    "</style></title><img src=x onerror=alert(1)>",
    "a|b *c* _d_ `e` [f](http://g.example) ~~h~~ &amp; <i>",
    "$x^2$ \\alpha {{ 7*7 }} {% raw %}",
    '=HYPERLINK("http://g.example")',
    "-1+1",
    "@SUM(A1)",
    "\t=1+1",
    "'quoted'",
    "one;=2+2",
    "line\nbreak\r\nand\x1b[31mred\x1b[0m",
    "right\u202eto left\u2066 hidden\u200b",
    "# heading",
    "1. list",
    "- list",
    "x" * 300,
    "漢字 と かな " * 8,
)


@cache
def document(name: str) -> RunResults:
    """A results document; test_base checks each against its schema, once is enough."""
    path = ASSETS / f"{name}.json"
    return load_json("results", RunResults, path.read_bytes(), str(path), trusted=True)


def without_column(table: str, name: str) -> str:
    """A CSV less one column."""
    rows = list(csv.DictReader(StringIO(table)))
    stream = StringIO()
    columns = [column for column in rows[0] if column != name]
    writer = csv.DictWriter(stream, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


@pytest.fixture
def load() -> Callable[[str], RunResults]:
    """A results document of tests/assets/results, by name. They are frozen, so shared."""
    return document


@pytest.fixture
def published(load: Callable[[str], RunResults]) -> RunResults:
    """The published run: eight backends, three shapes, much that is not known."""
    return load("published-h800")


@pytest.fixture
def complete(load: Callable[[str], RunResults]) -> RunResults:
    """A complete CPU run with marks, gates, controls, witnesses and one invalid sample."""
    return load("cpu-complete")


@pytest.fixture(scope="session")
def whole() -> dict[str, bytes]:
    """Every file of the reports of :func:`complete`, rendered once."""
    from artifact.report.base import render_all

    return render_all(document("cpu-complete"))


@pytest.fixture
def interrupted(load: Callable[[str], RunResults]) -> RunResults:
    """A run whose third worker died within timing."""
    return load("cpu-interrupted")


@pytest.fixture
def gate_failed(load: Callable[[str], RunResults]) -> RunResults:
    """A run that ended at a gate: no sample at all."""
    return load("cpu-gate-failed")


@pytest.fixture(params=sorted(path.stem for path in ASSETS.glob("*.json")))
def every(request: pytest.FixtureRequest, load: Callable[[str], RunResults]) -> RunResults:
    """Each document in turn."""
    return load(request.param)


@pytest.fixture
def changed() -> Callable[..., RunResults]:
    """A results document with the values at dotted places replaced."""

    def change(results: RunResults, **places: Any) -> RunResults:
        plain = results.model_dump(mode="json")
        for place, value in places.items():
            *path, last = place.split("__")
            at = plain
            for part in path:
                at = at[int(part)] if part.isdigit() else at[part]
            at[last] = value
        return parse_model(RunResults, plain, "changed")

    return change


@pytest.fixture
def spoil(
    interrupted: RunResults, changed: Callable[..., RunResults]
) -> Callable[[str], RunResults]:
    """An incomplete run with one text wherever a document may hold free text."""

    def spoiled(text: str) -> RunResults:
        return changed(
            interrupted,
            headings__title=text,
            headings__caption=text,
            headings__axis=text,
            metric__name=text,
            metric__explanation=text,
            workload__title=text,
            workload__note=text,
            device__name=text,
            device__facts={text: text},
            backends__0__title=text,
            backends__1__title=text + "!",
            backends__0__versions={text: text},
            backends__0__env={text: text},
            interpreters__0__differences=[text],
            witnesses__0__facts={text: text},
            checks__0__published={"passed": False, "reasons": [text]},
            state__error__what=text,
            state__error__found=text,
            state__error__next=text,
            samples__4__reasons=[text],
            samples__4__device={text: text},
            comparisons__3__reason=text,
            absent={text: text},
            tool__command=[text],
        )

    return spoiled


@pytest.fixture(params=HOSTILE, ids=lambda text: ascii(text)[:24])
def hostile(request: pytest.FixtureRequest, spoil: Callable[[str], RunResults]) -> RunResults:
    """An incomplete run full of each hostile text in turn."""
    return spoil(request.param)
