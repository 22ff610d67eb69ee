"""Elements of tensors and of local buffers in CUDA, and the arrays that local buffers become.

A local buffer is one C++ array of its thread: buffer by buffer, each row-major. nvcc keeps it in
registers where every index is a constant once loops are unrolled; a loop whose variable is part of
an index is marked for that.
"""

from __future__ import annotations

from collections.abc import Sequence

from artifact.choreo import syntax
from artifact.choreo.arithmetic import BYTES
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_expressions import CXX_TYPES
from artifact.choreo.names import bound_of
from artifact.choreo.tables import LocalPlan, Symbol

#: Registers that a thread has at most: a larger buffer lies in memory, whatever its indices are.
_REGISTERS = 255
_UNROLL = "#pragma unroll"


def memory_element(ctx: Context, node: syntax.Element) -> str:
    """An element of a tensor parameter or a local buffer."""
    symbol = ctx.symbol(node.base)
    plan = ctx.tables.locals.get(symbol)
    if plan is None:
        return _tensor_element(ctx, node)
    numbers = [] if node.tile is None else [(node.tile, plan.elements)]
    stride = plan.elements
    for index, extent in zip(node.indices, plan.shape, strict=True):
        stride //= extent
        numbers.append((index, stride))
    return f"{ctx.names.of(symbol)}[{_sum(ctx, numbers)}]"


def _sum(ctx: Context, numbers: Sequence[tuple[syntax.Expr, int]]) -> str:
    """The sum of indices times their strides; constants are added up."""
    values = [(ctx.expressions.integer(index), stride) for index, stride in numbers]
    known = sum(value * stride for value, stride in values if value is not None)
    rest = [n for n, (value, _) in zip(numbers, values, strict=True) if value is None]
    alone = len(rest) == 1 and not known
    terms = [
        ctx.text(index, 0 if alone else 11)
        if stride == 1
        else f"{ctx.expressions.factor(index)} * {stride}"
        for index, stride in rest
    ]
    return " + ".join([*terms, *([str(known)] if known or not terms else [])])


def _tensor_element(ctx: Context, node: syntax.Element) -> str:
    tensor = ctx.symbol(node.base)
    extents = ctx.expressions.extents(tensor)
    if tensor.kind != "tensor":
        raise AssertionError(f"{tensor.name} has no elements here: {node.span}")
    # 64 bits: a tensor may have more elements than an int counts.
    text = ctx.text(node.indices[0])
    if len(extents) > 1:
        text = f"size_t({text})"
    summed = False
    for index, extent in zip(node.indices[1:], extents[1:], strict=True):
        text = f"({text})" if summed else text
        text = f"{text} * {ctx.expressions.extent(extent, 12)}"
        summed = ctx.expressions.integer(index) != 0
        if summed:
            text = f"{text} + {ctx.text(index, 10)}"
    return f"{ctx.names.of(tensor)}[{text}]"


# Local buffers -----------------------------------------------------------------------------------


def declare_local(ctx: Context, node: syntax.LocalDecl) -> None:
    """``local T [..] name {init};``; one that nothing uses is left out: nvcc would warn of it."""
    (symbol,) = ctx.tables.declares[node]
    if symbol not in ctx.read:
        return
    plan = ctx.tables.locals[symbol]
    count = plan.elements * plan.tiles
    value = None if node.init is None else ctx.text(node.init)
    name = ctx.names.declare(symbol)
    ctx.out.line(f"{CXX_TYPES[plan.type]} {name}[{count}];")
    if value is None:
        return
    if _in_registers(plan):
        ctx.out.flush_left(_UNROLL)
    with ctx.names.scope():
        e = ctx.names.fresh("e")
        ctx.out.line(f"for (int {e} = 0; {e} < {count}; ++{e}) {name}[{e}] = {value};")


def local_address(ctx: Context, node: syntax.Index) -> str:
    """Where one buffer of an array begins."""
    symbol = ctx.symbol(node.base)
    number = _sum(ctx, [(node.index, ctx.tables.locals[symbol].elements)])
    name = ctx.names.of(symbol)
    return name if number == "0" else f"{name} + {number}"


def numbers_registers(ctx: Context, symbol: Symbol, loop: syntax.Foreach) -> bool:
    """Whether a loop's variable numbers elements of a buffer that fits into registers."""
    if ctx.expressions.integer(bound_of(symbol)) is None:
        return False
    uses, buffers = ctx.tables.uses, ctx.tables.locals
    return any(
        _in_registers(plan)
        and any(
            uses.get(part) is symbol
            for index in (node.tile, *node.indices)
            if index is not None
            for part in syntax.walk(index)
        )
        for node in syntax.walk(loop.body)
        if isinstance(node, syntax.Element) and (plan := buffers.get(uses[node.base])) is not None
    )


def _in_registers(plan: LocalPlan) -> bool:
    return plan.elements * plan.tiles * BYTES[plan.type] <= 4 * _REGISTERS
