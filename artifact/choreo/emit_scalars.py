"""Declarations and assignments of scalars in C++, on the host and on the device."""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_expressions import CXX_TYPES

_HALVES = ("bf16", "f16")
_AMBIGUOUS = ("bool", "s8", "u8", "s64", "u64")


def emit_scalar(ctx: Context, node: syntax.ScalarDecl | syntax.Assign) -> None:
    """``x = e;`` declares a constant or assigns; a fragment's element is assigned.

    A declaration that nothing reads is left out: nvcc would warn of it.
    """
    declared = ctx.tables.declares.get(node)
    if declared:
        (symbol,) = declared
        if symbol not in ctx.read:
            return
        value = assigned(ctx, symbol.type, node)
        constant = "" if symbol.kind == "mutable" else "const "
        kind = ctx.cxx_type(symbol)
        ctx.out.line(f"{constant}{kind} {ctx.names.declare(symbol)} = {value};")
        return
    if isinstance(node, syntax.ScalarDecl):
        raise AssertionError(f"a declaration that declares nothing: {node.span}")
    if ctx.assign_operand is not None and ctx.assign_operand(node):
        return
    target, to = ctx.text(node.target), ctx.tables.types.get(node.target)
    halves = to in _HALVES or ctx.tables.types.get(node.value) in _HALVES
    if node.op == "=" or not halves:
        ctx.out.line(f"{target} {node.op} {assigned(ctx, to, node)};")
        return
    # What has 16 bits is computed with in FP32.
    value = ctx.expressions.single(node.value, 12)
    if to in _HALVES:
        kind = CXX_TYPES[to or ""]
        value = f"choreo::from_f32<{kind}>(choreo::to_f32({target}) {node.op[:-1]} {value})"
        ctx.out.line(f"{target} = {value};")
    else:
        ctx.out.line(f"{target} {node.op} {value};")


def assigned(ctx: Context, to: str | None, node: syntax.ScalarDecl | syntax.Assign) -> str:
    """The value of an assignment or declaration of an element type."""
    if to in _HALVES and ctx.tables.types.get(node.value) in _AMBIGUOUS:
        # Of these C++ does not know which constructor of the type to take.
        return f"float({ctx.text(node.value)})"
    return ctx.text(node.value)
