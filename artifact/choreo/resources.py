"""The resources pass: shared memory and registers of a block.

Rules (co-language.md, 12 and 13; worklog, "Resources are part of the schedule"):

* Shared buffers, the slack that aligns their base to 1024 bytes and 8 bytes for each slot of an
  event fit into the 227 KiB that a block can have.
* ``setreg_dec`` and ``setreg_inc`` (setmaxnreg) take a multiple of 8 from 24 to 256, executed by
  whole warpgroups [R]; ``dec`` goes not above, ``inc`` not below what a thread is launched with.
* What all warpgroups hold at most is not more than what the block is launched with.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.shared import ALIGNMENT
from artifact.choreo.tables import Launch, Tables
from artifact.choreo.threads import ThreadValues, warpgroups, whole
from artifact.choreo.traverse import Places, statements

SHARED_LIMIT = 227 * 1024
EVENT_BYTES = 8
REGISTER_FILE = 65536
MOST_REGISTERS = 256
_CALLS = ("setreg_dec", "setreg_inc")


def check_resources(
    tables: Tables, diagnostics: Diagnostics, values: ThreadValues, places: Places
) -> None:
    """Check shared memory and register limits."""
    _shared(tables, diagnostics)
    if tables.launch is not None:
        _Registers(tables, diagnostics, values, places, tables.launch).check()


def _shared(tables: Tables, diagnostics: Diagnostics) -> None:
    events = sum(EVENT_BYTES * p.slots for p in tables.events.values() if p.kind != "named")
    slack = ALIGNMENT if tables.shared else 0
    total = tables.shared_bytes + slack + events
    if total <= SHARED_LIMIT:
        return
    last = list(tables.shared)[-1] if tables.shared else None
    parts = ", ".join(f"{s.name} {p.tiles * p.tile_bytes}" for s, p in tables.shared.items())
    diagnostics.error(
        "shared-memory",
        last.node if last is not None else tables.function,
        f"{total} bytes of shared memory: {parts}, alignment {slack}, events {events}",
        rule=f"a block has at most {SHARED_LIMIT} bytes (227 KiB) of shared memory; no two "
        "buffers share a place",
        repair="use fewer stages or smaller tiles",
    )


def launch_registers(launch: Launch) -> int:
    """Registers of a thread at launch: what the compiler may use under the launch bounds."""
    most = REGISTER_FILE // (launch.threads * launch.min_blocks)
    return min(most // 8 * 8, MOST_REGISTERS)


class _Registers:
    def __init__(
        self,
        tables: Tables,
        diagnostics: Diagnostics,
        values: ThreadValues,
        places: Places,
        launch: Launch,
    ) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.values = values
        self.places = places
        self.launch = launch
        self.at_launch = launch_registers(launch)
        self.most = dict.fromkeys(range((launch.threads + 127) // 128), self.at_launch)
        """The limit of each warpgroup after its last call."""

    def check(self) -> None:
        calls = [
            stmt
            for stmt in statements(self.tables.function.body)
            if isinstance(stmt, syntax.CallStmt) and stmt.name.id.split("::")[-1] in _CALLS
        ]
        good = [stmt for stmt in calls if self._call(stmt)]
        budget = self.at_launch * self.launch.threads
        total = 128 * sum(self.most.values())
        if good and total > budget:
            each = " + ".join(map(str, self.most.values()))
            self.diagnostics.error(
                "register-budget",
                good[-1],
                f"the warpgroups hold 128 * ({each}) = {total} registers, the block is launched "
                f"with {self.launch.threads} * {self.at_launch} = {budget}",
                rule="setmaxnreg moves registers between the warpgroups of a block, and adds none",
                repair="lower one limit: an inc that finds no free registers waits forever",
            )

    def _call(self, stmt: syntax.CallStmt) -> bool:
        number = self.tables.constants.get(stmt.args[0]) if len(stmt.args) == 1 else None
        if not isinstance(number, int) or number % 8 or not 24 <= number <= 256:
            self.diagnostics.error(
                "register-count",
                stmt,
                "this is no register count",
                rule="setmaxnreg takes one constant, a multiple of 8 from 24 to 256",
                repair="use such a constant, for example 40 or 232",
            )
            return False
        mask = self.tables.threads.get(stmt)
        divergent = self.values.divergent(stmt, mask) if mask else None
        if mask is None or not whole(mask, 128) or divergent is not None:
            self.diagnostics.error(
                "register-threads",
                stmt,
                "not all 128 threads of a warpgroup get here",
                rule="setmaxnreg is executed by whole warpgroups",
                repair="put it into the inthreads of the whole warpgroup",
            )
            return False
        increases = stmt.name.id.endswith("inc")
        before = {self.most[group] for group in warpgroups(mask)}
        if (increases and number < max(before)) or (not increases and number > min(before)):
            held = max(before) if increases else min(before)
            self.diagnostics.error(
                "register-direction",
                stmt,
                f"{'inc' if increases else 'dec'} to {number}, a thread holds {held}",
                rule="setreg_dec does not raise the limit, setreg_inc does not lower it",
                repair=f"use setreg_{'dec' if increases else 'inc'}",
            )
            return False
        for group in warpgroups(mask):
            self.most[group] = number
        return True
