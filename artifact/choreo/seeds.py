"""Seeds: triggers of a ready event that hand nothing back.

Rules (co-language.md, 8.3; worklog, step 2):

* A ready event's first generation is complete. A plain trigger of it hands back the tile that a
  load filled after the last generation: the triggering threads have waited for that load. Each
  wait stands for one trigger, so that a second trigger behind one wait is a seed, too.
* Which load that is follows from who waits for the event: the loads right behind such a wait fill
  what the event guards. Where an event guards no load, any wait for another event is a reason.
* A wait holds for the threads that execute it, for the other lanes of their warps, which arrive
  with them, and for those that they meet before the trigger.

A trigger is a seed where some way to it has too few waits. Ways are judged kindly: of the branches
of an 'if' the one with more waits left is taken, and a loop that waits more often than it triggers
leaves a wait for every slot. Only a loop's first trip is taken as it stands, but for what is under
an 'if' there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from artifact.choreo import syntax
from artifact.choreo.event_check import EventCheck
from artifact.choreo.events import Use, Uses
from artifact.choreo.names import bound_of
from artifact.choreo.tables import Symbol
from artifact.choreo.threads import warp_mask, warps
from artifact.choreo.traverse import Places, bodies, statements


@dataclass(frozen=True)
class Seed:
    """A trigger by hand of what is ready already."""

    use: Use
    fills: tuple[str, ...]
    """The events and futures of the loads that it does not answer; none where any wait would do."""


@dataclass(frozen=True)
class _Told:
    """A wait that says of up to ``gain`` tiles that they are filled, and who knows by it."""

    stmt: syntax.Stmt
    gain: int
    mask: int


class Seeds(EventCheck):
    """Finds the seeds of ready events."""

    def of(self, uses: Uses) -> list[Seed]:
        """The seeds among the plain triggers of a ready event."""
        fills = self._fills(uses.event)
        if fills:
            telling = {one for one in self.arrivals.waited if self.arrivals.tells(one, fills)}
            short = [use for use in uses.plain if self._short(uses, use, fills, telling)]
            # Where no trigger at all comes after the load, it is not the event's partner.
            if len(short) < len(uses.plain):
                names = tuple(sorted(symbol.name for symbol in fills))
                return [Seed(use, names) for use in short]
        return [
            Seed(use, ())
            for use in uses.plain
            if not self._waited_before(uses, use) or self._slot_by_slot(uses, use)
        ]

    # Events that guard tiles -------------------------------------------------------------------

    @cached_property
    def _guarded(self) -> dict[Symbol, set[Symbol]]:
        """The buffers that loads fill right behind a wait for an event."""
        out: dict[Symbol, set[Symbol]] = {}
        for stmt, plan in self.tables.transfers.items():
            if plan.kind == "tma-store":
                continue
            for wait in self.arrivals.guards(stmt):
                for target in wait.targets:
                    out.setdefault(self.tables.uses[target.name], set()).add(plan.target.root)
        return out

    def _fills(self, event: Symbol) -> set[Symbol]:
        """The events and futures of the loads that an event guards; none where they are unknown."""
        loads = [self.arrivals.loads(buffer) for buffer in self._guarded.get(event, ())]
        return set().union(*loads) if all(loads) else set()

    def _short(self, uses: Uses, use: Use, fills: set[Symbol], telling: set[Symbol]) -> bool:
        """Whether threads of a trigger get there with too few waits for what tells of the loads.

        Where some of them have waited for the load itself and others not, that wait is at fault:
        the hand-offs pass says so.
        """
        direct: list[_Told] = []
        told: list[_Told] = []
        for stmt in self.everything:
            for target in stmt.targets if isinstance(stmt, syntax.Wait) else ():
                symbol = self.tables.uses[target.name]
                if symbol in telling:
                    told.append(_Told(stmt, self._gain(uses, target), self._mask(stmt, use.stmt)))
                    if symbol in fills:
                        direct.append(told[-1])
        return all(self._shorts(uses, use, direct)) and any(self._shorts(uses, use, told))

    def _shorts(self, uses: Uses, use: Use, waits: list[_Told]) -> Iterator[bool]:
        """The same for each set of threads that the same waits and triggers are executed by."""
        alike = [use.mask]
        for mask in [wait.mask for wait in waits] + [other.mask for other in uses.plain]:
            alike = [part for one in alike for part in (one & mask, one & ~mask) if part]
        for threads in alike:
            gains: dict[syntax.Stmt, int] = {}
            for wait in waits:
                if wait.mask & threads:
                    gains[wait.stmt] = gains.get(wait.stmt, 0) + wait.gain
            needs = [
                (one, uses.slots if _whole_ring(one.target) else 1)
                for one in uses.plain
                if one.mask & threads
            ]
            walk = _Walk(self.places, uses.slots, gains, needs)
            walk.block(self.tables.function.body, 0)
            yield use in walk.short

    def _gain(self, uses: Uses, target: syntax.Target) -> int:
        """How many tiles a wait says to be filled, at most."""
        other = self.found.get(self.tables.uses[target.name])
        one = other is not None and other.slots == uses.slots
        return 1 if one and not _whole_ring(target) else uses.slots

    def _mask(self, wait: syntax.Stmt, before: syntax.Stmt) -> int:
        """The threads that know, at a later statement, of what some have waited for."""
        told = sum(warp_mask(warp) for warp in warps(self.mask(wait)))
        first, last = self.order[wait], self.order[before]
        places = ((stmt, self.order[stmt]) for stmt in self.meetings)
        return self.with_whom_they_met(
            told,
            (
                stmt
                for stmt, at in places
                if (first < at < last if first < last else not last <= at <= first)
            ),
        )

    # Other events ------------------------------------------------------------------------------

    def _waited_before(self, uses: Uses, use: Use) -> bool:
        """Whether these threads have waited for anything but the event itself before."""
        for before in self.places.before(use.stmt):
            for node in syntax.walk(before):
                if (
                    isinstance(node, syntax.Wait)
                    and use.mask & self.mask(node)
                    and any(self.tables.uses[t.name] is not uses.event for t in node.targets)
                ):
                    return True
        return False

    def _slot_by_slot(self, uses: Uses, use: Use) -> bool:
        """Whether it runs through the slots: all at once, or in a loop that waits for nothing."""
        if uses.scalar:
            return False
        order = use.target.order
        if order is None:
            return uses.slots > 1 and use.target.index is None
        symbol = self.tables.uses.get(order)
        if symbol is None or not isinstance(symbol.node, syntax.Foreach):
            return False
        waits = any(isinstance(s, syntax.Wait) for s in statements(symbol.node.body))
        return self.tables.constants.get(bound_of(symbol)) == uses.slots and not waits


@dataclass
class _Walk:
    """A way of some threads through a function, by the waits that no trigger has answered yet."""

    places: Places
    slots: int
    gains: dict[syntax.Stmt, int]
    """The waits of these threads, and what each adds."""
    triggers: list[tuple[Use, int]]
    """Their triggers, and what each takes."""
    short: set[Use] = field(default_factory=set)
    """The triggers that were met with too little left."""

    def block(self, block: syntax.Block, left: int) -> int:
        """Go through a block; says how many waits are left behind it."""
        for stmt in block.body:
            left = self._stmt(stmt, left)
        return left

    def _stmt(self, stmt: syntax.Stmt, left: int) -> int:
        match stmt:
            case syntax.Wait():
                return min(left + self.gains.get(stmt, 0), self.slots)
            case syntax.Trigger():
                for use, need in self.triggers:
                    if use.stmt is stmt:
                        if left < need:
                            self.short.add(use)
                        left = max(left - need, 0)
                return left
            case syntax.If():
                ways = [self.block(body, left) for body in bodies(stmt)]
                return max(ways if stmt.otherwise is not None else [*ways, left])
            case syntax.Foreach() | syntax.While():
                return self._loop(stmt, left)
        for body in bodies(stmt):
            left = self.block(body, left)
        return left

    def _loop(self, loop: syntax.Foreach | syntax.While, left: int) -> int:
        before, self.short = self.short, set()
        behind = self.block(loop.body, left)
        first, self.short = self.short, set()
        if behind > left:
            left = self.slots
        self.block(loop.body, left)
        self.short |= before | {use for use in first if not self._conditional(use, loop)}
        return left

    def _conditional(self, use: Use, loop: syntax.Stmt) -> bool:
        """Whether a trigger in a loop stands under an 'if' of the loop."""
        for owner in self.places.enclosing(use.stmt):
            if owner is loop:
                return False
            if isinstance(owner, syntax.If):
                return True
        return False


def _whole_ring(target: syntax.Target) -> bool:
    """Whether a target names no slot: then all of them, or the one that there is."""
    return target.order is None and target.index is None
