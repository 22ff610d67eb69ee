"""What the passes that judge events, waits and tiles have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from artifact.choreo import syntax
from artifact.choreo.arrivals import Arrivals
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.events import Uses
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.threads import warpgroup_mask, warpgroups
from artifact.choreo.traverse import Places, statements


@dataclass(eq=False)
class EventCheck:
    """One pass over one function, behind the pass that gathers the uses of events.

    Attributes:
        tables: Those of the function.
        diagnostics: Where findings go.
        found: The uses of every event.
        places: Where statements stand.
        everything: All statements, in source order.
        order: The number of each of them.
    """

    tables: Tables
    diagnostics: Diagnostics
    found: dict[Symbol, Uses]
    places: Places
    everything: tuple[syntax.Stmt, ...] = field(init=False)
    order: dict[syntax.Node, int] = field(init=False)

    def __post_init__(self) -> None:
        """Number the statements."""
        self.everything = tuple(statements(self.tables.function.body))
        self.order = {stmt: number for number, stmt in enumerate(self.everything)}

    @cached_property
    def arrivals(self) -> Arrivals:
        """What loads tiles, and which waits tell of it."""
        return Arrivals(self.tables, self.found, self.places)

    def mask(self, stmt: syntax.Stmt) -> int:
        """The threads that get to a statement; none where they are not known."""
        return self.tables.threads.get(stmt) or 0

    @cached_property
    def meetings(self) -> list[syntax.Transfer]:
        """The transfers that threads carry out together: they meet there."""
        return [
            stmt
            for stmt, plan in self.tables.transfers.items()
            if plan.kind != "tma-load" and not stmt.is_async
        ]

    def who_meet(self, stmt: syntax.Transfer, mask: int) -> int:
        """The threads that meet some of a set at a transfer, with themselves.

        Where each warpgroup stores a tile of its own it meets with itself alone.
        """
        threads = self.mask(stmt)
        if len(self.tables.transfers[stmt].leaders) == 1:
            return threads if threads & mask else 0
        return sum(threads & warpgroup_mask(group) for group in warpgroups(threads & mask))

    def with_whom_they_met(self, mask: int, meetings: Iterable[syntax.Transfer]) -> int:
        """A set of threads with all whom they meet, one meeting after the other.

        Backwards these are the threads of which the set knows that they had come so far.
        """
        for stmt in meetings:
            mask |= self.who_meet(stmt, mask)
        return mask
