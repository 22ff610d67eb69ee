"""How an order counts: by ones, for as long as its event lives.

Rules (co-language.md, 8.2; worklog, step 2):

* A mutable scalar that is an order changes by ``++``, ``+= 1`` or ``= x + 1`` only; by a greater
  step where the statements between name every order that the step passes.
* It may begin again at 0 after a multiple of 2N, for an event of N slots: slot and parity of the
  generation are then what they would have been. Any other turn loses the generation.
* The same holds for the turn of a narrow type: 256 of u8, 65536 of u16; signed ones become
  negative. Types of 32 bits are taken to be wide enough.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.events import Uses
from artifact.choreo.orders import counted, reduced, value_of
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import Places, own, statements

#: Comparisons that hold from a value on, and those that fail from it on; what lies between it and
#: their right side.
_HOLDS = {"==": 0, ">=": 0, ">": 1}
_FAILS = {"!=": 0, "<": 0, "<=": 1}
_NARROW = {"u8": 256, "u16": 65536, "s8": 128, "s16": 32768}


def check_orders(
    tables: Tables, diagnostics: Diagnostics, found: dict[Symbol, Uses], places: Places
) -> None:
    """Check every change of every scalar that an event is ordered by."""
    rules = _Orders(tables, diagnostics, places)
    for uses in found.values():
        offsets: dict[Symbol, set[int]] = {}
        for use in uses.waits + uses.plain + uses.after:
            if use.target.order is None or uses.scalar:
                continue
            below = reduced(tables, use.target.order)
            order = counted(tables, below[1] if below is not None else use.target.order)
            if order is not None:
                offsets.setdefault(order.counter, set()).add(order.offset)
        for counter, named in offsets.items():
            rules.check(uses, counter, named)


class _Orders:
    def __init__(self, tables: Tables, diagnostics: Diagnostics, places: Places) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.places = places
        self.everything = list(statements(tables.function.body))
        self._told: set[syntax.Node] = set()

    def check(self, uses: Uses, counter: Symbol, named: set[int]) -> None:
        """Check the changes of one counter for one event.

        Args:
            uses: The event.
            counter: The mutable scalar.
            named: What is added to the counter where the event is waited for or triggered.
        """
        turns = False
        changes = False
        for stmt in self.everything:
            for node in own(stmt):
                if isinstance(node, syntax.Increment) and self._is(node.name, counter):
                    changes = True
                    if node.op == "--":
                        self._steps(uses, node, "this order counts down")
            if isinstance(stmt, syntax.Assign) and self._is(stmt.target, counter):
                changes = True
                turns = self._assign(uses, counter, named, stmt) or turns
        if changes and not turns:
            self._type(uses, counter)

    def _is(self, node: syntax.Node, counter: Symbol) -> bool:
        return self.tables.uses.get(node) is counter

    def _assign(self, uses: Uses, counter: Symbol, named: set[int], stmt: syntax.Assign) -> bool:
        """Check an assignment; says whether the order begins again there."""
        if stmt in self.tables.declares:
            return False
        value = stmt.value
        constant = self.tables.constants.get(value)
        if stmt.op in ("+=", "-="):
            step = constant if stmt.op == "+=" else None
            self._step(uses, stmt, step, named)
            return False
        modulus: int | float | None = None
        if stmt.op in ("%=", "&="):
            modulus = constant
            if stmt.op == "&=" and constant is not None:
                modulus = constant + 1
        elif stmt.op == "=" and constant is not None:
            modulus = self._turn(counter, stmt)
            if modulus is None and not self._used_before(counter, stmt):
                # It is given its first value.
                return False
        elif stmt.op == "=":
            below = reduced(self.tables, value)
            modulus = below[0] if below is not None else self._choice(counter, value)
            if modulus is None:
                order = counted(self.tables, value)
                same = order is not None and order.counter is counter
                self._step(uses, stmt, order.offset if order and same else None, named)
                return False
        if not isinstance(modulus, int) or modulus < 1 or modulus % (2 * uses.slots):
            self._lost(uses, stmt, modulus)
        return True

    def _turn(self, counter: Symbol, stmt: syntax.Assign) -> int | None:
        """The order in whose place 0 comes, of ``if (counter == L) counter = 0;`` and the like."""
        owner = next(self.places.enclosing(stmt), None)
        if not isinstance(owner, syntax.If) or self.tables.constants.get(stmt.value) != 0:
            return None
        ops = _HOLDS if self.places.block(stmt) is owner.then else _FAILS
        last = self._reached(counter, owner.condition, ops)
        # Where the other branch counts, the order that is reached is the last one.
        return last if last is None or owner.otherwise is None else last + 1

    def _choice(self, counter: Symbol, value: syntax.Expr) -> int | None:
        """The same of ``counter == L ? 0 : counter + 1``; 0 of any other choice."""
        value = value_of(self.tables, value)
        if not isinstance(value, syntax.Ternary):
            return None
        for branch, ops in ((value.then, _HOLDS), (value.otherwise, _FAILS)):
            if self.tables.constants.get(branch) == 0:
                last = self._reached(counter, value.condition, ops)
                return 0 if last is None else last + 1
        return 0

    def _reached(self, counter: Symbol, condition: syntax.Expr, ops: dict[str, int]) -> int | None:
        """The least value of a counter for which a comparison decides as ``ops`` say."""
        if not isinstance(condition, syntax.Binary) or condition.op not in ops:
            return None
        order = counted(self.tables, condition.left)
        last = self.tables.constants.get(condition.right)
        if order is None or order.counter is not counter or not isinstance(last, int):
            return None
        return last - order.offset + ops[condition.op]

    def _used_before(self, counter: Symbol, stmt: syntax.Stmt) -> bool:
        """Whether the counter is an order before an assignment, be it in an earlier trip."""
        if any(self.places.loops(stmt)):
            return True
        before = self.everything[: self.everything.index(stmt)]
        return any(
            isinstance(one, syntax.Wait | syntax.Trigger)
            and any(self.tables.uses.get(node) is counter for node in own(one))
            for one in before
        )

    # Findings ----------------------------------------------------------------------------------

    def _step(self, uses: Uses, stmt: syntax.Assign, step: float | None, named: set[int]) -> None:
        if isinstance(step, int) and step >= 1:
            first = min(named)
            if set(range(first, first + step)) <= named:
                return
            self._steps(uses, stmt, f"this order counts by {step}")
        else:
            self._steps(uses, stmt, "this order does not count on by one")

    def _steps(self, uses: Uses, place: syntax.Node, message: str) -> None:
        if place in self._told:
            return
        self._told.add(place)
        self.diagnostics.error(
            "order-step",
            place,
            message,
            rule=f"the orders of {uses.event.name} are 0, 1, 2 and so on: none is left out",
            repair="count by 'order++', once for each generation",
        )

    def _lost(self, uses: Uses, stmt: syntax.Assign, modulus: float | None) -> None:
        if stmt in self._told:
            return
        self._told.add(stmt)
        again = f"after {modulus}" if modulus else "here"
        self.diagnostics.error(
            "slot-as-order" if modulus else "order-restarts",
            stmt,
            f"this order begins again {again}: its generation is lost",
            rule=f"an order counts on: slot order % {uses.slots}, generation order / "
            f"{uses.slots}; only data is indexed by the slot",
            repair=f"count on by 'order++', or reduce it modulo {2 * uses.slots}",
        )

    def _type(self, uses: Uses, counter: Symbol) -> None:
        last = _NARROW.get(counter.type or "")
        if last is None or counter.node in self._told:
            return
        signed = (counter.type or "").startswith("s")
        if not signed and last % (2 * uses.slots) == 0:
            return
        self._told.add(counter.node)
        what = f"{counter.name} is {counter.type}, and "
        what += "becomes negative" if signed else "begins again"
        self.diagnostics.error(
            "order-wraps",
            counter.node,
            f"{what} at {last}, which is in the middle of the generations of {uses.event.name}",
            rule=f"an order may begin again after a multiple of {2 * uses.slots} only, twice the "
            "slots",
            repair=f"declare it 'mutable u32 {counter.name}'",
        )
