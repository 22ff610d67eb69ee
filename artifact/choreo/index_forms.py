"""Indices as sums: what two of them have in common falls out, and constants can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from artifact.choreo import syntax
from artifact.choreo.names import bound_of
from artifact.choreo.tables import Symbol, Tables, Term
from artifact.choreo.threads import ThreadValues


@dataclass(frozen=True, eq=False)
class Form:
    """``sum(factor * atom) + constant of the thread``.

    Attributes:
        atoms: Factors by what is not known: symbols, and expressions of them as hashable keys.
        constants: By thread of the block.
    """

    atoms: Mapping[object, int]
    constants: tuple[int, ...]

    def plus(self, other: Form, sign: int = 1) -> Form:
        """The sum, or with a ``sign`` of -1 the difference."""
        atoms = dict(self.atoms)
        for atom, factor in other.atoms.items():
            atoms[atom] = atoms.get(atom, 0) + sign * factor
        constants = zip(self.constants, other.constants, strict=True)
        return Form(
            {atom: factor for atom, factor in atoms.items() if factor},
            tuple(a + sign * b for a, b in constants),
        )

    def times(self, factor: int) -> Form:
        """The product with a constant."""
        return Form(
            {atom: n * factor for atom, n in self.atoms.items() if factor},
            tuple(c * factor for c in self.constants),
        )


class IndexForms:
    """Makes sums of the indices of one function; threads are planned."""

    def __init__(self, tables: Tables, values: ThreadValues) -> None:
        self._tables = tables
        self._values = values
        self._count = tables.launch.threads if tables.launch is not None else 1

    def total(self, terms: tuple[Term, ...]) -> Form | None:
        """The sum of the terms of an origin."""
        total: Form | None = self._constant(0)
        for term in terms:
            scale = term.scale if isinstance(term.scale, int) else self.known(term.scale)
            form = self.of(term.index)
            if scale is None or form is None or total is None:
                return None
            total = total.plus(form.times(scale))
        return total

    def known(self, expr: syntax.Expr) -> int | None:
        """The value of a constant."""
        value = self._tables.constants.get(expr)
        return int(value) if isinstance(value, int) else None

    def names(self, expr: syntax.Node) -> set[Symbol]:
        """What an expression reads, also by way of immutable scalars."""
        found: set[Symbol] = set()
        ahead = [expr]
        for root in ahead:
            for node in syntax.walk(root):
                symbol = self._tables.uses.get(node)
                if symbol is None or symbol in found:
                    continue
                found.add(symbol)
                if symbol.kind == "scalar" and isinstance(
                    symbol.node, syntax.ScalarDecl | syntax.Assign
                ):
                    ahead.append(symbol.node.value)
        return found

    def of(self, expr: syntax.Expr) -> Form | None:
        """An index; null where its value may be another one each time that it is asked for."""
        values = self._values.of(expr)
        if values is not None:
            return Form({}, tuple(map(int, values)))
        match expr:
            case syntax.Name():
                symbol = self._tables.uses[expr]
                node = symbol.node
                if symbol.kind == "scalar" and isinstance(node, syntax.ScalarDecl | syntax.Assign):
                    form = self.of(node.value) if self._lasting(node.value) else None
                    return form or Form({symbol: 1}, (0,) * self._count)
                return Form({symbol: 1}, (0,) * self._count)
            case syntax.Binary(op="+" | "-"):
                left, right = self.of(expr.left), self.of(expr.right)
                if left is None or right is None:
                    return None
                return left.plus(right, 1 if expr.op == "+" else -1)
            case syntax.Binary(op="*"):
                for one, other in ((expr.left, expr.right), (expr.right, expr.left)):
                    factor, form = self.known(one), self.of(other)
                    if factor is not None:
                        return None if form is None else form.times(factor)
            case syntax.Compose():
                left, right = self.of(expr.left), self.of(expr.right)
                bound = self._bound(expr.right)
                if left is None or right is None or bound is None:
                    return None
                return left.times(bound).plus(right)
        if any(isinstance(node, syntax.Element) for node in syntax.walk(expr)):
            # Memory may hold something else by then.
            return None
        return Form({self._key(expr): 1}, (0,) * self._count)

    def _constant(self, value: int) -> Form:
        return Form({}, (value,) * self._count)

    def _bound(self, expr: syntax.Expr) -> int | None:
        symbol = self._tables.uses.get(expr)
        if symbol is None or symbol.kind not in ("level", "loop"):
            return None
        plan = self._tables.levels.get(symbol)
        return plan.bound if plan is not None else self.known(bound_of(symbol))

    def _lasting(self, expr: syntax.Expr) -> bool:
        """Whether an expression is at any time what it was: it reads no mutable and no memory."""
        return not any(
            isinstance(node, syntax.Element)
            or ((symbol := self._tables.uses.get(node)) is not None and symbol.kind == "mutable")
            for node in syntax.walk(expr)
        )

    def _key(self, value: object) -> object:
        """Equal of two expressions of one text in which every name means the same."""
        if isinstance(value, syntax.Name):
            return self._tables.uses.get(value)
        if isinstance(value, syntax.Node):
            parts = (getattr(value, f.name) for f in fields(value) if f.name != "span")
            return (type(value), *map(self._key, parts))
        return tuple(map(self._key, value)) if isinstance(value, tuple) else value
