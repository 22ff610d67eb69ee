"""The tables of a run folder against its results.json (:mod:`artifact.report.earlier`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from artifact import __version__
from artifact.bench.rejudge import finding
from artifact.bench.rundir import RESULTS
from artifact.errors import ArtifactError
from artifact.integrity.pin import Finding
from artifact.model.load import read_bytes
from artifact.model.results import RunResults


def table_findings(folder: Path, results: RunResults) -> Iterator[Finding]:
    """What in the tables of a complete run does not follow from its results.

    Raises:
        EnvironmentUnmet: where a table cannot be read.
    """
    from artifact.report.base import render
    from artifact.report.earlier import EARLIER, is_known, wrong_tables

    if not is_known(results):
        yield finding(
            "tool.version: no version whose tables this one can check",
            f"one of: {', '.join((*EARLIER, __version__))}",
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
    for name in wrong_tables(there, made, results):
        yield Finding("results", name, f"is not what the report makes of {RESULTS}")


def table_notes(results: RunResults) -> Iterator[str]:
    """What of the tables of another version is left unchecked."""
    version = results.tool.version
    if version == __version__:
        return
    if not results.complete:
        yield f"version {version} of the tool wrote this run; this is {__version__}"
        return
    yield (
        f"version {version} of the tool wrote the tables: summary.csv is compared cell by cell, "
        f"the others only with their pins, which stand in {RESULTS} itself; rows that did not run "
        "as locked may not be marked"
    )
