"""The hazards pass: nobody touches what an MMA in flight reads or writes.

Rules (co-language.md, 11; worklog, step 3):

* Until an MMA's future is waited for, its accumulator is neither read nor written; another MMA may
  go on accumulating in it.
* Until then its register operand is neither overwritten nor read.
* Until then the tile that it reads in shared memory is not written, and not handed back: no
  trigger of the event that those wait for who fill this very slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from artifact.choreo import syntax
from artifact.choreo.comparisons import read_whole
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.event_check import EventCheck
from artifact.choreo.events import Uses
from artifact.choreo.tables import Symbol, Tables, ViewPlan
from artifact.choreo.traverse import Places, changed_name, own, statements


def check_hazards(
    tables: Tables, diagnostics: Diagnostics, found: dict[Symbol, Uses], places: Places
) -> None:
    """Check every statement against the MMAs in flight when it begins."""
    hazards = _Hazards(tables, diagnostics, found, places)
    for stmt in statements(tables.function.body):
        flight = tables.in_flight.get(stmt, ())
        if not flight:
            continue
        hazards.fragments(stmt, flight)
        if isinstance(stmt, syntax.Trigger) and not stmt.after:
            hazards.release(stmt, flight)
        elif isinstance(stmt, syntax.Transfer | syntax.MmaStore):
            hazards.overwrite(stmt, flight)


@dataclass(eq=False)
class _Hazards(EventCheck):
    told: set[tuple[syntax.Mma, Symbol]] = field(default_factory=set, init=False)
    """One finding for each fragment of an MMA: the first."""

    # Registers ---------------------------------------------------------------------------------

    def fragments(self, stmt: syntax.Stmt, flight: tuple[syntax.Mma, ...]) -> None:
        """No access to an accumulator or a register operand in flight."""
        for place, symbol, writes in self._accesses(stmt):
            for mma in flight:
                future = mma.result or "the MMA"
                if (mma, symbol) in self.told:
                    continue
                if self.tables.uses[mma.accumulator] is symbol:
                    self.told.add((mma, symbol))
                    self.diagnostics.error(
                        "accumulator-in-flight",
                        place,
                        f"{symbol.name} is {'written' if writes else 'read'} while {future} of "
                        f"line {mma.span.line} still accumulates in it",
                        rule="an accumulator belongs to its MMA until the future is waited for",
                        repair=f"wait {future}; before this",
                    )
                elif self._operand(mma) is symbol:
                    self.told.add((mma, symbol))
                    self.diagnostics.error(
                        "operand-in-flight",
                        place,
                        f"{symbol.name} is {'overwritten' if writes else 'read'} while {future} of "
                        f"line {mma.span.line} still reads it",
                        rule="a register operand belongs to its MMA until the future is waited for",
                        repair=f"wait {future}; before this",
                    )

    def _operand(self, mma: syntax.Mma) -> Symbol | None:
        plan = self.tables.mmas.get(mma)
        return plan.a if plan is not None and isinstance(plan.a, Symbol) else None

    def _accesses(self, stmt: syntax.Stmt) -> Iterator[tuple[syntax.Node, Symbol, bool]]:
        """Fragments that a statement itself touches, and whether it writes them."""
        uses = self.tables.uses
        for name in read_whole(stmt):
            yield name, uses[name], False
        match stmt:
            case syntax.MmaFill() | syntax.MmaLoad():
                yield stmt, self.tables.fills[stmt], True
            case syntax.Mma() | syntax.Inthreads() | syntax.If() | syntax.While():
                # An MMA on an accumulator in flight goes on in it; the rest has no elements.
                return
            case syntax.Apply():
                yield from self._elements(stmt.body)
            case syntax.Assign(target=syntax.Element()):
                # In the body of an apply: seen with the apply.
                return
            case syntax.MmaStore():
                yield stmt.accumulator, uses[stmt.accumulator], False
            case syntax.Reduce() | syntax.CopyFragment():
                yield stmt.source, uses[stmt.source], False
                yield stmt.target, uses[stmt.target], True
            case syntax.AllReduce():
                yield stmt.target, uses[stmt.target], True
            case syntax.CallStmt():
                for node in own(stmt):
                    symbol = uses.get(node)
                    if symbol is not None and symbol.kind == "fragment":
                        yield node, symbol, True

    def _elements(self, body: syntax.Block) -> Iterator[tuple[syntax.Node, Symbol, bool]]:
        written = {
            node.target
            for node in syntax.walk(body)
            if isinstance(node, syntax.Assign) and isinstance(node.target, syntax.Element)
        }
        for node in syntax.walk(body):
            if isinstance(node, syntax.Element):
                symbol = self.tables.uses[node.base]
                if symbol.kind == "fragment":
                    yield node, symbol, node in written

    # Shared tiles ------------------------------------------------------------------------------

    def overwrite(
        self, stmt: syntax.Transfer | syntax.MmaStore, flight: tuple[syntax.Mma, ...]
    ) -> None:
        """No tile is written that an MMA in flight reads, where both name it alike."""
        if isinstance(stmt, syntax.MmaStore):
            target = self.tables.views.get(stmt.destination)
        else:
            plan = self.tables.transfers.get(stmt)
            target = plan.target if plan is not None else None
        if target is None:
            return
        for mma in flight:
            for view in self._tiles(mma):
                if view.root is target.root and syntax.same(view.tile, target.tile):
                    future = mma.result or "the MMA"
                    self.diagnostics.error(
                        "tile-in-flight",
                        stmt,
                        f"{view.root.name} is written while {future} of line "
                        f"{mma.span.line} still reads it",
                        rule="a tile belongs to the MMA that reads it until the future is waited "
                        "for",
                        repair=f"wait {future}; before this",
                    )

    def release(self, stmt: syntax.Trigger, flight: tuple[syntax.Mma, ...]) -> None:
        """No tile is handed back that an MMA in flight reads, where both name one slot."""
        for target in stmt.targets:
            filled = self._filled_after(self.tables.uses[target.name])
            for mma in flight:
                for view in self._tiles(mma):
                    if view.root in filled and self._one_slot(stmt, target, mma, view):
                        future = mma.result or "the MMA"
                        self.diagnostics.error(
                            "released-in-flight",
                            target,
                            f"{view.root.name} is handed back while {future} of line "
                            f"{mma.span.line} still reads it",
                            rule="a tile is released when the MMA that reads it is complete",
                            repair=f"wait {future}; before this trigger",
                        )

    def _filled_after(self, event: Symbol) -> set[Symbol]:
        """The buffers whose loads directly follow a wait for an event."""
        uses = self.found.get(event)
        out: set[Symbol] = set()
        for use in uses.waits if uses is not None else ():
            for stmt in self.places.after(use.stmt):
                if isinstance(stmt, syntax.Wait):
                    break
                plan = (
                    self.tables.transfers.get(stmt) if isinstance(stmt, syntax.Transfer) else None
                )
                if plan is not None and plan.kind == "tma-load":
                    out.add(plan.target.root)
        return out

    def _tiles(self, mma: syntax.Mma) -> Iterator[ViewPlan]:
        plan = self.tables.mmas.get(mma)
        if plan is not None:
            yield plan.b
            if isinstance(plan.a, ViewPlan):
                yield plan.a

    def _one_slot(
        self, stmt: syntax.Trigger, target: syntax.Target, mma: syntax.Mma, view: ViewPlan
    ) -> bool:
        """Whether the trigger's order is, for certain, that of the tile which the MMA reads."""
        order = target.order
        name = order.name if isinstance(order, syntax.Increment) else order
        if view.tile is None:
            return name is None
        symbol = self.tables.uses.get(name) if isinstance(name, syntax.Name) else None
        if symbol is None or self.places.block(stmt) is not self.places.block(mma):
            return False
        tile, first = self._slot(view.tile, mma)
        if not (
            isinstance(tile, syntax.Binary)
            and tile.op == "%"
            and self.tables.uses.get(tile.left) is symbol
        ):
            return False
        # The order has not changed since the slot was computed.
        block = self.places.block(stmt).body
        between = block[first : self.places.index(stmt)]
        return not any(
            self._changes(node, symbol) for inner in between for node in syntax.walk(inner)
        )

    def _changes(self, node: syntax.Node, symbol: Symbol) -> bool:
        name = changed_name(node)
        return name is not None and self.tables.uses.get(name) is symbol

    def _slot(self, tile: syntax.Expr, mma: syntax.Mma) -> tuple[syntax.Expr, int]:
        """The expression of a tile's number, and where in the MMA's block it is computed."""
        symbol = self.tables.uses.get(tile) if isinstance(tile, syntax.Name) else None
        node = symbol.node if symbol is not None and symbol.kind == "scalar" else None
        if isinstance(node, syntax.ScalarDecl | syntax.Assign) and self.places.block(
            node
        ) is self.places.block(mma):
            return node.value, self.places.index(node)
        return tile, self.places.index(mma)
