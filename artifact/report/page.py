"""report.html: the whole run on one page that asks nobody for anything.

Styles and the figure are in the file; there is no script, and the page's own policy forbids
every request. Jinja2 escapes all text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from artifact.model.results import RunResults
from artifact.report import facts, tables, words
from artifact.report.base import Report
from artifact.report.tables import Table
from artifact.report.words import visible

TEMPLATE = "report.html.j2"

#: Section -> its tables, and which of them stay folded until they are asked for.
SECTIONS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("results", "Results", ("times", "ratios", "anchor"), ("verdicts", "ranges", "conditions")),
    ("gates", "Was the right thing measured?", ("gates",), ("witnesses", "inputs")),
    (
        "environment",
        "What was run, and on what",
        ("environment", "backends", "builds", "shares", "dependencies"),
        ("variables", "phases", "differences"),
    ),
    ("absent", "What is not known", ("absent",), ()),
    ("samples", "Every sample", (), ("samples",)),
)


class PageReport(Report):
    """report.html."""

    name = "html"

    def render(self, results: RunResults, earlier: Mapping[str, bytes]) -> dict[str, bytes]:
        """The page, with the SVG figure among ``earlier`` if there is one."""
        from importlib.resources import files

        from jinja2 import Environment, StrictUndefined

        environment = Environment(
            autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        source = (files("artifact.report") / "templates" / TEMPLATE).read_text("utf-8")
        text = environment.from_string(source).render(_context(results, earlier))
        return {"report.html": text.encode("utf-8")}


def _context(results: RunResults, earlier: Mapping[str, bytes]) -> dict[str, Any]:
    every = {table.key: table for table in facts.every_table(results)}
    if sampled := tables.samples(results):
        every[sampled.key] = sampled
    line = words.protocol_line(results)
    error = results.state.error
    return {
        "title": visible(results.headings.title),
        "run": visible(results.run_id),
        "subtitle": f"{visible(results.workload.title)}, on {visible(results.device.name)}",
        "when": results.started,
        "protocol": line[0].upper() + line[1:],
        "marks": words.marks(results),
        "explained": facts.explained(results),
        "error": facts.error_rows(error) if error else (),
        "log": _link(error.log) if error and error.log else None,
        "figure": _figure(results, earlier),
        "sections": [
            {"key": key, "title": title, "open": shown, "folded": folded}
            for key, title, open_, folded_ in SECTIONS
            for shown, folded in [(_pick(every, open_), _pick(every, folded_))]
            if shown or folded
        ],
        "limits": [*facts.notes(results), *filter(None, [facts.spread(results)])],
        "checks": facts.checks(results),
        "files": list(earlier),
    }


def _pick(every: Mapping[str, Table], keys: tuple[str, ...]) -> list[Table]:
    return [every[key] for key in keys if key in every]


def _link(path: str) -> str:
    """A file of the run folder as a relative address."""
    return "./" + quote(path)


def _figure(results: RunResults, earlier: Mapping[str, bytes]) -> dict[str, str] | None:
    svg = next((data for name, data in earlier.items() if name.endswith(".svg")), None)
    if svg is None:
        return None
    size = re.search(rb'<svg[^>]* viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg)
    assert size is not None, "matplotlib writes a viewBox"
    names = ", ".join(tables.shapes(results).values())
    caption = visible(results.headings.caption)
    return {
        "uri": "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii"),
        "width": f"{float(size[1]):.0f}",
        "height": f"{float(size[2]):.0f}",
        "alt": f"Bar chart of {visible(results.metric.name)} for each implementation at {names}. "
        "The table below holds the same figures.",
        "caption": caption,
    }
