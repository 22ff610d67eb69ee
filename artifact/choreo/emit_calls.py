"""``call name(args);`` in CUDA."""

from __future__ import annotations

from dataclasses import replace

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_elements import local_address
from artifact.choreo.emit_expressions import CXX_TYPES
from artifact.choreo.emit_views import element_type, global_address, shared_address
from artifact.choreo.tables import Symbol, ViewPlan

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
    """Scalars by value, fragments as arrays; buffers, tensors and views decay to pointers."""
    name = node.base if isinstance(node, syntax.View) and not node.ops else node
    if isinstance(name, syntax.Index) and ctx.symbol(name.base) in ctx.tables.locals:
        return local_address(ctx, name)
    if isinstance(name, syntax.Name):
        symbol = ctx.symbol(name)
        if symbol.kind == "shared":
            return _pointer(ctx, symbol, ctx.names.of(symbol))
        if symbol.kind == "view" and isinstance(symbol.node, syntax.ViewDecl):
            plan = ctx.tables.views[symbol.node.view]
            # What it is now is what its declaration made it.
            return _address(ctx, replace(plan, base=symbol, added=((),) * len(plan.added)))
        return ctx.text(name)
    if isinstance(node, syntax.View):
        return _address(ctx, ctx.tables.views[node])
    return ctx.text(node)


def _address(ctx: Context, plan: ViewPlan) -> str:
    if plan.root.kind == "tensor":
        return global_address(ctx, plan)
    return _pointer(ctx, plan.root, shared_address(ctx, plan))


def _pointer(ctx: Context, root: Symbol, address: str) -> str:
    return f"reinterpret_cast<{CXX_TYPES[element_type(ctx, root)]}*>({address})"


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
