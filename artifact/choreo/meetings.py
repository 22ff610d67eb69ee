"""Whether the threads of a load have to meet before it.

A load overwrites a buffer that another warp may still read. Meeting before every one is always
right [co-language.md, 9]; where all threads met at another load since the last read, it is one
barrier too many. Where no event orders loads (cooperative copies, and loads of TMA that complete a
hidden event) this is what parts the reads of one trip from the load of the next.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.tables import Symbol, Tables, TransferPlan
from artifact.choreo.traverse import JUMPS, Places, own, statements, with_nested


def must_meet_before(tables: Tables, places: Places, node: syntax.Transfer) -> bool:
    """Whether some thread may still read the buffer when another begins to load into it.

    False only where this shows from the load's own block: every read of the buffer is in it, and on
    the way back to the last of them (around the loop, if the block is a loop's body) another load
    by the same threads has already made everybody meet.

    A hidden event knows two generations only: in a loop its threads meet also without any reader,
    so that none still waits for a generation when the next but one begins.
    """
    plan = tables.transfers[node]
    if plan.threads.bit_count() == 1:
        # Its one thread reads and waits in the order of the program.
        return False
    loops = list(places.loops(node))
    everything = list(statements(tables.function.body))
    if not loops:
        # It runs once: what comes behind it does not come before it.
        everything = everything[: everything.index(node)]
    readers = [s for s in everything if _reads(tables, s, plan.target.root)]
    if (loops or readers) and any(isinstance(s, JUMPS) for s in everything):
        return True
    block, index = places.block(node), places.index(node)
    inside = set(statements(block))
    if any(s not in inside or _in_flight(s) for s in readers):
        return True
    way = list(reversed(block.body[:index]))
    if loops:
        if loops[0].body is not block:
            return True
        # Around the back edge: what follows the load comes before it in the next trip.
        way += reversed(block.body[index + 1 :])
    for stmt in way:
        if any(s in readers for s in with_nested(stmt)):
            return True
        if _meets(tables, stmt, plan):
            return False
    return bool(loops) and (bool(readers) or plan.kind == "tma-load")


def _reads(tables: Tables, stmt: syntax.Stmt, buffer: Symbol) -> bool:
    """Whether a statement reads a shared buffer; what is only written to does not count."""
    if passes(tables, stmt, buffer):
        return True
    return any(
        isinstance(child, syntax.View)
        and (view := tables.views.get(child)) is not None
        and view.root is buffer
        and not (isinstance(stmt, syntax.Transfer | syntax.MmaStore) and child is stmt.destination)
        for child in own(stmt)
    )


def passes(tables: Tables, stmt: syntax.Stmt, buffer: Symbol) -> bool:
    """Whether a helper gets a shared buffer as a pointer: it may read it, and write it."""
    if not isinstance(stmt, syntax.CallStmt):
        return False
    for child in own(stmt):
        symbol = tables.uses.get(child)
        view = symbol.node.view if symbol and isinstance(symbol.node, syntax.ViewDecl) else child
        plan = tables.views.get(view) if isinstance(view, syntax.View) else None
        if symbol is buffer or (plan is not None and plan.root is buffer):
            return True
    return False


def _in_flight(stmt: syntax.Stmt) -> bool:
    """Whether a read may go on behind the statement."""
    return isinstance(stmt, syntax.Mma | syntax.Transfer) and stmt.is_async


def _meets(tables: Tables, stmt: syntax.Stmt, plan: TransferPlan) -> bool:
    """Whether the same threads all meet at a statement: at a load's begin, or at a copy's end."""
    if not isinstance(stmt, syntax.Transfer) or stmt not in tables.transfers:
        return False
    other = tables.transfers[stmt]
    if other.threads != plan.threads:
        return False
    return other.meets_before or (other.kind == "cooperative-load" and not stmt.is_async)
