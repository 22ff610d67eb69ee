"""TMA stores in CUDA, and when the buffer that they read may be written again.

A store outside of loops is waited for at once: the block may not end before its shared memory was
read. In a loop the wait stands where it costs least: before the next trip's first write to the
buffer, and after the loop.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_events import leader_condition
from artifact.choreo.emit_views import map_coordinates, shared_address
from artifact.choreo.meetings import passes
from artifact.choreo.tables import Symbol, TransferPlan
from artifact.choreo.threads import of_one_warp
from artifact.choreo.traverse import Places, statements

_WAIT = "cu::tma_store_wait_read<0>();"
BLOCK_MEETING = "__syncthreads();"
"""The meeting of the whole block: of a transfer, see :func:`meets_as_block`."""


def emit_tma_store(ctx: Context, node: syntax.Transfer, plan: TransferPlan) -> None:
    """Every writer shows TMA what it wrote, all meet, one thread stores."""
    if plan.map is None:
        raise AssertionError("a TMA store without a map")
    ctx.out.comment("What was written is shown to TMA, everybody has written, one thread stores.")
    ctx.out.line("cu::fence_async_proxy();")
    ctx.out.line(meeting(plan))
    operands = [
        f"&{ctx.maps[plan.map]}",
        shared_address(ctx, plan.source),
        *map_coordinates(ctx, plan.map, plan.target),
    ]
    places = Places(ctx.function)
    deferred = _first_write(ctx, places, node) is not None
    with ctx.out.block(f"if ({leader_condition(plan.leaders)})"):
        ctx.out.call("cu::tma_store(", operands)
        ctx.out.line("cu::tma_store_commit();")
        if not deferred:
            ctx.out.line(_WAIT)
    if not deferred and plan.reused:
        ctx.out.comment("The buffer may be written again only when the store has read it.")
        ctx.out.line(meeting(plan))


def meeting(plan: TransferPlan) -> str:
    """The barrier of the threads that copy or store together."""
    if meets_as_block(plan):
        return BLOCK_MEETING
    if plan.barrier is None:
        lanes = plan.threads >> plan.leaders[0] // 32 * 32
        return "__syncwarp();" if lanes == 0xFFFFFFFF else f"__syncwarp(0x{lanes:x});"
    barrier = str(plan.barrier)
    if len(plan.leaders) > 1:
        # One barrier a warpgroup, numbered from the first.
        first = min(plan.leaders) // 128
        barrier = f"{barrier} + cu::warpgroup_index()" + (f" - {first}" if first else "")
    return f"cu::named_barrier_sync({barrier}, {plan.barrier_threads});"


def meets_as_block(plan: TransferPlan) -> bool:
    """Whether the whole block meets: neither threads of one warp nor those of a barrier."""
    in_one_warp = of_one_warp(plan.threads) and not plan.barrier_threads
    return plan.barrier is None and not in_one_warp


def before_write(ctx: Context, node: syntax.MmaStore) -> None:
    """Ahead of a trip's first write to a buffer: the store of the trip before has read it."""
    places = Places(ctx.function)
    for store in _stores(ctx):
        if _first_write(ctx, places, store) is node:
            plan = ctx.tables.transfers[store]
            ctx.out.comment(
                f"The store of line {store.span.line} has read the buffer, if there was one."
            )
            ctx.out.line(f"if ({leader_condition(plan.leaders)}) {_WAIT}")
            ctx.out.line(meeting(plan))


def after_loop(ctx: Context, loop: syntax.Foreach | syntax.While) -> None:
    """The last trip's store has read its buffer before the block may end."""
    places = Places(ctx.function)
    for store in _stores(ctx):
        if _first_write(ctx, places, store) is None or list(places.loops(store))[-1] is not loop:
            continue
        ctx.out.comment(f"The last store of line {store.span.line} has read its buffer.")
        ctx.out.line(f"if ({leader_condition(ctx.tables.transfers[store].leaders)}) {_WAIT}")


def _stores(ctx: Context) -> list[syntax.Transfer]:
    return [n for n, plan in ctx.tables.transfers.items() if plan.kind == "tma-store"]


def _first_write(ctx: Context, places: Places, store: syntax.Transfer) -> syntax.MmaStore | None:
    """The write that the wait for a store in a loop may stand before; null: it waits at once.

    Such a write stands before the store in the same block, and so do all writes to the buffer:
    then one statement is the first of a trip, executed by the threads that store. A return would
    pass by the wait after the loop.
    """
    everything = list(statements(ctx.function.body))
    if not any(places.loops(store)) or any(isinstance(s, syntax.Return) for s in everything):
        return None
    root = ctx.tables.transfers[store].source.root
    if sum(ctx.tables.transfers[s].source.root is root for s in _stores(ctx)) > 1:
        return None
    writes = [s for s in everything if _writes(ctx, s, root)]
    block = places.block(store)
    for write in writes:
        if places.block(write) is not block or places.index(write) > places.index(store):
            return None
    first = writes[0] if writes else None
    return first if isinstance(first, syntax.MmaStore) else None


def _writes(ctx: Context, node: syntax.Stmt, buffer: Symbol) -> bool:
    if isinstance(node, syntax.MmaStore):
        return ctx.tables.views[node.destination].root is buffer
    if isinstance(node, syntax.Transfer):
        return ctx.tables.transfers[node].target.root is buffer
    return passes(ctx.tables, node, buffer)
