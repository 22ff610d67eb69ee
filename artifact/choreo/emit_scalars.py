"""Declarations and assignments of scalars in C++, on the host and on the device."""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context


def emit_scalar(ctx: Context, node: syntax.ScalarDecl | syntax.Assign) -> None:
    """``x = e;`` declares a constant or assigns; a fragment's element is assigned.

    A declaration that nothing reads is left out: nvcc would warn of it.
    """
    declared = ctx.tables.declares.get(node)
    if declared:
        (symbol,) = declared
        if symbol not in ctx.read:
            return
        value = ctx.text(node.value)
        constant = "" if symbol.kind == "mutable" else "const "
        kind = ctx.cxx_type(symbol)
        ctx.out.line(f"{constant}{kind} {ctx.names.declare(symbol)} = {value};")
        return
    if isinstance(node, syntax.ScalarDecl):
        raise AssertionError(f"a declaration that declares nothing: {node.span}")
    if ctx.assign_operand is not None and ctx.assign_operand(node):
        return
    ctx.out.line(f"{ctx.text(node.target)} {node.op} {ctx.text(node.value)};")
