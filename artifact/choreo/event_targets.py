"""What a wait or a trigger names: a scalar event, an order of a ring, a slot.

Rules (co-language.md, 8.2):

* ``.at(order)`` belongs to an array of events; a scalar event is named as it is. A wait for an
  array names an order; a trigger without one arrives at every slot, with ``[i]`` at slot i.
* A wait for ``e[i]`` has no generation [R]: ``.at(order)`` is the form.
* An order counts generations: slot ``order % N``, generation ``order / N``. An order that is
  reduced modulo anything but a multiple of 2N has lost its generation [R].
* An order goes on counting as long as the event lives: an order that begins again in each pass
  of a loop meets old generations.
* All threads of a trigger name one generation, or its count is not met; what some threads alone
  count is no order for the others.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.events import Use, Uses
from artifact.choreo.names import bound_of
from artifact.choreo.orders import reduced, value_of
from artifact.choreo.print_expressions import print_expression
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.threads import ThreadValues
from artifact.choreo.traverse import Places


def check_targets(
    tables: Tables,
    diagnostics: Diagnostics,
    found: dict[Symbol, Uses],
    places: Places,
    values: ThreadValues,
) -> None:
    """Check every target of every event."""
    targets = _Targets(tables, diagnostics, places, values)
    for uses in found.values():
        targets.declaration(uses)
        for use in uses.waits:
            targets.wait(uses, use)
            targets.counted_alike(use)
        for use in uses.plain + uses.after:
            targets.trigger(uses, use)
            targets.one_generation(use)


class _Targets:
    def __init__(
        self,
        tables: Tables,
        diagnostics: Diagnostics,
        places: Places,
        values: ThreadValues,
    ) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.places = places
        self.values = values

    def declaration(self, uses: Uses) -> None:
        """An event lives as long as the block, so it is not declared in a loop."""
        node = uses.event.node
        if isinstance(node, syntax.EventDecl) and any(self.places.loops(node)):
            self.diagnostics.error(
                "event-in-loop",
                node,
                f"{uses.event.name} is declared in a loop",
                rule="a barrier is initialised once, before any role starts, and lives on",
                repair="declare it before the loop",
            )

    def wait(self, uses: Uses, use: Use) -> None:
        """A wait names a scalar event or an order."""
        name = uses.event.name
        if use.target.index is not None:
            self.diagnostics.error(
                "physical-index",
                use.target,
                f"{name}[..] names a slot, which has no generation to wait for",
                rule="an event is waited for by its logical order, which gives slot and generation",
                repair=f"wait {name}.at(order);" if not uses.scalar else f"wait {name};",
            )
        elif use.target.order is None and uses.slots > 1:
            self.diagnostics.error(
                "order-needed",
                use.target,
                f"{name} has {uses.slots} slots, and no order is named",
                rule="a wait for an array of events names an order",
                repair=f"wait {name}.at(order);",
            )
        else:
            self._order(uses, use)

    def trigger(self, uses: Uses, use: Use) -> None:
        """A trigger names a scalar event, an order, a slot, or every slot."""
        index = use.target.index
        if index is not None:
            value = self.tables.constants.get(index)
            # e[N] of an array of N names the whole array, as its declaration does.
            if uses.scalar or (isinstance(value, int) and not 0 <= value <= uses.slots):
                self.diagnostics.error(
                    "slot-range",
                    use.target,
                    f"{uses.event.name} has no such slot",
                    rule="e[i] is slot i of an array of events",
                    repair=f"use a slot below {uses.slots}, or .at(order)",
                )
            return
        if use.target.order is None and uses.slots > 1 and use in uses.after:
            self.diagnostics.error(
                "order-needed",
                use.target,
                f"{uses.event.name} has {uses.slots} slots, and a load completes one of them",
                rule="a load completes the generation of one order",
                repair=f"trigger {uses.event.name}.at(order) after ..",
            )
            return
        self._order(uses, use)

    def counted_alike(self, use: Use) -> None:
        """A wait's order is not counted by a part of its threads."""
        order = use.target.order
        names = [n for n in syntax.walk(order) if n in self.tables.uses] if order else []
        for name in names:
            counter = self.tables.uses[name].kind in ("mutable", "local")
            if counter and self.values.varies(name, use.mask):
                self._differs(order or use.target)

    def one_generation(self, use: Use) -> None:
        """A trigger's order or slot is the same for all its threads."""
        for expr in (use.target.order, use.target.index):
            if expr is not None and self.values.varies(expr, use.mask):
                self._differs(expr)

    def _differs(self, place: syntax.Node) -> None:
        self.diagnostics.error(
            "order-differs",
            place,
            "the threads that get here do not agree on this order",
            rule="the threads of a role count an order together, and trigger one generation",
            repair="count it where all threads of the role get, outside of a narrower inthreads",
        )

    # Orders ------------------------------------------------------------------------------------

    def _order(self, uses: Uses, use: Use) -> None:
        order = use.target.order
        if order is None:
            return
        if uses.scalar:
            self.diagnostics.error(
                "at-on-scalar",
                use.target,
                f"{uses.event.name} is a scalar event and has no orders",
                rule=".at(order) belongs to an array of events",
                repair=f"name it {uses.event.name}, or declare {uses.event.name}[slots]",
            )
            return
        value = self.tables.constants.get(order)
        if isinstance(value, int) and value < 0:
            self.diagnostics.error(
                "slot-range",
                order,
                f"the order {value}",
                rule="the orders of an event are 0, 1, 2 and so on",
                repair="use an order of at least 0",
            )
            return
        expr = order.name if isinstance(order, syntax.Increment) else order
        below = reduced(self.tables, expr)
        modulus, full = below[:2] if below is not None else (0, expr)
        if modulus % (2 * uses.slots):
            self.diagnostics.error(
                "slot-as-order",
                order,
                f"this order is reduced modulo {modulus}: its generation is lost",
                rule=f"an order counts on: slot order % {uses.slots}, generation order / "
                f"{uses.slots}; only data is indexed by the slot",
                repair=f"{uses.event.name}.at({print_expression(full)})",
            )
            return
        self._restarts(uses, use, expr)

    def _restarts(self, uses: Uses, use: Use, expr: syntax.Expr) -> None:
        """An order that counts from a constant again in every pass of a loop."""
        value = value_of(self.tables, expr)
        symbol = self.tables.uses.get(value) if isinstance(value, syntax.Name) else None
        if symbol is None:
            return
        loop: syntax.Stmt | None = None
        node = symbol.node
        if isinstance(node, syntax.Foreach):
            loop = next(self.places.loops(node), None)
            bound = self.tables.constants.get(bound_of(symbol))
            if isinstance(bound, int) and bound % (2 * uses.slots) == 0:
                return
        elif (
            isinstance(node, syntax.ScalarDecl)
            and symbol.kind == "mutable"
            and self.tables.constants.get(node.value) is not None
        ):
            loop = next(self.places.loops(node), None)
        if loop is not None:
            self.diagnostics.error(
                "order-restarts",
                use.target.order or use.target,
                f"{symbol.name} begins again in each pass of the loop of line {loop.span.line}",
                rule="the order of an event counts on for as long as the event lives",
                repair=f"declare 'mutable u32 order = 0;' before that loop and count {symbol.name} "
                "on in it",
            )
