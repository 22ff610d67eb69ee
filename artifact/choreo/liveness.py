"""The liveness pass: no event whose first completion waits for itself.

Rules (co-language.md, 8.1; worklog, step 2):

* A trigger comes after every wait that stands before it in its block and in the blocks around it,
  also in a role of its threads there.
  So the first completion of an event that is not ready needs the first completion of every event
  that is waited for before each of its triggers.
* Where that need leads back to the event itself, nobody ever gets on: mostly an empty ring that
  was not declared ``= ready``.
"""

from __future__ import annotations

from collections.abc import Iterator

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.events import Uses
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import Places, bodies


def check_liveness(
    tables: Tables, diagnostics: Diagnostics, found: dict[Symbol, Uses], places: Places
) -> None:
    """Say where events wait for one another in a circle; each circle once."""
    needs = {
        event: _needs(tables, found, places, uses)
        for event, uses in found.items()
        if not uses.ready and uses.waits and uses.complete
    }
    told: set[Symbol] = set()
    for event, uses in found.items():
        circle = _circle(needs, event)
        if circle is None or told & set(circle):
            continue
        told.update(circle)
        chain = ", ".join(
            f"{one.name} is triggered after waiting for {two.name}"
            for one, two in zip(circle, (*circle[1:], circle[0]), strict=True)
        )
        diagnostics.error(
            "deadlock",
            uses.waits[0].target,
            f"this waits forever: {chain}",
            rule="the first completion of an event must not need itself",
            repair="declare the ring that is empty at first '= ready'",
        )


def _needs(tables: Tables, found: dict[Symbol, Uses], places: Places, uses: Uses) -> set[Symbol]:
    """The pending events that are waited for before every trigger of one."""
    before: list[set[Symbol]] = []
    for use in uses.plain + uses.after:
        waited: set[Symbol] = set()
        for stmt in places.before(use.stmt):
            for wait in _waits(stmt):
                if (tables.threads[wait] or 0) & use.mask == use.mask:
                    waited.update(tables.uses[target.name] for target in wait.targets)
        before.append({s for s in waited if s in found and not found[s].ready})
    return set.intersection(*before) if before else set()


def _waits(stmt: syntax.Stmt) -> Iterator[syntax.Wait]:
    """The waits that a statement is or that its roles execute, whatever any condition says."""
    if isinstance(stmt, syntax.Wait):
        yield stmt
    elif isinstance(stmt, syntax.Inthreads | syntax.Block):
        for body in bodies(stmt):
            for inner in body.body:
                yield from _waits(inner)


def _circle(needs: dict[Symbol, set[Symbol]], start: Symbol) -> list[Symbol] | None:
    """A way from an event back to itself, the shortest."""
    ways = [[start]]
    seen: set[Symbol] = set()
    for way in ways:
        for need in sorted(needs.get(way[-1], ()), key=lambda s: s.name):
            if need is start:
                return way
            if need not in seen:
                seen.add(need)
                ways.append([*way, need])
    return None
