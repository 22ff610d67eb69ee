"""The hand-offs pass: who reads a tile has waited for it, and who has read it hands it back.

Rules (co-language.md, 8.1 and 8.3; worklog, the Q hand-off of the persistent kernel):

* A wait holds for the threads that execute it. All threads of the statement that reads a loaded
  tile have waited for its load, and all threads of a load for the event that says its tile is
  free, also where one lane is elected to issue it: the program does not say which.
* A tile is free when every warp that reads it says so: each warp has a thread among those that
  trigger the event which the loader waits for.
* Where threads have met at a statement in between (a copy that they carry out together), what one
  of them has waited for, or has read, the others have too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.event_check import EventCheck
from artifact.choreo.events import Use, Uses
from artifact.choreo.tables import Symbol, Tables, ViewPlan
from artifact.choreo.threads import warp_mask, warps
from artifact.choreo.traverse import Places, with_nested


def check_handoffs(
    tables: Tables, diagnostics: Diagnostics, found: dict[Symbol, Uses], places: Places
) -> None:
    """Check every read of a loaded tile, every load into one, and every release."""
    handoffs = _Handoffs(tables, diagnostics, found, places)
    for stmt in handoffs.everything:
        handoffs.reads(stmt)
        if isinstance(stmt, syntax.Transfer):
            handoffs.load(stmt)


@dataclass(eq=False)
class _Handoffs(EventCheck):
    told: set[syntax.Node] = field(default_factory=set, init=False)
    """The targets that a finding points at: one each."""

    # Waits -------------------------------------------------------------------------------------

    def reads(self, stmt: syntax.Stmt) -> None:
        """All threads of a read have waited for the load of the tile."""
        for _, buffer in self.arrivals.reads(stmt):
            loads = self.arrivals.loads(buffer)
            if loads and self.arrivals.known(stmt, loads):
                waits = self._waits_before(stmt, loads)
                own = [(t, mask) for t, mask in waits if self.tables.uses[t.name] in loads]
                if self._uncovered(stmt, own):
                    self._covered(stmt, waits, f"read {buffer.name}", own)

    def load(self, stmt: syntax.Transfer) -> None:
        """All threads of a load have waited for its tile, and all who read it release it."""
        plan = self.tables.transfers.get(stmt)
        if plan is None or plan.kind == "tma-store":
            return
        guards: dict[Symbol, list[tuple[syntax.Target, int]]] = {}
        for wait in self.arrivals.guards(stmt):
            for target in wait.targets:
                event = self.tables.uses[target.name]
                if event in self.found and self.found[event].complete:
                    guards.setdefault(event, []).append((target, self.mask(wait)))
        for waits in guards.values():
            self._covered(stmt, waits, f"load {plan.target.root.name}", waits)
        self._released(plan.target, [self.found[event] for event in guards])

    def _covered(
        self,
        stmt: syntax.Stmt,
        waits: list[tuple[syntax.Target, int]],
        does: str,
        own: list[tuple[syntax.Target, int]],
    ) -> None:
        """Say where the waits for one generation are not those of all threads of a statement.

        Args:
            stmt: What needs it.
            waits: The targets with their threads, nearest first. One whose threads have waited
                nearer by already is for an older generation.
            does: What the statement does, for the message.
            own: Those of them that are for the load itself: the finding is about one of these
                where there is one.
        """
        missing = self._uncovered(stmt, waits)
        need = self.mask(stmt)
        if missing in (0, need):
            return
        target = next(t for t, mask in (*own, *waits) if mask & need)
        if target in self.told:
            return
        self.told.add(target)
        self.diagnostics.error(
            "narrowed-wait",
            target,
            f"{(need & ~missing).bit_count()} of the {need.bit_count()} threads that {does} in "
            f"line {stmt.span.line} wait for {target.name.id}",
            rule="a wait holds for the threads that execute it; all that use a tile wait for it",
            repair=f"wait where all threads of line {stmt.span.line} get, not in a narrower "
            "inthreads",
        )

    def _uncovered(self, stmt: syntax.Stmt, waits: list[tuple[syntax.Target, int]]) -> int:
        """The threads of a statement without a wait for the nearest generation."""
        need = self.mask(stmt)
        waited = told = 0
        for target, mask in waits:
            if mask & waited & need:
                break
            waited |= mask
            told |= self.with_whom_they_met(mask, self._between(target, stmt))
        return need & ~told

    def _waits_before(
        self, stmt: syntax.Stmt, loads: set[Symbol]
    ) -> list[tuple[syntax.Target, int]]:
        """The waits that say to a statement's threads that one of the loads is complete.

        Behind the nearest wait for a load itself only such count: what was triggered after an
        older generation of it says nothing of this one.
        """
        out: list[tuple[syntax.Target, int]] = []
        direct = False
        for wait in self._nearest_waits(stmt):
            if not self.mask(wait) & self.mask(stmt):
                continue
            for target in reversed(wait.targets):
                symbol = self.tables.uses[target.name]
                if symbol in loads:
                    direct = True
                elif direct or not self.arrivals.tells(symbol, loads):
                    continue
                out.append((target, self.mask(wait)))
        return out

    def _nearest_waits(self, stmt: syntax.Stmt) -> Iterator[syntax.Wait]:
        """The waits before a statement, nested ones too, nearest first."""
        for before in self.places.before(stmt):
            yield from (s for s in reversed(with_nested(before)) if isinstance(s, syntax.Wait))

    # Releases ----------------------------------------------------------------------------------

    def _released(self, tile: ViewPlan, guards: list[Uses]) -> None:
        """Every warp that reads a tile is among those that trigger one of its release events."""
        if any(tile.added):
            # A part of a tile: others may read what others hand back.
            return
        readers = [s for s in self.everything if self._reads_tile(s, tile)]
        releases = [
            use for uses in guards for use in uses.plain if self._reader_before(use, readers)
        ]
        if not releases:
            return
        triggering = 0
        for use in (use for uses in guards for use in uses.plain):
            triggering |= use.mask
        for reader in readers:
            mask, heard = self.mask(reader), triggering
            for use in releases:
                meetings = self._between(reader, use.stmt)
                if any(self.who_meet(one, mask & -mask) & mask == mask for one in meetings):
                    heard |= mask
                heard |= self.with_whom_they_met(use.mask, reversed(meetings))
            left = [warp for warp in warps(mask) if not heard & warp_mask(warp)]
            if not left or releases[0].target in self.told:
                continue
            self.told.add(releases[0].target)
            name = self.tables.uses[releases[0].target.name].name
            self.diagnostics.error(
                "narrowed-release",
                releases[0].target,
                f"{len(left)} of the {len(warps(mask))} warps that read {tile.root.name} "
                f"in line {reader.span.line} do not trigger {name}",
                rule="a tile is handed back by every warp that reads it",
                repair=f"trigger it where all threads of line {reader.span.line} get, not in a "
                "narrower inthreads",
            )

    def _reads_tile(self, stmt: syntax.Stmt, tile: ViewPlan) -> bool:
        """Whether a statement may read a tile; constants tell the tiles of an array apart."""
        for place, buffer in self.arrivals.reads(stmt):
            view = self.tables.views.get(place) if isinstance(place, syntax.View) else None
            if buffer is tile.root and view is not None:
                one, two = (
                    self.tables.constants.get(v.tile) if v.tile is not None else None
                    for v in (view, tile)
                )
                if one is None or two is None or one == two:
                    return True
        return False

    def _reader_before(self, use: Use, readers: list[syntax.Stmt]) -> bool:
        """Whether some thread of a trigger has read the tile before it: then it is a release."""
        return any(
            self.mask(reader) & use.mask and self.order[reader] < self.order[use.stmt]
            for reader in readers
        )

    # Threads -----------------------------------------------------------------------------------

    def _between(self, first: syntax.Node, last: syntax.Node) -> list[syntax.Transfer]:
        """The meetings behind a node and before a later one, or at the first."""
        begin, end = ((node.span.line, node.span.column) for node in (first, last))
        return [s for s in self.meetings if begin <= (s.span.line, s.span.column) < end]
