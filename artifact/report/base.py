"""The interface of a report, and the two functions that the rest of the package calls.

A report turns results into files and decides nothing: medians, ratios and verdicts stand
in the results already. Reports are rendered in a fixed order, and each sees the files of
those before it: the figures are drawn from the bytes of summary.csv and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from artifact.model.results import RunResults


class Report(ABC):
    """One format.

    A report depends on the results alone, but never on ``results.files``: the pins of a
    run's files are made from the files that reports write.
    """

    #: Whether the bytes follow from the results alone, whatever the library versions.
    reproducible: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """What the format is called, such as ``csv``."""

    @abstractmethod
    def render(self, results: RunResults, earlier: Mapping[str, bytes]) -> dict[str, bytes]:
        """The files of this format, by file name.

        Args:
            results: What to show.
            earlier: The files of the reports before this one, by file name.
        """


def reports() -> tuple[Report, ...]:
    """Every report, in the order in which they are rendered."""
    from artifact.report.figures import FigureReport
    from artifact.report.markdown import MarkdownReport
    from artifact.report.page import PageReport
    from artifact.report.provenance import ProvenanceReport
    from artifact.report.summary_csv import CsvReport

    return (CsvReport(), MarkdownReport(), ProvenanceReport(), FigureReport(), PageReport())


def render(results: RunResults) -> dict[str, bytes]:
    """The files whose bytes follow from ``results`` alone, by file name.

    ``summary.csv``, ``summary.md`` and ``provenance.json``: the same results give the same
    bytes on every machine, so a run folder can be checked against its results.json.
    """
    files: dict[str, bytes] = {}
    for report in reports():
        if report.reproducible:
            files.update(report.render(results, files))
    return files


def render_all(results: RunResults) -> dict[str, bytes]:
    """Every file of every report, by file name. Imports matplotlib where there are samples."""
    files: dict[str, bytes] = {}
    for report in reports():
        files.update(report.render(results, files))
    return files


def write_reports(results: RunResults, folder: Path) -> tuple[Path, ...]:
    """Write every file of every report into ``folder``, each whole or not at all.

    Everything is rendered before the first byte is written. A run hands over the results
    as they stand after its last write (``complete`` true, ``files`` still empty), so that
    what is written here is what :func:`render` makes of results.json later.

    Returns:
        The paths, in the order in which they were written.

    Raises:
        EnvironmentUnmet: where a file cannot be written.
    """
    from artifact.integrity.atomic import write_atomic

    paths = []
    for name, data in render_all(results).items():
        write_atomic(folder / name, data)
        paths.append(folder / name)
    return tuple(paths)
