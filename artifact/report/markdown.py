"""summary.md: the run for people who read it in a terminal or on a code host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from artifact.model.results import RunResults
from artifact.report import facts, words
from artifact.report.base import Report
from artifact.report.tables import Table
from artifact.report.words import visible

# What CommonMark, its tables, strikethrough, footnotes and math act on. An underscore
# within a word, and brackets that neither link nor define, are plain text to all of them.
_SPECIAL = re.compile(
    r"[\\`*<>|#~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\[(?=\^)|\](?=[(\[:])|!(?=\[)"
)
# What begins a list, a heading's underline or a rule at the start of a line.
_START = re.compile(r"^(?:\d+(?=[.)])(?!\S\S)|(?=[-+=](?:\s|$|[-=])))")
# Bare addresses become links on code hosts, also within cells, and names mention people.
_LINKS = re.compile(r"(?i)(?<=http)(?=s?://)|(?<=www)(?=\.)|(?<=ftp)(?=://)")
_MENTION = re.compile(r"@(?=[A-Za-z0-9_])")


def escape(text: str) -> str:
    """``text`` so that Markdown shows it as it is, in a paragraph or in a table's cell."""
    # Blanks at the start show nowhere, but four of them are a block of code.
    text = visible(text).lstrip(" ").replace("&", "&amp;")
    text = _START.sub(lambda m: m.group() + "\\", _SPECIAL.sub(r"\\\g<0>", text))
    return _MENTION.sub("&#64;", _LINKS.sub("<!-- -->", text))


def code(text: str) -> str:
    """``text`` as a code span, whatever backticks it holds; for use outside of tables."""
    shown = visible(text)
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown[:1] in ("`", " ", "") or shown[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


class MarkdownReport(Report):
    """summary.md."""

    name = "markdown"
    reproducible = True

    def render(self, results: RunResults, earlier: Mapping[str, bytes]) -> dict[str, bytes]:
        """Marks and error first, then the tables, then how to check them."""
        return {"summary.md": ("\n".join(_lines(results)).rstrip() + "\n").encode("utf-8")}


def _lines(results: RunResults) -> Iterator[str]:
    yield f"# {escape(results.headings.title)}"
    yield ""
    marks = words.marks(results)
    if marks:
        yield f"**{' · '.join(marks)}**"
        yield ""
    for explanation in (*facts.explained(results), *facts.notes(results)):
        yield f"> {escape(explanation)}"
        yield ""
    yield f"{escape(results.workload.title)}, on {escape(results.device.name)}."
    line = words.protocol_line(results)
    yield f"{escape(line[0].upper() + line[1:])}."
    yield ""
    if results.state.error is not None:
        yield "## Why it ended early"
        yield ""
        for name, value in facts.error_rows(results.state.error):
            yield f"- {name}: {'<br>'.join(map(escape, value.splitlines()))}"
        yield ""
    for table in facts.every_table(results):
        yield from table_lines(table)
    yield "## How to check this"
    yield ""
    for sentence, command in facts.checks(results):
        yield f"- {sentence}: {code(command)}"


def table_lines(table: Table) -> Iterator[str]:
    """A heading, the table and its caption."""
    yield f"## {escape(table.title)}"
    yield ""
    yield _row(table.headers)
    yield _row(tuple("---:" if side == "r" else "---" for side in table.align), raw=True)
    for row in table.rows:
        yield _row(tuple(cell.text for cell in row))
    yield ""
    yield escape(table.caption)
    yield ""


def _row(cells: tuple[str, ...], *, raw: bool = False) -> str:
    return f"| {' | '.join(cells if raw else map(escape, cells))} |"
