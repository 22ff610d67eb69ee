"""The futures pass: what is in flight where, and how deep each wait is.

Rules (co-language.md, 8.5 and 11):

* An asynchronous transfer or MMA is bound to a future; the future is consumed exactly once: waited
  for, or (a TMA load) handed to an event by ``trigger .. after``.
* MMAs complete in the order of their issue, one commit group each. ``wait f`` leaves as many in
  flight as were issued after ``f``; everything up to ``f`` is complete then, and a later wait for
  one of those costs nothing. A synchronous MMA completes everything before it.
* The analysis is lexical [R]: a future is consumed before its scope ends, before a loop's back
  edge, in no loop that it was issued outside of, and on both arms of an ``if`` or on none.
* A plain ``trigger`` right after a load publishes the tile before it has arrived: an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.print_expressions import print_expression
from artifact.choreo.tables import Symbol, Tables, WaitPlan

State = Literal["pending", "waited", "handed over", "reported"]


def plan_futures(tables: Tables, diagnostics: Diagnostics) -> None:
    """Fill ``in_flight`` and the ``waits`` for MMAs and synchronous copies."""
    _Futures(tables, diagnostics).block(tables.function.body)


@dataclass
class _Flight:
    """What is known at one place: MMAs in flight, oldest first, and each future's state."""

    queue: list[syntax.Mma] = field(default_factory=list)
    states: dict[Symbol, State] = field(default_factory=dict)

    def copy(self) -> _Flight:
        return _Flight(list(self.queue), dict(self.states))


class _Futures:
    def __init__(self, tables: Tables, diagnostics: Diagnostics) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.now = _Flight()
        self.in_loop: list[set[Symbol]] = []
        """For each loop around: the futures that were issued outside of it."""

    def block(self, block: syntax.Block) -> None:
        """The statements of a block, and the end of its scope."""
        declared: list[Symbol] = []
        for index, stmt in enumerate(block.body):
            self.tables.in_flight[stmt] = tuple(self.now.queue)
            match stmt:
                case syntax.Mma():
                    self._mma(stmt, declared)
                case syntax.Transfer():
                    self._transfer(stmt, declared)
                case syntax.Wait():
                    self._wait(stmt)
                case syntax.Trigger():
                    self._trigger(stmt, block, index)
                case syntax.If():
                    self._if(stmt)
                case syntax.Inthreads():
                    self._arms(stmt, (stmt.body, None))
                case syntax.Foreach() | syntax.While():
                    self._loop(stmt)
                case syntax.Parallel():
                    self.block(stmt.body)
                case syntax.Block():
                    self.block(stmt)
                case syntax.Break() | syntax.Continue() | syntax.Return():
                    self._jump(stmt)
        for symbol in declared:
            if self.now.states.get(symbol) == "pending":
                self._unconsumed(symbol, block)
            self.now.states.pop(symbol, None)
        gone = {symbol.node for symbol in declared}
        self.now.queue = [mma for mma in self.now.queue if mma not in gone]

    # Issue -------------------------------------------------------------------------------------

    def _mma(self, stmt: syntax.Mma, declared: list[Symbol]) -> None:
        if stmt.is_async:
            self._issue(stmt, declared)
            self.now.queue.append(stmt)
        else:
            self._synchronous(stmt)
            self.now.queue.clear()

    def _transfer(self, stmt: syntax.Transfer, declared: list[Symbol]) -> None:
        if stmt.is_async:
            self._issue(stmt, declared)
        else:
            self._synchronous(stmt)

    def _issue(self, stmt: syntax.Mma | syntax.Transfer, declared: list[Symbol]) -> None:
        future = self._future(stmt)
        if future is None:
            self.diagnostics.error(
                "future-unnamed",
                stmt,
                "nothing names the future of this asynchronous operation",
                rule="an asynchronous operation is bound to a future, which is consumed once",
                repair="write 'f = ..' and 'wait f;'",
            )
            return
        declared.append(future)
        self.now.states[future] = "pending"

    def _synchronous(self, stmt: syntax.Mma | syntax.Transfer) -> None:
        future = self._future(stmt)
        if future is not None:
            self.now.states[future] = "waited"

    def _future(self, stmt: syntax.Mma | syntax.Transfer) -> Symbol | None:
        symbols = self.tables.declares.get(stmt, ())
        return next((s for s in symbols if s.kind == "future"), None)

    # Consumption -------------------------------------------------------------------------------

    def _wait(self, stmt: syntax.Wait) -> None:
        for target in stmt.targets:
            symbol = self.tables.uses[target.name]
            if symbol.kind != "future":
                continue
            node = symbol.node
            if isinstance(node, syntax.Mma | syntax.Transfer) and not node.is_async:
                self._error(
                    "wait-sync",
                    target,
                    f"{symbol.name} is complete already: its operation is synchronous",
                    "only asynchronous operations are waited for",
                    "drop the wait, or make the operation .async",
                )
                continue
            if target.index is not None or target.order is not None:
                self._error(
                    "future-order",
                    target,
                    "a future has no order",
                    "orders and slots belong to events",
                    f"wait {symbol.name};",
                )
            if not self._consume(target, symbol, "waited"):
                continue
            if isinstance(node, syntax.Mma):
                self._wait_mma(target, node)
            elif isinstance(node, syntax.Transfer) and node.engine == "dma":
                self.tables.waits[target] = WaitPlan("done")

    def _wait_mma(self, target: syntax.Target, node: syntax.Mma) -> None:
        queue = self.now.queue
        if node not in queue:
            self.tables.waits[target] = WaitPlan("done")
            return
        index = queue.index(node)
        self.tables.waits[target] = WaitPlan(
            "mma", depth=len(queue) - 1 - index, completes=tuple(queue[: index + 1])
        )
        del queue[: index + 1]

    def _trigger(self, stmt: syntax.Trigger, block: syntax.Block, index: int) -> None:
        for name in stmt.after:
            symbol = self.tables.uses[name]
            node = symbol.node
            if isinstance(node, syntax.Mma):
                self._error(
                    "after-mma",
                    name,
                    f"{symbol.name} is an MMA, which completes no event",
                    "'trigger .. after' takes TMA loads",
                    f"wait {symbol.name}; and then a plain trigger",
                )
                self.now.states[symbol] = "reported"
            elif isinstance(node, syntax.Transfer) and not (
                node.engine == "tma" and node.is_async and self._is_load(node)
            ):
                self._error(
                    "after-other",
                    name,
                    f"{symbol.name} is no asynchronous TMA load",
                    "'trigger .. after' takes TMA loads: their bytes complete the event",
                    "load it with tma.load.async, or trigger plainly after it is complete",
                )
                self.now.states[symbol] = "reported"
            else:
                self._consume(name, symbol, "handed over")
        if not stmt.after:
            self._published_early(stmt, block, index)

    def _is_load(self, node: syntax.Transfer) -> bool:
        plan = self.tables.views.get(node.source)
        return plan is None or plan.root.kind == "tensor"

    def _published_early(self, stmt: syntax.Trigger, block: syntax.Block, index: int) -> None:
        """A plain trigger right after a load that is not handed over to another event."""
        before = block.body[index - 1] if index else None
        if not isinstance(before, syntax.Transfer):
            return
        future = self._future(before)
        if future is None or self.now.states.get(future) != "pending":
            return
        handed_over = any(
            isinstance(later, syntax.Trigger)
            and any(self.tables.uses.get(name) is future for name in later.after)
            for later in block.body[index + 1 :]
        )
        if handed_over:
            return
        target = stmt.targets[0]
        event = target.name.id
        order = "" if target.order is None else f".at({print_expression(target.order)})"
        self._error(
            "trigger-before-completion",
            stmt,
            f"{event} is triggered when the load has been issued, not when it has arrived",
            "a plain trigger publishes at once; the completion of a load is handed to the event",
            f"trigger {event}{order} after {future.name};",
        )
        self.now.states[future] = "reported"

    def _consume(self, place: syntax.Node, symbol: Symbol, how: State) -> bool:
        """Note that a future is consumed; false where that is wrong."""
        state = self.now.states.get(symbol)
        if state in ("waited", "handed over"):
            self._error(
                "consumed-twice",
                place,
                f"{symbol.name} is {state} already",
                "a future is consumed exactly once",
                "drop one of the two",
            )
            return False
        if any(symbol in outside for outside in self.in_loop):
            self._error(
                "consumed-in-loop",
                place,
                f"{symbol.name} was issued outside of this loop",
                "a future is consumed exactly once, in the body that issues it",
                "consume it before or after the loop",
            )
            self.now.states[symbol] = "reported"
            return False
        if state != "reported":
            self.now.states[symbol] = how
        return True

    # Control flow ------------------------------------------------------------------------------

    def _if(self, stmt: syntax.If) -> None:
        self._arms(stmt, (stmt.then, stmt.otherwise))

    def _arms(self, stmt: syntax.Stmt, arms: tuple[syntax.Block | None, ...]) -> None:
        """Both arms consume the same futures; what one completes may still run after the other."""
        before = self.now
        ends: list[_Flight] = []
        for arm in arms:
            self.now = before.copy()
            if arm is not None:
                self.block(arm)
            ends.append(self.now)
        first, second = ends
        for symbol, state in before.states.items():
            if state == "pending" and first.states.get(symbol) != second.states.get(symbol):
                if "reported" not in (first.states.get(symbol), second.states.get(symbol)):
                    self._error(
                        "consumed-in-one-arm",
                        stmt,
                        f"{symbol.name} is consumed on one path here and not on the other",
                        "a future is consumed exactly once on every path",
                        "consume it before or after this statement, or on both arms",
                    )
                first.states[symbol] = "reported"
        # Completion is in order, so that each queue is an end of the other.
        longer = first if len(first.queue) >= len(second.queue) else second
        self.now = _Flight(list(longer.queue), dict(first.states))

    def _loop(self, stmt: syntax.Foreach | syntax.While) -> None:
        before = self.now.copy()
        self.in_loop.append({s for s, state in before.states.items() if state == "pending"})
        self.block(stmt.body)
        self.in_loop.pop()
        # A loop may run no times: what was in flight before it may be so after it.
        self.now.queue = before.queue

    def _jump(self, stmt: syntax.Stmt) -> None:
        outside = self.in_loop[-1] if self.in_loop else set()
        open_ = [s for s, state in self.now.states.items() if state == "pending"]
        if isinstance(stmt, syntax.Break | syntax.Continue):
            open_ = [s for s in open_ if s not in outside]
        for symbol in open_:
            self._error(
                "future-unconsumed",
                stmt,
                f"{symbol.name} is still in flight here",
                "a future is consumed exactly once on every path",
                f"wait {symbol.name}; before",
            )

    def _unconsumed(self, symbol: Symbol, block: syntax.Block) -> None:
        self._error(
            "future-unconsumed",
            symbol.node,
            f"{symbol.name} is never waited for",
            "a future is consumed exactly once, before its scope or its loop's body ends",
            f"wait {symbol.name};"
            if isinstance(symbol.node, syntax.Mma)
            else f"trigger event after {symbol.name}; or wait {symbol.name};",
        )

    def _error(self, code: str, place: syntax.Node, message: str, rule: str, repair: str) -> None:
        self.diagnostics.error(code, place, message, rule=rule, repair=repair)
