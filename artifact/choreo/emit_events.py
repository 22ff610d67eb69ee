"""Events in CUDA: their barriers, waits and triggers."""

from __future__ import annotations

from collections.abc import Sequence

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.tables import EventPlan, Symbol

WORD = 8
"""Bytes of an mbarrier."""

_SENTENCE = {
    "transaction": "completed by TMA bytes",
    "named": "a named barrier",
}


def in_memory(ctx: Context) -> list[tuple[Symbol, EventPlan]]:
    """The events that are mbarriers, in the order of their words."""
    return [(s, p) for s, p in ctx.tables.events.items() if p.kind != "named"]


def event_bytes(ctx: Context) -> int:
    """Shared memory that the events take, after the buffers."""
    return WORD * sum(plan.slots for _, plan in in_memory(ctx))


def declare_events(ctx: Context, base: str, offset: int) -> None:
    """The addresses of the mbarriers, and each thread's parity of scalar events."""
    for symbol, plan in ctx.tables.events.items():
        name = ctx.names.declare(symbol)
        note = describe(plan)
        if plan.kind == "named":
            ctx.out.comment(f"{name}: {note}")
            continue
        address = f"reinterpret_cast<uint64_t*>({base} + {offset})"
        ctx.out.line(f"uint64_t* const {name} = {address};  // {note}")
        offset += WORD * plan.slots
    for symbol, plan in in_memory(ctx):
        if _waited_as_scalar(ctx, symbol):
            name = ctx.names.fresh(f"{ctx.names.of(symbol)}_parity")
            ctx.phases[symbol] = name
            ctx.out.line(f"unsigned {name} = {int(plan.ready)};")


def describe(plan: EventPlan) -> str:
    """An event's barrier in words."""
    slots = "1 slot" if plan.slots == 1 else f"{plan.slots} slots"
    state = ", ready" if plan.ready else ""
    if plan.kind == "arrivals":
        who = "warp" if plan.per_warp else "thread"
        how = f"{plan.arrivals} {who}{'s' if plan.arrivals != 1 else ''} arrive"
        how = how if plan.arrivals != 1 else f"1 {who} arrives"
    else:
        how = _SENTENCE[plan.kind]
        if plan.kind == "named":
            how += f", id {plan.barrier}, {plan.participants} threads"
    return f"{slots}{state}, {how}"


def _waited_as_scalar(ctx: Context, event: Symbol) -> bool:
    """Whether somebody waits for an event without naming an order."""
    for load, transfer in ctx.tables.transfers.items():
        if transfer.event is event and transfer.kind == "tma-load" and not load.is_async:
            return True
    for node in syntax.walk(ctx.function.body):
        if isinstance(node, syntax.Wait):
            for target in node.targets:
                plan = ctx.tables.waits[target]
                if plan.kind == "event" and target.order is None and event_of(ctx, target) is event:
                    return True
    return False


def event_of(ctx: Context, target: syntax.Target) -> Symbol:
    """The event of a target: itself, or the hidden one behind a load's future."""
    symbol = ctx.symbol(target.name)
    if symbol.kind != "future":
        return symbol
    node = symbol.node
    plan = ctx.tables.transfers.get(node) if isinstance(node, syntax.Transfer) else None
    if plan is None or plan.event is None:
        raise AssertionError(f"no event behind {symbol.name}")
    return plan.event


# Sets of threads -------------------------------------------------------------------------------


def runs_of(mask: int) -> list[tuple[int, int]]:
    """A set of threads as runs of neighbours: first, and one past the last."""
    runs: list[tuple[int, int]] = []
    position = 0
    while mask >> position:
        start = position + _trailing_zeros(mask >> position)
        position = start + _trailing_ones(mask >> start)
        runs.append((start, position))
    return runs


def threads_condition(mask: int) -> str:
    """A condition that holds for exactly the threads of a set."""
    parts = []
    for start, end in runs_of(mask):
        if end - start == 1:
            parts.append(f"threadIdx.x == {start}")
        elif start == 0:
            parts.append(f"threadIdx.x < {end}")
        else:
            parts.append(f"threadIdx.x >= {start} && threadIdx.x < {end}")
    return parts[0] if len(parts) == 1 else " || ".join(f"({p})" for p in parts)


def thread_number(mask: int) -> str:
    """The number of a thread among those of a set, from 0."""
    runs = runs_of(mask)
    text, before = "", 0
    for start, end in runs:
        text += (
            f"{start - before}"
            if (start, end) == runs[-1]
            else (f"threadIdx.x < {end} ? {start - before} : ")
        )
        before += end - start
    if len(runs) > 1:
        return f"int(threadIdx.x) - ({text})"
    return "int(threadIdx.x)" if text == "0" else f"int(threadIdx.x) - {text}"


def _trailing_zeros(value: int) -> int:
    return (value & -value).bit_length() - 1


def _trailing_ones(value: int) -> int:
    return _trailing_zeros(~value)


# Waits and triggers ----------------------------------------------------------------------------


def slot_text(ctx: Context, plan: EventPlan, name: str, order: str) -> str:
    """The address of the slot of an order."""
    return f"&{name}[0]" if plan.slots == 1 else f"&{name}[{order} % {plan.slots}]"


def order_text(ctx: Context, target: syntax.Target) -> str:
    """The order of a target as a factor: its old value, where it is incremented afterwards."""
    order = target.order
    if order is None:
        raise AssertionError(f"a target without an order: {target.span}")
    if isinstance(order, syntax.Increment):
        if order.prefix:
            ctx.out.line(f"{order.op}{ctx.text(order.name)};")
        return ctx.text(order.name)
    text = ctx.expressions.factor(order)
    if isinstance(order, syntax.Name | syntax.IntLit):
        return text
    name = ctx.names.fresh(f"{target.name.id}_order")
    ctx.out.line(f"const unsigned {name} = {ctx.text(order)};")
    return name


def step_order(ctx: Context, target: syntax.Target) -> None:
    """``order++`` takes effect once for the whole statement, in every thread of the scope."""
    order = target.order
    if isinstance(order, syntax.Increment) and not order.prefix:
        ctx.out.line(f"{ctx.text(order.name)}{order.op};")


def wait_event(ctx: Context, target: syntax.Target) -> None:
    """Block until a generation is complete: every active thread waits."""
    event = event_of(ctx, target)
    plan = ctx.tables.events[event]
    name = ctx.names.of(event)
    if plan.kind == "named":
        ctx.out.line(f"cu::named_barrier_sync({plan.barrier}, {plan.participants});")
    elif target.order is not None:
        order = order_text(ctx, target)
        phase = f"{order} & 1" if plan.slots == 1 else f"({order} / {plan.slots}) & 1"
        phase = f"({phase}) ^ 1" if plan.ready else phase
        ctx.out.line(f"cu::mbarrier_wait({slot_text(ctx, plan, name, order)}, {phase});")
    else:
        wait_scalar(ctx, event)
    step_order(ctx, target)


def wait_scalar(ctx: Context, event: Symbol) -> None:
    """Block until this thread's next generation of an event of one slot is complete."""
    parity = ctx.phases[event]
    ctx.out.line(f"cu::mbarrier_wait(&{ctx.names.of(event)}[0], {parity});")
    ctx.out.line(f"{parity} ^= 1;")


def trigger_event(ctx: Context, target: syntax.Target) -> None:
    """Arrive: each thread, or each warp by one lane, as the event counts."""
    event = ctx.symbol(target.name)
    plan = ctx.tables.events[event]
    name = ctx.names.of(event)
    if target.order is not None:
        order = order_text(ctx, target)
        ctx.out.line(arrive(ctx, event, plan, slot_text(ctx, plan, name, order)))
        step_order(ctx, target)
        return
    index = None if target.index is None else ctx.expressions.integer(target.index)
    if plan.slots > 1 and (target.index is None or index == plan.slots):
        ctx.out.flush_left("#pragma unroll")
        loop = f"for (int slot = 0; slot < {plan.slots}; ++slot)"
        ctx.out.line(f"{loop} {arrive(ctx, event, plan, f'&{name}[slot]')}")
    elif plan.slots > 1 and target.index is not None:
        ctx.out.line(arrive(ctx, event, plan, f"&{name}[{ctx.text(target.index)}]"))
    else:
        ctx.out.line(arrive(ctx, event, plan, f"&{name}[0]"))


def arrive(ctx: Context, event: Symbol, plan: EventPlan, slot: str) -> str:
    """The arrival of an event's triggering threads at a slot's address."""
    if plan.kind == "named":
        return f"cu::named_barrier_arrive({plan.barrier}, {plan.participants});"
    if plan.kind == "transaction":
        raise AssertionError(f"{event.name} is completed by loads, not by arrivals")
    function = "mbarrier_arrive_warp" if plan.per_warp else "mbarrier_arrive"
    return f"cu::{function}({slot});"


def leader_condition(leaders: Sequence[int]) -> str:
    """A condition that holds for the issuing threads alone."""
    return " || ".join(f"threadIdx.x == {leader}" for leader in leaders)
