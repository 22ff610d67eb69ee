"""The comparisons pass: ``__above(matrix, limit)`` looks at all elements that a thread holds.

It is true in a thread where some element of its two rows of ``matrix`` exceeds what it has of the
row vector ``limit`` for that row. It may also be true where a limit is negative (also -0.0) or an
element is a NaN: the elements are compared as integers (runtime/device/fragment.cuh), and whoever
asks goes on to find out exactly.

Rules [R]:

* It compares an accumulator with a row vector, both named as a whole.
* It stands outside of ``apply``, whose body sees one element at a time.
* Each thread has an answer of its own; ``__any`` makes one for a warp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import Tables
from artifact.choreo.traverse import own, statements

ABOVE = "__above"
#: What makes one answer of a warp of those of its threads: see artifact.choreo.votes.
VOTE = "__any"


def is_comparison(node: syntax.Node) -> TypeGuard[syntax.BuiltinCall]:
    """Whether a node is a call of ``__above``."""
    return isinstance(node, syntax.BuiltinCall) and node.name == ABOVE


def is_vote(node: syntax.Node) -> TypeGuard[syntax.BuiltinCall]:
    """Whether a node is a call of ``__any``."""
    return isinstance(node, syntax.BuiltinCall) and node.name == VOTE


def compared(stmt: syntax.Stmt) -> Iterator[tuple[syntax.Name, syntax.Name]]:
    """The matrix and the limit of each comparison in a statement itself; names are resolved."""
    for node in own(stmt):
        if is_comparison(node):
            match node.args:
                case (syntax.Name() as matrix, syntax.Name() as limit):
                    yield matrix, limit


def read_whole(stmt: syntax.Stmt) -> Iterator[syntax.Name]:
    """The fragments that comparisons in a statement itself read."""
    for pair in compared(stmt):
        yield from pair


def check_comparisons(tables: Tables, diagnostics: Diagnostics) -> None:
    """Check every comparison; fragments are planned."""
    inside: set[syntax.Stmt] = set()
    for stmt in statements(tables.function.body):
        if isinstance(stmt, syntax.Apply):
            inside.update(statements(stmt.body))
        for matrix, limit in compared(stmt):
            layouts = [tables.fragments[tables.uses[name]].layout for name in (matrix, limit)]
            if layouts != ["accumulator", "row"]:
                diagnostics.error(
                    "reduce-layout",
                    stmt,
                    f"{ABOVE} of {layouts[0]} and {layouts[1]}",
                    rule=f"{ABOVE} compares an accumulator with a row vector of limits",
                    repair="declare the limits as frag f32 [64]",
                )
            elif stmt in inside:
                diagnostics.error(
                    "apply-access",
                    matrix,
                    f"{ABOVE} looks at all elements of {matrix.id}, in a body that runs for one",
                    rule="a body of apply reaches the element at its coordinates, and no other",
                    repair=f"name it before the apply: over = {ABOVE}({matrix.id}, {limit.id});",
                )
