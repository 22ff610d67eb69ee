"""A comparison of two runs for a terminal, as Markdown, and as a JSON document.

Reasons and caveats are said once each, and rows name them by number and letter: most of them
hold for many claims.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from artifact import __version__
from artifact.bench.claims import Figure, Kind, Outcome, Reason
from artifact.bench.compare import KINDS, Claim, RunComparison
from artifact.model.results import RunResults
from artifact.report import tables, words
from artifact.report.markdown import code, escape, table_lines
from artifact.report.tables import Cell, Table, Tone
from artifact.report.words import NOTHING, visible

_TONES: dict[Outcome, Tone] = {
    "REPRODUCED": "good",
    "NOT REPRODUCED": "bad",
    "INCOMPARABLE": "warn",
}
_STYLES: dict[Outcome, str] = {
    "REPRODUCED": "bold green",
    "NOT REPRODUCED": "bold red",
    "INCOMPARABLE": "bold yellow",
}
#: What no reader needs to look up: the verdict says it.
_PLAIN = frozenset({"within"})


@dataclass(frozen=True)
class ComparisonReport:
    """What is shown of a comparison."""

    comparison: RunComparison

    @cached_property
    def reasons(self) -> dict[Reason, str]:
        """Every reason and its number, in the order in which rows name them."""
        said = [*self.comparison.obstacles]
        said += [r for c in self.comparison.claims for r in c.reasons if r.code not in _PLAIN]
        return {reason: str(i) for i, reason in enumerate(dict.fromkeys(said), start=1)}

    @cached_property
    def caveats(self) -> dict[Reason, str]:
        """Every caveat and its letter."""
        said = dict.fromkeys(r for c in self.comparison.claims for r in c.caveats)
        return {caveat: _letters(i) for i, caveat in enumerate(said)}

    @cached_property
    def _everywhere(self) -> frozenset[Reason]:
        """Caveats of every claim: no row names them."""
        claims = self.comparison.claims
        return frozenset(r for r in self.caveats if all(r in c.caveats for c in claims))

    def tables(self, *, intervals: bool = True) -> tuple[Table, ...]:
        """A table for each kind of claim, without those that would be empty."""
        made = (self._table(kind, intervals) for kind in KINDS)
        return tuple(table for table in made if table is not None)

    def _table(self, kind: Kind, intervals: bool) -> Table | None:
        comparison = self.comparison
        claims = [claim for claim in comparison.claims if claim.kind == kind]
        if not claims:
            return None
        unit = "" if kind == "ratio" else " ms"
        return Table(
            key=kind,
            title=self._title(kind),
            headers=(
                "Implementation", "Shape", "Verdict", "Difference", f"Published{unit}",
                f"Run{unit}", "See",
            ),
            align="lllrrrl",
            rows=tuple(self._row(claim, intervals) for claim in claims),
            caption=self._caption(kind, intervals),
        )  # fmt: skip

    def _title(self, kind: Kind) -> str:
        if kind == "absolute":
            return "Absolute claims: median milliseconds"
        published = self.comparison.published
        anchor = published.anchor or self.comparison.run.anchor
        name = tables.titles(published).get(anchor, anchor) if anchor else "an anchor"
        return f"Ratio claims: speed relative to {visible(name)}"

    def _caption(self, kind: Kind, intervals: bool) -> str:
        rules = self.comparison.rules
        tolerance = rules.ratio if kind == "ratio" else rules.absolute
        said = [f"Allowed: {100 * tolerance:g} % either way."]
        if not intervals:
            said.append("A wider terminal, --output and --json also show the intervals.")
        elif kind == "ratio":
            said.append(f"In brackets the interval at {self.comparison.confidence:.0%} confidence.")
        else:
            said.append(
                "In brackets the interval of the median: that of the sign test, or the full range "
                "where the samples are too few for one."
            )
        if rules.resolution is not None:
            said.append(
                "Nothing is reproduced by a figure whose interval reaches further than "
                f"{100 * rules.resolution:g} % from it."
            )
        return " ".join(said)

    def _row(self, claim: Claim, intervals: bool) -> tuple[Cell, ...]:
        results = self.comparison.published
        titles, shapes = tables.titles(results), tables.shapes(results)
        numbers = [self.reasons[r] for r in claim.reasons if r in self.reasons]
        letters = [self.caveats[r] for r in claim.caveats if r not in self._everywhere]
        verdict = claim.outcome + (" (CROSS-DEVICE)" if claim.cross_device else "")
        difference = claim.difference
        return (
            Cell(titles[claim.backend]),
            Cell(shapes[claim.shape]),
            Cell(verdict, _TONES[claim.outcome]),
            Cell(NOTHING if difference is None else words.percent(difference)),
            Cell(_figure(claim.kind, claim.published, intervals)),
            Cell(_figure(claim.kind, claim.run, intervals)),
            Cell(" ".join((*numbers, *letters))),
        )

    def verdict(self) -> tuple[str, str]:
        """The answer as a whole, and what it rests on in a sentence."""
        counts = self.comparison.counts()
        outcome = self.comparison.outcome
        total = sum(counts.values())
        decided = total - counts["INCOMPARABLE"]
        said = f"{decided} of {words.plural(total, 'claim')} could be decided"
        if decided:
            said += (
                f": {counts['REPRODUCED']} REPRODUCED, {counts['NOT REPRODUCED']} NOT REPRODUCED"
            )
        marked = any(claim.cross_device for claim in self.comparison.claims)
        return outcome + (" (CROSS-DEVICE)" if marked else ""), said

    def alone(self) -> Iterator[str]:
        """Backends and shapes that only one of the two runs has."""
        for who, results, names in (
            ("the run", self.comparison.run, self.comparison.only_run),
            ("the published run", self.comparison.published, self.comparison.only_published),
        ):
            if names:
                titles = {**tables.titles(results), **tables.shapes(results)}
                shown = ", ".join(
                    titles[n] if titles[n] == n else f"{titles[n]} ({n})" for n in names
                )
                yield f"Only in {who}: {shown}"


def _letters(index: int) -> str:
    """``a`` to ``z``, then ``aa``, ``ab``, ..."""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def _figure(kind: Kind, figure: Figure | None, interval: bool) -> str:
    if figure is None:
        return NOTHING
    write = words.ratio if kind == "ratio" else words.milliseconds
    if not interval or figure.low is None or figure.high is None:
        return write(figure.value)
    return f"{write(figure.value)} [{write(figure.low)}, {write(figure.high)}]"


def _described(results: RunResults) -> str:
    marks = "".join(f", {mark}" for mark in words.marks(results))
    target = f" (target {results.device.target})" if results.device.target else ""
    return visible(
        f"{results.run_id}: {results.workload.name}, {words.stamp(results)}, "
        f"{results.device.name}{target}{marks}"
    )


def as_text(comparison: RunComparison, width: int = 100, *, color: bool = False) -> str:
    """The comparison as lines for a terminal of ``width`` columns.

    Lines of a table are no longer than that; sentences are not broken.
    """
    from rich.text import Text

    from artifact.report.text import lines, natural_widths, open_console, print_table

    report = ComparisonReport(comparison)
    console, stream = open_console(width, color=color)

    def say(text: str = "", style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True)

    say(f"run:        {_described(comparison.run)}")
    say(f"published:  {_described(comparison.published)}")
    made = report.tables()
    if any(sum(natural_widths(t)) + 2 * (len(t.headers) - 1) > width for t in made):
        made = report.tables(intervals=False)
    for table in made:
        say()
        print_table(console, table, fold_names=True)
        say(table.caption, "dim")
    if comparison.claims:
        say()
    for line in report.alone():
        say(line)
    for reason, number in report.reasons.items():
        say(f"{number:>3}  {visible(reason.what)}")
        if reason.next is not None:
            say(f"     next: {visible(reason.next)}", "dim")
    for caveat, letter in report.caveats.items():
        say(f"{letter:>3}  {visible(caveat.what)}", "dim")
    outcome, said = report.verdict()
    say()
    console.print(
        Text.assemble("verdict:    ", (outcome, _STYLES[comparison.outcome]), f"; {said}"),
        soft_wrap=True,
    )
    return lines(stream)


def as_markdown(comparison: RunComparison) -> str:
    """The comparison as a Markdown document."""
    return "\n".join(_markdown(comparison)).rstrip() + "\n"


def _markdown(comparison: RunComparison) -> Iterator[str]:
    report = ComparisonReport(comparison)
    outcome, said = report.verdict()
    yield f"# {escape(comparison.published.headings.title)}: {outcome}"
    yield ""
    yield f"{escape(said)}."
    yield ""
    yield f"- Run: {escape(_described(comparison.run))}"
    yield f"- Published: {escape(_described(comparison.published))}"
    for line in report.alone():
        yield f"- {escape(line)}"
    yield ""
    for table in report.tables():
        yield from table_lines(table)
    if report.reasons:
        yield "## Why"
        yield ""
        for reason, number in report.reasons.items():
            act = f". Next: {reason.next}" if reason.next else ""
            yield f"{number}. {escape(reason.what + act)}"
        yield ""
    if report.caveats:
        yield "## What to keep in mind"
        yield ""
        for caveat, letter in report.caveats.items():
            yield f"- {letter}: {escape(caveat.what)}"
        yield ""
    yield "## How to check this"
    yield ""
    arguments = [f"results/{r.run_id}" for r in (comparison.run, comparison.published)]
    option = ["--cross-device"] if comparison.cross_device else []
    yield f"- {code(shlex.join(['artifact', 'compare', *arguments, *option]))}"


def as_document(comparison: RunComparison) -> dict[str, Any]:
    """The comparison for programs; ``null`` where something is not known."""
    return {
        "tool": f"artifact {__version__}",
        "outcome": comparison.outcome,
        "exit_code": int(comparison.exit_code),
        "cross_device": comparison.cross_device,
        "run": _named(comparison.run),
        "published": _named(comparison.published),
        "rules": {
            **comparison.rules.model_dump(mode="json"),
            "confidence": comparison.confidence,
        },
        "counts": {"all": comparison.counts()} | {kind: comparison.counts(kind) for kind in KINDS},
        "obstacles": [asdict(reason) for reason in comparison.obstacles],
        "claims": [_claim(claim) for claim in comparison.claims],
        "only_in_run": list(comparison.only_run),
        "only_in_published": list(comparison.only_published),
    }


def _named(results: RunResults) -> dict[str, Any]:
    return {
        "run": results.run_id,
        "origin": results.origin,
        "complete": results.complete,
        "marks": list(results.marks),
        "device": results.device.name,
        "target": results.device.target,
        "workload": results.workload.name,
        "protocol": results.protocol.name,
        "protocol_digest": results.protocol_digest,
        "anchor": results.anchor,
    }


def _claim(claim: Claim) -> dict[str, Any]:
    return {
        "kind": claim.kind,
        "backend": claim.backend,
        "shape": claim.shape,
        "outcome": claim.outcome,
        "cross_device": claim.cross_device,
        "published": None if claim.published is None else asdict(claim.published),
        "run": None if claim.run is None else asdict(claim.run),
        "difference": claim.difference,
        "reasons": [asdict(reason) for reason in claim.reasons],
        "caveats": [asdict(reason) for reason in claim.caveats],
    }
