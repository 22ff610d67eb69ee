"""The tables of a run for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from artifact.model.results import RunResults
from artifact.report import tables, words
from artifact.report.tables import Table, Tone
from artifact.report.words import visible

if TYPE_CHECKING:
    from rich.console import Console

#: Names are not broken into pieces shorter than this.
_LEAST_FOR_A_NAME = 12

_STYLES: dict[Tone, str] = {"good": "green", "bad": "red", "warn": "yellow", "quiet": "dim"}


def summary_table(results: RunResults, width: int = 100, *, color: bool = False) -> str:
    """Marks, the times and the ratios of a run, as lines of at most ``width`` columns.

    The text is the same in every locale and whatever the terminal's settings: colours are
    written exactly if ``color`` says so.
    """
    from rich.text import Text

    console, stream = open_console(width, color=color)
    console.print(Text(visible(results.headings.title), style="bold"))
    for mark in words.marks(results):
        console.print(Text(mark, style="bold red" if mark == "INCOMPLETE" else "bold yellow"))
    shown = [t for t in (tables.times(results), tables.ratios(results)) if t is not None]
    for table in shown:
        console.print()
        print_table(console, table)
    if not shown:
        console.print(Text("No sample was taken."))
    console.print()
    line = words.protocol_line(results)
    console.print(Text(f"{line[0].upper()}{line[1:]}.", style="dim"))
    if results.workload.note:
        console.print(Text(visible(results.workload.note), style="dim"))
    return lines(stream)


def open_console(width: int, *, color: bool) -> tuple[Console, io.StringIO]:
    """A console of ``width`` columns, and the stream that it writes to."""
    from rich.console import Console

    stream = io.StringIO()
    console = Console(
        file=stream,
        width=max(width, 20),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    return console, stream


def lines(stream: io.StringIO) -> str:
    """What was written, without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def print_table(console: Console, table: Table, *, fold_names: bool = False) -> None:
    """Draw ``table``, with its title and without its caption.

    Where it is too wide, figures are broken, or with ``fold_names`` the names.
    """
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        title=Text(table.title),
        title_justify="left",
        title_style="",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    widths = _widths(table, console.width, fold_names=fold_names)
    for i, (head, side) in enumerate(zip(table.headers, table.align, strict=True)):
        drawn.add_column(
            Text(head),
            justify="right" if side == "r" else "left",
            overflow="fold",
            min_width=widths[0] if i == 0 else None,
            max_width=widths[i],
        )
    for row in table.rows:
        drawn.add_row(*(Text(cell.text, style=_STYLES.get(cell.tone, "")) for cell in row))
    console.print(drawn)


def _widths(table: Table, width: int, *, fold_names: bool) -> list[int]:
    """The widest that each column may be, so that nothing has to be cut.

    Rich widens a column to its minimum after it has made the table fit, and cuts what is then
    too wide. So every column is told what there is for it. Names stay on one line as long as
    they leave room for the figures; with ``fold_names`` it is the other way about.
    """
    names = max(len(row[0].text) for row in table.rows)
    others = len(table.headers) - 1
    if fold_names:
        natural = natural_widths(table)[1:]
        left = width - sum(natural) - 2 * others
        if left >= _LEAST_FOR_A_NAME:
            return [min(names, left), *natural]
    name = min(names, width // 2)
    return [name, *[max((width - name) // max(others, 1) - 2, 1)] * others]


def natural_widths(table: Table) -> list[int]:
    """How wide each column is where no cell is broken."""
    texts = [table.headers, *(tuple(cell.text for cell in row) for row in table.rows)]
    return [max(map(len, column)) for column in zip(*texts, strict=True)]
