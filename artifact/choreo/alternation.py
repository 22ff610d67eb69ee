"""Turns: two events by which two sets of threads take turns, so that barriers without a state do.

A hardware barrier has no generations to wait for: it is right for an event only where no trigger
can come before the waiters of the one before have passed. That is so for a pair of events whose
waiters and triggering threads are each other's, where each side waits and triggers in strict
alternation on every way through its statements, and one side begins (its event is ready).
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import JUMPS, bodies, statements


def alternate(tables: Tables, threads: int, waited: Symbol, triggered: Symbol) -> bool:
    """Whether threads wait for one event and trigger another in strict alternation.

    Args:
        tables: Of the function; its threads are known.
        threads: Who waits and triggers.
        waited: The event that they wait for.
        triggered: The event that they trigger.
    """
    function = tables.function.body
    if any(isinstance(s, JUMPS) for s in statements(function)):
        return False
    walk = _Walk(tables, threads, waited, triggered)
    return walk.block(function, frozenset({False})) is not None


class _Walk:
    """A state is whether the threads have waited, and not triggered since."""

    def __init__(self, tables: Tables, threads: int, waited: Symbol, triggered: Symbol) -> None:
        self.tables = tables
        self.threads = threads
        self.waited = waited
        self.triggered = triggered

    def block(self, block: syntax.Block, states: frozenset[bool]) -> frozenset[bool] | None:
        """The states after a block; null where a wait or a trigger comes out of turn."""
        here: frozenset[bool] | None = states
        for stmt in block.body:
            here = self._statement(stmt, here) if here is not None else None
        return here

    def _statement(self, stmt: syntax.Stmt, states: frozenset[bool]) -> frozenset[bool] | None:
        mask = self.tables.threads.get(stmt)
        if mask is not None and not mask & self.threads:
            return states
        match stmt:
            case syntax.Wait():
                return self._targets(stmt.targets, self.waited, states)
            case syntax.Trigger():
                return self._targets(stmt.targets, self.triggered, states)
            case syntax.If():
                arms = [self.block(body, states) for body in bodies(stmt)]
                if stmt.otherwise is None:
                    arms.append(states)
                return _joined(arms)
            case syntax.Foreach() | syntax.While():
                before: frozenset[bool] | None = None
                after: frozenset[bool] | None = states
                while after is not None and after != before:
                    before = after
                    after = _joined([before, self.block(stmt.body, before)])
                return after
            case syntax.Inthreads():
                inner = self.block(stmt.body, states)
                # Where only some of them get, the others are as they were.
                first = stmt.body.body[0] if stmt.body.body else stmt
                role = self.tables.threads.get(first) or 0
                return inner if role & self.threads == self.threads else _joined([inner, states])
        for body in bodies(stmt):
            inside = self.block(body, states)
            if inside is None:
                return None
            states = inside
        return states

    def _targets(
        self, targets: tuple[syntax.Target, ...], event: Symbol, states: frozenset[bool]
    ) -> frozenset[bool] | None:
        has_waited = event is self.triggered
        for target in targets:
            if self.tables.uses[target.name] is event:
                if states != {has_waited}:
                    return None
                states = frozenset({not has_waited})
        return states


def _joined(ways: list[frozenset[bool] | None]) -> frozenset[bool] | None:
    out: frozenset[bool] = frozenset()
    for way in ways:
        if way is None:
            return None
        out |= way
    return out
