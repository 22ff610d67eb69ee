"""Scalars of which every thread has a value of its own.

The bodies of ``apply`` assign some: a body runs for the elements that a thread owns, so that a
mutable which it assigns becomes the thread's own. ``__above`` compares elements that a thread owns.
What is computed from either is the thread's own too, except by ``__any``, which makes one value for
a warp of what its threads have.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.comparisons import is_comparison, is_vote
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import statements


def written_scalars(tables: Tables, apply: syntax.Apply) -> set[Symbol]:
    """The scalars of outside that the body of an ``apply`` assigns."""
    declared = {s for stmt in statements(apply.body) for s in tables.declares.get(stmt, ())}
    return {
        symbol
        for stmt in statements(apply.body)
        if isinstance(stmt, syntax.Assign)
        and stmt not in tables.declares
        and isinstance(stmt.target, syntax.Name)
        and (symbol := tables.uses[stmt.target]) not in declared
    }


def thread_scalars(tables: Tables) -> frozenset[Symbol]:
    """All scalars of a function of which threads have values of their own."""
    found: set[Symbol] = set()
    given: list[tuple[Symbol, syntax.Expr]] = []
    inside: set[syntax.Stmt] = set()
    for stmt in statements(tables.function.body):
        if isinstance(stmt, syntax.Apply):
            found |= written_scalars(tables, stmt)
            inside.update(statements(stmt.body))
        elif stmt not in inside and isinstance(stmt, syntax.ScalarDecl | syntax.Assign):
            given += [(symbol, stmt.value) for symbol in _assigned(tables, stmt)]
    while True:
        more = {symbol for symbol, value in given if _differs(tables, value, found)} - found
        if not more:
            return frozenset(found)
        found |= more


def _assigned(tables: Tables, stmt: syntax.ScalarDecl | syntax.Assign) -> tuple[Symbol, ...]:
    if stmt in tables.declares or isinstance(stmt, syntax.ScalarDecl):
        return tables.declares[stmt]
    return (tables.uses[stmt.target],) if isinstance(stmt.target, syntax.Name) else ()


def _differs(tables: Tables, node: syntax.Node, found: set[Symbol]) -> bool:
    """Whether threads of a warp may have computed different values."""
    if is_vote(node):
        return False
    if is_comparison(node) or tables.uses.get(node) in found:
        return True
    return any(_differs(tables, child, found) for child in syntax.children(node))
