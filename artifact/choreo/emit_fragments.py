"""Fragments in CUDA: their registers, fills, reductions and copies."""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_expressions import CXX_TYPES
from artifact.choreo.tables import FragmentPlan, Symbol

_UNROLL = "#pragma unroll"


def registers(plan: FragmentPlan) -> int:
    """32-bit registers of one thread."""
    per_thread = {"accumulator": plan.columns // 2, "operand": plan.columns // 4, "row": 2}
    return per_thread[plan.layout]


def element_type(plan: FragmentPlan) -> str:
    """What a thread's array consists of: operands are pairs of BF16."""
    return "unsigned" if plan.layout == "operand" else CXX_TYPES[plan.type]


def declare_fragment(ctx: Context, node: syntax.FragDecl) -> None:
    """``frag T [..] name {init};``."""
    (symbol,) = ctx.tables.declares[node]
    plan = ctx.tables.fragments[symbol]
    if plan.layout != "row" or node.init is None:
        _declare(ctx, symbol, plan)
        if node.init is not None:
            fill(ctx, symbol, node.init)
        return
    name = ctx.names.fresh(symbol.name)
    value = ctx.text(node.init)
    ctx.out.line(f"{element_type(plan)} {name}[2] = {{{value}, {value}}};")
    ctx.names.alias(symbol, name)


def _declare(ctx: Context, symbol: Symbol, plan: FragmentPlan) -> None:
    name = ctx.names.declare(symbol)
    ctx.out.line(f"{element_type(plan)} {name}[{registers(plan)}];")


def declare_filled(ctx: Context, node: syntax.MmaFill | syntax.MmaLoad) -> Symbol:
    """The fragment that a fill or a load sets; it is declared where the statement declares it."""
    symbol = ctx.tables.fills[node]
    if symbol in ctx.tables.declares.get(node, ()):
        _declare(ctx, symbol, ctx.tables.fragments[symbol])
    return symbol


def emit_fill(ctx: Context, node: syntax.MmaFill) -> None:
    """``acc = mma.fill v;``: declares the accumulator the first time.

    A fill that its MMA does emits nothing else.
    """
    symbol = declare_filled(ctx, node)
    if node not in ctx.tables.fused_fills:
        fill(ctx, symbol, node.value)


def fill(ctx: Context, symbol: Symbol, value: syntax.Expr) -> None:
    """Every element becomes ``value``."""
    plan = ctx.tables.fragments[symbol]
    text = ctx.text(value)
    if plan.layout == "operand":
        text = f"cu::pack_bf16({text}, {text})"
    _each(ctx, registers(plan), f"{ctx.names.of(symbol)}[{{r}}] = {text};")


def _each(ctx: Context, count: int, statement: str) -> None:
    """A statement for each register ``r``."""
    ctx.out.flush_left(_UNROLL)
    with ctx.names.scope():
        r = ctx.names.fresh("r")
        head = f"for (int {r} = 0; {r} < {count}; ++{r})"
        ctx.out.line(f"{head} {statement.format(r=r)}")


def emit_reduce(ctx: Context, node: syntax.Reduce) -> None:
    """``reduce_max`` and ``reduce_sum`` along the columns, the same in the four lanes of a row."""
    target, source = (ctx.names.of(ctx.symbol(n)) for n in (node.target, node.source))
    ctx.out.line(f"cu::reduce_{node.kind}({target}, {source});")


def emit_all_reduce(ctx: Context, node: syntax.AllReduce) -> None:
    """``all_reduce_max`` and ``all_reduce_sum``: over the four lanes of a row."""
    ctx.out.line(f"cu::all_reduce_{node.kind}({ctx.names.of(ctx.symbol(node.target))});")


def emit_copy(ctx: Context, node: syntax.CopyFragment) -> None:
    """``copy(target, source)``: register by register."""
    target, source = (ctx.symbol(n) for n in (node.target, node.source))
    count = registers(ctx.tables.fragments[target])
    _each(ctx, count, f"{ctx.names.of(target)}[{{r}}] = {ctx.names.of(source)}[{{r}}];")
