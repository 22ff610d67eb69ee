"""The statements of a block, as one group of threads goes through them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal

from artifact.choreo import syntax
from artifact.choreo.interpret_apply import Apply
from artifact.choreo.interpret_fragments import ROWS, Fragment
from artifact.choreo.interpret_locals import LocalBuffer
from artifact.choreo.interpret_mma import issue, load, store
from artifact.choreo.interpret_schedule import Blocked
from artifact.choreo.interpret_sync import increment, trigger, wait
from artifact.choreo.interpret_threads import WARP, Threads
from artifact.choreo.interpret_transfers import transfer
from artifact.choreo.interpret_values import cast
from artifact.choreo.tables import Symbol

Flow = Literal["next", "break", "continue", "return"]
Going = Generator[Blocked | None, None, Flow]
"""A way through statements: what it waits for on it, and how it goes on after them."""

_DECLARED_BEFORE = syntax.SharedDecl | syntax.EventDecl
_IGNORED = ("setreg_dec", "setreg_inc", "print", "println")
_TRIPS = 1_000_000
"""Passes of one loop, of which no program needs as many."""


def body(threads: Threads, block: syntax.Block) -> Going:
    """The statements of a block."""
    for stmt in block.body:
        flow = yield from _statement(threads, stmt)
        if flow != "next":
            return flow
    return "next"


def _statement(threads: Threads, stmt: syntax.Stmt) -> Going:
    match stmt:
        case syntax.Block():
            return (yield from body(threads, stmt))
        case syntax.Parallel():
            return (yield from body(threads, stmt.body))
        case syntax.Inthreads():
            return (yield from _inthreads(threads, stmt))
        case syntax.If():
            arm = stmt.then if threads.values.integer(stmt.condition) else stmt.otherwise
            if arm is not None:
                return (yield from body(threads, arm))
        case syntax.Foreach():
            return (yield from _foreach(threads, stmt, 0))
        case syntax.While():
            return (yield from _while(threads, stmt))
        case syntax.Break():
            return "break"
        case syntax.Continue():
            return "continue"
        case syntax.Return():
            return "return"
        case syntax.Wait():
            yield from wait(threads, stmt)
        case syntax.Trigger():
            yield from trigger(threads, stmt)
        case syntax.Transfer():
            yield from transfer(threads, stmt)
        case syntax.Mma():
            yield from issue(threads, stmt)
        case syntax.MmaLoad():
            yield from load(threads, stmt, _filled(threads, stmt))
        case syntax.MmaStore():
            yield from store(threads, stmt)
        case _:
            _local(threads, stmt)
    return "next"


def _inthreads(threads: Threads, stmt: syntax.Inthreads) -> Going:
    """The body, by those threads of the group that take part."""
    around = threads.mask
    mask = threads.tables.threads.get(stmt.body.body[0]) if stmt.body.body else 0
    if mask is None:
        mask = around if threads.values.integer(stmt.condition) else 0
    if not mask & around:
        return "next"
    threads.mask = mask & around
    flow = yield from body(threads, stmt.body)
    threads.mask = around
    return flow


# Loops -----------------------------------------------------------------------------------------


def _foreach(threads: Threads, stmt: syntax.Foreach, depth: int) -> Going:
    if depth == len(stmt.variables):
        return (yield from body(threads, stmt.body))
    symbol = threads.tables.declares[stmt][depth]
    bound = threads.values.integer(stmt.bounds[depth])
    threads.values.bounds[symbol] = bound
    for trip in range(bound):
        _limit(threads, stmt, trip)
        threads.values.variables[symbol] = trip
        flow = yield from _foreach(threads, stmt, depth + 1)
        if flow in ("break", "return"):
            # A break leaves the innermost loop.
            return "return" if flow == "return" else "next"
    return "next"


def _while(threads: Threads, stmt: syntax.While) -> Going:
    trips = 0
    while threads.values.integer(stmt.condition):
        _limit(threads, stmt, trips)
        trips += 1
        flow = yield from body(threads, stmt.body)
        if flow in ("break", "return"):
            return "return" if flow == "return" else "next"
    return "next"


def _limit(threads: Threads, stmt: syntax.Stmt, trips: int) -> None:
    if trips >= _TRIPS:
        raise threads.report.error("endless", stmt, f"this loop has no end after {trips} passes")


# What no other threads see ---------------------------------------------------------------------


def _local(threads: Threads, stmt: syntax.Stmt) -> None:
    match stmt:
        case syntax.ScalarDecl() | syntax.Assign():
            _scalar(threads, stmt)
        case syntax.ViewDecl():
            (symbol,) = threads.tables.declares[stmt]
            threads.places.declare(symbol, threads.tables.views[stmt.view])
        case syntax.LocalDecl():
            _local_buffer(threads, stmt)
        case syntax.ExprStmt():
            increment(threads, stmt.value)
        case syntax.Assert():
            _assert(threads, stmt)
        case syntax.CallStmt():
            _call(threads, stmt)
        case _:
            if not isinstance(stmt, _DECLARED_BEFORE):
                _fragments(threads, stmt)


def _scalar(threads: Threads, stmt: syntax.ScalarDecl | syntax.Assign) -> None:
    values = threads.values
    declared = threads.tables.declares.get(stmt)
    if declared is not None:
        (symbol,) = declared
        threads.declare(symbol, values.converted(stmt.value, symbol.type))
        return
    if not isinstance(stmt, syntax.Assign):
        raise AssertionError(f"a declaration that declares nothing: {stmt.span}")
    if isinstance(stmt.target, syntax.Element):
        symbol = threads.tables.uses[stmt.target.base]
        if symbol.kind != "local":
            raise threads.report.error(
                "unsupported", stmt, "an element is assigned outside of apply"
            )
        values.set_element(stmt.target, stmt.op, stmt.value, symbol)
        return
    symbol = threads.tables.uses[stmt.target]
    value = values.converted(stmt.value, symbol.type)
    if stmt.op != "=":
        value = values.combine(stmt.op[:-1], values.variables[symbol], value, symbol.type or "s32")
    threads.assign(symbol, cast(value, symbol.type), stmt)


def _local_buffer(threads: Threads, stmt: syntax.LocalDecl) -> None:
    """A buffer of its own for each thread, for every time that its declaration is reached."""
    (symbol,) = threads.tables.declares[stmt]
    buffer = LocalBuffer(symbol.name, threads.tables.locals[symbol], threads.report)
    threads.values.locals[symbol] = buffer
    if stmt.init is not None:
        buffer.fill(threads.values.converted(stmt.init, symbol.type))


def _assert(threads: Threads, stmt: syntax.Assert) -> None:
    if not threads.values.integer(stmt.condition):
        text = f": {stmt.text.text}" if stmt.text is not None else ""
        raise threads.report.error("assertion", stmt, f"an assertion does not hold{text}")


def _call(threads: Threads, stmt: syntax.CallStmt) -> None:
    """Registers and printing do not matter here; C++ is not interpreted."""
    if stmt.name.id.split("::")[-1] not in _IGNORED:
        raise threads.report.error(
            "unsupported", stmt, f"{stmt.name.id} is C++, which is not interpreted"
        )


def _fragments(threads: Threads, stmt: syntax.Stmt) -> None:
    fragments, uses = threads.fragments, threads.tables.uses
    match stmt:
        case syntax.FragDecl():
            (symbol,) = threads.tables.declares[stmt]
            fragment = _declare(threads, symbol, stmt)
            if stmt.init is not None:
                fragment.fill(threads.values.of(stmt.init), stmt)
        case syntax.MmaFill():
            _fill(threads, stmt)
        case syntax.Reduce():
            source = fragments[uses[stmt.source]]
            fragments[uses[stmt.target]].reduce(stmt.kind, source, stmt)
        case syntax.AllReduce():
            fragments[uses[stmt.target]].all_reduce(stmt.kind, stmt)
        case syntax.CopyFragment():
            fragments[uses[stmt.target]].copy(fragments[uses[stmt.source]], stmt)
        case syntax.Apply():
            plan = threads.block.apply_plan(stmt)
            first = ROWS * threads.warp
            Apply(threads.tables, plan, fragments, threads.values, first, threads.report).run()
        case _:
            raise threads.report.error("unsupported", stmt, "this statement is not interpreted")


def _declare(threads: Threads, symbol: Symbol, stmt: syntax.Stmt) -> Fragment:
    if threads.count != WARP:
        raise threads.report.error(
            "unsupported", stmt, f"{symbol.name} does not belong to whole warps"
        )
    fragment = Fragment(symbol.name, threads.tables.fragments[symbol], threads.report)
    threads.fragments[symbol] = fragment
    return fragment


def _filled(threads: Threads, stmt: syntax.MmaFill | syntax.MmaLoad) -> Fragment:
    """The fragment that a fill or a load sets: a new one where the statement declares it."""
    symbol = threads.tables.fills[stmt]
    fragment = threads.fragments.get(symbol)
    if symbol in threads.tables.declares.get(stmt, ()) or fragment is None:
        fragment = _declare(threads, symbol, stmt)
    return fragment


def _fill(threads: Threads, stmt: syntax.MmaFill) -> None:
    """A fill that its MMA does leaves the accumulator undefined until then."""
    fragment = _filled(threads, stmt)
    if stmt in threads.tables.fused_fills:
        fragment.undefine(stmt)
    else:
        fragment.fill(threads.values.of(stmt.value), stmt)
