"""summary.csv: one row a backend and shape, with everything that the figures print.

RFC 4180 but for one thing: lines end in LF, as line-oriented tools want it. UTF-8 without
a byte order mark, a header, an empty cell for what is not known, floats as ``repr`` writes
them (the shortest text that reads back the same), no comment lines. Columns that hold for
the whole run are repeated in each row, so that any selection of rows still says them.

Spreadsheets run cells that begin like a formula. Every text cell is guarded against that,
and :func:`artifact.report.plots.unguard` takes the guard away again.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping

from artifact.model.results import RunResults
from artifact.report import tables, words
from artifact.report.base import Report
from artifact.report.words import visible

COLUMNS = (
    "backend",
    "title",
    "remark",
    "shape",
    "samples",
    "median_ms",
    "min_ms",
    "max_ms",
    "unit",
    "rate",
    "rate_min",
    "rate_max",
    "anchor",
    "ratio_to_anchor",
    "ratio_low",
    "ratio_high",
    "verdict",
    "drift",
    "detectable",
    "marks",
    "protocol",
    "protocol_digest",
    "order",
    "clock",
    "warmup",
    "repeat",
    "rounds",
    "run_id",
    "workload",
    "note",
    "device",
    "heading",
    "axis",
    "caption",
)

# A formula can start at the start of a cell, or, where a program takes another separator
# than ours, after that; quotation marks before it are eaten by the parser. The full-width
# signs are taken for their ASCII forms by some spreadsheets. The guard itself is guarded,
# so that it can be taken away without loss.
_DANGEROUS = re.compile(r"(?:^|(?<=[;,|\t\r\n]))(?=\"*['=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")


def guard(text: str) -> str:
    """``text`` with ``'`` before everything that a spreadsheet could take for a formula."""
    return _DANGEROUS.sub("'", text)


class CsvReport(Report):
    """summary.csv."""

    name = "csv"
    reproducible = True

    def render(self, results: RunResults, earlier: Mapping[str, bytes]) -> dict[str, bytes]:
        """One header row, then a row for each summary row."""
        stream = io.StringIO(newline="")
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n", strict=True)
        writer.writeheader()
        writer.writerows(_rows(results))
        return {"summary.csv": stream.getvalue().encode("utf-8")}


def _rows(results: RunResults) -> list[dict[str, str]]:
    titles, remarks = tables.titles(results), tables.remarks(results)
    run = _run_columns(results)
    found = tables.comparison_by_place(results)
    rows = []
    for row in results.summary:
        cells: dict[str, str | int | float | None] = {
            "backend": row.backend,
            "title": titles[row.backend],
            "remark": remarks.get(row.backend, ""),
            "shape": row.shape,
            "samples": row.samples,
            "median_ms": row.median_ms,
            "min_ms": row.min_ms,
            "max_ms": row.max_ms,
            "rate": row.rate,
            "rate_min": row.rate_min,
            "rate_max": row.rate_max,
        }
        if comparison := found.get((row.backend, row.shape)):
            cells |= {
                "anchor": comparison.anchor,
                "ratio_to_anchor": comparison.ratio,
                "ratio_low": comparison.low,
                "ratio_high": comparison.high,
                "verdict": comparison.verdict,
                "drift": comparison.drift,
                "detectable": comparison.detectable,
            }
        rows.append({name: _cell(value) for name, value in (cells | run).items()})
    return rows


def _run_columns(results: RunResults) -> dict[str, str | int]:
    protocol = results.protocol
    return {
        "unit": results.metric.name,
        "marks": "; ".join(words.marks(results)),
        "protocol": protocol.name,
        "protocol_digest": results.protocol_digest,
        "order": protocol.order,
        "clock": protocol.clock,
        "warmup": protocol.warmup,
        "repeat": protocol.repeat,
        "rounds": protocol.rounds,
        "run_id": results.run_id,
        "workload": results.workload.title,
        "note": results.workload.note,
        "device": results.device.name,
        "heading": results.headings.title,
        "axis": results.headings.axis,
        "caption": results.headings.caption,
    }


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return guard(visible(value))
    return repr(value)
