"""Expressions and views as ``.co`` text, with the parentheses that they need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from artifact.choreo import syntax

# How tightly the operators of grammar.lark bind, loosest first.
_TERNARY = 1
_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_BINARY = {op: level for level, ops in enumerate(_LEVELS, start=2) for op in ops}
SUM = _BINARY["+"]
_COMPOSE = len(_LEVELS) + 2
_UNARY = _COMPOSE + 1
_ATOM = _UNARY + 1


def print_expression(node: syntax.Expr) -> str:
    """The text of an expression."""
    return _expression(node)[0]


def print_view(view: syntax.View) -> str:
    """The text of a view."""
    return print_expression(view.base) + "".join(map(_operation, view.ops))


# Expressions: their text and how tightly it binds ------------------------------------------------


@singledispatch
def _expression(node: syntax.Node) -> tuple[str, int]:
    raise TypeError(f"{type(node).__name__} is no expression")


def print_at(node: syntax.Expr, level: int) -> str:
    """An operand, in parentheses unless it binds at least as tightly as ``level``."""
    text, own = _expression(node)
    return text if own >= level else f"({text})"


def print_list(nodes: Sequence[syntax.Expr | syntax.Wildcard | syntax.View]) -> str:
    """Items with commas between them."""
    return ", ".join(map(_item, nodes))


def _item(node: syntax.Expr | syntax.Wildcard | syntax.View) -> str:
    if isinstance(node, syntax.Wildcard):
        return "_"
    return print_view(node) if isinstance(node, syntax.View) else print_expression(node)


@_expression.register
def _(node: syntax.IntLit) -> tuple[str, int]:
    return node.text, _ATOM


@_expression.register
def _(node: syntax.FloatLit) -> tuple[str, int]:
    return node.text, _ATOM


@_expression.register
def _(node: syntax.BoolLit) -> tuple[str, int]:
    return "true" if node.value else "false", _ATOM


@_expression.register
def _(node: syntax.Infinity) -> tuple[str, int]:
    del node
    return "inf", _ATOM


@_expression.register
def _(node: syntax.StringLit) -> tuple[str, int]:
    return f'"{node.text}"', _ATOM


@_expression.register
def _(node: syntax.Name) -> tuple[str, int]:
    return node.id, _ATOM


@_expression.register
def _(node: syntax.Unary) -> tuple[str, int]:
    operand = print_at(node.operand, _UNARY)
    # `- -x` and `-(-x)` are one tree, `--x` is another
    clash = operand.startswith(("+", "-")) and node.op in "+-"
    return node.op + (f"({operand})" if clash else operand), _UNARY


@_expression.register
def _(node: syntax.Increment) -> tuple[str, int]:
    name = print_expression(node.name)
    return (node.op + name if node.prefix else name + node.op), _ATOM


@_expression.register
def _(node: syntax.Binary) -> tuple[str, int]:
    level = _BINARY[node.op]
    return f"{print_at(node.left, level)} {node.op} {print_at(node.right, level + 1)}", level


@_expression.register
def _(node: syntax.Ternary) -> tuple[str, int]:
    then, otherwise = print_expression(node.then), print_expression(node.otherwise)
    return f"{print_at(node.condition, _TERNARY + 1)} ? {then} : {otherwise}", _TERNARY


@_expression.register
def _(node: syntax.BuiltinCall) -> tuple[str, int]:
    return f"{node.name}({print_list(node.args)})", _ATOM


@_expression.register
def _(node: syntax.Convert) -> tuple[str, int]:
    return f"__to<{node.type}>({print_expression(node.operand)})", _ATOM


@_expression.register
def _(node: syntax.Bound) -> tuple[str, int]:
    return f"#{node.name.id}", _ATOM


@_expression.register
def _(node: syntax.Compose) -> tuple[str, int]:
    return f"{print_at(node.left, _COMPOSE)} # {print_at(node.right, _UNARY)}", _COMPOSE


@_expression.register
def _(node: syntax.Element) -> tuple[str, int]:
    tile = "" if node.tile is None else f"[{print_expression(node.tile)}]"
    return f"{node.base.id}{tile}.at({print_list(node.indices)})", _ATOM


@_expression.register
def _(node: syntax.Index) -> tuple[str, int]:
    return f"{node.base.id}[{print_expression(node.index)}]", _ATOM


@_expression.register
def _(node: syntax.Extent) -> tuple[str, int]:
    if node.count:
        return f"|{node.base.id}|", _ATOM
    dim = "" if node.dim is None else f"({print_expression(node.dim)})"
    return f"{node.base.id}.span{dim}", _ATOM


@singledispatch
def _operation(op: syntax.Node) -> str:
    raise TypeError(f"{type(op).__name__} is no operation of a view")


@_operation.register
def _(op: syntax.Subspan) -> str:
    text = f".subspan({print_list(op.extents)})"
    if op.steps is not None:
        text += f".step({print_list(op.steps)})"
    return text if op.indices is None else f"{text}.at({print_list(op.indices)})"


@_operation.register
def _(op: syntax.ViewFrom) -> str:
    text = f".view({print_list(op.extents)})"
    return text if op.offsets is None else f"{text}.from({print_list(op.offsets)})"


@_operation.register
def _(op: syntax.ChunkAt) -> str:
    return f".chunkat({print_list(op.factors)})"


@_operation.register
def _(op: syntax.SpanAs) -> str:
    return f".span_as({print_list(op.extents)})"


@_operation.register
def _(op: syntax.Squeeze) -> str:
    del op
    return ".sqz()"
