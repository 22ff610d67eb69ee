"""Roles that do one thing each at a named barrier, next to one another: one instruction for all.

``inthreads (p == 1) { wait a; } inthreads (p == 2) { wait b; }`` is how two warpgroups take turns.
Which barrier it is can be a register, so that nobody branches.
"""

from __future__ import annotations

from collections.abc import Sequence

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.tables import EventPlan


def emit_turns(ctx: Context, statements: Sequence[syntax.Stmt]) -> int:
    """Emit the roles that ``statements`` begin with as one; how many there are, or 0."""
    roles: list[tuple[syntax.Inthreads, syntax.Wait | syntax.Trigger, EventPlan]] = []
    covered = 0
    for node in statements:
        found = _at_barrier(ctx, node)
        if found is None or not isinstance(node, syntax.Inthreads):
            break
        stmt, plan = found
        mask = ctx.tables.threads[stmt] or 0
        if mask & covered or (roles and not _alike(roles[0], stmt, plan)):
            break
        covered |= mask
        roles.append((node, stmt, plan))
    if len(roles) < 2 or covered != ctx.tables.threads[roles[0][0]]:
        return 0
    choice = str(roles[-1][2].barrier)
    for node, _, plan in reversed(roles[:-1]):
        choice = f"{ctx.text(node.condition, 2)} ? {plan.barrier} : {choice}"
    for node, _, _ in roles:
        ctx.quote(node)
    _, first, plan = roles[0]
    what = "sync" if isinstance(first, syntax.Wait) else "arrive"
    ctx.out.line(f"cu::named_barrier_{what}({choice}, {plan.participants});")
    return len(roles)


def _at_barrier(
    ctx: Context, node: syntax.Stmt
) -> tuple[syntax.Wait | syntax.Trigger, EventPlan] | None:
    """The one statement of a role, where it is one at a named barrier."""
    if not isinstance(node, syntax.Inthreads) or len(node.body.body) != 1:
        return None
    (stmt,) = node.body.body
    if not isinstance(stmt, syntax.Wait | syntax.Trigger) or len(stmt.targets) != 1:
        return None
    plan = ctx.tables.events.get(ctx.symbol(stmt.targets[0].name))
    return (stmt, plan) if plan is not None and plan.kind == "named" else None


def _alike(
    first: tuple[syntax.Inthreads, syntax.Wait | syntax.Trigger, EventPlan],
    stmt: syntax.Wait | syntax.Trigger,
    plan: EventPlan,
) -> bool:
    return type(first[1]) is type(stmt) and first[2].participants == plan.participants
