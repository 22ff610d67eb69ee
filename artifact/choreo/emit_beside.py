"""Which fragments a program writes while an asynchronous MMA is in flight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from artifact.choreo import syntax
from artifact.choreo.tables import Symbol, Tables, WaitPlan


def written_beside(
    tables: Tables, before: Sequence[syntax.Stmt], plan: WaitPlan
) -> tuple[Symbol, ...]:
    """The fragments written between the operation's issue and the wait, by their last writes.

    Args:
        tables: Of the function.
        before: The statements of the wait's block that stand before the wait.
        plan: The wait. What an earlier wait of an MMA has cut off does not count: that work was
            meant to run beside an earlier operation.
    """
    written: dict[Symbol, None] = {}
    for statement in before:
        for node in syntax.walk(statement):
            if node in plan.completes or _waits_for_mma(tables, node):
                written.clear()
            elif isinstance(node, syntax.Mma):
                # Its own now: nobody may touch it, and its issue has pinned what came before.
                operand = tables.mmas[node].a
                written.pop(tables.uses[node.accumulator], None)
                if isinstance(operand, Symbol):
                    written.pop(operand, None)
            for symbol in _written(tables, node):
                written.pop(symbol, None)
                written[symbol] = None
    return tuple(written)


def _waits_for_mma(tables: Tables, node: syntax.Node) -> bool:
    if isinstance(node, syntax.Wait):
        return any(tables.waits[target].kind == "mma" for target in node.targets)
    return isinstance(node, syntax.Mma) and not node.is_async


def _written(tables: Tables, node: syntax.Node) -> Iterator[Symbol]:
    """Fragments that one node writes by arithmetic."""
    match node:
        case syntax.Assign(target=syntax.Element(base=name)):
            pass
        case syntax.Reduce(target=name) | syntax.CopyFragment(target=name):
            pass
        case syntax.AllReduce(target=name):
            pass
        case _:
            return
    symbol = tables.uses[name]
    if symbol in tables.fragments:
        yield symbol
