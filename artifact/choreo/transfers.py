"""The transfers pass: who moves each tile, where they meet, and what a load completes.

Rules (co-language.md, 8.3 and 9; what is moved is in ``tiles.py``):

* Exactly one thread issues a load [R], the lowest of the role; where the tile of a store depends
  on the warpgroup, the lowest thread of each warpgroup does.
* What is moved is one tile for all threads of the scope: its coordinates do not differ between
  them.
* The threads of a store meet at hardware barrier 15; other sets of threads, and warpgroups that
  store for themselves, get other ids, downwards.
* A load completes the event of its ``trigger .. after``, which follows it in its block, executed
  by the same threads, with nothing between that changes the order; or a hidden event where its
  future is waited for, or where it is synchronous and its threads wait at once.
* Where no event orders a load behind the reads before it, its threads meet (``meetings.py``).
"""

from __future__ import annotations

from dataclasses import replace

from artifact.choreo import syntax
from artifact.choreo.barriers import TRANSFERS, transfer_ids
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.meetings import must_meet_before, passes
from artifact.choreo.mma import differs
from artifact.choreo.tables import EventPlan, Symbol, Tables, TransferPlan, WaitPlan
from artifact.choreo.threads import ThreadValues, warpgroup_mask, warpgroups, whole
from artifact.choreo.tiles import Tiles
from artifact.choreo.traverse import Places, changed_name, statements


def plan_transfers(
    tables: Tables, diagnostics: Diagnostics, values: ThreadValues, places: Places
) -> None:
    """Fill ``transfers``, the hidden events, and the waits for loads."""
    transfers = _Transfers(tables, diagnostics, values, places)
    for stmt in statements(tables.function.body):
        if isinstance(stmt, syntax.Transfer):
            transfers.plan(stmt)
    for stmt in tables.transfers:
        transfers.meet(stmt)


class _Transfers:
    def __init__(
        self, tables: Tables, diagnostics: Diagnostics, values: ThreadValues, places: Places
    ) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.values = values
        self.places = places
        self.tiles = Tiles(tables, diagnostics, values)
        self.free = transfer_ids(tables)
        self.barriers: dict[tuple[int, bool], int | None] = {}

    def plan(self, stmt: syntax.Transfer) -> None:
        """Plan one transfer."""
        tile = self.tiles.tile(stmt)
        mask = self._threads(stmt)
        if tile is None or mask is None:
            return
        plan = TransferPlan(
            kind=tile.kind,
            map=tile.map,
            source=tile.source,
            target=tile.target,
            rows=tile.rows,
            columns=tile.columns,
            bytes=tile.bytes,
            threads=mask,
            leaders=((mask & -mask).bit_length() - 1,),
        )
        match tile.kind:
            case "tma-load":
                plan = self._load(stmt, plan)
            case "tma-store":
                plan = self._store(stmt, plan)
            case "cooperative-load":
                plan = self._cooperative(stmt, plan)
        self.tables.transfers[stmt] = plan

    def meet(self, stmt: syntax.Transfer) -> None:
        """Let the threads of a load meet before it, where that is needed."""
        plan = self.tables.transfers[stmt]
        if plan.kind == "tma-store" or plan.slot is not None:
            return
        if not must_meet_before(self.tables, self.places, stmt):
            return
        plan = replace(plan, meets_before=True)
        if plan.kind == "tma-load" and not self._block_or_warp(plan.threads):
            plan = self._meeting(stmt, plan, "a load that its own threads wait for")
        self.tables.transfers[stmt] = plan

    def _block_or_warp(self, mask: int) -> bool:
        """Whether threads meet without a hardware barrier of their own."""
        assert self.tables.launch is not None
        first, last = (mask & -mask).bit_length() - 1, mask.bit_length() - 1
        return first // 32 == last // 32 or mask == (1 << self.tables.launch.threads) - 1

    # Who moves it ------------------------------------------------------------------------------

    def _threads(self, stmt: syntax.Transfer) -> int | None:
        mask = self.tables.threads.get(stmt)
        if mask is None:
            self.diagnostics.error(
                "unknown-participants",
                stmt,
                "the threads that get here are not known at compile time",
                rule="a transfer elects its leader at compile time",
                repair="put it into an inthreads that compares parallel variables with constants",
            )
            return None
        divergent = self.values.divergent(stmt, mask)
        if divergent is not None:
            self.diagnostics.error(
                "divergent",
                stmt,
                f"the condition of line {divergent.span.line} may hold for a part of these "
                "threads only",
                rule="all threads of the role get to a transfer",
                repair="use inthreads for what some threads do",
            )
            return None
        return mask

    def _differs(self, plan: TransferPlan, mask: int) -> bool:
        """Whether the tile may differ between threads of a set."""
        return any(
            differs(self.tables, self.values, view, mask) for view in (plan.source, plan.target)
        )

    def _same_tile(self, stmt: syntax.Transfer, plan: TransferPlan) -> None:
        if self._differs(plan, plan.threads):
            self.diagnostics.error(
                "transfer-differs",
                stmt,
                "the threads that get here name different tiles",
                rule="one thread issues a load for all: its tile is that of every thread",
                repair="give each tile's load to a role of its own",
            )

    # Loads -------------------------------------------------------------------------------------

    def _load(self, stmt: syntax.Transfer, plan: TransferPlan) -> TransferPlan:
        self._same_tile(stmt, plan)
        future = next((s for s in self.tables.declares.get(stmt, ()) if s.kind == "future"), None)
        for user in statements(self.tables.function.body):
            if isinstance(user, syntax.Trigger) and any(
                self.tables.uses[name] is future for name in user.after
            ):
                return self._bound(stmt, plan, user)
        waits = [
            target
            for user in statements(self.tables.function.body)
            if isinstance(user, syntax.Wait)
            for target in user.targets
            if future is not None and self.tables.uses[target.name] is future
        ]
        return self._hidden(stmt, plan, waits)

    def _bound(
        self, stmt: syntax.Transfer, plan: TransferPlan, trigger: syntax.Trigger
    ) -> TransferPlan:
        """A load that completes an event."""
        target = trigger.targets[0]
        if len(trigger.targets) > 1:
            self.diagnostics.error(
                "after-several",
                trigger,
                "one load completes several events",
                rule="the bytes of a load complete one event",
                repair="name one event, or trigger the other after waiting",
            )
        if isinstance(target.order, syntax.Increment) and len(trigger.after) > 1:
            self.diagnostics.error(
                "joined-increment",
                target.order,
                "an incremented order is shared by several loads",
                rule="the order of a joined trigger is a plain expression",
                repair=f"increment after it: '{target.order.name.id}++;'",
            )
        place = self.places
        beside = place.block(trigger) is place.block(stmt)
        if not beside or place.index(trigger) < place.index(stmt):
            self.diagnostics.error(
                "trigger-place",
                trigger,
                "this trigger does not follow its load in the same block",
                rule="a load and the trigger that hands over its completion stand in one block",
                repair="put the trigger right after the load",
            )
        elif target.order is not None or target.index is not None:
            between = place.block(stmt).body[place.index(stmt) + 1 : place.index(trigger)]
            self._unchanged(trigger, target, between)
        return replace(plan, event=self.tables.uses[target.name], slot=target)

    def _unchanged(
        self,
        trigger: syntax.Trigger,
        target: syntax.Target,
        between: tuple[syntax.Stmt, ...],
    ) -> None:
        """The order is at the trigger what it was at the load."""
        expr = target.order if target.order is not None else target.index
        assert expr is not None
        names = {self.tables.uses.get(n) for n in syntax.walk(expr)}
        for stmt in between:
            for node in syntax.walk(stmt):
                name = changed_name(node)
                changed = self.tables.uses.get(name) if name is not None else None
                if changed is not None and changed in names:
                    self.diagnostics.error(
                        "order-changes",
                        trigger,
                        f"{changed.name} changes between the load and this trigger",
                        rule="a load is issued for the slot and generation that its trigger names",
                        repair="put the trigger right after the load",
                    )
                    return

    def _hidden(
        self, stmt: syntax.Transfer, plan: TransferPlan, waits: list[syntax.Target]
    ) -> TransferPlan:
        """A load that is waited for: by an event of its own, of one slot."""
        name = f"{stmt.result or 'load'}_done"
        event = Symbol(name, "event", stmt)
        self.tables.symbols.append(event)
        waiting = plan.threads if not stmt.is_async else 0
        for target in waits:
            self.tables.waits[target] = WaitPlan("event")
            for user in statements(self.tables.function.body):
                if isinstance(user, syntax.Wait) and target in user.targets:
                    waiting |= self.tables.threads.get(user) or 0
        self.tables.events[event] = EventPlan(
            kind="transaction",
            slots=1,
            ready=False,
            arrivals=1,
            per_warp=False,
            triggering=plan.threads,
            waiting=waiting,
            barrier=None,
        )
        return replace(plan, event=event)

    # Stores and cooperative copies -------------------------------------------------------------

    def _store(self, stmt: syntax.Transfer, plan: TransferPlan) -> TransferPlan:
        if not whole(plan.threads, 32):
            self.diagnostics.error(
                "partial-warps",
                stmt,
                "the threads that get here are not whole warps",
                rule="the threads of a store meet at a hardware barrier, which counts warps",
                repair="let the whole role execute it: one of its threads issues",
            )
            return plan
        plan = replace(plan, reused=self._written_later(stmt, plan.source.root))
        if not self._differs(plan, plan.threads):
            barrier = self._barrier(stmt, plan.threads, 1)
            return replace(plan, barrier=barrier, barrier_threads=plan.threads.bit_count())
        groups = warpgroups(plan.threads)
        parts = [plan.threads & warpgroup_mask(group) for group in groups]
        counts = {part.bit_count() for part in parts}
        if any(self._differs(plan, part) for part in parts) or len(counts) > 1:
            self.diagnostics.error(
                "transfer-differs",
                stmt,
                "threads of one warpgroup name different tiles",
                rule="a store is issued once, or once by each warpgroup",
                repair="let the tile depend on the variables of block and group-4 only",
            )
            return plan
        consecutive = groups == tuple(range(groups[0], groups[0] + len(groups)))
        return replace(
            plan,
            leaders=tuple((part & -part).bit_length() - 1 for part in parts),
            barrier=self._barrier(
                stmt, plan.threads, len(groups) if consecutive else groups[-1] - groups[0] + 1
            ),
            barrier_threads=counts.pop(),
        )

    def _written_later(self, store: syntax.Transfer, buffer: Symbol) -> bool:
        """Whether a buffer is written after a store of it, or in the next pass of a loop."""
        later = any(self.places.loops(store))
        passed = False
        for stmt in statements(self.tables.function.body):
            passed = passed or stmt is store
            if not (passed or later):
                continue
            if passes(self.tables, stmt, buffer):
                return True
            if not isinstance(stmt, syntax.MmaStore | syntax.Transfer):
                continue
            written = self.tables.views.get(stmt.destination) if stmt.destination else None
            if written is not None and written.root is buffer:
                return True
        return False

    def _cooperative(self, stmt: syntax.Transfer, plan: TransferPlan) -> TransferPlan:
        self._same_tile(stmt, plan)
        assert self.tables.launch is not None
        if plan.threads == (1 << self.tables.launch.threads) - 1:
            # All threads of the block meet at __syncthreads().
            return replace(plan, barrier=None, barrier_threads=self.tables.launch.threads)
        return self._meeting(stmt, plan, "a cooperative copy")

    def _meeting(self, stmt: syntax.Transfer, plan: TransferPlan, what: str) -> TransferPlan:
        """A hardware barrier for all threads of a transfer."""
        if not whole(plan.threads, 32):
            self.diagnostics.error(
                "partial-warps",
                stmt,
                "the threads that get here are not whole warps",
                rule=f"the threads of {what} meet at a hardware barrier of whole warps",
                repair="let whole warps execute it",
            )
            return plan
        barrier = self._barrier(stmt, plan.threads, 1)
        return replace(plan, barrier=barrier, barrier_threads=plan.threads.bit_count())

    def _barrier(self, stmt: syntax.Transfer, mask: int, count: int) -> int | None:
        """The first of ``count`` consecutive hardware barriers for a set of threads."""
        key = (mask, count > 1)
        if key not in self.barriers:
            self.barriers[key] = self._take(count)
        if self.barriers[key] is None:
            self.diagnostics.error(
                "barrier-ids",
                stmt,
                "no hardware barrier is left for this transfer",
                rule="a block has 16 hardware barriers; each set of threads that meets has its own",
                repair="let fewer different roles store or copy",
            )
        return self.barriers[key]

    def _take(self, count: int) -> int | None:
        """Barriers next to one another; 15 is the one of single leaders."""
        for first in [n for n in self.free if count == 1 or n + count - 1 < TRANSFERS]:
            wanted = [first + k for k in range(count)]
            if all(n in self.free for n in wanted):
                self.free = [n for n in self.free if n not in wanted]
                return first
        return None
