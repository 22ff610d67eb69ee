"""Whether the threads of a cooperative copy have to meet before it.

A copy overwrites a buffer that another warp may still read. Meeting before every copy is always
right [co-language.md, 9]; where all threads met at another copy since the last read, it is one
barrier too many.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.tables import Symbol, TransferPlan
from artifact.choreo.traverse import Places, own, statements

_JUMPS = (syntax.Break, syntax.Continue, syntax.Return)


def must_meet_before(ctx: Context, node: syntax.Transfer) -> bool:
    """Whether some thread may still read the buffer when another begins to copy into it.

    False only where this shows from the copy's own block: every read of the buffer is in it, and on
    the way back to the last of them (around the loop, if the block is a loop's body) another copy
    by the same threads has already made everybody meet.
    """
    plan = ctx.tables.transfers[node]
    buffer = plan.target.root
    everything = list(statements(ctx.function.body))
    if any(isinstance(s, _JUMPS) for s in everything):
        return True
    places = Places(ctx.function)
    block, index = places.block(node), places.index(node)
    inside = set(statements(block))
    readers = [s for s in everything if _reads(ctx, s, buffer)]
    if any(s not in inside or _in_flight(s) for s in readers):
        return True
    way = list(reversed(block.body[:index]))
    loops = list(places.loops(node))
    if loops:
        if loops[0].body is not block:
            return True
        # Around the back edge: what follows the copy comes before it in the next trip.
        way += reversed(block.body[index + 1 :])
    for stmt in way:
        if any(s in readers for s in _with_nested(stmt)):
            return True
        if _meets(ctx, stmt, plan):
            return False
    return bool(loops) and bool(readers)


def _with_nested(stmt: syntax.Stmt) -> list[syntax.Stmt]:
    return list(statements(syntax.Block(stmt.span, (stmt,))))


def _reads(ctx: Context, stmt: syntax.Stmt, buffer: Symbol) -> bool:
    """Whether a statement reads a shared buffer; what is only written to does not count."""
    return any(
        isinstance(child, syntax.View)
        and (view := ctx.tables.views.get(child)) is not None
        and view.root is buffer
        and not (isinstance(stmt, syntax.Transfer | syntax.MmaStore) and child is stmt.destination)
        for child in own(stmt)
    )


def _in_flight(stmt: syntax.Stmt) -> bool:
    """Whether a read may go on behind the statement."""
    return isinstance(stmt, syntax.Mma | syntax.Transfer) and stmt.is_async


def _meets(ctx: Context, stmt: syntax.Stmt, plan: TransferPlan) -> bool:
    """Whether the same threads all meet at the end of a statement: a synchronous copy's do."""
    if not isinstance(stmt, syntax.Transfer) or stmt.is_async:
        return False
    other = ctx.tables.transfers[stmt]
    return other.kind == "cooperative-load" and other.threads == plan.threads
