"""Variables of ``parallel`` in CUDA."""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.tables import LevelPlan


def declare_levels(ctx: Context, node: syntax.Parallel) -> None:
    """The variables of the levels; those that nothing uses are left out."""
    axes = {symbol: axis for axis, (symbol, _) in zip("xyz", ctx.launch.grid, strict=False)}
    for symbol in ctx.tables.declares[node]:
        if symbol not in ctx.read:
            continue
        if symbol in axes:
            value = f"blockIdx.{axes[symbol]}"
        else:
            value = _value(ctx, ctx.tables.levels[symbol])
        ctx.out.line(f"const {ctx.cxx_type(symbol)} {ctx.names.declare(symbol)} = {value};")


def _value(ctx: Context, plan: LevelPlan) -> str:
    """``(threadIdx.x / unit) % bound``; what is the same in a warp, visibly so."""
    threads = ctx.launch.threads
    whole = plan.unit * plan.bound == threads
    if plan.unit == 128 and whole:
        return "cu::warpgroup_index()"
    if plan.unit == 1 and plan.bound == 128:
        return "cu::warpgroup_thread()"
    text = "int(threadIdx.x)" if plan.unit == 1 else f"int(threadIdx.x) / {plan.unit}"
    text = text if whole else f"{text} % {plan.bound}"
    if plan.unit % 32 == 0:
        return f"__shfl_sync(0xffffffffu, {text}, 0)"
    return text
