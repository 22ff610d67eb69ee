"""Where ``break`` and ``continue`` may stand (co-language.md, 7): in a loop of the kernel.

An ``apply`` is no loop of the program: its elements have no order.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import Tables
from artifact.choreo.traverse import Places, statements


def check_jumps(tables: Tables, diagnostics: Diagnostics, places: Places) -> None:
    """Check every jump."""
    for stmt in statements(tables.function.body):
        if not isinstance(stmt, syntax.Break | syntax.Continue) or any(places.loops(stmt)):
            continue
        word = "break" if isinstance(stmt, syntax.Break) else "continue"
        diagnostics.error(
            "jump-place",
            stmt,
            f"{word} outside of a loop",
            rule="break and continue belong to the foreach or while around them",
            repair="drop it, or use if",
        )
