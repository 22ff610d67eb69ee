"""``wait`` and ``trigger``: generations of events, and futures."""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.interpret_events import Slot
from artifact.choreo.interpret_mma import wait_mma
from artifact.choreo.interpret_threads import Steps, Threads
from artifact.choreo.interpret_transfers import Load, finish_copy, hand_over
from artifact.choreo.interpret_values import cast
from artifact.choreo.tables import Symbol


def wait(threads: Threads, node: syntax.Wait) -> Steps:
    """Everything that a statement waits for, in its order."""
    for target in node.targets:
        yield None
        plan = threads.tables.waits.get(target)
        symbol = threads.tables.uses[target.name]
        transfer = symbol.node if isinstance(symbol.node, syntax.Transfer) else None
        if plan is None:
            raise threads.report.error("unsupported", target, "the analysis did not plan this wait")
        if transfer is not None and threads.tables.transfers[transfer].kind == "cooperative-load":
            yield from finish_copy(threads, transfer, target)
        elif plan.kind == "mma":
            yield from wait_mma(threads, plan, threads.futures.get(symbol), target)
        elif plan.kind == "event":
            yield from _wait_event(threads, target, _event(threads, target))


def _event(threads: Threads, target: syntax.Target) -> Symbol:
    """The event of a target: itself, or the hidden one behind a load's future."""
    symbol = threads.tables.uses[target.name]
    if symbol.kind == "future" and isinstance(symbol.node, syntax.Transfer):
        event = threads.tables.transfers[symbol.node].event
        if event is not None:
            return event
    return symbol


def _wait_event(threads: Threads, target: syntax.Target, event: Symbol) -> Steps:
    plan = threads.block.events.plans[event]
    order = _order(threads, target)
    if plan.kind == "named":
        yield from threads.meet(threads.block.events.named[event], target, event=True)
        _step(threads, target)
        return
    number = _slot(threads, target, order, plan.slots)
    generation = None if order is None else order // plan.slots
    yield from threads.wait_for(event, number, generation, target)
    _step(threads, target)


def trigger(threads: Threads, node: syntax.Trigger) -> Steps:
    """Arrivals, or the hand-over of loads: they are issued here and complete the event."""
    for target in node.targets:
        yield None
        event = threads.tables.uses[target.name]
        plan = threads.block.events.plans[event]
        order = _order(threads, target)
        if plan.kind == "named":
            threads.block.events.named[event].arrive(threads, threads.mask, target)
            _step(threads, target)
            continue
        slots = threads.block.events.slots[event]
        whole = order is None and _names_all(threads, target, plan.slots)
        chosen = slots if whole else [slots[_slot(threads, target, order, plan.slots)]]
        generation = None if order is None else order // plan.slots + int(plan.ready)
        for slot in chosen:
            if node.after:
                _hand_over(threads, node, target, slot, generation)
            else:
                count = 1 if plan.per_warp else threads.count
                slot.arrive(threads, threads.mask, count, generation, target)
        _step(threads, target)


def _names_all(threads: Threads, target: syntax.Target, slots: int) -> bool:
    """Whether a target without an order names the whole array; ``e[N]`` does so too."""
    return target.index is None or threads.values.integer(target.index) == slots


def _hand_over(
    threads: Threads,
    node: syntax.Trigger,
    target: syntax.Target,
    slot: Slot,
    generation: int | None,
) -> None:
    """One arrival announces the bytes of all loads of the statement; who leads issues them."""
    loads: list[tuple[Load, int]] = []
    for name in node.after:
        symbol = threads.tables.uses[name]
        load = threads.futures.get(symbol)
        if isinstance(load, Load):
            plan = threads.tables.transfers[load.transfer]
            if plan.slot is target:
                loads.append((load, plan.bytes))
    if loads:
        hand_over(threads, loads, slot, generation, target)


def _order(threads: Threads, target: syntax.Target) -> int | None:
    """The order of a target: the value that counts, where it is incremented."""
    order = target.order
    if order is None:
        return None
    if isinstance(order, syntax.Increment):
        if order.prefix:
            increment(threads, order)
        value = threads.values.integer(order.name)
    else:
        value = threads.values.integer(order)
    if value < 0:
        raise threads.report.error("out-of-range", target, f"the order {value}")
    return value


def _step(threads: Threads, target: syntax.Target) -> None:
    """``order++`` takes effect once, after the statement."""
    if isinstance(target.order, syntax.Increment) and not target.order.prefix:
        increment(threads, target.order)


def increment(threads: Threads, node: syntax.Increment) -> None:
    """``i++``, ``i--``."""
    symbol = threads.tables.uses[node.name]
    value = threads.values.integer(node.name) + (1 if node.op == "++" else -1)
    threads.assign(symbol, cast(value, symbol.type), node)


def _slot(threads: Threads, target: syntax.Target, order: int | None, slots: int) -> int:
    if order is not None:
        return order % slots
    number = 0 if target.index is None else threads.values.integer(target.index)
    if not 0 <= number < slots:
        raise threads.report.error("out-of-range", target, f"slot {number} of {slots}")
    return number
