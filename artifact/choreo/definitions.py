"""The definitions pass: what is read of registers has a value, and no MMA multiplies zeros.

Rules (co-language.md, 10; worklog, the section on updating older code):

* ``frag T [..] x;`` is undefined until it is written; reading it before is an error. So is a local
  buffer, which counts as written when any of its elements is [R].
* An MMA whose register operand is all zero when the program first gets there does nothing: it is
  the dummy PV of an older form. The current one is a QK prologue, a steady loop that issues QK of
  this tile and PV of the tile before, and a final PV.

The walk follows the first pass through every loop. What holds there for certain is reported; where
paths join and differ, nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from artifact.choreo import syntax
from artifact.choreo.comparisons import read_whole
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import own

State = Literal["undefined", "zero", "defined"]
States = dict[Symbol, State]


def check_definitions(tables: Tables, diagnostics: Diagnostics) -> None:
    """Check every read of a fragment or a local buffer."""
    _Definitions(tables, diagnostics).block(tables.function.body, {})


class _Definitions:
    def __init__(self, tables: Tables, diagnostics: Diagnostics) -> None:
        self.tables = tables
        self.diagnostics = diagnostics

    def block(self, block: syntax.Block, states: States) -> States:
        """The states after a block."""
        for stmt in block.body:
            states = self._statement(stmt, states)
        return states

    def _statement(self, stmt: syntax.Stmt, states: States) -> States:
        uses = self.tables.uses
        for place, symbol in self._local_reads(stmt):
            self._read(place, symbol, states)
        for name in read_whole(stmt):
            self._read(name, uses[name], states)
        match stmt:
            case syntax.LocalDecl():
                (symbol,) = self.tables.declares[stmt]
                return {**states, symbol: "undefined" if stmt.init is None else "defined"}
            case syntax.Assign(target=syntax.Element() as target):
                symbol = uses[target.base]
                return {**states, symbol: "defined"} if symbol in states else states
            case syntax.FragDecl():
                (symbol,) = self.tables.declares[stmt]
                init = stmt.init
                state: State = "undefined" if init is None else self._value(init)
                return {**states, symbol: state}
            case syntax.MmaFill() | syntax.MmaLoad():
                return {**states, self.tables.fills[stmt]: "defined"}
            case syntax.Mma():
                self._mma(stmt, states)
                return {**states, uses[stmt.accumulator]: "defined"}
            case syntax.Reduce() | syntax.CopyFragment():
                self._read(stmt.source, uses[stmt.source], states)
                return {**states, uses[stmt.target]: "defined"}
            case syntax.AllReduce():
                self._read(stmt.target, uses[stmt.target], states)
            case syntax.MmaStore():
                self._read(stmt.accumulator, uses[stmt.accumulator], states)
            case syntax.CallStmt():
                touched = {uses[n] for n in own(stmt) if n in uses}
                return {**states, **{s: "defined" for s in touched if s in states}}
            case syntax.Apply():
                return self._apply(stmt, states)
            case syntax.If():
                then = self.block(stmt.then, states)
                other = self.block(stmt.otherwise, states) if stmt.otherwise else states
                return _join(then, other)
            case syntax.Foreach() | syntax.While():
                return _join(self.block(stmt.body, states), states)
            case syntax.Inthreads() | syntax.Parallel():
                return _join(self.block(stmt.body, states), states)
            case syntax.Block():
                return self.block(stmt, states)
        return states

    def _local_reads(self, stmt: syntax.Stmt) -> Iterator[tuple[syntax.Element, Symbol]]:
        """The elements of local buffers that a statement itself reads."""
        written = stmt.target if isinstance(stmt, syntax.Assign) and stmt.op == "=" else None
        for node in own(stmt):
            if isinstance(node, syntax.Element) and node is not written:
                symbol = self.tables.uses[node.base]
                if symbol.kind == "local":
                    yield node, symbol

    def _value(self, expr: syntax.Expr) -> State:
        return "zero" if self.tables.constants.get(expr) == 0 else "defined"

    def _mma(self, stmt: syntax.Mma, states: States) -> None:
        self._read(stmt.accumulator, self.tables.uses[stmt.accumulator], states)
        base = stmt.a.base
        operand = self.tables.uses.get(base)
        if operand is None or operand.kind != "fragment":
            return
        self._read(base, operand, states)
        if states.get(operand) == "zero":
            self.diagnostics.error(
                "dummy-pv",
                stmt,
                f"{operand.name} is all zero when this is first reached: the MMA adds nothing",
                rule="there is no dummy MMA in the first iteration",
                repair="a QK prologue before the loop, in the loop QK of this tile and PV of the "
                "tile before, after it a final PV",
            )

    def _apply(self, stmt: syntax.Apply, states: States) -> States:
        states = dict(states)
        for place, symbol, value in self._elements(stmt.body):
            if value is None:
                self._read(place, symbol, states)
            else:
                new = self._value(value)
                # A write under a condition may leave elements as they are.
                conditional = any(isinstance(s, syntax.If) for s in stmt.body.body)
                states[symbol] = "defined" if conditional and states.get(symbol) != new else new
        return states

    def _elements(
        self, body: syntax.Block
    ) -> Iterator[tuple[syntax.Element, Symbol, syntax.Expr | None]]:
        """Reads (without a value) and writes (with one), each statement's reads first."""
        for node in syntax.walk(body):
            if isinstance(node, syntax.Assign):
                yield from self._reads(node.value)
                if isinstance(node.target, syntax.Element):
                    for index in (node.target.tile, *node.target.indices):
                        yield from self._reads(index) if index is not None else ()
                    symbol = self.tables.uses[node.target.base]
                    if node.op != "=":
                        yield node.target, symbol, None
                    yield node.target, symbol, node.value
            elif isinstance(node, syntax.ScalarDecl):
                yield from self._reads(node.value)
            elif isinstance(node, syntax.If):
                yield from self._reads(node.condition)

    def _reads(self, expr: syntax.Expr) -> Iterator[tuple[syntax.Element, Symbol, None]]:
        for node in syntax.walk(expr):
            if isinstance(node, syntax.Element):
                symbol = self.tables.uses[node.base]
                if symbol.kind != "tensor":
                    yield node, symbol, None

    def _read(self, place: syntax.Node, symbol: Symbol, states: States) -> None:
        if states.get(symbol) == "undefined":
            local = symbol.kind == "local"
            self.diagnostics.error(
                "local-undefined" if local else "fragment-undefined",
                place,
                f"{symbol.name} is read before anything is written to it",
                rule=f"a {'local buffer' if local else 'fragment'} without an initialiser is "
                "undefined",
                repair=f"initialise it: '{'local' if local else 'frag'} .. {symbol.name} "
                f"{{{'0' if local else '0.0f'}}};'",
            )


def _join(one: States, two: States) -> States:
    """What holds on both paths; a difference counts as defined."""
    return {s: one[s] if one[s] == two.get(s) else "defined" for s in one}
