"""The figures, PNG and SVG, drawn from the bytes of summary.csv by ``plots.py``."""

from __future__ import annotations

from collections.abc import Mapping

from artifact.model.results import RunResults
from artifact.report import plots
from artifact.report.base import Report


class FigureReport(Report):
    """``<unit>.png`` and ``<unit>.svg``; none where there is no sample to draw."""

    name = "figures"

    def render(self, results: RunResults, earlier: Mapping[str, bytes]) -> dict[str, bytes]:
        """The files of :func:`artifact.report.plots.draw`."""
        return plots.draw(earlier["summary.csv"]) if results.summary else {}
