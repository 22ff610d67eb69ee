"""Scalars of which every thread has a value of its own: what the bodies of ``apply`` assign.

A body runs for the elements that a thread owns, so that a mutable which it assigns becomes the
thread's own. ``__any`` makes one value for a warp of what its threads have.
"""

from __future__ import annotations

from artifact.choreo import syntax
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
    """All scalars of a function that some ``apply`` assigns."""
    return frozenset(
        symbol
        for stmt in statements(tables.function.body)
        if isinstance(stmt, syntax.Apply)
        for symbol in written_scalars(tables, stmt)
    )
