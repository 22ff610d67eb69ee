"""Transfers: TMA loads that land some time later, stores that read some time later, and copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artifact.choreo import syntax
from artifact.choreo.interpret_agents import Operation
from artifact.choreo.interpret_events import Slot
from artifact.choreo.interpret_memory import Box, Tile
from artifact.choreo.interpret_threads import Steps, Threads
from artifact.choreo.interpret_views import Window
from artifact.choreo.tables import Symbol, TransferPlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Load(Operation):
    """A TMA load: its tile is undefined from the statement until it lands."""

    def __init__(
        self, threads: Threads, node: syntax.Transfer, tile: Tile, box: Box, window: Window
    ) -> None:
        super().__init__(threads, node, "the load")
        self.transfer = node
        tile.write(self, box, node)
        tile.part(box)[...] = float("nan")
        self._part = tile.part(box)
        self._window = window

    def begin(self, slot: Slot, size: int) -> None:
        """Run from now on; the bytes that land complete a slot's generation."""

        def land() -> None:
            self._part[...] = self._window.load(*self._part.shape)
            slot.land(self, size)

        self.action = land


def transfer(threads: Threads, node: syntax.Transfer) -> Steps:
    """One transfer statement."""
    yield None
    plan = threads.tables.transfers[node]
    if plan.meets_before:
        yield from threads.meet_for(plan, node)
    if plan.kind == "tma-load":
        _load(threads, node, plan)
        if not node.is_async and plan.event is not None:
            yield from threads.wait_for(plan.event, 0, None, node)
    elif plan.kind == "tma-store":
        yield from _store(threads, node, plan)
    else:
        _copy(threads, node, plan)
        if not node.is_async:
            yield from threads.meet_for(plan, node)


def _future(threads: Threads, node: syntax.Transfer) -> Symbol | None:
    return next((s for s in threads.tables.declares.get(node, ()) if s.kind == "future"), None)


def _load(threads: Threads, node: syntax.Transfer, plan: TransferPlan) -> None:
    if not threads.leads(plan):
        return
    tile, box = threads.places.tile(plan.target, node)
    load = Load(threads, node, tile, box, threads.places.window(plan.source, node))
    future = _future(threads, node)
    if future is not None:
        threads.futures[future] = load
    threads.block.start(load)
    if plan.slot is None and plan.event is not None:
        # An event of its own, that the waits for its future look at.
        slot = threads.block.events.slots[plan.event][0]
        hand_over(threads, [(load, plan.bytes)], slot, None, node)


def hand_over(
    threads: Threads,
    loads: list[tuple[Load, int]],
    slot: Slot,
    generation: int | None,
    node: syntax.Node,
) -> None:
    """Loads run from here on: one arrival announces their bytes, which complete the slot."""
    pending = slot.generation
    for load, size in loads:
        load.begin(slot, size)
        slot.expect(size)
    slot.arrive(threads, threads.mask, 1, generation, node)
    for load, _ in loads:
        load.detail = f" (generation {pending} of {slot.name})"


def _store(threads: Threads, node: syntax.Transfer, plan: TransferPlan) -> Steps:
    """All have written, one stores, and nobody writes again before the store has read."""
    yield from threads.meet_for(plan, node)
    if threads.leads(plan):
        tile, box = threads.places.tile(plan.source, node)
        window = threads.places.window(plan.target, node)
        operation = Operation(threads, node, "the store")
        tile.read(operation, box, node)
        part = tile.part(box)
        operation.action = lambda: window.store(part, part.shape[0])
        threads.block.start(operation)
        yield from threads.complete(operation, node)
    if plan.reused:
        yield from threads.meet_for(plan, node)


def _copy(threads: Threads, node: syntax.Transfer, plan: TransferPlan) -> None:
    """Every thread copies its share of the rows."""
    tile, box = threads.places.tile(plan.target, node)
    window = threads.places.window(plan.source, node)
    before = (plan.threads & ((1 << threads.first) - 1)).bit_count()
    total = plan.threads.bit_count()
    first, last = (plan.rows * n // total for n in (before, before + threads.count))
    own = (box[0] + first, box[0] + last, box[2], box[3])
    part, source = tile.part(own), window.down(first)
    operation = Operation(threads, node, "the copy")
    if first == last:
        operation.action = lambda: None
    elif node.is_async:
        tile.write(operation, own, node)
        part[...] = float("nan")
        operation.action = lambda: _fill(part, source)
    else:
        tile.write(threads, own, node)
        _fill(part, source)
        return
    threads.block.start(operation)
    future = _future(threads, node)
    if future is not None:
        threads.futures[future] = operation


def _fill(part: Array, source: Window) -> None:
    part[...] = source.load(*part.shape)


def finish_copy(threads: Threads, node: syntax.Transfer, place: syntax.Node) -> Steps:
    """The wait for a copy that runs on its own: every thread's share has arrived."""
    future = _future(threads, node)
    if future is not None:
        yield from threads.complete(threads.futures[future], place)
    yield from threads.meet_for(threads.tables.transfers[node], place)
