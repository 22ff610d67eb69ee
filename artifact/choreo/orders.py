"""What an expression of an order, or of a tile's number, says: a counter, an offset, a modulus."""

from __future__ import annotations

from dataclasses import dataclass

from artifact.choreo import syntax
from artifact.choreo.tables import Symbol, Tables


@dataclass(frozen=True, eq=False)
class Counted:
    """``counter + offset``."""

    counter: Symbol
    offset: int
    place: syntax.Stmt | None
    """The immutable scalar that was computed from the counter last of all; null: none was."""


def value_of(tables: Tables, expr: syntax.Expr) -> syntax.Expr:
    """What an immutable scalar stands for; an increment stands for its counter."""
    return _followed(tables, expr)[0]


def _followed(
    tables: Tables, expr: syntax.Expr, place: syntax.Stmt | None = None
) -> tuple[syntax.Expr, syntax.Stmt | None]:
    while True:
        if isinstance(expr, syntax.Convert):
            expr = expr.operand
            continue
        if isinstance(expr, syntax.Increment):
            expr = expr.name
        symbol = tables.uses.get(expr) if isinstance(expr, syntax.Name) else None
        node = symbol.node if symbol is not None and symbol.kind == "scalar" else None
        if not isinstance(node, syntax.ScalarDecl | syntax.Assign):
            return expr, place
        expr, place = node.value, node


def counted(tables: Tables, expr: syntax.Expr, place: syntax.Stmt | None = None) -> Counted | None:
    """An expression as a mutable scalar and a constant; null where it is something else."""
    value, place = _followed(tables, expr, place)
    if isinstance(value, syntax.Name):
        symbol = tables.uses.get(value)
        if symbol is not None and symbol.kind == "mutable":
            return Counted(symbol, 0, place)
    if isinstance(value, syntax.Binary) and value.op in ("+", "-"):
        sides = [(value.left, value.right)]
        if value.op == "+":
            sides.append((value.right, value.left))
        for one, other in sides:
            by = tables.constants.get(other)
            found = counted(tables, one, place) if isinstance(by, int) else None
            if found is not None and isinstance(by, int):
                by = by if value.op == "+" else -by
                return Counted(found.counter, found.offset + by, found.place)
    return None


def reduced(
    tables: Tables, expr: syntax.Expr, place: syntax.Stmt | None = None
) -> tuple[int, syntax.Expr, syntax.Stmt | None] | None:
    """The constant that an expression is reduced by last of all, what is reduced, and where.

    ``x % c``, ``x & c - 1``, ``x - x / c * c``, each plus a constant.
    """
    value, place = _followed(tables, expr, place)
    if not isinstance(value, syntax.Binary):
        return None
    right = tables.constants.get(value.right)
    if isinstance(right, int):
        if value.op == "%":
            return right, value.left, place
        if value.op == "&":
            return right + 1, value.left, place
        if value.op in ("+", "-"):
            return reduced(tables, value.left, place)
    if value.op == "+" and isinstance(tables.constants.get(value.left), int):
        return reduced(tables, value.right, place)
    if value.op == "-":
        modulus = _multiple_below(tables, value.left, value.right)
        if modulus is not None:
            return modulus, value.left, place
    return None


def _multiple_below(tables: Tables, whole: syntax.Expr, expr: syntax.Expr) -> int | None:
    """``c`` of ``whole / c * c``."""
    product = value_of(tables, expr)
    if not isinstance(product, syntax.Binary) or product.op != "*":
        return None
    for quotient, factor in ((product.left, product.right), (product.right, product.left)):
        by = tables.constants.get(factor)
        quotient = value_of(tables, quotient)
        if (
            isinstance(by, int)
            and isinstance(quotient, syntax.Binary)
            and quotient.op == "/"
            and tables.constants.get(quotient.right) == by
            and _same_value(tables, quotient.left, whole)
        ):
            return by
    return None


def _same_value(tables: Tables, one: syntax.Expr, two: syntax.Expr) -> bool:
    return syntax.same(value_of(tables, one), value_of(tables, two))
