"""The splitting pass: each warpgroup stores its own rows of a tile, and waits for no other one.

Consumers that share an output tile end like this::

    mma.store acc, tile.subspan(64, 128).at(cid, 0);
    tma.copy tile => O.subspan(128, 128).at(bm, 0);

All warpgroups meet, and one thread stores the tile. No row of it depends on another warpgroup's, so
the pass gives each a tile of its own, in the same bytes of shared memory::

    shared bf16 [64, 128] tile[2];
    mma.store acc, tile[cid];
    tma.copy tile[cid] => O.subspan(64, 128).at(bm * 2 + cid, 0);

A warpgroup then meets with itself alone, and the first of them stores while another still computes.
What is stored, and where, stays the same.

Rules [R]. The pass makes the change only where all of them hold:

* The tile is one buffer, no array, and these two statements, the second right behind the first, are
  all that names it. The first stores 64 rows of all columns, in the row block ``cid``; the second
  stores the whole tile at a multiple of its rows.
* The threads are whole warpgroups, and ``cid`` counts them from zero: each row block has one owner.
  They store one tile, not one each.
* Nothing else may depend on their meeting. The function's threads write no other shared buffer and
  no element of a tensor, and call nothing but ``setreg_dec`` and ``setreg_inc``. They neither read
  nor load from the stored tensor: a store may come before another warpgroup has read.
* All these threads execute what one of them waits for, triggers or loads. Then each warpgroup knows
  by itself what it waited for, and what all of them hand back is free of each. They may wait and
  trigger apart where the store stands in no loop and nothing behind it needs what one of them
  knows: then the meeting comes after all that they order.
* None of their loads completes an event: one thread issues it, and only the meeting says that the
  other warpgroups are there.
* A load of as many rows as the tile has demands of the host function what the whole tile did: that
  the dimension is a multiple of them. Smaller tiles would demand less, and end in the next batch.
  Neither begins at a constant row, which the host function compares with the dimension instead.

The pass reads complete tables, in which no rule is broken; the changed tree is analysed for itself
(:mod:`artifact.choreo.analysis`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

from artifact.choreo import syntax
from artifact.choreo.calls import REGISTER_CALLS
from artifact.choreo.mma import origin_terms
from artifact.choreo.moves import Added, Moved, edited
from artifact.choreo.tables import Symbol, Tables, ViewPlan
from artifact.choreo.threads import ThreadValues, warpgroups, whole
from artifact.choreo.traverse import Places, changed_name, own, statements

_ROWS = 64
"""Of an accumulator: what a warpgroup stores."""
_ORDERED = syntax.Wait | syntax.Trigger | syntax.Transfer | syntax.Mma | syntax.MmaLoad
"""What may need to know that other threads were somewhere before; calls are asked for anyway."""
_NOTE = "Each warpgroup stores its own rows, and meets with itself alone."


def split_stores(tables: Tables, places: Places) -> Moved | None:
    """A function in which warpgroups store their own rows; null where nothing changes.

    Args:
        tables: Of the function, complete and without an error.
        places: Of the function's statements.
    """
    splitting = _Splitting(tables, places)
    removed: set[syntax.Stmt] = set()
    added: Added = {}
    notes: dict[syntax.Stmt, str] = {}
    for store in tables.transfers:
        tile = splitting.tile(store)
        if tile is None or not splitting.may_split(tile):
            continue
        for old, new in _replacements(tile):
            removed.add(old)
            added[places.block(old), places.index(old)] = [new]
            notes[new] = _NOTE
    return Moved(edited(tables.function, removed, added), notes) if notes else None


@dataclass(frozen=True)
class _Tile:
    """A tile that several warpgroups fill and one thread stores."""

    decl: syntax.SharedDecl
    fill: syntax.MmaStore
    store: syntax.Transfer
    place: syntax.Subspan
    """Where in the tensor it goes: the last operation of the store's destination."""
    owner: syntax.Expr
    """The number of a warpgroup's row block."""
    warpgroups: int


class _Splitting:
    def __init__(self, tables: Tables, places: Places) -> None:
        self.tables = tables
        self.places = places
        self.values = ThreadValues(tables, places)

    def tile(self, store: syntax.Transfer) -> _Tile | None:
        """What a transfer stores, if both sides are what the rules say."""
        plan, index = self.tables.transfers[store], self.places.index(store)
        symbol = plan.source.root
        fill = self.places.block(store).body[index - 1] if index else None
        if plan.kind != "tma-store" or not isinstance(fill, syntax.MmaStore):
            return None
        if len(plan.leaders) > 1:
            return None
        match symbol.node, fill.destination, store.source, store.destination:
            case (
                syntax.SharedDecl(tiles=None) as decl,
                syntax.View(
                    base=syntax.Name() as base,
                    ops=(syntax.Subspan(steps=None, indices=(owner, zero)),),
                ),
                syntax.View(base=syntax.Name() as stored, ops=()),
                syntax.View(ops=(*_, syntax.Subspan(steps=None, indices=(_, _)) as place)),
            ):
                pass
            case _:
                return None
        if any(self.tables.uses[name] is not symbol for name in (base, stored)):
            return None
        if self.tables.constants.get(zero) != 0:
            return None
        if self.tables.views[fill.destination].extents != (_ROWS, plan.columns):
            return None
        owners = self._owners(owner, self.tables.threads[fill])
        if len(owners) < 2 or [_ROWS * n for n in owners] != list(range(0, plan.rows, _ROWS)):
            return None
        return _Tile(decl, fill, store, place, owner, len(owners))

    def _owners(self, owner: syntax.Expr, mask: int | None) -> list[int | float | bool]:
        """The row block of each warpgroup; none where one has several, or part of its threads."""
        known = self.values.of(owner)
        if mask is None or known is None or not whole(mask, 128):
            return []
        blocks = [set(known[128 * group : 128 * group + 128]) for group in warpgroups(mask)]
        return [n for block in blocks for n in block] if all(len(b) == 1 for b in blocks) else []

    def may_split(self, tile: _Tile) -> bool:
        """Whether nothing else needs the warpgroups' meeting, or the tile as a whole."""
        symbol = self.tables.transfers[tile.store].source.root
        named = [node for node, used in self.tables.uses.items() if used is symbol]
        both = (tile.fill, tile.store)
        others = [s for s in statements(self.tables.function.body) if s not in both]
        return (
            len(named) == 2
            and not any(self._needs_meeting(stmt, tile) for stmt in others)
            and any(self._checks_whole_tiles(stmt, tile) for stmt in others)
        )

    def _needs_meeting(self, stmt: syntax.Stmt, tile: _Tile) -> bool:
        """Whether a statement may need that the warpgroups which store have met."""
        if isinstance(stmt, syntax.CallStmt):
            return stmt.name.id not in REGISTER_CALLS
        storing = self.tables.threads[tile.store] or 0
        together = (self.tables.threads.get(stmt) or 0) & storing
        stored = self.tables.transfers[tile.store].target.root
        if isinstance(stmt, syntax.Transfer):
            plan = self.tables.transfers[stmt]
            if plan.kind != "tma-load" or plan.source.root is stored:
                return True
            if together and plan.slot is not None:
                return True
        if isinstance(stmt, syntax.Wait | syntax.Trigger | syntax.Transfer):
            apart = together not in (0, storing)
            return apart and (isinstance(stmt, syntax.Transfer) or not self._orders_nothing(tile))
        elements = (node.base for node in own(stmt) if isinstance(node, syntax.Element))
        if any(self.tables.uses[base] is stored for base in elements):
            return True
        changed = (self.tables.uses.get(name) for name in map(changed_name, own(stmt)) if name)
        tensors = any(symbol and symbol.kind == "tensor" for symbol in changed)
        return tensors or isinstance(stmt, syntax.MmaStore)

    def _orders_nothing(self, tile: _Tile) -> bool:
        """Whether the meeting orders nothing: it comes once, and nothing follows that needs it."""
        if any(self.places.loops(tile.store)):
            return False
        storing = self.tables.threads[tile.store] or 0
        everything = list(statements(self.tables.function.body))
        behind = everything[everything.index(tile.store) + 1 :]
        return not any(
            isinstance(stmt, _ORDERED) and (self.tables.threads.get(stmt) or 0) & storing
            for stmt in behind
        )

    def _checks_whole_tiles(self, stmt: syntax.Stmt, tile: _Tile) -> bool:
        """Whether a load makes the host function check what the whole tile's store did."""
        if not isinstance(stmt, syntax.Transfer):
            return False
        store = self.tables.transfers[tile.store]
        load = self.tables.transfers[stmt].source
        dim, rows = load.dims[0], store.rows
        multiples = (self._multiple(view, view.dims[0], rows) for view in (load, store.target))
        size = self._size(load, dim)
        return (
            load.extents[0] == rows
            and size is not None
            and size is self._size(store.target, store.target.dims[0])
            and all(multiples)
        )

    def _size(self, view: ViewPlan, dim: int) -> Symbol | None:
        """The dimension symbol of a tensor's extent."""
        node = view.root.node
        if not isinstance(node, syntax.TensorParam):
            return None
        return self.tables.uses.get(node.extents[dim])

    def _multiple(self, view: ViewPlan, dim: int, rows: int) -> bool:
        """Whether a view begins at a multiple of ``rows``, at one that depends on an index."""
        terms = origin_terms(self.tables, view, dim)
        known = [self.tables.constants.get(term.index) for term in terms]
        return any(value is None for value in known) and all(
            isinstance(term.scale, int)
            and term.scale * (1 if value is None else int(value)) % rows == 0
            for term, value in zip(terms, known, strict=True)
        )


def _replacements(tile: _Tile) -> Iterator[tuple[syntax.Stmt, syntax.Stmt]]:
    """The three statements, each with what comes in its place. All nodes are new."""
    rows = syntax.int_literal(tile.place.span, _ROWS)
    count = syntax.int_literal(tile.place.span, tile.warpgroups)
    decl = tile.decl
    yield decl, replace(decl, extents=(rows, decl.extents[1]), tiles=count)
    yield tile.fill, replace(tile.fill, destination=_own_tile(tile, tile.fill.destination))
    if tile.store.destination is None or tile.place.indices is None:
        raise AssertionError("a store has a destination with a place")
    row, column = tile.place.indices
    span = row.span
    scaled = syntax.Binary(span, "*", row, copy.deepcopy(count))
    place = replace(
        tile.place,
        extents=(copy.deepcopy(rows), tile.place.extents[1]),
        indices=(syntax.Binary(span, "+", scaled, copy.deepcopy(tile.owner)), column),
    )
    destination = replace(tile.store.destination, ops=(*tile.store.destination.ops[:-1], place))
    yield (
        tile.store,
        replace(tile.store, source=_own_tile(tile, tile.store.source), destination=destination),
    )


def _own_tile(tile: _Tile, view: syntax.View) -> syntax.View:
    """``tile[owner]``, in place of a view of the whole tile."""
    if not isinstance(view.base, syntax.Name):
        raise AssertionError("the tile is no array")
    return replace(view, base=syntax.Index(view.span, view.base, copy.deepcopy(tile.owner)), ops=())
