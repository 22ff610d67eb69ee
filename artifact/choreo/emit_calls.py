"""``call name(args);`` in CUDA."""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_expressions import CXX_TYPES
from artifact.choreo.emit_views import element_type, global_address, shared_address

_REGISTERS = {
    "croq::cuda::setreg_dec": "cu::setreg_dec",
    "croq::cuda::setreg_inc": "cu::setreg_inc",
}
_PRINT = {"print": "", "println": "\\n"}
_FORMATS = {"f32": "%g", "f64": "%g", "u32": "%u", "s64": "%lld", "u64": "%llu"}


def emit_call(ctx: Context, node: syntax.CallStmt) -> None:
    """A helper with raw per-thread arrays and addresses, or one of the language's own."""
    name = node.name.id
    if name in _REGISTERS:
        ctx.out.line(f"{_REGISTERS[name]}<{_argument(ctx, node.args[0])}>();")
    elif name in _PRINT:
        _print(ctx, node)
    else:
        template = ", ".join(ctx.text(a) for a in node.template_args)
        head = f"{name}<{template}>(" if node.template_args else f"{name}("
        ctx.out.call(head, [_argument(ctx, a) for a in node.args])


def _argument(ctx: Context, node: syntax.Expr | syntax.View) -> str:
    if isinstance(node, syntax.View):
        return _view(ctx, node)
    symbol = ctx.tables.uses.get(node)
    if symbol is not None and symbol.kind in ("shared", "view"):
        raise AssertionError(f"a buffer is handed over as a view: {node.span}")
    return ctx.text(node)


def _view(ctx: Context, node: syntax.View) -> str:
    """Fragments are arrays by their names; buffers and tensors decay to pointers."""
    if isinstance(node.base, syntax.Name) and not node.ops:
        symbol = ctx.symbol(node.base)
        if symbol.kind not in ("shared", "view", "tensor", "future"):
            return ctx.text(node.base)
    plan = ctx.tables.views[node]
    if plan.root.kind == "tensor":
        return global_address(ctx, plan)
    kind = CXX_TYPES[element_type(ctx, plan.root)]
    return f"reinterpret_cast<{kind}*>({shared_address(ctx, plan)})"


def _print(ctx: Context, node: syntax.CallStmt) -> None:
    """``print`` and ``println``: the arguments one after the other."""
    formats, values = [], []
    for argument in node.args:
        if isinstance(argument, syntax.StringLit):
            formats.append(argument.text.replace("%", "%%"))
            continue
        kind = "s32" if isinstance(argument, syntax.View) else ctx.tables.types.get(argument, "s32")
        text = _argument(ctx, argument)
        formats.append(_FORMATS.get(kind, "%d"))
        values.append(f"choreo::to_f32({text})" if kind in ("bf16", "f16") else text)
        if kind in ("bf16", "f16"):
            formats[-1] = "%g"
    text = "".join(formats) + _PRINT[node.name.id]
    ctx.out.call("printf(", [f'"{text}"', *values])
