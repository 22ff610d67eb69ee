"""What the statements of an ``apply`` touch, and what the elements of a row have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from artifact.choreo import syntax
from artifact.choreo.local_buffers import written_locals
from artifact.choreo.tables import FragmentPlan, Symbol, Tables
from artifact.choreo.thread_scalars import written_scalars
from artifact.choreo.traverse import changed_name


class Touches:
    """Questions about one ``apply``."""

    def __init__(self, tables: Tables, node: syntax.Apply) -> None:
        self._tables = tables
        coordinates = tables.declares[node]
        self._j = coordinates[1] if len(coordinates) > 1 else None
        self._local = self._differing_along_a_row(node)

    def fragment(self, node: syntax.Element) -> FragmentPlan | None:
        """The fragment that an element is of; null of one of a tensor or a local buffer."""
        return self._tables.fragments.get(self._tables.uses[node.base])

    def is_matrix(self, node: syntax.Node) -> bool:
        """Whether a node is an element of a two-dimensional fragment."""
        if not isinstance(node, syntax.Element):
            return False
        plan = self.fragment(node)
        return plan is not None and plan.layout != "row"

    def uses(self, node: syntax.Node, symbol: Symbol) -> bool:
        """Whether a coordinate's value is needed: as an index of a fragment it is not."""
        if self._tables.uses.get(node) is symbol:
            return True
        if isinstance(node, syntax.Element) and self.fragment(node) is not None:
            return False
        return any(self.uses(child, symbol) for child in syntax.children(node))

    def column(self, node: syntax.Node) -> bool:
        """Whether the column's number is needed."""
        return self._j is not None and self.uses(node, self._j)

    def elements(self, statement: syntax.Stmt) -> bool:
        """Whether a statement has to run for every element of a row."""
        return self.column(statement) or any(
            self.is_matrix(node) or self._tables.uses.get(node) in self._local
            for node in syntax.walk(statement)
        )

    def _differing_along_a_row(self, apply: syntax.Apply) -> set[Symbol]:
        """Scalars of the body, and local buffers, whose value is not one for the whole row."""
        found = written_locals(self._tables, apply) | written_scalars(self._tables, apply)
        for statement in apply.body.body:
            declared = self._tables.declares.get(statement, ())
            differs = self.column(statement) or any(
                self.is_matrix(node) or self._tables.uses.get(node) in found
                for node in syntax.walk(statement)
            )
            if declared and differs:
                found.update(declared)
        return found

    # Hoisting ----------------------------------------------------------------------------------

    def invariants(
        self, statements: Sequence[syntax.Stmt]
    ) -> Iterator[tuple[syntax.Expr, syntax.Expr | None]]:
        """The largest sub-expressions that have one value along a row, in source order.

        Each with an equal one that came before it, if there is one. Only arithmetic in FP32 is
        worth it: nvcc contracts ``x * c - known`` to one FMA, and ``x * c - m * c`` not.
        """
        changing = self._changing(statements)
        before: list[syntax.Expr] = []
        for statement in statements:
            for expression in self._largest(statement, changing):
                known = next((e for e in before if syntax.same(e, expression)), None)
                if known is None:
                    before.append(expression)
                yield expression, known

    def _changing(self, statements: Sequence[syntax.Stmt]) -> set[Symbol]:
        """What the statements assign or declare."""
        found: set[Symbol] = set() if self._j is None else {self._j}
        for statement in statements:
            for node in syntax.walk(statement):
                found.update(self._tables.declares.get(node, ()))
                name = changed_name(node)
                if name in self._tables.uses:
                    found.add(self._tables.uses[name])
        return found

    def _largest(self, node: syntax.Node, changing: set[Symbol]) -> Iterator[syntax.Expr]:
        if isinstance(
            node, syntax.Binary | syntax.BuiltinCall | syntax.Convert
        ) and self._worth_hoisting(node, changing):
            yield node
            return
        below = (node.value,) if isinstance(node, syntax.Assign) else syntax.children(node)
        for child in below:
            yield from self._largest(child, changing)

    def _worth_hoisting(self, node: syntax.Expr, changing: set[Symbol]) -> bool:
        if self._tables.types.get(node) != "f32":
            return False
        uses = self._tables.uses
        names = [n for n in syntax.walk(node) if isinstance(n, syntax.Name)]
        if not names or any(uses.get(n) in changing for n in names):
            return False
        # A condition may guard what is hoisted: an element that is not there for every index, in
        # another thread's memory besides, or a division by zero.
        return not any(
            self.is_matrix(n) or not self._exists(n)
            if isinstance(n, syntax.Element)
            else self._undefined(n)
            for n in syntax.walk(node)
        )

    def _exists(self, node: syntax.Element) -> bool:
        """Whether an element is there, whatever a condition around it says.

        A fragment's is, at the coordinates; so is one of a local buffer at constant indices, which
        lie within it (:mod:`artifact.choreo.local_buffers`).
        """
        if self._tables.uses[node.base].kind != "local":
            return self.fragment(node) is not None
        indices = [e for e in (node.tile, *node.indices) if e is not None]
        return all(self._tables.constants.get(index) is not None for index in indices)

    def _undefined(self, node: syntax.Node) -> bool:
        """Whether integers exist for which an operation has no value in C++."""
        return (
            isinstance(node, syntax.Binary)
            and node.op in ("/", "%", "<<", ">>")
            and self._tables.types.get(node) != "f32"
        )
