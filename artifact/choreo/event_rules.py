"""Who triggers an event, and when: what makes counts and generations right.

Rules (co-language.md, 8.3; worklog, step 2):

* An event that somebody waits for is triggered; one that nobody waits for is a warning.
* An event that a load completes is not triggered plainly too: its count is the one arrival of
  the load.
* A ready event's first generation is complete. It is not triggered by hand as well: what is a
  seed says :mod:`artifact.choreo.seeds`.
* Each triggering thread arrives exactly once a generation [R]: two triggers of one order by the
  same threads count twice, and triggers by sets of threads that overlap without being equal
  give a generation no one count.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.event_check import EventCheck
from artifact.choreo.events import Use, Uses
from artifact.choreo.orders import counted
from artifact.choreo.seeds import Seed, Seeds
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import Places, changed_name


def check_rules(
    tables: Tables, diagnostics: Diagnostics, found: dict[Symbol, Uses], places: Places
) -> None:
    """Check every event; the transfers are planned."""
    rules = _Rules(tables, diagnostics, found, places)
    seeds = Seeds(tables, diagnostics, found, places)
    for uses in found.values():
        if not uses.complete:
            continue
        rules.partners(uses)
        by_hand: list[Seed] = []
        if uses.after:
            rules.plain_on_fill(uses)
        elif uses.ready:
            by_hand = seeds.of(uses)
        doubled = rules.twice(uses, [seed.use for seed in by_hand])
        rules.seeds(uses, [seed for seed in by_hand if seed.use not in doubled])
        rules.one_count(uses)


class _Rules(EventCheck):
    def partners(self, uses: Uses) -> None:
        """Waits and triggers come together."""
        name = uses.event.name
        if uses.waits and not uses.plain and not uses.after:
            self.diagnostics.error(
                "never-triggered",
                uses.waits[0].target,
                f"nobody triggers {name}: this waits forever",
                rule="an event that somebody waits for is triggered by somebody",
                repair=f"trigger {name} where what it stands for is done",
            )
        elif not uses.waits and (uses.plain or uses.after):
            self.diagnostics.add(
                "warning",
                "never-waited",
                uses.event.node,
                f"nobody waits for {name}",
                rule="an event hands something over to those who wait for it",
                repair="wait for it, or drop it",
            )

    def plain_on_fill(self, uses: Uses) -> None:
        """A load's event counts the load alone."""
        for use in uses.plain:
            self.diagnostics.error(
                "plain-on-fill",
                use.target,
                f"{uses.event.name} is completed by the load of line "
                f"{uses.after[0].stmt.span.line}; this arrival is one too many",
                rule="an event is completed by loads or by arrivals, not by both",
                repair="use an event of its own for what is meant here",
            )

    # Seeds -------------------------------------------------------------------------------------

    def seeds(self, uses: Uses, seeds: list[Seed]) -> None:
        """A plain trigger that hands nothing back is a seed; the event is ready already."""
        name = uses.event.name
        for seed in seeds:
            fills = " or ".join(seed.fills)
            answers = f": it answers no wait for {fills} of its own" if fills else ""
            instead = f"; what hands a tile back first waits for {fills}" if fills else ""
            self.diagnostics.error(
                "seeded-twice",
                seed.use.target,
                f"{name} is ready at first, and seeded by hand here{answers}",
                rule="'= ready' completes the first generation of every slot",
                repair=f"drop this trigger, or drop '= ready' of {name}{instead}",
            )

    # Counts ------------------------------------------------------------------------------------

    def twice(self, uses: Uses, seeds: list[Use]) -> set[Use]:
        """Two triggers of one generation by the same threads; gives the second ones.

        Behind a seed, which is a mistake itself, the right trigger is none.
        """
        every = uses.after or uses.plain
        doubled: set[Use] = set()
        for number, first in enumerate(every):
            for second in every[number + 1 :]:
                if first in seeds or not first.mask & second.mask:
                    continue
                if self._same_generation(uses, first, second):
                    doubled.add(second)
                    self.diagnostics.error(
                        "double-trigger",
                        second.target,
                        f"{uses.event.name} is triggered by the same threads in line "
                        f"{first.stmt.span.line}, for the same generation",
                        rule="each thread, or each load, arrives exactly once a generation",
                        repair="drop one trigger; several loads are joined: "
                        f"'trigger {uses.event.name} after f, g;'",
                    )
        return doubled

    def _same_generation(self, uses: Uses, first: Use, second: Use) -> bool:
        """Whether nothing lies between two triggers that could begin a new generation."""
        if not _same_slot(first.target, second.target):
            begin, again = self._first_order(first), self._first_order(second)
            if begin is None or begin != again:
                return False
        if first.stmt is second.stmt:
            return True
        places = self.places
        if places.block(first.stmt) is not places.block(second.stmt):
            return False
        early, late = sorted((first.stmt, second.stmt), key=places.index)
        between = places.block(early).body[places.index(early) : places.index(late)]
        for stmt in between:
            for node in syntax.walk(stmt):
                if self._counts(node, first.target):
                    return False
                # Who waits for this event may answer by another one: then time has passed.
                if isinstance(node, syntax.Wait) and any(
                    self._answers(target, uses) for target in node.targets
                ):
                    return False
        return True

    def _first_order(self, use: Use) -> int | None:
        """The value of an order, be it of a scalar that has not counted on where it stands."""
        order = use.target.order
        if order is None:
            return None
        step = order.op if isinstance(order, syntax.Increment) and order.prefix else None
        constant = self.tables.constants.get(order)
        if isinstance(constant, int):
            return constant
        found = counted(self.tables, order)
        declared = found.counter.node if found is not None else None
        if found is None or not isinstance(declared, syntax.ScalarDecl):
            return None
        begin = self.tables.constants.get(declared.value)
        around = set(self.places.enclosing(declared))
        passed = [
            *self.places.before(use.stmt),
            *(loop for loop in self.places.loops(use.stmt) if loop not in around),
        ]
        if not isinstance(begin, int) or any(
            self._changed(node) is found.counter for stmt in passed for node in syntax.walk(stmt)
        ):
            return None
        return begin + found.offset + {"++": 1, "--": -1}.get(step or "", 0)

    def _changed(self, node: syntax.Node) -> Symbol | None:
        name = changed_name(node)
        return self.tables.uses.get(name) if name is not None else None

    def _counts(self, node: syntax.Node, target: syntax.Target) -> bool:
        changed = self._changed(node)
        expr = target.order if target.order is not None else target.index
        if changed is None or expr is None:
            return False
        return any(self.tables.uses.get(n) is changed for n in syntax.walk(expr))

    def _answers(self, target: syntax.Target, uses: Uses) -> bool:
        other = self.found.get(self.tables.uses[target.name])
        return other is not None and bool(other.triggering & uses.waiting)

    def one_count(self, uses: Uses) -> None:
        """Plain triggers are by equal or by disjoint sets of threads."""
        if uses.after:
            return
        for number, first in enumerate(uses.plain):
            for second in uses.plain[number + 1 :]:
                if first.mask != second.mask and first.mask & second.mask:
                    self.diagnostics.error(
                        "arrival-mismatch",
                        second.target,
                        f"{second.mask.bit_count()} threads trigger {uses.event.name} here, "
                        f"{first.mask.bit_count()} in line {first.stmt.span.line}",
                        rule="every generation of an event is completed by the same threads",
                        repair="trigger it by one role everywhere; initial slots by '= ready'",
                    )


def _same_slot(first: syntax.Target, second: syntax.Target) -> bool:
    """Whether two targets name the same order or slot by the same text."""
    one, two = (
        t.order.name if isinstance(t.order, syntax.Increment) else t.order for t in (first, second)
    )
    return syntax.same(one, two) and syntax.same(first.index, second.index)
