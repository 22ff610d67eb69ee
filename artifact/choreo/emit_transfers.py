"""Transfers in CUDA: TMA loads and their completion, cooperative copies."""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_events import (
    leader_condition,
    order_text,
    slot_text,
    step_order,
    thread_number,
    wait_scalar,
)
from artifact.choreo.emit_stores import emit_tma_store, meeting
from artifact.choreo.emit_views import (
    global_address,
    map_coordinates,
    row_pitch,
    shared_address,
    shared_of,
)
from artifact.choreo.tables import Symbol, TransferPlan

_POLICY = {
    "evict_first": "cu::kEvictFirst",
    "evict_last": "cu::kEvictLast",
    None: "cu::kEvictNormal",
}


def declare_maps(ctx: Context) -> None:
    """The tensor maps that the kernel's statements need, named after the first that needs each."""
    for node in syntax.walk(ctx.function.body):
        if isinstance(node, syntax.Transfer):
            plan = ctx.tables.transfers[node]
            if plan.map is not None and plan.map not in ctx.maps:
                way = "store" if plan.kind == "tma-store" else "load"
                wish = node.result or f"{plan.source.root.name}_{way}"
                ctx.maps[plan.map] = ctx.names.fresh(f"{wish}_map")


def emit_transfer(ctx: Context, node: syntax.Transfer, *, kept: bool) -> None:
    """One transfer statement.

    A load that a trigger completes is issued there: ``kept`` says that other statements come
    between, so that what the load's operands are now has to be kept.
    """
    plan = ctx.tables.transfers[node]
    if plan.kind == "tma-load":
        _load(ctx, node, plan, kept=kept)
    elif plan.kind == "tma-store":
        emit_tma_store(ctx, node, plan)
    else:
        _cooperative_load(ctx, node, plan)


# TMA loads -------------------------------------------------------------------------------------


def _load(ctx: Context, node: syntax.Transfer, plan: TransferPlan, *, kept: bool) -> None:
    operands = _load_operands(ctx, plan)
    if plan.slot is not None:
        if kept:
            operands = tuple(_keep(ctx, node, o, i) for i, o in enumerate(operands))
        ctx.loads[_future(ctx, node)] = (node, operands)
        return
    if plan.event is None:
        raise AssertionError(f"nothing completes the load: {node.span}")
    slot = f"&{ctx.names.of(plan.event)}[0]"
    if plan.meets_before:
        ctx.out.comment("Nobody reads the buffer or waits for its last load any more.")
        ctx.out.line(meeting(plan))
    with ctx.out.block(f"if ({leader_condition(plan.leaders)})"):
        ctx.out.line(f"cu::mbarrier_arrive_expect({slot}, {plan.bytes});")
        _issue(ctx, node, plan, operands, slot)
    if not node.is_async:
        ctx.out.comment("Everybody waits for the tile.")
        wait_scalar(ctx, plan.event)


def _future(ctx: Context, node: syntax.Transfer) -> Symbol:
    return next(s for s in ctx.tables.declares[node] if s.kind == "future")


def _load_operands(ctx: Context, plan: TransferPlan) -> tuple[str, ...]:
    """The tile's address and the coordinates."""
    if plan.map is None:
        raise AssertionError("a TMA load without a map")
    return (shared_address(ctx, plan.target), *map_coordinates(ctx, plan.map, plan.source))


def _keep(ctx: Context, node: syntax.Transfer, operand: str, position: int) -> str:
    if operand.isidentifier() or operand.isdigit():
        return operand
    wish = f"{node.result or 'load'}_{f'coordinate{position}' if position else 'tile'}"
    name = ctx.names.fresh(wish)
    kind = "const int" if position else "unsigned char* const"
    ctx.out.line(f"{kind} {name} = {operand};")
    return name


def _issue(
    ctx: Context, node: syntax.Transfer, plan: TransferPlan, operands: tuple[str, ...], slot: str
) -> None:
    if plan.map is None:
        raise AssertionError("a TMA load without a map")
    tile, *coordinates = operands
    arguments = [tile, f"&{ctx.maps[plan.map]}", slot, _POLICY[node.evict], *coordinates]
    ctx.out.call("cu::tma_load(", arguments)


def emit_trigger_after(ctx: Context, node: syntax.Trigger) -> None:
    """``trigger e after f, ..``: the leader announces the bytes and issues; nobody blocks."""
    for target in node.targets:
        loads = [
            (transfer, ctx.tables.transfers[transfer], operands)
            for name in node.after
            for transfer, operands in [ctx.loads[ctx.symbol(name)]]
            if ctx.tables.transfers[transfer].slot is target
        ]
        if not loads:
            continue
        event = ctx.symbol(target.name)
        plan = ctx.tables.events[event]
        name = ctx.names.of(event)
        if target.order is not None:
            slot = slot_text(ctx, plan, name, order_text(ctx, target))
        elif target.index is not None:
            slot = f"&{name}[{ctx.text(target.index)}]"
        else:
            slot = f"&{name}[0]"
        with ctx.out.block(f"if ({leader_condition(loads[0][1].leaders)})"):
            total = sum(plan.bytes for _, plan, _ in loads)
            ctx.out.line(f"cu::mbarrier_arrive_expect({slot}, {total});")
            for transfer, transfer_plan, operands in loads:
                _issue(ctx, transfer, transfer_plan, operands, slot)
        step_order(ctx, target)


# Cooperative copies ----------------------------------------------------------------------------


def _cooperative_load(ctx: Context, node: syntax.Transfer, plan: TransferPlan) -> None:
    """Every thread copies 16 bytes at a time; a barrier before (where needed) and after [R]."""
    shared = shared_of(ctx, plan.target)
    count = plan.threads.bit_count()
    if plan.meets_before:
        ctx.out.comment("Nobody reads the buffer any more; copy; everybody sees the tile.")
        ctx.out.line(meeting(plan))
    else:
        ctx.out.comment(
            "All have met since the buffer was last read; copy; everybody sees the tile."
        )
    template = f"{plan.rows}, {plan.columns}, {shared.swizzle}, {count}"
    arguments = [
        shared_address(ctx, plan.target),
        global_address(ctx, plan.source),
        row_pitch(ctx, plan.source),
        thread_number(plan.threads),
    ]
    ctx.out.call(f"cu::copy_tile_async<{template}>(", arguments)
    if not node.is_async:
        _complete(ctx, plan)


def _complete(ctx: Context, plan: TransferPlan) -> None:
    ctx.out.line("cu::wait_copies();")
    ctx.out.line(meeting(plan))


def is_cooperative(ctx: Context, target: syntax.Target) -> bool:
    """Whether a wait is for a copy by ordinary threads."""
    node = ctx.symbol(target.name).node
    return (
        isinstance(node, syntax.Transfer) and ctx.tables.transfers[node].kind == "cooperative-load"
    )


def complete_copies(ctx: Context, target: syntax.Target) -> None:
    """``wait f`` of an asynchronous ``dma.copy``."""
    node = ctx.symbol(target.name).node
    if isinstance(node, syntax.Transfer):
        _complete(ctx, ctx.tables.transfers[node])
