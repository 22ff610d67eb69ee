#!/usr/bin/env python3
"""Draw a run's figures from its summary.csv, and from nothing else.

    python plots.py summary.csv --output DIR

One file that needs Python 3.10, matplotlib and nothing of the package it comes with. It
writes ``<unit>.png`` and ``<unit>.svg``: a panel a shape, a bar a backend at the rate of
the median, whiskers over the full range of the samples. All panels share one scale, which
starts at zero. The same file gives the same bytes with the same matplotlib.

Exit codes: 0 done, 1 the table is not one of ours, 2 usage, 3 matplotlib or the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import logging
import math
import os
import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Columns that hold for the whole run, the same in every row.
RUN_COLUMNS = (
    "unit", "anchor", "marks", "protocol", "protocol_digest", "order", "clock", "warmup",
    "repeat", "rounds", "run_id", "workload", "note", "device", "heading", "axis", "caption",
)  # fmt: skip
#: ``remark``, which tables of version 0.1.0 have not, may stand beside them.
ROW_COLUMNS = ("backend", "title", "shape", "rate", "rate_min", "rate_max")

# Okabe and Ito's palette: told apart with any colour vision; the anchor is hatched besides.
BAR, ANCHOR, INK, QUIET, ALARM = "#56B4E9", "#E69F00", "#1a1a1a", "#5c5c5c", "#9b2c00"

# Inches.
PITCH, PANEL_GAP, MARGIN = 0.36, 0.22, 0.3
LINE, SMALL_LINE = 0.21, 0.165


class TableError(ValueError):
    """The CSV is not a summary.csv; the message is one line with the row."""


@dataclass(frozen=True)
class Bar:
    """One backend at one shape, in the chart's unit."""

    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class Chart:
    """What a summary.csv says."""

    run: dict[str, str]
    """The columns of :data:`RUN_COLUMNS`."""
    titles: dict[str, str]
    """Backend -> title, in the order of the table."""
    remarks: dict[str, str]
    """Backend -> what has to stand beside its title; not every backend is in it."""
    shapes: tuple[str, ...]
    bars: dict[tuple[str, str], Bar]
    """(backend, shape) -> bar."""

    @property
    def stem(self) -> str:
        """The name of the figures' files, from the unit: ``tflops``, ``gb-s``."""
        return stem(self.run["unit"])


def stem(unit: str) -> str:
    """The name of the figures' files for a unit."""
    return re.sub(r"[^a-z0-9]+", "-", unit.lower()).strip("-") or "rate"


def unguard(text: str) -> str:
    """A text cell without the ``'`` that keeps spreadsheets from running it."""
    return re.sub(r"(?:^|(?<=[;,|\t\r\n]))'", "", text)


def read(data: bytes, name: str = "summary.csv") -> Chart:
    """Read a summary.csv. Row 1 is the header, as a spreadsheet counts.

    Raises:
        TableError: in one line, with the row and the column.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{name}: byte {error.start} is not UTF-8") from error
    rows = _rows(text, name)
    try:
        header = next(rows)
    except StopIteration:
        raise TableError(f"{name}: row 1: the file is empty, expected a header") from None
    missing = [column for column in (*ROW_COLUMNS, *RUN_COLUMNS) if column not in header]
    if missing:
        raise TableError(f"{name}: row 1: the header lacks {', '.join(missing)}")
    run: dict[str, str] | None = None
    titles: dict[str, str] = {}
    remarks: dict[str, str] = {}
    shapes: list[str] = []
    bars: dict[tuple[str, str], Bar] = {}
    for number, cells in enumerate(rows, start=2):
        where = f"{name}: row {number}"
        if len(cells) != len(header):
            raise TableError(f"{where}: expected {len(header)} cells, found {len(cells)}")
        row = {key: _printable(unguard(cell)) for key, cell in zip(header, cells, strict=True)}
        here = {column: row[column] for column in RUN_COLUMNS}
        run = run or here
        for column in RUN_COLUMNS:
            if here[column] != run[column]:
                raise TableError(
                    f"{where}: {column}: expected {run[column]!r} as in row 2, "
                    f"found {here[column]!r}; rows of two runs do not belong in one figure"
                )
        place = (row["backend"], row["shape"])
        if place in bars:
            raise TableError(f"{where}: {place[0]} at {place[1]} stands in the table twice")
        if titles.setdefault(row["backend"], row["title"]) != row["title"]:
            raise TableError(f"{where}: title: {row['backend']} has two titles")
        remark = row.get("remark", "")
        if remarks.setdefault(row["backend"], remark) != remark:
            raise TableError(f"{where}: remark: {row['backend']} has two remarks")
        if row["shape"] not in shapes:
            shapes.append(row["shape"])
        low, rate, high = (_rate(row, c, where) for c in ("rate_min", "rate", "rate_max"))
        if not low <= rate <= high:
            raise TableError(f"{where}: rate: {rate} is not between rate_min and rate_max")
        bars[place] = Bar(rate, low, high)
    if run is None:
        raise TableError(f"{name}: row 2: expected at least one row below the header, found none")
    said = {backend: remark for backend, remark in remarks.items() if remark}
    return Chart(run, titles, said, tuple(shapes), bars)


def _rows(text: str, name: str) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    number = 0
    try:
        for number, row in enumerate(reader, start=1):  # noqa: B007 - the error names the row
            yield row
    except csv.Error as error:
        raise TableError(f"{name}: row {number + 1}: {error}") from error


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def _rate(row: dict[str, str], column: str, where: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise TableError(f"{where}: {column}: expected a positive number, found {row[column]!r}")
    return value


@contextlib.contextmanager
def _quiet_matplotlib() -> Iterator[None]:
    """Matplotlib at its own defaults, whatever the user's settings, and without chatter.

    A home that cannot be written makes matplotlib log a warning and use a temporary cache;
    a character that its font lacks is drawn as a box. Neither is worth a line on the screen.
    """
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    # An MPLBACKEND that matplotlib does not know would fail its import; we never use it.
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib

        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(
                {
                    "font.family": "DejaVu Sans",
                    "text.parse_math": False,
                    "svg.fonttype": "path",
                    "svg.hashsalt": "summary.csv",
                    "hatch.linewidth": 0.8,
                }
            )
            yield
    finally:
        logger.setLevel(level)
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


def draw(data: bytes, name: str = "summary.csv") -> dict[str, bytes]:
    """The figures of a summary.csv, by file name.

    Raises:
        TableError: where ``data`` is not a summary.csv.
        ImportError: where matplotlib is missing.
    """
    chart = read(data, name)
    with _quiet_matplotlib():
        made = figure(chart)
        files = {}
        for kind, metadata in (
            ("png", {"Software": None}),
            ("svg", {"Date": None, "Creator": None, "Title": chart.run["heading"]}),
        ):
            stream = io.BytesIO()
            made.savefig(stream, format=kind, dpi=160, metadata=metadata)
            files[f"{chart.stem}.{kind}"] = stream.getvalue()
    return files


def figure(chart: Chart) -> Figure:
    """The figure, one panel a shape. Sizes are inches until the last step."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(chart.shapes), 3)
    rows = math.ceil(len(chart.shapes) / columns)
    panel_w = {1: 6.4, 2: 4.4, 3: 3.3}[columns]
    panel_h = PITCH * len(chart.titles) + 0.16
    names = {b: _label(chart, b) for b in chart.titles}
    left = MARGIN + 0.14 + max(_width(line, 9) for name in names.values() for line in name)
    width = left + columns * panel_w + (columns - 1) * PANEL_GAP + MARGIN
    footer = _footer(chart, width)
    head = MARGIN + (0.3 if chart.run["marks"] else 0) + 0.3 + LINE + 0.32
    foot = 0.62 + SMALL_LINE * len(footer) + MARGIN * 0.6
    row_h = panel_h + 0.62
    height = head + rows * row_h - 0.62 + foot
    made = Figure(figsize=(width, height))
    FigureCanvasAgg(made)
    _header(made, chart, width, height)
    top = max(bar.high for bar in chart.bars.values())
    for i, shape in enumerate(chart.shapes):
        x = left + (i % columns) * (panel_w + PANEL_GAP)
        y = height - head - (i // columns) * row_h - panel_h
        box = (x / width, y / height, panel_w / width, panel_h / height)
        axes = made.add_axes(box)
        _panel(axes, chart, shape, top, names if i % columns == 0 else None)
        title = _lines(f"{chart.run['axis']}: {shape}", 9.5, panel_w * 0.92, most=1)[0]
        axes.set_title(title, fontsize=9.5, fontweight="bold", color=INK, loc="left", pad=6)
    made.text(
        (left + (columns * panel_w + (columns - 1) * PANEL_GAP) / 2) / width,
        (foot - 0.5) / height,
        f"{chart.run['unit']} (higher is better)",
        ha="center", va="center", fontsize=9.5, color=INK,
    )  # fmt: skip
    for i, line in enumerate(footer):
        y = foot - 0.78 - SMALL_LINE * i
        made.text(MARGIN / width, y / height, line, va="center", fontsize=7.5, color=QUIET)
    return made


def _label(chart: Chart, backend: str) -> list[str]:
    """The two lines of a name: the title may be cut, what is said of it may not."""
    title, remark = chart.titles[backend], chart.remarks.get(backend)
    said = ["anchor"] * (backend == chart.run["anchor"]) + ([remark] if remark else [])
    if not said:
        return _lines(title, 9, 2.6, most=2)
    beside = f"({', '.join(said)})"
    lines = _lines(f"{title} {beside}", 9, 2.6)
    return lines if len(lines) <= 2 else [*_lines(title, 9, 2.6, most=1), beside]


def _width(text: str, size: float) -> float:
    """The width of one line in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72


def _lines(text: str, size: float, inches: float, most: int = 99) -> list[str]:
    """``text`` in at most ``most`` lines of ``inches``, with an ellipsis where it is cut."""
    text = " ".join(text.split()) or "?"
    # The mean width of this text's own characters: it may be of any script.
    room = max(8, int(0.94 * inches * len(text) / max(_width(text, size), 0.01)))
    lines = textwrap.wrap(text, room)
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][: room - 2].rstrip() + " …"]
    return lines


def _header(made: Figure, chart: Chart, width: float, height: float) -> None:
    y = height - MARGIN
    if chart.run["marks"]:
        made.text(
            MARGIN / width, (y - 0.05) / height, chart.run["marks"].replace("; ", "  ·  "),
            va="center", fontsize=10, fontweight="bold", color="white",
            bbox={"facecolor": ALARM, "edgecolor": "none", "boxstyle": "square,pad=0.35"},
        )  # fmt: skip
        y -= 0.3
    room = width - 2 * MARGIN
    heading = _lines(chart.run["heading"], 13, room * 0.92, most=1)[0]
    made.text(MARGIN / width, (y - 0.08) / height, heading,
              va="center", fontsize=13, fontweight="bold", color=INK)  # fmt: skip
    below = _lines(f"{chart.run['device']} · {chart.run['workload']}", 9.5, room, most=1)[0]
    made.text(MARGIN / width, (y - 0.34) / height, below, va="center", fontsize=9.5, color=QUIET)


def _footer(chart: Chart, width: float) -> list[str]:
    run = chart.run
    said = []
    if run["caption"]:
        said.append(run["caption"])
    if run["anchor"] in chart.titles:
        remark = chart.remarks.get(run["anchor"])
        (title,) = _lines(chart.titles[run["anchor"]], 7.5, width, most=1)
        named = f"{title} ({remark})" if remark else title
        said.append(f"Hatched bar and dashed line: the anchor, {named}.")
    if run["note"]:
        said.append(run["note"])
    said.append(
        f"Protocol {run['protocol']} {run['protocol_digest'][:12]}: {run['warmup']} warm-up "
        f"+ {run['repeat']} timed launches a sample, {run['order']} order, rounds: "
        f"{run['rounds']}, clock {run['clock']}. Run {run['run_id']}."
    )
    return [line for part in said for line in _lines(part, 7.5, width - 2 * MARGIN, most=4)]


def _panel(
    axes: Axes, chart: Chart, shape: str, top: float, names: dict[str, list[str]] | None
) -> None:
    from matplotlib.ticker import MaxNLocator

    anchor = chart.run["anchor"]
    for y, backend in enumerate(chart.titles):
        bar = chart.bars.get((backend, shape))
        if bar is None:
            axes.text(top * 0.015, y, "no samples", va="center", fontsize=8, color=QUIET)
            continue
        is_anchor = backend == anchor
        axes.barh(
            y, bar.rate, height=0.66, color=ANCHOR if is_anchor else BAR, linewidth=0.6,
            edgecolor=INK, hatch="////" if is_anchor else None, zorder=2,
        )  # fmt: skip
        axes.errorbar(
            bar.rate, y, xerr=[[bar.rate - bar.low], [bar.high - bar.rate]], fmt="none",
            ecolor=INK, elinewidth=1.2, capsize=3.2, capthick=1.2, zorder=4,
        )  # fmt: skip
        # In a column of their own: beside the bars they would meet the anchor's line.
        axes.text(top * 1.24, y, number(bar.rate), ha="right", va="center", fontsize=8.5,
                  color=INK, zorder=5)  # fmt: skip
    if (anchor, shape) in chart.bars:
        axes.axvline(chart.bars[anchor, shape].rate, color=INK, linewidth=0.9,
                     linestyle=(0, (4, 3)), zorder=3)  # fmt: skip
    axes.set_xlim(0, top * 1.24)
    axes.set_ylim(len(chart.titles) - 0.45, -0.55)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.tick_params(axis="x", labelsize=8, colors=QUIET, length=3)
    axes.tick_params(axis="y", length=0, labelsize=9, colors=INK)
    labels = ["\n".join(name) for name in names.values()] if names else []
    axes.set_yticks(range(len(chart.titles)) if names else [], labels)
    axes.grid(axis="x", color="#dddddd", linewidth=0.7, zorder=0)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#999999")


def number(value: float) -> str:
    """Four significant digits, without an exponent from 0.0001 to a million."""
    return f"{value:.0f}" if 9999.5 <= value < 1e6 else f"{value:#.4g}".rstrip(".")


def _write(path: Path, data: bytes) -> None:
    """Write beside, then rename: a reader never sees half a figure."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Draw the figures of a summary.csv (PNG and SVG).")
    parser.add_argument("csv", type=Path, help="the summary.csv of a run")
    parser.add_argument(
        "--output", type=Path, default=Path(), metavar="DIR", help="where to write (default: here)"
    )
    options = parser.parse_args(arguments)
    try:
        files = draw(options.csv.read_bytes(), options.csv.name)
        options.output.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            _write(options.output / name, data)
            print(options.output / name)
    except TableError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"error: {error}; install it: python -m pip install matplotlib", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
