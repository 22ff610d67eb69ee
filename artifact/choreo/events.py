"""The events pass: the barrier behind every event.

Rules (co-language.md, 8.1 to 8.4):

* Participants are the threads of all statements that wait for an event and of all that trigger it;
  where they are not known there is no count, and that is an error [R].
* ``transaction``: some ``trigger .. after`` a TMA load names the event. One arrival a generation,
  completed by the bytes of the loads.
* ``named``: a hardware barrier, for an event of one slot whose triggering and waiting threads are
  disjoint sets of whole warps, if wait and trigger strictly alternate [R] and an id of 14 down to 8
  is free: for a ready event, or both of a pair by which two sets of threads take turns.
* ``arrivals``: otherwise; every triggering thread arrives once a generation, or every warp where
  the triggers are the work of whole warps.
* ``event<N>`` says the count itself; a warning says where it differs from the threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from artifact.choreo import syntax
from artifact.choreo.alternation import alternate
from artifact.choreo.barriers import free_ids
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import EventPlan, Symbol, Tables, WaitPlan
from artifact.choreo.threads import ThreadValues, whole
from artifact.choreo.traverse import JUMPS, Places, statements

Kind = Literal["transaction", "arrivals", "named"]


@dataclass(frozen=True, eq=False)
class Use:
    """One target of a wait or a trigger, and the threads that get there."""

    stmt: syntax.Wait | syntax.Trigger
    target: syntax.Target
    mask: int


@dataclass
class Uses:
    """Every use of one event."""

    event: Symbol
    slots: int
    waits: list[Use] = field(default_factory=list)
    plain: list[Use] = field(default_factory=list)
    after: list[Use] = field(default_factory=list)
    complete: bool = True
    """Whether the threads of every use are known."""

    @property
    def ready(self) -> bool:
        """Whether generation 0 is complete at first."""
        return isinstance(self.event.node, syntax.EventDecl) and self.event.node.ready

    @property
    def scalar(self) -> bool:
        """Whether it was declared without slots."""
        return isinstance(self.event.node, syntax.EventDecl) and self.event.node.slots is None

    @property
    def triggering(self) -> int:
        """Threads of all triggers."""
        return _union(self.plain + self.after)

    @property
    def waiting(self) -> int:
        """Threads of all waits."""
        return _union(self.waits)


def _union(uses: list[Use]) -> int:
    mask = 0
    for use in uses:
        mask |= use.mask
    return mask


def gather(
    tables: Tables, diagnostics: Diagnostics, values: ThreadValues, places: Places
) -> dict[Symbol, Uses]:
    """Every event with its uses; says where a use's threads are not known."""
    found: dict[Symbol, Uses] = {}
    for symbol in tables.symbols:
        if symbol.kind == "event" and isinstance(symbol.node, syntax.EventDecl):
            node = symbol.node
            slots = tables.constants.get(node.slots) if node.slots is not None else 1
            found[symbol] = Uses(symbol, slots if isinstance(slots, int) else 1)
    for stmt in statements(tables.function.body):
        if not isinstance(stmt, syntax.Wait | syntax.Trigger):
            continue
        mask = tables.threads.get(stmt)
        if mask is None:
            diagnostics.error(
                "unknown-participants",
                stmt,
                "the threads that get here are not known at compile time",
                rule="a barrier counts its participants, so they are known",
                repair="put it into an inthreads that compares parallel variables with constants",
            )
            for target in stmt.targets:
                if tables.uses[target.name] in found:
                    found[tables.uses[target.name]].complete = False
            continue
        _meets(diagnostics, values, places, stmt, mask)
        for target in stmt.targets:
            uses = found.get(tables.uses[target.name])
            if uses is None:
                continue
            use = Use(stmt, target, mask)
            if isinstance(stmt, syntax.Wait):
                uses.waits.append(use)
            elif stmt.after:
                uses.after.append(use)
            else:
                uses.plain.append(use)
    return found


def _meets(
    diagnostics: Diagnostics,
    values: ThreadValues,
    places: Places,
    stmt: syntax.Stmt,
    mask: int,
) -> None:
    divergent = values.divergent(stmt, mask)
    if divergent is not None:
        diagnostics.error(
            "divergent",
            stmt,
            f"the condition of line {divergent.span.line} may hold for a part of these "
            "threads only",
            rule="'if' and loops do not change who participates; all threads of the role get here",
            repair="use inthreads for what some threads do",
        )


def plan_events(
    tables: Tables, diagnostics: Diagnostics, found: dict[Symbol, Uses], places: Places
) -> None:
    """Fill ``events``; the rules of :mod:`artifact.choreo.event_rules` are met."""
    free = free_ids(tables)
    turns = _turns(tables, found)
    for symbol, uses in found.items():
        for use in uses.waits:
            tables.waits[use.target] = WaitPlan("event")
        kind: Kind = "transaction" if uses.after else "arrivals"
        barrier = None
        alternating = symbol in turns or _alternates(tables, uses, found, places)
        if kind == "arrivals" and free and alternating and _could_be_named(tables, uses, found):
            kind, barrier = "named", free.pop(0)
        explicit = _explicit(tables, symbol)
        triggering = uses.triggering
        per_warp = (
            kind == "arrivals"
            and explicit is None
            and bool(uses.plain)
            and all(whole(use.mask, 32) for use in uses.plain)
        )
        count = 1 if kind == "transaction" else triggering.bit_count()
        if explicit is not None and explicit != count:
            diagnostics.add(
                "warning",
                "count-differs",
                symbol.node,
                f"{symbol.name} counts {explicit}, its triggers are {count}",
                rule="event<N> overrides the count that its triggers give",
                repair="drop the count: it follows from the program",
            )
        tables.events[symbol] = EventPlan(
            kind=kind,
            slots=uses.slots,
            ready=uses.ready,
            # A barrier cannot count nobody, also where the event is not used.
            arrivals=explicit or max(count // 32 if per_warp else count, 1),
            per_warp=per_warp,
            triggering=triggering,
            waiting=uses.waiting,
            barrier=barrier,
        )


def _explicit(tables: Tables, symbol: Symbol) -> int | None:
    count = symbol.node.count if isinstance(symbol.node, syntax.EventDecl) else None
    value = tables.constants.get(count) if count is not None else None
    return value if isinstance(value, int) else None


def _could_be_named(tables: Tables, uses: Uses, found: dict[Symbol, Uses]) -> bool:
    """Rule 3 of section 8.3, but for the strict alternation that makes it right."""
    names = [symbol for symbol in found if symbol.name == uses.event.name]
    return (
        uses.slots == 1
        and _explicit(tables, uses.event) is None
        and len(names) == 1
        and bool(uses.triggering and uses.waiting)
        and uses.triggering & uses.waiting == 0
        and whole(uses.triggering, 32)
        and whole(uses.waiting, 32)
        and any(isinstance(s, syntax.Inthreads) for s in statements(tables.function.body))
    )


def _turns(tables: Tables, found: dict[Symbol, Uses]) -> set[Symbol]:
    """The events of pairs by which two sets of threads take turns."""
    out: set[Symbol] = set()
    for begin, first in found.items():
        for other, second in found.items():
            both = (first, second)
            if (
                first.ready
                and not second.ready
                and not out & {begin, other}
                and all(uses.complete and not uses.after for uses in both)
                and all(_could_be_named(tables, uses, found) for uses in both)
                and _one_side(first.waits + second.plain)
                and _one_side(second.waits + first.plain)
                and alternate(tables, first.waiting, begin, other)
                and alternate(tables, second.waiting, other, begin)
            ):
                out |= {begin, other}
    return out


def _one_side(uses: list[Use]) -> bool:
    """Whether all of the same threads get to each of some uses."""
    return len({use.mask for use in uses}) == 1


def _alternates(tables: Tables, uses: Uses, found: dict[Symbol, Uses], places: Places) -> bool:
    """Whether no trigger can come before the waiters have passed the one before.

    That is so where one statement waits and one triggers, and before the trigger its block waits
    for an event that is not ready at first and that only the waiters' block triggers, once, after
    the wait: the n-th trigger then comes after the n-th wait has passed.
    """
    if not uses.ready or len(uses.waits) != 1 or len(uses.plain) != 1:
        return False
    wait, trigger = uses.waits[0], uses.plain[0]
    block = places.block(trigger.stmt)
    for stmt in block.body[: places.index(trigger.stmt)]:
        if not isinstance(stmt, syntax.Wait):
            continue
        for target in stmt.targets:
            other = found.get(tables.uses[target.name])
            if other is None or other.ready or _mask(tables, stmt) & trigger.mask != trigger.mask:
                continue
            triggers = other.plain + other.after
            if (
                len(triggers) == 1
                and len(other.waits) == 1
                and places.block(triggers[0].stmt) is places.block(wait.stmt)
                and places.index(triggers[0].stmt) > places.index(wait.stmt)
                and not _jumps(places.block(wait.stmt))
                and not _jumps(block)
            ):
                return True
    return False


def _jumps(block: syntax.Block) -> bool:
    return any(isinstance(s, JUMPS) for s in statements(block))


def _mask(tables: Tables, stmt: syntax.Stmt) -> int:
    return tables.threads.get(stmt) or 0
