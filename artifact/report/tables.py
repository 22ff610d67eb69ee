"""The tables of times, as data that every format draws in its own way.

Cells are finished text: numbers are written, texts of documents made visible. Every table
carries the protocol and the marks of its run, so that it says them wherever it is pasted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

from artifact.model.results import Comparison, RunResults, SummaryRow
from artifact.model.unlocked import is_unlocked
from artifact.report import words
from artifact.report.words import NOTHING, visible

Tone = Literal["", "good", "bad", "warn", "quiet"]
"""How a cell is meant: formats that have colours use it, and none needs it to be understood."""


class Cell(NamedTuple):
    """One cell."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Table:
    """One table. ``align`` has a letter a column, ``l`` or ``r``."""

    key: str
    """A short name, such as ``times``: anchors and tests find the table by it."""
    title: str
    headers: tuple[str, ...]
    align: str
    rows: tuple[tuple[Cell, ...], ...]
    caption: str

    def __post_init__(self) -> None:
        widths = {len(self.headers), len(self.align), *(len(row) for row in self.rows)}
        assert len(widths) == 1, f"table {self.key}: rows of unequal length {widths}"


def table(
    results: RunResults,
    key: str,
    title: str,
    headers: Sequence[str],
    align: str,
    rows: Iterable[Iterable[Cell | str]],
    *caption: str,
) -> Table | None:
    """A table with the run's stamp under it, or None where it would have no row."""
    cells = tuple(
        tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows
    )
    if not cells:
        return None
    said = [part for part in caption if part]
    stamp = words.stamp(results)
    said.append(". ".join((stamp[0].upper() + stamp[1:], *words.marks(results))) + ".")
    return Table(key, title, tuple(headers), align, cells, " ".join(said))


def titles(results: RunResults) -> dict[str, str]:
    """Backend name -> what tables print: in the order of the summary, then of the backends."""
    known = {b.name: visible(b.title) for b in results.backends}
    measured = [row.backend for row in results.summary]
    compared = [row.backend for row in results.comparisons]
    order = dict.fromkeys((*measured, *compared, *known))
    return {name: known.get(name, visible(name)) for name in order}


def shapes(results: RunResults) -> dict[str, str]:
    """Shape name -> what tables print, in the order of the workload."""
    return {shape.name: visible(shape.name) for shape in results.workload.shapes}


def remarks(results: RunResults) -> dict[str, str]:
    """Backend name -> what has to stand beside it wherever its figures stand, if anything."""
    return {b.name: "not as locked" for b in results.backends if is_unlocked(results, b)}


def labels(results: RunResults, *, anchor: bool = False) -> dict[str, str]:
    """Backend name -> its title with the remark, and with ``anchor`` which of them is that."""
    remarked = remarks(results)
    found = {}
    for name, title in titles(results).items():
        said = ["anchor"] * (anchor and name == results.anchor)
        said += [remarked[name]] if name in remarked else []
        found[name] = f"{title} ({', '.join(said)})" if said else title
    return found


def _present(results: RunResults) -> dict[str, str]:
    """The labels of the backends that have a sample."""
    measured = {row.backend for row in results.summary}
    return {name: label for name, label in labels(results, anchor=True).items() if name in measured}


def summary_by_place(results: RunResults) -> dict[tuple[str, str], SummaryRow]:
    """(backend, shape) -> its summary row."""
    return {(row.backend, row.shape): row for row in results.summary}


def comparison_by_place(results: RunResults) -> dict[tuple[str, str], Comparison]:
    """(backend, shape) -> its comparison."""
    return {(row.backend, row.shape): row for row in results.comparisons}


_RATIO = {
    "paper": "Median time of the anchor over median time of the implementation.",
    "interleaved": "Median over the rounds of the anchor's time over the implementation's.",
}


def _note(results: RunResults) -> str:
    return visible(results.workload.note)


def times(results: RunResults) -> Table | None:
    """One row a backend, one column a shape: ``median ms / rate``."""
    found = summary_by_place(results)
    unit = visible(results.metric.name)

    def cell(backend: str, shape: str) -> str:
        row = found.get((backend, shape))
        if row is None:
            return NOTHING
        return f"{words.milliseconds(row.median_ms)} / {words.significant(row.rate)}"

    columns = shapes(results)
    return table(
        results,
        "times",
        f"Median milliseconds / {unit}",
        ("Implementation", *(f"{title} ms / {unit}" for title in columns.values())),
        "l" + "r" * len(columns),
        (
            (label, *(cell(name, shape) for shape in columns))
            for name, label in _present(results).items()
        ),
        visible(results.metric.explanation),
        _note(results),
    )


_TONES: dict[str, Tone] = {
    "FASTER": "good",
    "SLOWER": "bad",
    "UNRESOLVED": "warn",
    "ANCHOR": "quiet",
    "NO ANCHOR": "quiet",
}


def interval(row: Comparison) -> str:
    """``[0.981, 1.012]``, or nothing where the samples are too few for one."""
    if row.low is None or row.high is None:
        return NOTHING
    return f"[{words.ratio(row.low)}, {words.ratio(row.high)}]"


def ratios(results: RunResults) -> Table | None:
    """One row a backend, one column a shape: ratio, interval and verdict."""
    found = comparison_by_place(results)

    def cell(backend: str, shape: str) -> Cell:
        row = found.get((backend, shape))
        if row is None:
            return Cell(NOTHING, "quiet")
        if row.ratio is None or row.verdict == "ANCHOR":
            return Cell(row.verdict, _TONES.get(row.verdict, ""))
        between = "" if row.low is None or row.high is None else f" {interval(row)}"
        return Cell(f"{words.ratio(row.ratio)}{between} {row.verdict}", _TONES.get(row.verdict, ""))

    anchor, expected = results.anchor, results.headings.anchor
    columns = shapes(results)
    compared = {backend for backend, _ in found}
    said: tuple[str, ...]
    if anchor is not None:
        title = labels(results)[anchor]
        said = (
            _RATIO[results.protocol.order],
            "Above 1 is faster than the anchor. In brackets the interval, where there are "
            "samples enough for one.",
        )
    elif expected is not None:
        title = f"{visible(expected)}, which was not in this run"
        said = (f"Without {visible(expected)} there is no ratio to it, and no verdict.",)
    else:
        return None
    return table(
        results,
        "ratios",
        f"Speed relative to {title}",
        ("Implementation", *columns.values()),
        "l" + "r" * len(columns),
        (
            (label, *(cell(name, shape) for shape in columns))
            for name, label in labels(results, anchor=True).items()
            if name in compared
        ),
        *said,
        _note(results),
    )


def verdicts(results: RunResults) -> Table | None:
    """Every comparison in full, with the reason of its verdict."""
    named, columns = labels(results, anchor=True), shapes(results)
    return table(
        results,
        "verdicts",
        "How each verdict was reached",
        ("Implementation", "Shape", "Ratio", "Interval", "Detectable", "Verdict", "Reason"),
        "llrrrll",
        (
            (
                named.get(row.backend, visible(row.backend)),
                columns.get(row.shape, visible(row.shape)),
                NOTHING if row.ratio is None else words.ratio(row.ratio),
                interval(row),
                NOTHING if row.detectable is None else words.percent(row.detectable, signed=False),
                Cell(row.verdict, _TONES.get(row.verdict, "")),
                _because(row),
            )
            for row in results.comparisons
            if row.verdict != "ANCHOR"
        ),
        "Detectable is the smallest relative difference that these samples would show.",
        _rules(results),
        _note(results),
    )


def _rules(results: RunResults) -> str:
    rules = results.statistics
    if rules is None:
        return ""
    return (
        f"Intervals hold at {rules.confidence:.0%} confidence; a tie is a difference of less than "
        f"{words.percent(rules.tie, signed=False)}; beyond a drift of "
        f"{words.percent(rules.max_drift, signed=False)} nothing is decided."
    )


def _because(row: Comparison) -> str:
    said = (visible(row.reason), visible(row.method or ""))
    return "; ".join(part for part in said if part) or NOTHING


def ranges(results: RunResults) -> Table | None:
    """Every summary row in full: samples, range of the times, range of the rate."""
    named, columns = labels(results, anchor=True), shapes(results)
    unit = visible(results.metric.name)
    return table(
        results,
        "ranges",
        "Samples and full ranges",
        ("Implementation", "Shape", "Samples", "Median ms", "Min ms", "Max ms", unit, "Range"),
        "llrrrrrr",
        (
            (
                named.get(row.backend, visible(row.backend)),
                columns.get(row.shape, visible(row.shape)),
                str(row.samples),
                words.milliseconds(row.median_ms),
                words.milliseconds(row.min_ms),
                words.milliseconds(row.max_ms),
                words.significant(row.rate),
                f"{words.significant(row.rate_min)} – {words.significant(row.rate_max)}",
            )
            for row in results.summary
        ),
        f"The range is that of every valid sample, in {unit}; it is not a confidence interval.",
        _note(results),
    )


def anchor_drift(results: RunResults) -> Table | None:
    """The anchor at the start and at the end of a suite in paper order.

    The two medians are of the anchor's valid samples at its first and its last place; the
    drift is the one that the verdicts were made with.
    """
    anchor = results.anchor
    if anchor is None or results.protocol.order != "paper":
        return None
    found = comparison_by_place(results)
    rows = []
    for shape, title in shapes(results).items():
        blocks: dict[int, list[float]] = {}
        for sample in results.samples:
            if sample.backend == anchor and sample.shape == shape and sample.valid:
                blocks.setdefault(sample.position, []).append(sample.ms)
        if len(blocks) < 2:
            continue
        before, after = blocks[min(blocks)], blocks[max(blocks)]
        comparison = found.get((anchor, shape)) or next(
            (c for c in results.comparisons if c.shape == shape), None
        )
        drift = comparison.drift if comparison else None
        rows.append(
            (
                title,
                words.milliseconds(median(before)),
                words.milliseconds(median(after)),
                NOTHING if drift is None else words.percent(drift),
            )
        )
    name = labels(results)[anchor]
    return table(
        results,
        "anchor",
        f"{name} before and after",
        (visible(results.headings.axis), f"{name} before, ms", f"{name} after, ms", "Change"),
        "lrrr",
        rows,
        "The anchor is measured first and last: its change shows how far the machine drifted.",
        _note(results),
    )


def samples(results: RunResults) -> Table | None:
    """Every sample as it was taken."""
    named, columns = labels(results), shapes(results)
    return table(
        results,
        "samples",
        "Every sample",
        ("Position", "Round", "Implementation", "Shape", "ms", "Valid", "Device over the window"),
        "rrllrll",
        (
            (
                str(sample.position),
                str(sample.round),
                named.get(sample.backend, visible(sample.backend)),
                columns.get(sample.shape, visible(sample.shape)),
                repr(sample.ms),
                Cell("yes")
                if sample.valid
                else Cell("; ".join(("no", *map(visible, sample.reasons))), "bad"),
                "; ".join(f"{visible(k)}: {words.scalar(v)}" for k, v in sample.device.items())
                or NOTHING,
            )
            for sample in results.samples
        ),
        "One sample is the mean of the protocol's launches.",
        _note(results),
    )
