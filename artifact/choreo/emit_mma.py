"""Tensor core operations in CUDA: issue, completion, loads of operands, stores of accumulators."""

from __future__ import annotations

from collections.abc import Sequence

from artifact.choreo import syntax
from artifact.choreo.barriers import FIRST_OF_WARPGROUPS, readers
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_fragments import declare_filled
from artifact.choreo.emit_stores import before_write
from artifact.choreo.emit_tails import never_partial
from artifact.choreo.emit_views import (
    column_bytes,
    global_address,
    origin,
    row_pitch,
    shared_address,
    shared_of,
    shared_position,
    tensor_extents,
    tile_address,
)
from artifact.choreo.tables import MmaPlan, SharedPlan, Symbol, ViewPlan, WaitPlan
from artifact.choreo.traverse import Places, statements

_K = 16
"""Columns of A that one instruction multiplies (BF16)."""
_ROWS = 64
"""Rows of a warpgroup's tile."""


def emit_mma(ctx: Context, node: syntax.Mma) -> None:
    """One statement: one commit group."""
    plan = ctx.tables.mmas[node]
    accumulator = ctx.names.of(ctx.symbol(node.accumulator))
    with ctx.block():
        k = ctx.names.fresh("k")
        if isinstance(plan.a, ViewPlan):
            a = ctx.names.fresh("a")
            ctx.out.line(f"const cu::Descriptor {a} = {_k_major(ctx, plan.a, plan.a_swizzle)};")
            a_step = f"{a}.at({_k_major_step(ctx, k, plan, plan.a, plan.a_swizzle)})"
        else:
            a = ctx.names.of(plan.a)
            ctx.out.line(f"cu::wgmma_fence_registers({a});")
            a_step = f"{a} + 4 * {k}"
        b = ctx.names.fresh("b")
        if node.b_order == "row":
            kind, descriptor = "nk", _k_major(ctx, plan.b, plan.b_swizzle)
            step = _k_major_step(ctx, k, plan, plan.b, plan.b_swizzle)
        else:
            kind, descriptor = "kn", _mn_major(ctx, plan)
            step = f"{k} * {_K * plan.b_swizzle}"
        ctx.out.line(f"const cu::Descriptor {b} = {descriptor};")
        ctx.out.line(f"cu::wgmma_begin({accumulator});")
        ctx.out.flush_left("#pragma unroll")
        with ctx.out.block(f"for (int {k} = 0; {k} < {plan.k // _K}; ++{k})"):
            arguments = [accumulator, a_step, f"{b}.at({step})"]
            if plan.clears:
                # Scale-d of the first step is 0: the fill costs nothing.
                arguments.append(f"{k} > 0")
            ctx.out.call(f"cu::wgmma_{kind}<{plan.n}>(", arguments)
        ctx.out.line("cu::wgmma_commit();")
    if not node.is_async:
        ctx.out.line("cu::wgmma_wait<0>();")
        ctx.out.line(f"cu::wgmma_end({accumulator});")


def _k_major(ctx: Context, view: ViewPlan, swizzle: int) -> str:
    return f"cu::k_major<{swizzle}>({shared_address(ctx, view)})"


def _k_major_step(ctx: Context, k: str, plan: MmaPlan, view: ViewPlan, swizzle: int) -> str:
    """Bytes from the tile's start to a k step: within a panel, then from panel to panel.

    A panel has the rows of the whole buffer, also where the operand is a part of them.
    """
    step_bytes = _K * 2
    steps_of_panel = swizzle // step_bytes
    if plan.k // _K <= steps_of_panel:
        return f"{k} * {step_bytes}"
    panel_bytes = shared_of(ctx, view).rows * swizzle
    if steps_of_panel == 1:
        return f"{k} * {panel_bytes}"
    return f"{k} / {steps_of_panel} * {panel_bytes} + {k} % {steps_of_panel} * {step_bytes}"


def _mn_major(ctx: Context, plan: MmaPlan) -> str:
    panel_bytes = shared_of(ctx, plan.b).rows * plan.b_swizzle
    address = shared_address(ctx, plan.b)
    return f"cu::mn_major<{plan.b_swizzle}>({address}, {panel_bytes})"


def wait_mma(ctx: Context, plan: WaitPlan, beside: Sequence[Symbol]) -> None:
    """Until few enough groups are in flight; then the finished accumulators may be touched.

    ``beside``: the fragments that were written while the operation was in flight, in the order
    of their last writes. ptxas moves a wait up over arithmetic that does not depend on it, so
    that the work would come after the operation instead of beside it: the fences keep it here.
    """
    fragments = ctx.tables.fragments
    rows = [s for s in beside if fragments[s].layout == "row"]
    if beside:
        ctx.out.comment("Behind the arithmetic above, which is meant to run beside the operation.")
    for symbol in beside:
        if fragments[symbol].layout == "accumulator":
            ctx.out.line(f"cu::wgmma_fence_registers({ctx.names.of(symbol)});")
    if rows:
        ctx.out.line(f"cu::wgmma_wait_after<{plan.depth}>({ctx.names.of(rows[-1])});")
    else:
        ctx.out.line(f"cu::wgmma_wait<{plan.depth}>();")
    for operation in plan.completes:
        ctx.out.line(f"cu::wgmma_end({ctx.names.of(ctx.symbol(operation.accumulator))});")


def emit_store(ctx: Context, node: syntax.MmaStore) -> None:
    """``mma.store``: BF16 to shared memory by stmatrix, or to global memory in pairs."""
    accumulator = ctx.names.of(ctx.symbol(node.accumulator))
    plan = ctx.tables.views[node.destination]
    if plan.root.kind == "tensor":
        arguments = [
            global_address(ctx, plan),
            row_pitch(ctx, plan),
            _rows_left(ctx, plan),
            accumulator,
        ]
        ctx.out.call("cu::store_fragment_global(", arguments)
        return
    shared = shared_of(ctx, plan)
    before_write(ctx, node)
    by = readers(ctx.tables, plan)
    own_barrier = f"cu::named_barrier_sync({FIRST_OF_WARPGROUPS} + cu::warpgroup_index(), 128);"
    multiplied = any(isinstance(reader, syntax.Mma) for reader in by)
    if _may_be_read(ctx, node, by):
        ctx.out.comment(
            "Every warp of the warpgroup has waited for the MMAs that read the tile."
            if multiplied
            else "Every warp of the warpgroup has loaded its rows of the tile."
        )
        ctx.out.line(own_barrier)
    tile, row, pitch = _position(ctx, plan, shared)
    ctx.out.call(f"cu::store_fragment<{shared.swizzle}>(", [tile, accumulator, row, pitch])
    if multiplied:
        ctx.out.comment(
            "An MMA reads it: shown to the tensor cores when the warpgroup has written."
        )
        ctx.out.line("cu::fence_async_proxy();")
    elif by:
        ctx.out.comment("mma.load reads it, when the warpgroup has written.")
    if by:
        ctx.out.line(own_barrier)


def emit_load(ctx: Context, node: syntax.MmaLoad) -> None:
    """``mma.load``: ldmatrix, which is complete when its registers are used."""
    fragment = ctx.names.of(declare_filled(ctx, node))
    plan = ctx.tables.views[node.source]
    shared = shared_of(ctx, plan)
    tile, row, pitch = _position(ctx, plan, shared)
    ctx.out.call(f"cu::load_fragment<{shared.swizzle}>(", [fragment, tile, row, pitch])


def _position(ctx: Context, plan: ViewPlan, shared: SharedPlan) -> tuple[str, str, str]:
    """Where a view lies: the panel that it begins in, its first row there, the pitch."""
    row, column = shared_position(ctx, plan)
    tile = tile_address(ctx, plan)
    if column is not None:
        tile += " + " + column_bytes(shared, column, 2)
    pitch = shared.rows if shared.swizzle else shared.columns * 2
    return tile, "0" if row is None else row, str(pitch)


def _may_be_read(
    ctx: Context, node: syntax.MmaStore, by: Sequence[syntax.Mma | syntax.MmaLoad]
) -> bool:
    """Whether the buffer is read before a store writes it: earlier, or a trip before.

    A warp waits for its own part of an MMA only, so that another warp's may still run.
    """
    places = Places(ctx.function)
    order = list(statements(ctx.function.body))
    loops = set(places.loops(node))
    return any(
        order.index(reader) < order.index(node) or not loops.isdisjoint(places.loops(reader))
        for reader in by
    )


def _rows_left(ctx: Context, plan: ViewPlan) -> str:
    """Rows of the tile that lie in the tensor."""
    dim = plan.dims[0]
    if never_partial(ctx, plan, dim, _ROWS):
        return str(_ROWS)
    size = ctx.expressions.extent(tensor_extents(ctx, plan.root)[dim], 11)
    first = origin(ctx, plan)[dim]
    return f"int({size})" if first is None else f"int({size}) - int({first})"
