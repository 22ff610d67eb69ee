"""Which tile of a ring is read: the one of the order that was waited for.

Rules (co-language.md, 8.2; worklog, step 2):

* Data is indexed by the slot, ``ring[order % N]``. A counter that grows without a bound is no
  tile's number.
* Where one wait is all that comes before a read, the read is of the tile that was waited for:
  nothing says of any other that its load is complete.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.event_check import EventCheck
from artifact.choreo.events import Uses
from artifact.choreo.names import bound_of
from artifact.choreo.orders import Counted, counted, reduced
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import Places, own


def check_tile_orders(
    tables: Tables, diagnostics: Diagnostics, found: dict[Symbol, Uses], places: Places
) -> None:
    """Check the number of every tile that is read or written."""
    tiles = _Tiles(tables, diagnostics, found, places)
    for stmt in tiles.everything:
        tiles.numbers(stmt)
        tiles.reads(stmt)


class _Tiles(EventCheck):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.counters = {
            order.counter
            for uses in self.found.values()
            for use in uses.waits + uses.plain + uses.after
            if use.target.order is not None
            and (order := counted(self.tables, use.target.order)) is not None
        }

    # Numbers -----------------------------------------------------------------------------------

    def numbers(self, stmt: syntax.Stmt) -> None:
        """No tile is numbered by an order that is not reduced to a slot."""
        for node in own(stmt):
            if not isinstance(node, syntax.Index):
                continue
            count = self._tiles(node)
            order = counted(self.tables, node.index)
            if order is None or count is None or order.counter not in self.counters:
                continue
            if self._grows(order.counter, count):
                name = order.counter.name
                self.diagnostics.error(
                    "order-as-slot",
                    node.index,
                    f"{name} counts on, and {node.base.id} has {count} tiles",
                    rule="data is indexed by the slot, an event by its order",
                    repair=f"{node.base.id}[{name} % {count}]",
                )

    def _tiles(self, node: syntax.Index) -> int | None:
        """How many tiles a buffer has that a tile is taken of."""
        symbol = self.tables.uses.get(node.base)
        plan = self.tables.shared.get(symbol) if symbol is not None else None
        return plan.tiles if plan is not None else None

    def _grows(self, counter: Symbol, count: int) -> bool:
        """Whether a counter gets past a number, as far as the loops around its steps tell."""
        past = False
        for stmt in self.everything:
            for node in own(stmt):
                if isinstance(node, syntax.Increment) and self._is(node.name, counter):
                    past = past or self._often(stmt, count)
            if isinstance(stmt, syntax.Assign) and self._is(stmt.target, counter):
                if stmt in self.tables.declares:
                    continue
                step = counted(self.tables, stmt.value) if stmt.op == "=" else None
                if stmt.op != "+=" and (step is None or step.counter is not counter):
                    # It begins again somewhere.
                    return False
                past = past or self._often(stmt, count)
        return past

    def _often(self, stmt: syntax.Stmt, count: int) -> bool:
        """Whether a statement is executed more often than a number, or nobody knows how often."""
        trips = 1
        for owner in self.places.enclosing(stmt):
            if isinstance(owner, syntax.If):
                return False
            if isinstance(owner, syntax.While):
                return True
            if isinstance(owner, syntax.Foreach):
                for symbol in self.tables.declares.get(owner, ()):
                    bound = self.tables.constants.get(bound_of(symbol))
                    if not isinstance(bound, int):
                        return True
                    trips *= bound
        return trips > count

    def _is(self, node: syntax.Node, counter: Symbol) -> bool:
        return self.tables.uses.get(node) is counter

    # Reads -------------------------------------------------------------------------------------

    def reads(self, stmt: syntax.Stmt) -> None:
        """A tile is that of the one wait before it in its block."""
        for place, buffer in self.arrivals.reads(stmt):
            view = self.tables.views.get(place) if isinstance(place, syntax.View) else None
            plan = self.tables.shared.get(buffer)
            if view is None or view.tile is None or plan is None:
                continue
            slot = reduced(self.tables, view.tile)
            wait = self._one_wait(stmt, self.arrivals.loads(buffer))
            if slot is None or slot[0] != plan.tiles or wait is None:
                continue
            read = counted(self.tables, slot[1], slot[2])
            target, waited = wait
            if read is None or read.counter is not waited.counter or waited.place is not None:
                continue
            passed = self._steps_between(target, read, stmt)
            if passed is None or (read.offset + passed - waited.offset) % plan.tiles == 0:
                continue
            self.diagnostics.error(
                "tile-not-waited",
                place,
                f"this reads another tile of {buffer.name} than the one that line "
                f"{target.span.line} waits for",
                rule="a tile is there when the event of its own order is complete",
                repair="wait for the order whose slot this is, or read the slot of the order that "
                "was waited for",
            )

    def _one_wait(
        self, stmt: syntax.Stmt, loads: set[Symbol]
    ) -> tuple[syntax.Target, Counted] | None:
        """The only wait of a statement's threads for the load of a tile, if it is in its block."""
        mask = self.mask(stmt)
        if len(loads) != 1:
            return None
        uses = self.found.get(next(iter(loads)))
        waits = [use for use in uses.waits if use.mask & mask] if uses is not None else []
        order = waits[0].target.order if len(waits) == 1 else None
        if order is None:
            return None
        (use,) = waits
        before = self.places.block(use.stmt) is self.places.block(stmt)
        if not before or self.places.index(use.stmt) >= self.places.index(stmt):
            return None
        # What only some threads wait for tells the others nothing.
        others = self.arrivals.waited_before(stmt, by_all=True) - loads
        if any(self.arrivals.tells(other, loads) for other in others):
            return None
        found = counted(self.tables, order)
        return None if found is None else (use.target, found)

    def _steps_between(self, target: syntax.Target, read: Counted, stmt: syntax.Stmt) -> int | None:
        """How far a counter gets from a wait until a tile's number is computed.

        Null where it does not get on by plain increments of the block.
        """
        block = self.places.block(stmt)
        end = read.place if read.place is not None else stmt
        if self.places.block(end) is not block:
            return None
        waiting = next(s for s in block.body if any(node is target for node in own(s)))
        first, last = self.places.index(waiting), self.places.index(end)
        if last < first:
            # The slot was computed before the wait; nothing may come between them.
            changed = any(self._changes(s, read.counter) for s in block.body[last:first])
            return None if changed else 0
        passed = 0
        for between in block.body[first:last]:
            for node in self._changes(between, read.counter):
                if not isinstance(node, syntax.Increment) or node not in list(own(between)):
                    return None
                before = node.prefix and between is waiting
                passed += 0 if before else 1 if node.op == "++" else -1
        return passed

    def _changes(self, stmt: syntax.Stmt, counter: Symbol) -> list[syntax.Node]:
        """The increments of a counter in a statement, and the assignments to it."""
        return [
            node
            for node in syntax.walk(stmt)
            if (isinstance(node, syntax.Increment) and self._is(node.name, counter))
            or (isinstance(node, syntax.Assign) and self._is(node.target, counter))
        ]
