"""The register owners pass: who reads a fragment or a local buffer has written it.

Rules (co-language.md, 10, where a fragment lies in registers; the rest is ours [R]):

* Registers are of one thread: nobody sees those of another warpgroup or role. All threads that read
  a fragment or a local buffer are among those that give it a value: by an initialiser,
  ``mma.fill``, ``mma.load``, ``copy``, a reduction, an assignment, or a helper that gets it.
* What some threads write into one and no thread of theirs reads, while others read it who have
  written nothing else, was meant for those others.

The order of statements does not count here, so that a finding is one in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from artifact.choreo import syntax
from artifact.choreo.comparisons import read_whole
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.threads import warpgroups, whole
from artifact.choreo.traverse import own, passed, statements

Role = Literal["start", "write", "update", "read"]
"""``start``: an initialiser. ``update``: what is there is changed, as by an accumulating MMA."""


@dataclass(frozen=True, eq=False)
class _Access:
    place: syntax.Node
    role: Role
    mask: int


def check_owners(tables: Tables, diagnostics: Diagnostics) -> None:
    """Check every fragment and local buffer; threads are planned."""
    accesses: dict[Symbol, list[_Access]] = {}
    for place, symbol, role, mask in _Owners(tables).all():
        accesses.setdefault(symbol, []).append(_Access(place, role, mask))
    for symbol, found in accesses.items():
        _check(diagnostics, symbol, found)


def _check(diagnostics: Diagnostics, symbol: Symbol, found: list[_Access]) -> None:
    given = [a for a in found if a.role in ("start", "write")]
    owners = _union(given)
    reads = [a for a in found if a.role == "read"]
    for access in found:
        missing = access.mask & ~owners
        if access.role in ("read", "update") and missing and owners:
            writer = given[0]
            _report(
                diagnostics,
                access.place,
                f"{symbol.name} is read by {_who(missing)}; what line {writer.place.span.line} "
                f"writes is in the registers of {_who(writer.mask)}",
                symbol,
            )
            return
    readers = _union(reads)
    written = [a for a in found if a.role in ("write", "update")]
    for access in written:
        # The readers may have written something else of their own, apart from the one at hand.
        apart = (w for w in written if w.mask & readers and access.mask & ~w.mask)
        if readers and not access.mask & readers and not any(apart):
            _report(
                diagnostics,
                access.place,
                f"{symbol.name} is written by {_who(access.mask)}, none of which reads it; what "
                f"line {reads[0].place.span.line} reads is in the registers of "
                f"{_who(reads[0].mask)}",
                symbol,
            )
            return


def _report(diagnostics: Diagnostics, place: syntax.Node, message: str, symbol: Symbol) -> None:
    diagnostics.error(
        "written-elsewhere",
        place,
        message,
        rule="a thread sees its own registers alone: who reads a fragment or a local buffer has "
        "written it",
        repair=f"write {symbol.name} in the role that reads it, or hand the values over in shared "
        "memory",
    )


def _union(accesses: list[_Access]) -> int:
    mask = 0
    for access in accesses:
        mask |= access.mask
    return mask


def _who(mask: int) -> str:
    """A set of threads in words."""
    if not whole(mask, 128):
        count = mask.bit_count()
        return f"thread {mask.bit_length() - 1}" if count == 1 else f"{count} threads"
    first, *others = map(str, warpgroups(mask))
    if not others:
        return f"warpgroup {first}"
    return f"warpgroups {', '.join([first, *others[:-1]])} and {others[-1]}"


Found = tuple[syntax.Node, Symbol, Role]


class _Owners:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        launch = tables.launch
        self.everyone = (1 << launch.threads) - 1 if launch is not None else 0

    def all(self) -> Iterator[tuple[syntax.Node, Symbol, Role, int]]:
        """Every access, with the threads that get there."""
        inside: set[syntax.Stmt] = set()
        for stmt in statements(self.tables.function.body):
            if stmt in inside:
                continue
            if isinstance(stmt, syntax.Apply):
                inside.update(statements(stmt.body))
            mask = self.tables.threads.get(stmt)
            for place, symbol, role in self._accesses(stmt):
                if mask is not None:
                    yield place, symbol, role, mask
                elif role in ("start", "write"):
                    # Who gets there is not known: it may be anybody.
                    yield place, symbol, role, self.everyone

    def _accesses(self, stmt: syntax.Stmt) -> Iterator[Found]:
        """What a statement itself reads and writes, its reads first."""
        uses = self.tables.uses
        for name in read_whole(stmt):
            yield name, uses[name], "read"
        match stmt:
            case syntax.FragDecl() | syntax.LocalDecl():
                if stmt.init is not None:
                    yield stmt, self.tables.declares[stmt][0], "start"
            case syntax.MmaFill() | syntax.MmaLoad():
                yield stmt, self.tables.fills[stmt], "write"
            case syntax.Mma():
                operand = uses.get(stmt.a.base)
                if operand is not None and operand.kind == "fragment":
                    yield stmt.a, operand, "read"
                yield stmt.accumulator, uses[stmt.accumulator], "update"
            case syntax.MmaStore():
                yield stmt.accumulator, uses[stmt.accumulator], "read"
            case syntax.Reduce() | syntax.CopyFragment():
                yield stmt.source, uses[stmt.source], "read"
                yield stmt.target, uses[stmt.target], "write"
            case syntax.AllReduce():
                yield stmt.target, uses[stmt.target], "update"
            case syntax.CallStmt():
                yield from self._passed(stmt)
        if isinstance(stmt, syntax.Apply):
            yield from self._elements(list(statements(stmt.body)))
        else:
            yield from self._elements([stmt])

    def _passed(self, stmt: syntax.CallStmt) -> Iterator[Found]:
        """A helper may read and write what it gets."""
        for arg, symbol in passed(self.tables, stmt):
            if symbol.kind in ("fragment", "local"):
                yield arg, symbol, "write"
                yield arg, symbol, "read"

    def _elements(self, stmts: list[syntax.Stmt]) -> Iterator[Found]:
        """Elements that statements touch: a write behind a read of the same is an update."""
        seen: set[Symbol] = set()
        for stmt in stmts:
            target = stmt.target if isinstance(stmt, syntax.Assign) else None
            written = target if isinstance(target, syntax.Element) else None
            to = None if written is None else self.tables.uses[written.base]
            changes = isinstance(stmt, syntax.Assign) and stmt.op != "="
            for node in own(stmt):
                if not isinstance(node, syntax.Element) or node is written:
                    continue
                symbol = self.tables.uses[node.base]
                if symbol is to:
                    changes = True
                elif symbol.kind != "tensor":
                    yield node, symbol, "read"
                    seen.add(symbol)
            if written is not None and to is not None and to.kind != "tensor":
                yield written, to, "update" if changes or to in seen else "write"
                if not changes:
                    seen.discard(to)
