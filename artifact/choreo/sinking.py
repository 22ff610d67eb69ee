"""The sinking pass: an accumulator is rescaled beside the next product instead of before it.

A pipeline with a running maximum ends each trip of its loop like this::

    wait pv;
    apply {i, j} in acc.span acc.at(i, j) = acc.at(i, j) * scale.at(i);

and begins the next one with ``qk = mma..`` and ``pv = mma.. acc, ..``. In that order the warpgroup
multiplies while the tensor cores have nothing of it to do. Nobody needs the product before ``pv``
adds to it, so the pass moves the statement over the loop's end, to just before ``pv``: it then runs
beside ``qk``. The last trip's multiplication follows the loop, before the next use of ``acc``, and
``scale`` is one before the first trip. Every element goes through the same operations in the same
order, and one more multiplication by 1.0f, and nvcc contracts none of them with a sum: the results
are the same, bit for bit. Both new places are in front of the waits that stand right before the
statement that needs the product.

Rules [R]. The statement moves only where all of them hold, else the order is the source's:

* It stands in the loop's own body and multiplies each element of an accumulator by a row vector's
  value of its row, no more.
* Between its two places, from the statement to the body's end and on from its beginning, nothing
  touches the accumulator or writes the vector. The new place is before an MMA of the body that
  accumulates, with another MMA in flight that was issued in the same trip: without one there is
  nothing to run beside.
* The loop has no ``break``, ``continue`` or ``return``.
* Behind the loop, in its block, the first statement that names the accumulator is an MMA or a
  store of it. An addition there would become one FMA with the last trip's product, which nvcc makes
  of no product in the loop; and where nothing names it, another variable may have its name.
* The vector's value from before the loop is never read, so that it can be one: in the body and
  behind the loop the first statement that names it gives it a new value in every row (behind the
  loop, also none where its scope ends there).
* The accumulator comes into the loop filled with a constant that no mode of the hardware changes
  when it multiplies by 1.0f: zero, or no subnormal number.

The pass reads complete tables of the source as it is written, in which no rule is broken: elements
stand in ``apply`` alone, and at its own coordinates. All findings are about that; the
moved tree is analysed for itself (:mod:`artifact.choreo.analysis`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from artifact.choreo import syntax
from artifact.choreo.moves import Added, Moved, edited
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.traverse import JUMPS, Places, statements

_Loop = syntax.Foreach | syntax.While
_SMALLEST_NORMAL = 2.0**-126


def sink_scalings(tables: Tables, places: Places) -> Moved | None:
    """A function with its rescaling moved; null where nothing moves.

    Args:
        tables: Of the function, complete and without an error.
        places: Of the function's statements.
    """
    sinking = _Sinking(tables, places)
    for stmt in statements(tables.function.body):
        if isinstance(stmt, _Loop):
            sinking.loop(stmt)
    if not sinking.notes:
        return None
    return Moved(edited(tables.function, sinking.removed, sinking.added), sinking.notes)


@dataclass(frozen=True)
class _Scaling:
    """``accumulator *= vector``, row by row."""

    stmt: syntax.Apply
    accumulator: Symbol
    vector: Symbol


class _Sinking:
    def __init__(self, tables: Tables, places: Places) -> None:
        self.tables = tables
        self.places = places
        self.removed: set[syntax.Stmt] = set()
        self.added: Added = {}
        self.notes: dict[syntax.Stmt, str] = {}
        self.ones: set[tuple[_Loop, Symbol]] = set()
        """Vectors that are set to one before a loop."""

    def loop(self, loop: _Loop) -> None:
        """Move what a loop's body ends with."""
        if any(isinstance(node, JUMPS) for node in syntax.walk(loop)):
            return
        body = loop.body.body
        for index, stmt in enumerate(body):
            scaling = self._scaling(stmt)
            if scaling is None:
                continue
            target = self._target(body, index, scaling)
            if target is not None and self._enters_unscaled(loop, scaling):
                self._move(loop, target, scaling)

    # Rules -------------------------------------------------------------------------------------

    def _scaling(self, stmt: syntax.Stmt) -> _Scaling | None:
        """A statement as what may move, if it is that."""
        match stmt:
            case syntax.Apply(
                part=None,
                body=syntax.Block(
                    body=(syntax.Assign(target=syntax.Element() as target) as inner,)
                ),
            ):
                factor = _factor(inner)
            case _:
                return None
        uses = self.tables.uses
        if not isinstance(factor, syntax.Element) or uses[stmt.fragment] is not uses[target.base]:
            return None
        accumulator, vector = uses[target.base], uses[factor.base]
        layouts = [self.tables.fragments.get(symbol) for symbol in (accumulator, vector)]
        if [plan.layout if plan else None for plan in layouts] != ["accumulator", "row"]:
            return None
        return _Scaling(stmt, accumulator, vector)

    def _target(
        self, body: Sequence[syntax.Stmt], index: int, scaling: _Scaling
    ) -> syntax.Mma | None:
        """The MMA of the next trip that a statement moves before; null if it cannot."""
        accumulator, vector = scaling.accumulator, scaling.vector
        position = self._first(body, accumulator)
        target = body[position]
        tail = body[index + 1 :]
        if not isinstance(target, syntax.Mma) or self._first(tail, accumulator) < len(tail):
            return None
        if any(self._may_write(stmt, vector) for stmt in (*body[:position], *tail)):
            return None
        beside = set(self.tables.in_flight.get(target, ())) & set(body[:position])
        return target if beside else None

    def _enters_unscaled(self, loop: _Loop, scaling: _Scaling) -> bool:
        """Whether the vector may be one when the loop begins, and the accumulator times it."""
        accumulator, vector = scaling.accumulator, scaling.vector
        block = self.places.block(loop)
        before = block.body[: self.places.index(loop)]
        rest = self.places.after(loop)
        if not self._renewed(loop.body.body, vector):
            return False
        used = self._first(rest, accumulator)
        if used == len(rest) or not isinstance(rest[used], syntax.Mma | syntax.MmaStore):
            return False
        # Where nothing is sure to renew it, its scope must end before anything else can read it.
        unread = self._first(rest, vector) == len(rest) or self._renewed(rest, vector)
        if not self._renewed(rest[: _leaving(rest)], vector) and not (
            unread and vector.node in block.body
        ):
            return False
        last = next((s for s in reversed(before) if self._names(s, accumulator)), None)
        value = self.tables.constants.get(last.value) if isinstance(last, syntax.MmaFill) else None
        return value is not None and (value == 0 or abs(value) >= _SMALLEST_NORMAL)

    def _renewed(self, stmts: Sequence[syntax.Stmt], vector: Symbol) -> bool:
        """Whether the first statement that names a row vector gives every row a value."""
        position = self._first(stmts, vector)
        if position == len(stmts):
            return False
        match stmts[position]:
            case syntax.CopyFragment() | syntax.Reduce() as stmt:
                uses = self.tables.uses
                return uses[stmt.target] is vector and uses[stmt.source] is not vector
            case syntax.Apply() as stmt:
                return self._sets_rows(stmt, vector)
        return False

    def _sets_rows(self, stmt: syntax.Apply, vector: Symbol) -> bool:
        for inner in stmt.body.body:
            if not self._names(inner, vector):
                continue
            match inner:
                case syntax.Assign(target=syntax.Element() as target, op="=", value=value):
                    return self.tables.uses[target.base] is vector and not self._names(
                        value, vector
                    )
            return False
        return False

    def _first(self, stmts: Sequence[syntax.Stmt], symbol: Symbol) -> int:
        """The position of the first statement that names a symbol; their number if none does."""
        found = (n for n, stmt in enumerate(stmts) if self._names(stmt, symbol))
        return next(found, len(stmts))

    def _names(self, node: syntax.Node, symbol: Symbol) -> bool:
        fills = (syntax.MmaFill, syntax.MmaLoad)
        return any(
            self.tables.uses.get(inner) is symbol
            or (isinstance(inner, fills) and self.tables.fills[inner] is symbol)
            for inner in syntax.walk(node)
        )

    def _may_write(self, stmt: syntax.Stmt, symbol: Symbol) -> bool:
        """Whether a statement names a fragment otherwise than to read its elements."""
        nodes = list(syntax.walk(stmt))
        written = {node.target for node in nodes if isinstance(node, syntax.Assign)}
        read = {n.base for n in nodes if isinstance(n, syntax.Element) and n not in written}
        return any(self.tables.uses.get(n) is symbol and n not in read for n in nodes)

    # The move ----------------------------------------------------------------------------------

    def _move(self, loop: _Loop, target: syntax.Mma, scaling: _Scaling) -> None:
        stmt, accumulator, vector = scaling.stmt, scaling.accumulator, scaling.vector
        block = self.places.block(loop)
        after = self.places.index(loop) + 1
        if (loop, vector) not in self.ones:
            self.ones.add((loop, vector))
            note = f"One, so that line {stmt.span.line} changes nothing in the first trip."
            self._add(block, after - 1, _one(vector), note)
        self.removed.add(stmt)
        self._add(
            loop.body,
            _before_waits(loop.body.body, self.places.index(target)),
            stmt,
            "Of the trip before, from the loop's end: it runs beside the MMA in flight.",
        )
        rest = block.body[after:]
        place = min(self._first(rest, accumulator), self._first(rest, vector), _leaving(rest))
        # A node of its own, as every place has.
        self._add(
            block,
            after + _before_waits(rest, place),
            copy.deepcopy(stmt),
            "Of the last trip, from the loop's end.",
        )

    def _add(self, block: syntax.Block, position: int, stmt: syntax.Stmt, note: str) -> None:
        self.added.setdefault((block, position), []).append(stmt)
        self.notes[stmt] = note


def _factor(stmt: syntax.Assign) -> syntax.Expr | None:
    """What an assignment multiplies its target by, if it does that and no more."""
    match stmt.op, stmt.value:
        case "*=", factor:
            return factor
        case "=", syntax.Binary(op="*", left=left, right=right):
            if syntax.same(left, stmt.target):
                return right
            return left if syntax.same(right, stmt.target) else None
    return None


def _leaving(stmts: Sequence[syntax.Stmt]) -> int:
    """The position of the first statement that may leave the block; their number if none does."""
    found = (n for n, s in enumerate(stmts) if any(isinstance(i, JUMPS) for i in syntax.walk(s)))
    return next(found, len(stmts))


def _before_waits(stmts: Sequence[syntax.Stmt], position: int) -> int:
    """The position before the waits right in front of one: arithmetic shortens them."""
    while position and isinstance(stmts[position - 1], syntax.Wait):
        position -= 1
    return position


def _one(vector: Symbol) -> syntax.Apply:
    """``apply {i} in vector.span vector.at(i) = 1.0f;``, from where the vector is declared."""
    span = vector.node.span

    def name(id: str) -> syntax.Name:
        return syntax.Name(span, id)

    row = "i" if vector.name != "i" else "row"
    element = syntax.Element(span, name(vector.name), None, (name(row),))
    assign = syntax.Assign(span, element, "=", syntax.FloatLit(span, "1.0f", 1.0, "f"))
    return syntax.Apply(span, (row,), name(vector.name), None, syntax.Block(span, (assign,)))
