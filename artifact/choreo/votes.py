"""The votes pass: all threads of a warp take part in ``__any``.

Rules:

* Whole warps get to a statement with a vote, and the conditions around it do not split one [R].
* A vote stands where its operand is computed in any case: not behind ``&&``, ``||`` or ``?:``, and
  not in the body of ``apply``, which runs element by element [R].
* It asks for a bool.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.comparisons import VOTE, is_vote
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import Tables
from artifact.choreo.threads import ThreadValues, warp_mask, warps, whole
from artifact.choreo.traverse import Places, own, statements


def check_votes(
    tables: Tables, diagnostics: Diagnostics, values: ThreadValues, places: Places
) -> None:
    """Check every vote."""
    for stmt in statements(tables.function.body):
        for vote in votes(stmt):
            _check(tables, diagnostics, values, places, stmt, vote)


def votes(stmt: syntax.Stmt) -> list[syntax.BuiltinCall]:
    """The votes in a statement itself."""
    return [n for n in own(stmt) if is_vote(n)]


def _check(
    tables: Tables,
    diagnostics: Diagnostics,
    values: ThreadValues,
    places: Places,
    stmt: syntax.Stmt,
    vote: syntax.BuiltinCall,
) -> None:
    operand = vote.args[0]
    if tables.types.get(operand) != "bool":
        diagnostics.error(
            "vote-type",
            operand,
            f"{VOTE} of {tables.types.get(operand)}",
            rule=f"{VOTE} takes a bool: whether it holds in any thread of the warp",
            repair="compare it: x != 0",
        )
    mask = tables.threads.get(stmt)
    if mask is None or not whole(mask, 32):
        diagnostics.error(
            "vote-threads",
            vote,
            "not all 32 threads of a warp get here",
            rule="the threads of a warp vote together",
            repair="vote where whole warps get, outside of an inthreads that splits them",
        )
        return
    if any(isinstance(owner, syntax.Apply) for owner in places.enclosing(stmt)):
        diagnostics.error(
            "vote-place",
            vote,
            f"{VOTE} in the body of apply",
            rule="a body runs for each element; the threads of a warp vote once",
            repair="collect the condition in a mutable, and vote behind the apply",
        )
        return
    if any(vote in syntax.walk(part) for node in own(stmt) for part in _conditional(node)):
        diagnostics.error(
            "vote-place",
            vote,
            f"{VOTE} behind a condition of the same expression",
            rule="all threads of the warp compute a vote: it may not depend on another operand",
            repair=f"name it first: some = {VOTE}(..);",
        )
        return
    for warp in warps(mask):
        divergent = values.divergent(stmt, mask & warp_mask(warp))
        if divergent is not None:
            diagnostics.error(
                "divergent",
                vote,
                f"the condition of line {divergent.span.line} splits a warp here",
                rule="the threads of a warp vote together",
                repair="vote outside of this condition",
            )
            return


def _conditional(node: syntax.Node) -> tuple[syntax.Expr, ...]:
    """The operands that are not computed in any case."""
    match node:
        case syntax.Binary(op="&&" | "||"):
            return (node.right,)
        case syntax.Ternary():
            return (node.then, node.otherwise)
    return ()
