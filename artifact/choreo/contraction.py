"""What nvcc may contract: a product and a sum that takes it become one FMA, which rounds once.

nvcc does so within an expression always, and from one statement to the next where both stand in one
basic block, nothing but the sum needs the product (or little else, and not far away) and no fence
of registers stands between. So a pass that moves statements of either kind past a wait or out of a
loop changes results, unless what it moves hands on no product.

Calls of the special function unit end in no multiplication with ``--use_fast_math``, but for
``__log``, which is made of the logarithm to base 2. (Without it nvcc's own code follows them.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from artifact.choreo import syntax
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import with_nested


def holds_product(tables: Tables, body: Sequence[syntax.Stmt], fragments: Iterable[Symbol]) -> bool:
    """Whether statements may leave a bare product in elements of some fragments.

    Args:
        tables: Complete ones.
        body: Statements in their order; those nested in them count.
        fragments: Those that are asked for. What is copied to them counts.
    """
    inside = [inner for stmt in body for inner in with_nested(stmt)]
    todo, seen = list(fragments), set[Symbol]()
    while todo:
        symbol = todo.pop()
        if symbol in seen:
            continue
        seen.add(symbol)
        for stmt in inside:
            match stmt:
                case syntax.CopyFragment(target=target, source=source):
                    if tables.uses[target] is symbol:
                        todo.append(tables.uses[source])
                case syntax.Assign(target=syntax.Element(base=base)):
                    if tables.uses[base] is not symbol:
                        continue
                    if hands_on_product(tables, stmt):
                        return True
                    copied = _copied(tables, stmt)
                    if copied is not None:
                        todo.append(copied)
    return False


def hands_on_product(tables: Tables, stmt: syntax.Assign) -> bool:
    """Whether an assigned value may be a bare product; copies of elements are asked elsewhere."""
    if stmt.op != "=":
        return stmt.op not in ("+=", "-=")
    if _copied(tables, stmt) is not None or tables.constants.get(stmt.value) is not None:
        return False
    return _may_be_product(tables, stmt.value)


def _may_be_product(tables: Tables, value: syntax.Expr) -> bool:
    match _bare(tables, value):
        case syntax.Binary(op="+" | "-", left=left, right=right):
            # nvcc drops a zero that changes nothing, and with it the sum.
            return any(tables.constants.get(side) == 0 for side in (left, right))
        case syntax.Convert() | syntax.Infinity():
            return False
        case syntax.Unary(op="-", operand=syntax.Infinity()):
            return False
        case syntax.BuiltinCall(name="__max" | "__min", args=args):
            # Of two equal products nvcc takes one.
            return all(
                not isinstance(_bare(tables, arg), syntax.Element) and _may_be_product(tables, arg)
                for arg in args
            )
        case syntax.BuiltinCall(name=name):
            return name == "__log"
    return True


def _copied(tables: Tables, stmt: syntax.Assign) -> Symbol | None:
    """The fragment of which an assignment hands on an element as it is."""
    value = _bare(tables, stmt.value)
    if stmt.op != "=" or not isinstance(value, syntax.Element):
        return None
    symbol = tables.uses[value.base]
    return symbol if symbol in tables.fragments else None


def _bare(tables: Tables, value: syntax.Expr) -> syntax.Expr:
    """A value without what nvcc may drop around it.

    Conversions to the type that it has, and those to FP64 and back, also where FP64 is only what it
    was computed in; the sign of what has none, as a square; the larger of one value twice.
    """
    while True:
        match value:
            case syntax.Convert(operand=operand):
                types = tables.types.get(value), tables.types.get(operand)
                if types[0] != types[1] and "f64" not in types:
                    return value
                value = operand
            case syntax.BuiltinCall(name="__fabs", args=(one,)):
                value = one
            case syntax.BuiltinCall(name="__max" | "__min", args=(one, other)) if syntax.same(
                one, other
            ):
                value = one
            case _:
                return value
