"""Tables that an earlier version of the tool wrote.

``summary.csv``, ``summary.md`` and ``provenance.json`` follow from results.json and from the
words of the tool. The version that wrote them makes them again, byte for byte. A later one has
other words and further columns: it compares the cells of the columns that both have, and what
the statement says of the files beside it. The words of an older summary.md are only pinned.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from artifact import __version__
from artifact.errors import VerificationError
from artifact.model.load import parse_json
from artifact.model.results import RunResults
from artifact.report.plots import ROW_COLUMNS, RUN_COLUMNS

#: The versions before this one whose runs can be checked.
EARLIER = ("0.1.0",)

_CSV, _STATEMENT = "summary.csv", "provenance.json"


def is_known(results: RunResults) -> bool:
    """Whether the tables of the version that wrote this run can be checked."""
    return results.tool.version in (__version__, *EARLIER)


def wrong_tables(
    there: Mapping[str, bytes], made: Mapping[str, bytes], results: RunResults
) -> tuple[str, ...]:
    """The names of the tables that do not follow from the results of a complete run.

    Args:
        there: The tables of the run folder, by file name.
        made: What this version makes of its results.
        results: Of a version that :func:`is_known`.
    """
    if results.tool.version == __version__:
        return tuple(name for name, data in there.items() if data != made[name])
    wrong = []
    if _CSV in there and not _same_cells(there[_CSV], made[_CSV]):
        wrong.append(_CSV)
    if _STATEMENT in there and _subjects(there[_STATEMENT]) != _pinned(results):
        wrong.append(_STATEMENT)
    return tuple(wrong)


def _same_cells(data: bytes, made: bytes) -> bool:
    """Whether a table has columns of ours, all that a figure needs, and the same cells there."""
    rows, expected = _rows(data), _rows(made)
    if not rows or not expected or len(rows) != len(expected):
        return False
    header, columns = rows[0], expected[0]
    needed = {*ROW_COLUMNS, *RUN_COLUMNS, "median_ms"}
    if len(set(header)) != len(header) or not needed <= set(header) <= set(columns):
        return False
    places = [columns.index(name) for name in header]
    return all(row == [other[i] for i in places] for row, other in zip(rows, expected, strict=True))


def _rows(data: bytes) -> list[list[str]] | None:
    try:
        return list(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None


def _subjects(data: bytes) -> object:
    try:
        document = parse_json(data, _STATEMENT)
    except VerificationError:
        return None
    return document.get("subject") if isinstance(document, dict) else None


def _pinned(results: RunResults) -> list[dict[str, object]]:
    """The subjects of the statement, by the pins of the run."""
    return [
        {"name": pin.path, "digest": {"sha256": pin.sha256, "blake3": pin.blake3}}
        for pin in sorted(results.files, key=lambda pin: pin.path)
        if pin.path in (_CSV, "summary.md")
    ]
