"""The halving pass: one half of a tile is converted beside the exponentials of the other.

A step of a pipeline ends like this, where an MMA ``pv`` with the operand ``p`` is in flight::

    apply {i, j} in s.span s.at(i, j) = __exp2f(..);
    apply {i} in part.span part.at(i) = 0.0f;
    apply {i, j} in s.span part.at(i) = part.at(i) + s.at(i, j);
    apply {i} in sum.span sum.at(i) = sum.at(i) + part.at(i);
    wait pv;
    apply {i, j} in p.span p.at(i, j) = __to<bf16>(s.at(i, j));

In that order the special function unit is busy with the exponentials while the issue slots are
mostly free, and only then come the wait and the conversion. The pass splits what runs over ``s``
at the middle column: the first half's exponentials and sums, the wait, the conversion of the first
half, what is left of the other half, and its conversion. ptxas then places the first conversions
between the second exponentials, and nobody stands at the wait.

A loop over the elements of a row that is cut in two runs through the same elements in the same
order, and no statement changes its order with one that it depends on. A row's sum goes on in the
same variable. The results are the same, bit for bit, as long as nvcc makes the same instructions of
each statement: of a product and a sum that it finds next to each other it makes one FMA, which
rounds once, and whether it does depends on the wait between them. So no product may come there.

Rules [R]. The pass changes the order only where all of them hold:

* The wait is for one MMA and stands in a loop's own body: elsewhere little would be gained. The
  MMA's operand is a fragment, and the first statement behind the wait that names it is an ``apply``
  that assigns its elements from those of one other matrix.
* What stands before the wait, back to the last statement that needs the matrix whole or reads
  memory, is arithmetic on fragments. What names the matrix is split: it assigns elements of
  matrices, or a row's value for every element of the row (no maximum: those are found by two
  chains). One of these has the special function unit work: without that there is nothing to run
  beside.
* No element of these matrices is a product on its own (nor a logarithm, which ends in one): where
  it is added to something, on the other side of the wait or of a half, nvcc could contract it in
  one order and not in the other. A product within a sum is contracted in either. Nor is a row's
  value made a product between the split statements: the wait may look at it.
* What depends on a second half, by a fragment or by a scalar that one writes and the other names,
  is moved behind it. Whatever a moved statement passes (first halves, what stands between the wait
  and the conversion, the conversion's first half) may not depend on it in this sense.
* Between the wait and the conversion are only triggers and arithmetic on fragments.

The pass reads complete tables of the tree, in which no rule is broken: nothing before the wait
touches what its MMA holds, elements stand in ``apply`` alone, and at its own coordinates, and an
operand has a multiple of 16 columns. The new tree is analysed for itself
(:mod:`artifact.choreo.analysis`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

from artifact.choreo import syntax
from artifact.choreo.contraction import hands_on_product, holds_product
from artifact.choreo.fragments import MATRICES
from artifact.choreo.moves import Added, Moved, edited
from artifact.choreo.tables import FragmentPlan, Symbol, Tables
from artifact.choreo.traverse import changed_name, statements

_SPECIAL = ("__exp2f", "__exp", "__log", "__sqrt", "__rsqrt")
"""What the special function unit computes."""
_REGISTERS = ("parameter", "dimension", "scalar", "mutable", "level", "loop", "coordinate")
"""Kinds of names that, with fragments, are no memory that somebody else may change."""
_ARITHMETIC = syntax.Apply | syntax.CopyFragment | syntax.Reduce | syntax.AllReduce


def halve_conversions(tables: Tables) -> Moved | None:
    """A function whose conversions run by halves; null where none can.

    Args:
        tables: Of the function, complete and without an error.
    """
    removed: set[syntax.Stmt] = set()
    added: Added = {}
    notes: dict[syntax.Stmt, str] = {}
    for loop in statements(tables.function.body):
        if not isinstance(loop, syntax.Foreach | syntax.While):
            continue
        for position, stmt in enumerate(loop.body.body):
            plan = _plan(tables, loop.body.body, position, stmt)
            if plan is None or not removed.isdisjoint(plan.removed):
                continue
            removed.update(plan.removed)
            notes.update(plan.notes)
            for place, stmts in plan.added.items():
                added.setdefault((loop.body, place), []).extend(stmts)
    if not notes:
        return None
    return Moved(edited(tables.function, removed, added), notes)


# What depends on what --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Touched:
    """What a statement, or a half of one, names; a matrix is two halves, all else is in both."""

    named: frozenset[tuple[Symbol, int]]
    written: frozenset[tuple[Symbol, int]]

    def meets(self, others: Sequence[_Touched]) -> bool:
        """Whether it has to keep its order with one of the others."""
        return any(self.written & other.named or other.written & self.named for other in others)


def _touched(tables: Tables, stmt: syntax.Stmt, half: int | None = None) -> _Touched:
    """Of a whole statement, or of one half of an ``apply`` over a matrix's columns."""
    named: set[Symbol] = set()
    written: set[Symbol] = set()
    for node in syntax.walk(stmt):
        if node in tables.uses:
            named.add(tables.uses[node])
        name = changed_name(node)
        if isinstance(node, syntax.Reduce | syntax.AllReduce | syntax.CopyFragment):
            name = node.target
        if name in tables.uses:
            written.add(tables.uses[name])

    def halves(symbols: set[Symbol]) -> frozenset[tuple[Symbol, int]]:
        found: set[tuple[Symbol, int]] = set()
        for symbol in symbols:
            plan = tables.fragments.get(symbol)
            split = half is not None and plan is not None and plan.layout in MATRICES
            found.update((symbol, part) for part in (0, 1) if not split or part == half)
        return frozenset(found)

    return _Touched(halves(named), halves(written))


# The pattern -----------------------------------------------------------------------------------


@dataclass
class _Plan:
    """The changes of one block for one wait."""

    removed: list[syntax.Stmt]
    added: dict[int, list[syntax.Stmt]]
    """By position in the block: before what stands there."""
    notes: dict[syntax.Stmt, str]


def _plan(
    tables: Tables, body: Sequence[syntax.Stmt], position: int, wait: syntax.Stmt
) -> _Plan | None:
    operation = _operation(tables, wait)
    operand = tables.mmas[operation].a if operation else None
    if operation is None or not isinstance(operand, Symbol):
        return None
    place = _conversion(tables, body, position, operand)
    if place is None:
        return None
    conversion = body[place]
    assert isinstance(conversion, syntax.Apply)  # _conversion: it is one
    matrix = _source(tables, conversion, operand)
    if matrix is None:
        return None
    before = _before(tables, body[:position], matrix)
    split = [s for s in before if isinstance(s, syntax.Apply) and _names(tables, s, matrix)]
    if not any(_special(s) for s in split) or _multiplies(tables, body, split):
        return None
    if any(
        isinstance(node, syntax.Assign) and hands_on_product(tables, node)
        for stmt in before[before.index(split[0]) + 1 :]
        for node in syntax.walk(stmt)
    ):
        # The wait would come to look at it, between it and the sum that needs a second half.
        return None
    delayed = _delayed(tables, before, split)
    if delayed is None:
        return None
    late = [_touched(tables, s, 1 if s in split else None) for s in delayed]
    passed = [_touched(tables, s) for s in body[position + 1 : place]]
    passed.append(_touched(tables, conversion, 0))
    if any(other.meets(late) for other in passed):
        return None
    return _halved(tables.fragments[matrix], body, place, split, delayed, wait)


def _operation(tables: Tables, wait: syntax.Stmt) -> syntax.Mma | None:
    """The one MMA that a statement waits for."""
    if not isinstance(wait, syntax.Wait) or len(wait.targets) != 1:
        return None
    completes = tables.waits[wait.targets[0]].completes
    return completes[0] if len(completes) == 1 else None


def _conversion(
    tables: Tables, body: Sequence[syntax.Stmt], position: int, operand: Symbol
) -> int | None:
    """Where the first statement stands that names the operand behind a wait, if all before may."""
    for place in range(position + 1, len(body)):
        stmt = body[place]
        if _names(tables, stmt, operand):
            return place if isinstance(stmt, syntax.Apply) else None
        if not isinstance(stmt, _ARITHMETIC | syntax.Trigger):
            return None
    return None


def _source(tables: Tables, stmt: syntax.Apply, operand: Symbol) -> Symbol | None:
    """The one other matrix that an ``apply`` reads, if it only assigns the operand from that."""
    match stmt.body.body:
        case (syntax.Assign(target=syntax.Element() as target, op="="),):
            pass
        case _:
            return None
    if tables.uses[target.base] is not operand or stmt.part is not None:
        return None
    read = {
        symbol
        for node in syntax.walk(stmt.body)
        if (symbol := tables.uses.get(node)) in tables.fragments
        and tables.fragments[symbol].layout in MATRICES
        and symbol is not operand
    }
    return read.pop() if len(read) == 1 and _in_registers(tables, stmt) else None


def _before(tables: Tables, stmts: Sequence[syntax.Stmt], matrix: Symbol) -> Sequence[syntax.Stmt]:
    """The longest end of some statements in which all may be split or stay as they are."""
    first = len(stmts)
    while first:
        stmt = stmts[first - 1]
        if not isinstance(stmt, _ARITHMETIC) or not _in_registers(tables, stmt):
            break
        if _names(tables, stmt, matrix) and not _splits(tables, stmt, matrix):
            break
        first -= 1
    return stmts[first:]


def _splits(tables: Tables, stmt: syntax.Stmt, matrix: Symbol) -> bool:
    """Whether a statement may run over the columns of one half, then over those of the other."""
    if not isinstance(stmt, syntax.Apply) or stmt.part is not None:
        return False
    for inner in stmt.body.body:
        match inner:
            case syntax.Assign(target=syntax.Element() as target, value=value):
                pass
            case _:
                return False
        if tables.fragments[tables.uses[target.base]].layout in MATRICES:
            continue
        # Once a row and once an element are not the same: it must be the latter.
        if not _names(tables, value, matrix) or _is_extreme(value):
            return False
    return True


def _is_extreme(value: syntax.Expr) -> bool:
    return isinstance(value, syntax.BuiltinCall) and value.name in ("__max", "__min")


def _special(stmt: syntax.Stmt) -> bool:
    return any(isinstance(n, syntax.BuiltinCall) and n.name in _SPECIAL for n in syntax.walk(stmt))


def _names(tables: Tables, node: syntax.Node, symbol: Symbol) -> bool:
    return any(tables.uses.get(inner) is symbol for inner in syntax.walk(node))


def _in_registers(tables: Tables, stmt: syntax.Stmt) -> bool:
    """Whether a statement reads and writes nothing but fragments and scalars."""
    symbols = (tables.uses[n] for n in syntax.walk(stmt) if n in tables.uses)
    return all(s in tables.fragments or s.kind in _REGISTERS for s in symbols)


def _multiplies(tables: Tables, body: Sequence[syntax.Stmt], split: Sequence[syntax.Apply]) -> bool:
    """Whether what the split statements work on may be a product that the loop's body made."""
    named = {tables.uses[n] for stmt in split for n in syntax.walk(stmt) if n in tables.uses}
    matrices = [
        s for s in named if s in tables.fragments and tables.fragments[s].layout in MATRICES
    ]
    # Of a row's value, which goes from element to element, what they themselves make.
    rows = (s for stmt in split for s in stmt.body.body if isinstance(s, syntax.Assign))
    return holds_product(tables, body, matrices) or any(hands_on_product(tables, s) for s in rows)


def _delayed(
    tables: Tables, before: Sequence[syntax.Stmt], split: Sequence[syntax.Stmt]
) -> list[syntax.Stmt] | None:
    """What has to come behind the wait: second halves, and what depends on one, in order.

    Null where a first half would have to.
    """
    delayed: list[syntax.Stmt] = []
    late: list[_Touched] = []
    for stmt in before:
        halved = stmt in split
        early = _touched(tables, stmt, 0 if halved else None)
        if early.meets(late):
            if halved:
                return None
        elif not halved:
            continue
        delayed.append(stmt)
        late.append(_touched(tables, stmt, 1 if halved else None))
    return delayed


# The new order ---------------------------------------------------------------------------------


def _halved(
    plan: FragmentPlan,
    body: Sequence[syntax.Stmt],
    place: int,
    split: Sequence[syntax.Stmt],
    delayed: Sequence[syntax.Stmt],
    wait: syntax.Stmt,
) -> _Plan:
    conversion = body[place]
    made = _Plan([*delayed, conversion], {}, {})
    width = plan.columns // 2
    columns = [f"Columns {half * width} to {half * width + width - 1}" for half in (0, 1)]

    def add(at: int, stmt: syntax.Stmt, note: str) -> None:
        made.added.setdefault(at, []).append(stmt)
        made.notes[stmt] = note

    for stmt in split:
        note = f"{columns[0]}: the others follow the wait of line {wait.span.line}."
        add(body.index(stmt), _half(stmt, width, 0), note)
    note = f"{columns[0]}, beside the arithmetic of the others."
    add(place, _half(conversion, width, 0), note)
    for stmt in delayed:
        if stmt in split:
            add(place, _half(stmt, width, 1), f"{columns[1]}, from before the wait.")
        else:
            add(place, stmt, f"From before the wait: it needs all {plan.columns} columns.")
    add(place, _half(conversion, width, 1), f"{columns[1]}.")
    return made


def _half(stmt: syntax.Stmt, width: int, half: int) -> syntax.Apply:
    """``apply {i, j} in x.subspan(_, width).at(0, half) ..``, where it stands in the source."""
    assert isinstance(stmt, syntax.Apply)  # only those are split
    span = stmt.span
    columns, first, second = (syntax.int_literal(span, value) for value in (width, 0, half))
    part = syntax.Subspan(span, (syntax.Wildcard(span), columns), None, (first, second))
    # Nodes of its own, as every place has.
    return replace(copy.deepcopy(stmt), part=part)
