"""The largest value that an index takes in a launch, as an expression of the host function."""

from __future__ import annotations

from dataclasses import dataclass

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.names import bound_of
from artifact.choreo.tables import Symbol, Term

_HOST = ("dimension", "parameter")


@dataclass(frozen=True)
class Largest:
    """A largest value: a factor in 64-bit C++."""

    text: str
    exact: bool
    """It is the only value: the index depends on no variable of parallel or foreach."""


def largest_origin(host: Context, terms: tuple[Term, ...]) -> str | None:
    """The largest origin of a view in a dimension; null where it is not known at the launch.

    What would be negative is a very large number, which no dimension has.
    """
    known, texts = 0, []
    for term in terms:
        index, scale = _largest(host, term.index), _scale(host, term.scale)
        if index is None or scale is None:
            return None
        if index.text.isdigit() and scale.isdigit():
            known += int(index.text) * int(scale)
        else:
            texts.append(index.text if scale == "1" else f"{index.text} * {scale}")
    if known or not texts:
        texts.append(str(known))
    return " + ".join(texts)


def _scale(host: Context, scale: int | syntax.Expr) -> str | None:
    if isinstance(scale, int):
        return str(scale)
    found = _largest(host, scale)
    return found.text if found is not None and found.exact else None


def host_scalars(host: Context, terms: tuple[Term, ...]) -> set[Symbol]:
    """The scalars of the host function that the largest origin is computed from."""
    found: set[Symbol] = set()
    ahead: list[syntax.Node] = [term.index for term in terms]
    ahead += [term.scale for term in terms if not isinstance(term.scale, int)]
    for root in ahead:
        for node in syntax.walk(root):
            symbol = host.tables.uses.get(node)
            if symbol is None or symbol in found:
                continue
            found.add(symbol)
            if isinstance(symbol.node, syntax.ScalarDecl | syntax.Assign):
                ahead.append(symbol.node.value)
            elif symbol.kind in ("level", "loop"):
                ahead.append(bound_of(symbol))
    return {symbol for symbol in found if symbol.kind == "scalar" and symbol.host}


def _largest(host: Context, expr: syntax.Expr) -> Largest | None:
    value = host.expressions.integer(expr)
    if value is not None:
        return Largest(str(value), exact=True) if value >= 0 else None
    match expr:
        case syntax.Name():
            return _of_symbol(host, host.symbol(expr))
        case syntax.Convert():
            return _largest(host, expr.operand)
        case syntax.Binary(op="+" | "*" | "-" | "/"):
            left, right = _largest(host, expr.left), _largest(host, expr.right)
            if left is None or right is None:
                return None
            # The smallest value of a difference is not looked for, nor that of a divisor.
            if (not right.exact and expr.op in "-/") or (not left.exact and expr.op == "-"):
                return None
            return Largest(f"({left.text} {expr.op} {right.text})", left.exact and right.exact)
        case syntax.Compose():
            left, right = _largest(host, expr.left), _largest(host, expr.right)
            count = _count(host, expr.right)
            if left is None or right is None or count is None:
                return None
            return Largest(f"({left.text} * {count} + {right.text})", exact=False)
        case syntax.BuiltinCall(name="cdiv" | "__min" | "__max"):
            parts = [_largest(host, argument) for argument in expr.args]
            names = [n for n in syntax.walk(expr) if isinstance(n, syntax.Name)]
            if all(p is not None and p.exact for p in parts) and all(
                host.symbol(name) in host.names for name in names
            ):
                return Largest(f"std::uint64_t({host.text(expr)})", exact=True)
    return None


def _of_symbol(host: Context, symbol: Symbol) -> Largest | None:
    if symbol.kind in _HOST or (symbol.kind == "scalar" and symbol.host):
        return Largest(f"std::uint64_t({host.names.of(symbol)})", exact=True)
    if symbol.kind == "scalar" and isinstance(symbol.node, syntax.ScalarDecl | syntax.Assign):
        return _largest(host, symbol.node.value)
    count = _count_of(host, symbol)
    if count is None:
        return None
    if count.isdigit():
        return Largest(str(int(count) - 1), exact=False) if int(count) else None
    return Largest(f"({count} - 1)", exact=False)


def _count(host: Context, expr: syntax.Expr) -> str | None:
    return _count_of(host, host.symbol(expr)) if isinstance(expr, syntax.Name) else None


def _count_of(host: Context, symbol: Symbol) -> str | None:
    """How many values a variable of parallel takes; of a loop only where that is constant."""
    plan = host.tables.levels.get(symbol)
    if plan is not None:
        return str(plan.bound)
    if symbol.kind not in ("level", "loop"):
        return None
    bound = bound_of(symbol)
    value = host.expressions.integer(bound)
    if value is not None:
        return str(value)
    return f"std::uint64_t({host.text(bound)})" if symbol.kind == "level" else None
