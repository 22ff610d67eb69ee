"""The hardware barriers of a block: who has which of the 16 ids.

* 0 is ``__syncthreads``.
* 1 to the number of warpgroups (8 at most) are those of single warpgroups, one each: where
  ``mma.store`` writes a tile that an MMA or ``mma.load`` reads.
* 14 down to 8, as far as no warpgroup has them: events that are named barriers, and transfers of
  further sets of threads.
* 15 is that of the first set of threads that meets at a transfer.

What the program names itself in ``call __bar_sync(id, ..)`` and ``call __bar_arrive(id, ..)`` is
its own (co-language.md, 8.3); an id that is not constant leaves none that is certain to be free.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import Tables, ViewPlan
from artifact.choreo.traverse import statements

FIRST_OF_WARPGROUPS = 1
TRANSFERS = 15
_NAMED = range(14, 7, -1)


def warpgroup_count(tables: Tables) -> int:
    """Whole warpgroups of a block."""
    return tables.launch.threads // 128 if tables.launch is not None else 0


def free_ids(tables: Tables) -> list[int]:
    """Ids for events that are named barriers, in the order in which they are given out."""
    last = FIRST_OF_WARPGROUPS + warpgroup_count(tables) - 1
    return _unnamed(tables, [number for number in _NAMED if number > last])


def transfer_ids(tables: Tables) -> list[int]:
    """Ids for the threads of transfers; events have theirs already."""
    events = {plan.barrier for plan in tables.events.values()}
    free = [number for number in free_ids(tables) if number not in events]
    return [*_unnamed(tables, [TRANSFERS]), *free]


def _unnamed(tables: Tables, ids: list[int]) -> list[int]:
    own = [number for _, number in _program_ids(tables)]
    return [] if None in own else [number for number in ids if number not in own]


def _program_ids(tables: Tables) -> list[tuple[syntax.CallStmt, int | None]]:
    """The barriers that the program names itself; null: a number that is not known."""
    found: list[tuple[syntax.CallStmt, int | None]] = []
    for stmt in statements(tables.function.body):
        if isinstance(stmt, syntax.CallStmt) and stmt.name.id.split("::")[-1].startswith("__bar_"):
            number = tables.constants.get(stmt.args[0]) if stmt.args else None
            found.append((stmt, number if isinstance(number, int) else None))
    return found


def is_operand(tables: Tables, store: syntax.MmaStore) -> bool:
    """Whether some MMA or ``mma.load`` reads the buffer that ``mma.store`` writes."""
    view = tables.views.get(store.destination)
    return view is not None and bool(readers(tables, view))


def readers(tables: Tables, view: ViewPlan) -> list[syntax.Mma | syntax.MmaLoad]:
    """The MMAs and the ``mma.load`` that read the buffer of a view."""
    mmas: list[syntax.Mma | syntax.MmaLoad] = [
        mma
        for mma, plan in tables.mmas.items()
        if any(isinstance(o, ViewPlan) and o.root is view.root for o in (plan.a, plan.b))
    ]
    loads = (s for s in statements(tables.function.body) if isinstance(s, syntax.MmaLoad))
    return mmas + [s for s in loads if tables.views[s.source].root is view.root]


def check_barriers(tables: Tables, diagnostics: Diagnostics) -> None:
    """The program names no barrier that a warpgroup meets at when it has stored an operand."""
    if not any(
        isinstance(stmt, syntax.MmaStore) and is_operand(tables, stmt)
        for stmt in statements(tables.function.body)
    ):
        return
    last = FIRST_OF_WARPGROUPS + warpgroup_count(tables) - 1
    for stmt, number in _program_ids(tables):
        if number is None or FIRST_OF_WARPGROUPS <= number <= last:
            diagnostics.error(
                "barrier-ids",
                stmt,
                "the number of this barrier is not known"
                if number is None
                else f"barrier {number} is that of warpgroup {number - FIRST_OF_WARPGROUPS}",
                rule="a warpgroup that stores an operand of an MMA meets at a barrier of its own: "
                f"{FIRST_OF_WARPGROUPS} to {last} here",
                repair="use an event, or a constant id that is free",
            )
