"""The calls pass: what a kernel may call, and what it should not.

Rules (co-language.md, 11 and 12):

* Of namespace ``croq`` a kernel calls ``croq::cuda::setreg_dec`` and ``croq::cuda::setreg_inc``.
  Other names are helpers of the file or of its headers, which the C++ compiler knows.
* A call that prints makes ptxas serialize every ``wgmma`` of its kernel [R].
"""

from __future__ import annotations

import difflib

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import Tables
from artifact.choreo.traverse import statements

REGISTER_CALLS = ("croq::cuda::setreg_dec", "croq::cuda::setreg_inc")
_PRINTS = ("print", "println", "printf")


def check_calls(tables: Tables, diagnostics: Diagnostics) -> None:
    """Check every call statement."""
    for stmt in statements(tables.function.body):
        if not isinstance(stmt, syntax.CallStmt):
            continue
        name = stmt.name.id
        if name.startswith("croq::") and name not in REGISTER_CALLS:
            near = difflib.get_close_matches(name, REGISTER_CALLS, 1)
            known = " and ".join(REGISTER_CALLS)
            diagnostics.error(
                "unknown-call",
                stmt.name,
                f"there is no {name}",
                rule=f"of namespace croq a kernel calls {known}",
                repair=f"did you mean {near[0]}?" if near else "call a helper of this file",
            )
        elif name in _PRINTS and tables.mmas:
            diagnostics.add(
                "warning",
                "print-beside-mma",
                stmt,
                f"{name} in a kernel that has MMAs",
                rule="where a kernel may print, ptxas serializes every wgmma: each one waits",
                repair="print from a kernel of its own, or drop this when it is found",
            )
