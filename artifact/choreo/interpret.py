"""The interpreter: runs a ``__co__`` function on the CPU, to test what its events and futures do.

Every warp of a block runs on its own, and so do TMA loads, stores and MMAs: who is next is drawn
from a seed. A load lands some time after it was issued, an MMA reads its operands some time before
it is waited for, a store reads its tile some time before its thread goes on. What a program may not
rely on is an error with its place: a tile that is read before anything says that it has arrived,
or overwritten before anything says that it is free (found by vector clocks, whatever order the run
took); an event whose generations and whose barrier differ; arrivals beyond its count; fragments
that are touched while an MMA uses them; a deadlock.

It runs what the tables of the analysis say (arrival counts, wait depths, leaders, barriers), and
none of the text that is emitted: an error here is one of the program or of the analysis. It needs
tables without gaps, but not a program without errors: a wrong program can be watched failing.

Not modelled: layouts in shared memory and registers, proxies and their fences, C++ helpers, values
that differ between the lanes of a warp, but for fragments and for what an ``apply`` writes.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artifact.choreo import syntax
from artifact.choreo.interpret_apply import ApplyPlan
from artifact.choreo.interpret_block import BlockState
from artifact.choreo.interpret_error import InterpreterError, Report
from artifact.choreo.interpret_groups import bits, groups_of, role_of
from artifact.choreo.interpret_memory import from_bf16_bits, round_bf16, to_bf16_bits
from artifact.choreo.interpret_schedule import Runner
from artifact.choreo.interpret_statements import body
from artifact.choreo.interpret_threads import Threads
from artifact.choreo.interpret_values import cast
from artifact.choreo.tables import Launch, Symbol, Tables
from artifact.choreo.traverse import statements
from artifact.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["InterpreterError", "Outcome", "run"]

TURNS = 2_000_000
"""Turns of one block after which a run is called endless."""


@dataclass(frozen=True)
class Outcome:
    """What a run left behind.

    Attributes:
        tensors: Every tensor parameter after the run, in the representation it was given in.
        blocks: Blocks of the grid.
        turns: Turns of all threads and operations, of all blocks.
    """

    tensors: dict[str, Array]
    blocks: int
    turns: int


def run(
    file: syntax.File,
    tables: Mapping[syntax.Function, Tables],
    function: str,
    tensors: Mapping[str, Array],
    scalars: Mapping[str, int | float | bool] | None = None,
    *,
    seed: int,
) -> Outcome:
    """Run a function block by block.

    Args:
        file: The syntax tree.
        tables: What the analysis found about its functions.
        function: The name of the ``__co__`` function.
        tensors: By parameter name; bf16 as ``uint16`` bits or as ``float32`` (which is rounded to
            bf16), other types as NumPy's. They are not changed.
        scalars: Scalar parameters by name.
        seed: Draws the order of blocks, threads and operations. The same seed, the same run.

    Raises:
        InterpreterError: the run broke a rule; it says where, in which block, and with which seed.
        UsageError: the function or an argument is missing, shapes do not fit the parameters, or
            the analysis did not get through.
    """
    node = next(
        (p for p in file.parts if isinstance(p, syntax.Function) and p.name == function), None
    )
    if node is None or node not in tables:
        raise UsageError(
            f"there is no __co__ function {function}", where=file.path, found="no such function"
        )
    return _Launch(file.path, tables[node], dict(tensors), dict(scalars or {}), seed).run()


class _Launch:
    """One launch: its arguments, its host code, and its grid."""

    def __init__(
        self,
        path: str,
        tables: Tables,
        tensors: dict[str, Array],
        scalars: dict[str, int | float | bool],
        seed: int,
    ) -> None:
        if tables.launch is None:
            raise UsageError(f"{tables.function.name} launches no kernel", where=path)
        _complete(path, tables)
        self.path = path
        self.tables = tables
        self.launch: Launch = tables.launch
        self.seed = seed
        self.rng = random.Random(seed)  # noqa: S311 - an order to test, nothing secret
        self.given = tensors
        self.applies: dict[syntax.Apply, ApplyPlan] = {}
        self.tensors: dict[Symbol, Array] = {}
        self.variables: dict[Symbol, Any] = {}
        for parameter in tables.function.params:
            (symbol, *_) = tables.declares[parameter]
            if isinstance(parameter, syntax.ScalarParam):
                self._scalar(symbol, scalars)
            else:
                self._tensor(symbol)
        for parameter in tables.function.params:
            if isinstance(parameter, syntax.TensorParam):
                self._dimensions(parameter)

    # Arguments ---------------------------------------------------------------------------------

    def _missing(self, symbol: Symbol) -> UsageError:
        return UsageError(
            f"{self.tables.function.name} needs {symbol.name}",
            where=f"{self.path}:{symbol.node.span.line}",
            expected=f"an argument of type {symbol.type}",
            found="none",
        )

    def _scalar(self, symbol: Symbol, scalars: dict[str, int | float | bool]) -> None:
        if symbol.name not in scalars:
            raise self._missing(symbol)
        self.variables[symbol] = cast(scalars[symbol.name], symbol.type)

    def _tensor(self, symbol: Symbol) -> None:
        import numpy as np

        if symbol.name not in self.given:
            raise self._missing(symbol)
        given = np.asarray(self.given[symbol.name])
        if symbol.type == "bf16":
            bits = given.dtype == np.uint16
            given = from_bf16_bits(given) if bits else round_bf16(given)
        self.tensors[symbol] = np.array(given, order="C")

    def _dimensions(self, parameter: syntax.TensorParam) -> None:
        """Dimension symbols get their values; shapes are those of the parameters."""
        symbol = self.tables.declares[parameter][0]
        shape = self.tensors[symbol].shape
        expected = []
        for position, extent in enumerate(parameter.extents):
            name = self.tables.uses.get(extent)
            found = shape[position] if position < len(shape) else 0
            if name is not None and name.kind == "dimension":
                expected.append(self.variables.setdefault(name, found))
            else:
                expected.append(self.tables.constants.get(extent, found))
        if tuple(expected) != shape:
            raise UsageError(
                f"{symbol.name} has another shape than its parameter",
                where=f"{self.path}:{parameter.span.line}",
                expected=str(tuple(expected)),
                found=str(shape),
            )

    # The grid ----------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Host code, and then all blocks, in some order."""
        bounds = self._host()
        places = list(itertools.product(*(range(bound) for bound in bounds)))
        self.rng.shuffle(places)
        turns = sum(self._block(place, bounds) for place in places)
        return Outcome(self._results(), len(places), turns)

    def _host(self) -> list[int]:
        """Scalars and assertions in front of the kernel; the bounds of the grid."""
        report = Report(self.path, "host code", self.seed)
        state = self._state(report)
        host = Threads(state, 1, self.variables)
        for stmt in self.tables.function.body.body:
            if stmt is self.launch.node:
                break
            for _ in body(host, syntax.Block(stmt.span, (stmt,))):
                pass
        return [host.values.integer(bound) for _, bound in self.launch.grid]

    def _state(self, report: Report) -> BlockState:
        return BlockState(self.tables, self.tensors, report, self.rng, self.applies)

    def _block(self, place: tuple[int, ...], bounds: list[int]) -> int:
        grid = [symbol for symbol, _ in self.launch.grid]
        named = ", ".join(f"{s.name} {n}" for s, n in zip(grid, place, strict=True))
        report = Report(self.path, f"block {named}", self.seed)
        state = self._state(report)
        groups = []
        for mask in groups_of(self.tables, self.launch.threads):
            variables = {**self.variables, **dict(zip(grid, place, strict=True))}
            group = Threads(state, mask, variables)
            group.values.bounds.update(zip(grid, bounds, strict=True))
            for symbol, plan in self.tables.levels.items():
                values = {t // plan.unit % plan.bound for t in bits(mask)}
                if len(values) == 1:
                    variables[symbol] = values.pop()
            groups.append(group)
        for event, meeting in state.events.named.items():
            planned = state.events.plans[event]
            for group in groups:
                if planned.ready and planned.triggering & group.mask:
                    # Its first generation is complete from here on.
                    meeting.arrive(group, group.mask, event.node)
        function = self.tables.function
        runners = [
            Runner(
                group.mask,
                functools.partial(role_of, function, self.tables, group.first),
                body(group, self.launch.node.body),
            )
            for group in groups
        ]
        state.schedule.run(runners, TURNS)
        state.check_end(list(groups))
        return state.schedule.turns

    def _results(self) -> dict[str, Array]:
        import numpy as np

        results = {}
        for symbol, values in self.tensors.items():
            bits = symbol.type == "bf16" and self.given[symbol.name].dtype == np.uint16
            results[symbol.name] = to_bf16_bits(values) if bits else values
        return results


def _complete(path: str, tables: Tables) -> None:
    """Every statement has its plan; an analysis that gave up has left gaps."""
    for stmt in statements(tables.function.body):
        gap = (
            (isinstance(stmt, syntax.Transfer) and stmt not in tables.transfers)
            or (isinstance(stmt, syntax.Mma) and stmt not in tables.mmas)
            or (isinstance(stmt, syntax.MmaLoad) and stmt.source not in tables.views)
            or (isinstance(stmt, syntax.MmaStore) and stmt.destination not in tables.views)
            or (
                isinstance(stmt, syntax.Trigger)
                and any(tables.uses.get(t.name) not in tables.events for t in stmt.targets)
            )
        )
        if gap:
            raise UsageError(
                f"the analysis of {tables.function.name} did not get through",
                where=f"{path}:{stmt.span.line}:{stmt.span.column}",
                expected="tables without gaps",
                found="a statement without a plan",
                next="compile the file: its errors say what is wrong",
            )
