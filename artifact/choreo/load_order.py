"""The load order pass: what a launch writes to a tensor is not loaded by TMA in the same launch.

Rules (co-language.md, 9, where a store by TMA waits until it has *read* shared memory; ours [R]):

* A store has not arrived in global memory when its statement is over, an ordinary write is not
  visible to TMA until a fence says so, and no event of the language orders either before a load.
  A load by TMA of a part that the launch has written before may get the old values.

What comes before is known where the same threads get to the write and then to the load, where
they wait for an event that is triggered behind the write, or where a loop does not change the part.
That both touch one part is known where their places differ by constants. An update in place (load a
tile, compute, store it) is none of these. Nothing is said where each of both has a condition of its
own, where a jump stands in between, or a helper of C++: the file may order them by itself. Nor does
a loop come back to a load for certain where a condition in it chooses the trips of either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from artifact.choreo import syntax
from artifact.choreo.calls import REGISTER_CALLS
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.event_check import EventCheck
from artifact.choreo.events import Uses
from artifact.choreo.index_forms import Form, IndexForms
from artifact.choreo.mma import origin_terms
from artifact.choreo.tables import Symbol, Tables, ViewPlan
from artifact.choreo.threads import ThreadValues
from artifact.choreo.traverse import JUMPS, Places, changed_name, own, statements
from artifact.choreo.views import shape_of

_PRINTS = ("print", "println", "printf")


def check_load_order(
    tables: Tables,
    diagnostics: Diagnostics,
    values: ThreadValues,
    found: dict[Symbol, Uses],
    places: Places,
) -> None:
    """Check every load by TMA of a tensor that the function writes; transfers are planned."""
    order = _LoadOrder(tables, diagnostics, found, places, values)
    writes = list(order.writes())
    for load in order.loads():
        write = next((w for w in writes if order.follows(w, load)), None)
        if write is not None:
            diagnostics.error(
                "load-after-write",
                load.stmt,
                f"this loads a part of {load.tensor.name} that line {write.stmt.span.line} of the "
                "same launch writes",
                rule="nothing orders a write to global memory before a load by TMA in one launch",
                repair="keep the tile in shared memory, or load it in a launch of its own",
            )


@dataclass(frozen=True, eq=False)
class _Side:
    """One range: where it begins, and how many elements it has; null: the whole dimension."""

    begin: Form
    extent: int | None


@dataclass(frozen=True, eq=False)
class _Access:
    """A part of a tensor that a statement touches."""

    stmt: syntax.Stmt
    tensor: Symbol
    sides: tuple[_Side, ...]
    threads: tuple[int, ...]
    """Those that do it."""
    mask: int
    """Those that get there."""
    names: frozenset[Symbol]
    """What the part depends on."""


@dataclass(eq=False)
class _LoadOrder(EventCheck):
    values: ThreadValues

    def __post_init__(self) -> None:
        super().__post_init__()
        self.forms = IndexForms(self.tables, self.values)
        self.changes = [(self.order[s], symbol) for s in self.everything for symbol in self._set(s)]
        self.breaks = {s for s in self.everything if isinstance(s, JUMPS) or _is_helper(s)}
        """What ends the certainty that one statement follows another, and that unordered."""

    # What is touched ---------------------------------------------------------------------------

    def writes(self) -> Iterator[_Access]:
        """Writes to tensors: stores by TMA, stores of accumulators, assigned elements."""
        for stmt in self.everything:
            mask = self.mask(stmt)
            access = None
            if isinstance(stmt, syntax.Transfer):
                plan = self.tables.transfers.get(stmt)
                if plan is not None and plan.kind == "tma-store":
                    access = self._view(stmt, plan.target, plan.leaders, mask)
            elif isinstance(stmt, syntax.MmaStore):
                view = self.tables.views.get(stmt.destination)
                if view is not None and view.root.kind == "tensor":
                    access = self._view(stmt, view, _threads(mask), mask)
            elif isinstance(stmt, syntax.Assign) and isinstance(stmt.target, syntax.Element):
                access = self._element(stmt, stmt.target, mask)
            if access is not None:
                yield access

    def loads(self) -> Iterator[_Access]:
        """Loads by TMA."""
        for stmt, plan in self.tables.transfers.items():
            if plan.kind == "tma-load":
                mask = self.mask(stmt)
                access = self._view(stmt, plan.source, plan.leaders, mask)
                if access is not None:
                    yield access

    def _view(
        self, stmt: syntax.Stmt, plan: ViewPlan, threads: tuple[int, ...], mask: int
    ) -> _Access | None:
        shape = shape_of(self.tables, plan.root)
        if shape is None:
            return None
        extents = dict(zip(plan.dims, plan.extents, strict=True))
        sides, names = [], set[Symbol]()
        for dim, size in enumerate(shape):
            terms = origin_terms(self.tables, plan, dim)
            begin = self.forms.total(terms)
            extent = extents.get(dim, 1)
            if begin is None:
                return None
            if not terms and syntax.same(extent, size):
                sides.append(_Side(begin, None))
            elif isinstance(extent, int):
                sides.append(_Side(begin, extent))
            else:
                return None
            for term in terms:
                names |= self.forms.names(term.index)
        if plan.base is not plan.root and any(s.kind == "mutable" for s in names):
            # A named view lies where it was named, whatever has changed since.
            return None
        return _Access(stmt, plan.root, tuple(sides), threads, mask, frozenset(names))

    def _element(self, stmt: syntax.Stmt, element: syntax.Element, mask: int) -> _Access | None:
        tensor = self.tables.uses[element.base]
        if tensor.kind != "tensor":
            return None
        begins = [self.forms.of(index) for index in element.indices]
        names = frozenset(s for index in element.indices for s in self.forms.names(index))
        sides = tuple(_Side(begin, 1) for begin in begins if begin is not None)
        if len(sides) < len(begins):
            return None
        return _Access(stmt, tensor, sides, _threads(mask), mask, names)

    def _set(self, stmt: syntax.Stmt) -> Iterator[Symbol]:
        """The mutables that a statement itself changes."""
        for node in own(stmt):
            name = changed_name(node)
            symbol = self.tables.uses.get(name) if name is not None else None
            if symbol is not None:
                yield symbol

    # Order -------------------------------------------------------------------------------------

    def follows(self, write: _Access, load: _Access) -> bool:
        """Whether a load gets, for certain, a part that was written before it."""
        if write.tensor is not load.tensor or not self._overlap(write, load):
            return False
        if self._apart(write.stmt, load.stmt):
            return False
        first, last = self.order[write.stmt], self.order[load.stmt]
        if not write.mask & load.mask:
            return self._told(write, load)
        if first < last:
            return self._unchanged(load, first, last) and not any(
                first < self.order[stmt] < last for stmt in self.breaks
            )
        return any(
            loop in self.places.loops(write.stmt)
            and self._repeats(loop, load)
            and not self._chosen(loop, write.stmt)
            for loop in self.places.loops(load.stmt)
        )

    def _overlap(self, write: _Access, load: _Access) -> bool:
        """Whether both parts have an element in common."""
        reader = load.threads[0] if load.threads else 0
        hits = [
            all(
                _meet(one, thread, other, reader)
                for one, other in zip(write.sides, load.sides, strict=True)
            )
            for thread in write.threads
        ]
        guarded = any(
            isinstance(owner, syntax.If | syntax.While)
            for owner in self.places.enclosing(write.stmt)
        )
        # Which threads get through a condition is not asked.
        return bool(hits) and (all(hits) if guarded else any(hits))

    def _unchanged(self, load: _Access, first: int, last: int) -> bool:
        """Whether what the part depends on stays from one statement to a later one."""
        return not any(
            first < number < last and symbol in load.names for number, symbol in self.changes
        )

    def _repeats(self, loop: syntax.Foreach | syntax.While, load: _Access) -> bool:
        """Whether a loop comes back to a load without changing its part."""
        inside = list(statements(loop.body))
        once = isinstance(loop, syntax.Foreach) and all(
            self.forms.known(b) == 1 for b in loop.bounds
        )
        return not (
            once
            or load.names & self._changing(loop)
            or self._chosen(loop, load.stmt)
            or any(s in self.breaks for s in inside)
        )

    def _changing(self, loop: syntax.Foreach | syntax.While) -> set[Symbol]:
        """The scalars that a loop declares or changes."""
        inside = list(statements(loop.body))
        declared = {s for stmt in (loop, *inside) for s in self.tables.declares.get(stmt, ())}
        return declared | {s for stmt in inside for s in self._set(stmt)}

    def _chosen(self, loop: syntax.Foreach | syntax.While, stmt: syntax.Stmt) -> bool:
        """Whether a statement's turn in a loop may come in some trips alone, such as the last."""
        changing = self._changing(loop)
        for owner in self.places.enclosing(stmt):
            if owner is loop:
                break
            for node in own(owner):
                symbol = self.tables.uses.get(node)
                # Fragments change in other ways than by assignments.
                if symbol is not None and (symbol in changing or symbol.kind == "fragment"):
                    return True
        return False

    def _apart(self, one: syntax.Stmt, other: syntax.Stmt) -> bool:
        """Whether each of two statements has a condition that the other does not have."""
        arms, others = self._arms(one), self._arms(other)
        return bool(arms - others) and bool(others - arms)

    def _arms(self, stmt: syntax.Stmt) -> set[syntax.Block]:
        """The arms of conditions that a statement stands in."""
        inside = {self.places.block(s) for s in (stmt, *self.places.enclosing(stmt))}
        return {
            arm
            for owner in self.places.enclosing(stmt)
            if isinstance(owner, syntax.If)
            for arm in (owner.then, owner.otherwise)
            if arm in inside
        }

    def _told(self, write: _Access, load: _Access) -> bool:
        """Whether a load's threads wait for what the writing ones trigger behind the write."""
        if self.breaks or any(symbol.kind == "mutable" for symbol in load.names):
            return False
        again = any(self._repeats(loop, load) for loop in self.places.loops(load.stmt)) and not any(
            self._chosen(loop, write.stmt) for loop in self.places.loops(write.stmt)
        )
        known = self.arrivals.waited_before(load.stmt)
        ahead = list(known)
        for event in ahead:
            uses = self.found.get(event)
            if uses is None or (self._starts(uses, write) and not again):
                continue
            for use in uses.plain + uses.after:
                if use.mask & write.mask and self.order[write.stmt] < self.order[use.stmt]:
                    return True
                more = self.arrivals.waited_before(use.stmt) - known
                known |= more
                ahead += more
        return False

    def _starts(self, uses: Uses, write: _Access) -> bool:
        """Whether an event lets a first load through before a write: it is ready, or seeded."""
        return uses.ready or any(
            use.mask & write.mask and self.order[use.stmt] < self.order[write.stmt]
            for use in uses.plain
        )


def _meet(write: _Side, thread: int, load: _Side, reader: int) -> bool:
    """Whether two ranges of a dimension have an element in common, for certain."""
    if write.extent is None or load.extent is None:
        return True
    if write.begin.atoms != load.begin.atoms:
        return False
    one, other = write.begin.constants[thread], load.begin.constants[reader]
    return one < other + load.extent and other < one + write.extent


def _threads(mask: int) -> tuple[int, ...]:
    return tuple(t for t in range(mask.bit_length()) if mask >> t & 1)


def _is_helper(stmt: syntax.Stmt) -> bool:
    return isinstance(stmt, syntax.CallStmt) and stmt.name.id not in (*REGISTER_CALLS, *_PRINTS)
