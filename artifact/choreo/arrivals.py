"""The arrivals pass: nobody reads a loaded tile without having waited for its load.

Rules (co-language.md, 8.1 and 9; worklog, step 2):

* A load that runs on its own publishes its tile through its event, or to those who wait for its
  future. Who reads the tile, in an MMA or a store, has waited before: for one of those, or for an
  event that somebody triggers after waiting for one of them, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.events import Uses
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import Places, bodies, statements, with_nested


def check_arrivals(
    tables: Tables, diagnostics: Diagnostics, found: dict[Symbol, Uses], places: Places
) -> None:
    """Check every read of a tile that only asynchronous loads fill."""
    arrivals = Arrivals(tables, found, places)
    for stmt in statements(tables.function.body):
        for place, buffer in arrivals.reads(stmt):
            loads = arrivals.loads(buffer)
            if loads and not arrivals.known(stmt, loads):
                names = ", ".join(sorted(symbol.name for symbol in loads))
                diagnostics.error(
                    "unwaited-load",
                    place,
                    f"{buffer.name} is read before anybody waits for its load ({names})",
                    rule="a tile is there when the event or the future of its load is complete",
                    repair="wait for it before this statement",
                )


class Arrivals:
    """What reads a loaded tile, what loads it, and which events tell that it is there."""

    def __init__(self, tables: Tables, found: dict[Symbol, Uses], places: Places) -> None:
        self.tables = tables
        self.found = found
        self.places = places
        self.waited = {
            tables.uses[target.name]
            for stmt in statements(tables.function.body)
            if isinstance(stmt, syntax.Wait)
            for target in stmt.targets
        }

    def reads(self, stmt: syntax.Stmt) -> Iterator[tuple[syntax.Node, Symbol]]:
        """The shared buffers that a statement reads by MMA, ``mma.load`` or TMA."""
        if isinstance(stmt, syntax.Mma):
            operands: tuple[syntax.View, ...] = (stmt.a, stmt.b)
        elif isinstance(stmt, syntax.Transfer | syntax.MmaLoad):
            operands = (stmt.source,)
        else:
            return
        for operand in operands:
            view = self.tables.views.get(operand)
            if view is not None and view.root.kind == "shared":
                yield operand, view.root

    def loads(self, buffer: Symbol) -> set[Symbol]:
        """The events and futures of the loads of a buffer; none where something else writes it."""
        out: set[Symbol] = set()
        for stmt in statements(self.tables.function.body):
            if isinstance(stmt, syntax.MmaStore):
                view = self.tables.views.get(stmt.destination)
                if view is not None and view.root is buffer:
                    return set()
            plan = self.tables.transfers.get(stmt) if isinstance(stmt, syntax.Transfer) else None
            if not isinstance(stmt, syntax.Transfer) or plan is None:
                continue
            if plan.kind != "tma-store" and plan.target.root is buffer:
                if not stmt.is_async:
                    return set()
                if plan.slot is not None and plan.event is not None:
                    out.add(plan.event)
                elif self._future(stmt) in self.waited:
                    out.add(self._future(stmt))
                else:
                    # That its future is never consumed is said where it is issued.
                    return set()
        return out

    def _future(self, stmt: syntax.Transfer) -> Symbol:
        return next(s for s in self.tables.declares[stmt] if s.kind == "future")

    def known(self, stmt: syntax.Stmt, loads: set[Symbol]) -> bool:
        """Whether waits before a statement say, be it by others, that a load is complete."""
        return any(self.tells(symbol, loads) for symbol in self.waited_before(stmt))

    def tells(self, symbol: Symbol, loads: set[Symbol]) -> bool:
        """Whether who waits for a symbol knows that one of the loads is complete.

        A ready event tells nothing: its first generation is complete before any load is.
        """
        known = {symbol}
        ahead = [symbol]
        for one in ahead:
            uses = self.found.get(one)
            if uses is not None and not uses.ready:
                for trigger in uses.plain + uses.after:
                    more = self.waited_before(trigger.stmt) - known
                    known |= more
                    ahead += more
        return bool(known & loads)

    def waited_before(self, stmt: syntax.Stmt, *, by_all: bool = False) -> set[Symbol]:
        """What some (or all) of a statement's threads wait for before it, in nested ones too."""
        mask = self.tables.threads.get(stmt) or 0
        found: set[Symbol] = set()
        for before in self.places.before(stmt):
            for node in syntax.walk(before):
                if isinstance(node, syntax.Wait):
                    waiting = (self.tables.threads.get(node) or 0) & mask
                    if waiting == mask if by_all else waiting:
                        found.update(self.tables.uses[target.name] for target in node.targets)
        return found

    def guards(self, stmt: syntax.Transfer) -> list[syntax.Wait]:
        """The waits right before a load, in the same trip: those for its tile to be free.

        Other loads of the same hand-over may stand between.
        """
        out: list[syntax.Wait] = []
        loops = list(self.places.loops(stmt))
        for before in self.places.before(stmt):
            if before in loops or list(self.places.loops(before)) != loops:
                break
            inside = with_nested(before)
            waits = [s for s in inside if isinstance(s, syntax.Wait)]
            if waits and all(isinstance(s, syntax.Wait | syntax.Inthreads) for s in inside):
                out += reversed(waits)
            elif out or isinstance(before, syntax.Trigger) or bodies(before):
                break
        return out
