"""The block's prologue: tensor maps are prefetched, barriers made, and shown to the other threads.

Thread 0 sets up before any role starts. The block then meets at ``__syncthreads`` (co-language.md,
8.4), or [R], where that is its only meeting, the other warps alone wait there: the first warp goes
on, and a load that it issues is under way while the others still arrive. What a thread wrote before
its ``bar.arrive`` is seen by those whose ``bar.sync`` completes the barrier (PTX ISA, bar).
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.calls import REGISTER_CALLS
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_events import arrive, in_memory, threads_condition
from artifact.choreo.emit_stores import BLOCK_MEETING, meets_as_block
from artifact.choreo.tables import EventPlan, Symbol
from artifact.choreo.traverse import statements


def initialise(ctx: Context) -> None:
    """Tensor maps are prefetched and barriers initialised by one thread, and the others told."""
    events = in_memory(ctx)
    if ctx.maps or events:
        with ctx.out.block("if (threadIdx.x == 0)"):
            for name in ctx.maps.values():
                ctx.out.line(f"cu::tma_prefetch(&{name});")
            for symbol, plan in events:
                _initialise(ctx, symbol, plan)
            if events:
                ctx.out.line("cu::fence_barrier_init();")
    if events:
        _show(ctx)
    for symbol, plan in ctx.tables.events.items():
        if plan.kind == "named" and plan.ready:
            ctx.out.comment(
                f"{ctx.names.of(symbol)}: its first generation is complete from here on."
            )
            with ctx.out.block(f"if ({threads_condition(plan.triggering)})"):
                ctx.out.line(arrive(ctx, symbol, plan, ""))


def _initialise(ctx: Context, symbol: Symbol, plan: EventPlan) -> None:
    name = ctx.names.of(symbol)
    if plan.slots == 1:
        ctx.out.line(f"cu::mbarrier_init(&{name}[0], {plan.arrivals});")
    else:
        loop = f"for (int slot = 0; slot < {plan.slots}; ++slot)"
        ctx.out.line(f"{loop} cu::mbarrier_init(&{name}[slot], {plan.arrivals});")


def _show(ctx: Context) -> None:
    if _meets_once(ctx):
        ctx.out.comment("The first warp has set up what it needs itself, and does not wait.")
        ctx.out.line(f"cu::wait_for_first_warp<{ctx.launch.threads}>();")
    else:
        ctx.out.line(BLOCK_MEETING)


def _meets_once(ctx: Context) -> bool:
    """Whether the block meets as a whole nowhere else.

    A warp that only arrived may be at the next meeting before the others have left this one, and
    would count twice. A helper may meet without our knowing.
    """
    threads = ctx.launch.threads
    return (
        threads > 32
        and threads % 32 == 0
        and not any(
            isinstance(stmt, syntax.CallStmt) and stmt.name.id not in REGISTER_CALLS
            for stmt in statements(ctx.function.body)
        )
        and not any(
            (plan.kind != "tma-load" or plan.meets_before) and meets_as_block(plan)
            for plan in ctx.tables.transfers.values()
        )
    )
