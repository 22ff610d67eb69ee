"""The tables of a run folder against its results.json.

``summary.csv``, ``summary.md`` and ``provenance.json`` follow from results.json and from the
words of the tool. The version that wrote them makes them again, byte for byte. A later one may
have other words and further columns: it compares the cells of the columns that both have, and
what the statement says of the files beside it. The words of an older summary.md are only pinned.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from artifact import __version__
from artifact.bench.rejudge import finding
from artifact.bench.rundir import RESULTS
from artifact.errors import ArtifactError
from artifact.integrity.pin import Finding
from artifact.model.load import read_bytes
from artifact.model.results import RunResults

_CSV, _STATEMENT = "summary.csv", "provenance.json"


def table_findings(folder: Path, results: RunResults) -> Iterator[Finding]:
    """What in the tables of a complete run does not follow from its results.

    Raises:
        EnvironmentUnmet: where a table cannot be read.
    """
    from artifact.report.base import render

    written = _version(results.tool.version)
    if written is None or written > Version(__version__):
        yield finding(
            "tool.version: no version whose tables this one can check",
            f"{__version__}, or an earlier one",
            results.tool.version,
            "verify the run with the version that wrote it",
        )
        return
    try:
        made = render(results)
    except ArtifactError as error:
        yield finding(f"no tables can be made of it: {error}")
        return
    pinned = {pin.path for pin in results.files}
    there: dict[str, bytes] = {}
    for name in made:
        path = folder / name
        if not path.is_symlink() and path.is_file():
            there[name] = read_bytes(path)
        elif name not in pinned:
            yield Finding("missing", name, "a table of this run is not there")
    if written == Version(__version__):
        wrong = [name for name, data in there.items() if data != made[name]]
    else:
        wrong = list(_wrong_of_earlier(there, made, results))
    for name in wrong:
        yield Finding("results", name, f"is not what the report makes of {RESULTS}")


def table_notes(results: RunResults) -> Iterator[str]:
    """What the tables of an earlier version leave unchecked."""
    written = _version(results.tool.version)
    if written is not None and written < Version(__version__):
        yield (
            f"version {results.tool.version} of the tool wrote the tables: {_CSV} is compared cell "
            f"by cell; the pins of the others stand in {RESULTS} itself"
        )


def _wrong_of_earlier(
    there: dict[str, bytes], made: dict[str, bytes], results: RunResults
) -> Iterator[str]:
    from artifact.report.provenance import statement

    if _CSV in there and not _same_cells(there[_CSV], made[_CSV]):
        yield _CSV
    if _STATEMENT in there:
        others = {name: data for name, data in there.items() if name != _STATEMENT}
        expected = statement(results, others).model_dump(mode="json", by_alias=True)
        if _subjects(there[_STATEMENT]) != expected["subject"]:
            yield _STATEMENT


def _same_cells(data: bytes, made: bytes) -> bool:
    """Whether two tables agree in the columns that both have, the key and the rate among them."""
    rows, expected = _rows(data), _rows(made)
    if rows is None or expected is None or len(rows) != len(expected):
        return False
    columns = {"backend", "shape", "median_ms", "rate"}
    for row, other in zip(rows, expected, strict=True):
        both = row.keys() & other.keys()
        if not columns <= both or any(row[name] != other[name] for name in both):
            return False
    return True


def _rows(data: bytes) -> list[dict[Any, Any]] | None:
    try:
        return list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None


def _subjects(data: bytes) -> object:
    try:
        document = json.loads(data)
    except ValueError:
        return None
    return document.get("subject") if isinstance(document, dict) else None


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
