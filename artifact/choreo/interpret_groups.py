"""Which threads of a block run together, and what messages call them."""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.print_expressions import print_expression
from artifact.choreo.tables import Tables
from artifact.choreo.traverse import statements
from artifact.choreo.votes import votes

_WARP = 32
_TOGETHER = (
    syntax.FragDecl,
    syntax.MmaFill,
    syntax.MmaLoad,
    syntax.Mma,
    syntax.MmaStore,
    syntax.Reduce,
    syntax.AllReduce,
    syntax.CopyFragment,
    syntax.Apply,
)
"""What the threads of a warp do together."""


def groups_of(tables: Tables, threads: int) -> list[int]:
    """The threads of a block in groups that run together, none larger than a warp.

    A warp that has fragments is one group, whatever its threads do apart; another is split into
    the threads that every ``inthreads`` treats alike.
    """
    masks: list[int] = []
    together = 0
    for stmt in statements(tables.function.body):
        if isinstance(stmt, _TOGETHER) or votes(stmt):
            together |= tables.threads.get(stmt) or 0
        elif isinstance(stmt, syntax.Inthreads) and stmt.body.body:
            masks.append(tables.threads.get(stmt.body.body[0]) or 0)
    groups: dict[tuple[int, ...], int] = {}
    for thread in range(threads):
        warp = thread // _WARP
        whole = together >> warp * _WARP & ((1 << _WARP) - 1)
        roles = () if whole else tuple(mask >> thread & 1 for mask in masks)
        key = (warp, *roles)
        groups[key] = groups.get(key, 0) | 1 << thread
    return list(groups.values())


def role_of(function: syntax.Function, tables: Tables, thread: int) -> str:
    """What messages call the role of a thread: the condition of its outermost ``inthreads``."""
    for stmt in statements(function.body):
        if isinstance(stmt, syntax.Inthreads) and stmt.body.body:
            mask = tables.threads.get(stmt.body.body[0])
            if mask is not None and mask >> thread & 1:
                return f"role ({print_expression(stmt.condition)})"
    return "all threads"


def bits(mask: int) -> list[int]:
    """The threads of a set."""
    return [t for t in range(mask.bit_length()) if mask >> t & 1]


def ranges(mask: int) -> str:
    """A set of threads in words."""
    runs: list[list[int]] = []
    for thread in bits(mask):
        if runs and runs[-1][1] + 1 == thread:
            runs[-1][1] = thread
        else:
            runs.append([thread, thread])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
