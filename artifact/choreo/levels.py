"""The levels pass: the launch of a function and what its parallel variables are.

Rules (co-language.md, 6):

* A function has one ``parallel`` at block level; it is a launch. Up to three variables map to
  ``blockIdx.x, .y, .z``; the host must be able to compute their bounds.
* Inside a block the levels go ``group-4`` (warpgroups of 128), ``group`` (warps of 32),
  ``thread``; their bounds are constants. A level's unit is the number of threads of one instance:
  the product of the levels inside it, or 128 and 32 where nothing more is said.
* Sibling ``parallel`` statements of a block have the same number of threads, at most 1024.
* ``[[launch_bounds(M, m)]]`` stands before the block level; ``M`` is not below the real number.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import Launch, LevelPlan, Symbol, Tables
from artifact.choreo.traverse import bodies, own

#: Threads of one instance where no inner level says it.
_UNITS: dict[syntax.LevelKind, int] = {"group-4": 128, "group": 32, "thread": 1}
_ORDER: tuple[syntax.LevelKind, ...] = ("block", "group-4", "group", "thread")
MAX_THREADS = 1024


def plan_levels(tables: Tables, diagnostics: Diagnostics) -> None:
    """Fill ``launch`` and ``levels``."""
    _Levels(tables, diagnostics).run()


@dataclass(frozen=True)
class _Inner:
    """A level inside the block, with one variable or none."""

    level: syntax.Level
    kind: syntax.LevelKind
    symbol: Symbol | None
    bound: syntax.Expr


class _Levels:
    def __init__(self, tables: Tables, diagnostics: Diagnostics) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.threads: int | None = None

    def run(self) -> None:
        launches = self._host(self.tables.function.body)
        if not launches:
            self.diagnostics.error(
                "no-launch",
                self.tables.function,
                f"{self.tables.function.name} has no 'parallel .. : block'",
                rule="a __co__ function is one launch",
                repair="put the kernel's code into 'parallel {..} by [..] : block { .. }'",
            )
            return
        for other in launches[1:]:
            self.diagnostics.error(
                "second-launch",
                other,
                "this function launches already",
                rule="a __co__ function is one launch",
                repair="put the second kernel into a function of its own",
            )
        self._launch(launches[0])

    def _host(self, block: syntax.Block) -> list[syntax.Parallel]:
        """The launches of host code, which has nothing beside them but scalars and assertions."""
        found: list[syntax.Parallel] = []
        for stmt in block.body:
            if isinstance(stmt, syntax.Parallel):
                found.append(stmt)
            elif isinstance(stmt, syntax.Block):
                found += self._host(stmt)
            elif not isinstance(
                stmt,
                syntax.ScalarDecl | syntax.Assign | syntax.Assert | syntax.Return | syntax.ExprStmt,
            ) or any(
                isinstance(node, syntax.Element)
                or (isinstance(node, syntax.ScalarDecl) and node.mutable)
                for node in own(stmt)
            ):
                self.diagnostics.error(
                    "host-statement",
                    stmt,
                    "this stands outside of parallel, where the host computes",
                    rule="host code in a __co__ function declares immutable scalars and asserts",
                    repair="move it into the parallel statement",
                )
        return found

    def _launch(self, stmt: syntax.Parallel) -> None:
        outer, *inner = stmt.levels
        if outer.kind not in (None, "block"):
            self.diagnostics.error(
                "level-order",
                outer,
                f"the outermost level is {outer.kind}",
                rule="the levels go block, group-4, group, thread, from outside to inside",
                repair="begin with ': block'",
            )
            return
        symbols = self.tables.declares.get(outer, ())
        if len(outer.bounds) > 3:
            self.diagnostics.error(
                "grid-rank",
                outer,
                "a grid has at most three dimensions",
                rule="block variables map to blockIdx.x, .y and .z",
                repair="compose two bounds into one",
            )
        for bound in outer.bounds:
            self._host_computable(bound)
        enclosing: list[_Inner] = []
        self._descend(stmt, tuple(inner), enclosing)
        self._nested(stmt.body, self._expand(tuple(inner)))
        threads = self.threads if self.threads is not None else 1
        if threads > MAX_THREADS:
            self.diagnostics.error(
                "too-many-threads",
                stmt,
                f"a block of {threads} threads",
                rule=f"a block has at most {MAX_THREADS} threads",
                repair="use fewer warpgroups",
            )
        least, most = self._launch_bounds(stmt, threads)
        self.tables.launch = Launch(
            node=stmt,
            grid=tuple(zip(symbols, outer.bounds, strict=False)),
            threads=threads,
            min_blocks=least,
            is_async=stmt.is_async,
            max_threads=most,
        )

    def _host_computable(self, bound: syntax.Expr) -> None:
        for node in syntax.walk(bound):
            if isinstance(node, syntax.Element):
                self.diagnostics.error(
                    "not-on-host",
                    node,
                    f"the host does not know the elements of {node.base.id}",
                    rule="bounds of a grid come from parameters, dimensions and host scalars",
                    repair="pass the number as a parameter",
                )

    # Inner levels ------------------------------------------------------------------------------

    def _nested(self, block: syntax.Block, enclosing: list[_Inner], *, role: bool = False) -> None:
        """Find the ``parallel`` statements inside the block level."""
        for stmt in block.body:
            if isinstance(stmt, syntax.Parallel):
                if role:
                    self.diagnostics.error(
                        "parallel-in-role",
                        stmt,
                        "parallel stands inside inthreads",
                        rule="inthreads selects threads of a parallel; it contains none",
                        repair="move the parallel out, around the inthreads statements",
                    )
                    continue
                if stmt.is_async:
                    self.diagnostics.error(
                        "inner-async",
                        stmt,
                        "an inner parallel is not asynchronous",
                        rule="parallel.async is a launch: only the outermost may be",
                        repair="drop '.async'",
                    )
                if stmt.launch_bounds is not None:
                    self.diagnostics.error(
                        "launch-bounds-place",
                        stmt.launch_bounds,
                        "launch_bounds stands before an inner parallel",
                        rule="launch_bounds belongs to the block level",
                        repair="move it before 'parallel .. : block'",
                    )
                self._descend(stmt, stmt.levels, enclosing)
                self._nested(stmt.body, enclosing + self._expand(stmt.levels))
            else:
                inside = role or isinstance(stmt, syntax.Inthreads)
                for body in bodies(stmt):
                    self._nested(body, enclosing, role=inside)

    def _expand(self, levels: tuple[syntax.Level, ...]) -> list[_Inner]:
        """Levels as one variable each; the left variable of a level is the outer one."""
        out = []
        for level in levels:
            symbols = {s.name: s for s in self.tables.declares.get(level, ())}
            for index, bound in enumerate(level.bounds):
                name = level.variables[index] if index < len(level.variables) else None
                symbol = symbols.get(name) if name is not None else None
                out.append(_Inner(level, level.kind or "thread", symbol, bound))
        return out

    def _descend(
        self, stmt: syntax.Parallel, levels: tuple[syntax.Level, ...], enclosing: list[_Inner]
    ) -> None:
        """Plan the levels of one statement, given those around it."""
        inner = self._expand(levels)
        chain = [*enclosing, *inner]
        if not inner:
            return
        if any(_ORDER.index(a.kind) > _ORDER.index(b.kind) for a, b in pairwise(chain)) or any(
            level.kind == "block" for level in inner
        ):
            self.diagnostics.error(
                "level-order",
                stmt,
                "the levels are in a wrong order",
                rule="the levels go block, group-4, group, thread, from outside to inside",
                repair="reorder the levels",
            )
            return
        bounds = [self._constant(level) for level in chain]
        unit = _UNITS[chain[-1].kind]
        for level, bound in reversed(list(zip(chain, bounds, strict=True))):
            expected = _UNITS[level.kind]
            wrong = unit != 128 if level.kind == "group-4" else unit % expected != 0
            if wrong and level.level in levels and self._innermost_of_kind(level, chain):
                self.diagnostics.error(
                    "level-size",
                    level.level,
                    f"one {level.kind} here has {unit} threads",
                    rule="a group-4 has 128 threads, a group a multiple of 32",
                    repair="write 't by 128 : thread' inside group-4, or leave the level out",
                )
            if level.symbol is not None:
                self.tables.levels[level.symbol] = LevelPlan(unit, bound)
            unit *= bound
        if self.threads not in (None, unit) and self._is_sibling(stmt, enclosing):
            self.diagnostics.error(
                "sibling-threads",
                stmt,
                f"this parallel has {unit} threads, one before it {self.threads}",
                rule="the parallel statements of a block have the same number of threads",
                repair="give them equal products of levels",
            )
        self.threads = unit

    def _innermost_of_kind(self, level: _Inner, chain: list[_Inner]) -> bool:
        return [other for other in chain if other.kind == level.kind][-1] is level

    def _is_sibling(self, stmt: syntax.Parallel, enclosing: list[_Inner]) -> bool:
        # A nested parallel refines the levels around it; only the whole product counts.
        return not enclosing

    def _constant(self, inner: _Inner) -> int:
        value = self.tables.constants.get(inner.bound)
        if isinstance(value, int) and value >= 1:
            return value
        self.diagnostics.error(
            "not-constant",
            inner.bound,
            "the bound of an inner level must be a positive constant",
            rule="the number of threads of a block is known at compile time",
            repair="use a literal or a #define of this file",
        )
        return 1

    # Launch bounds -----------------------------------------------------------------------------

    def _launch_bounds(self, stmt: syntax.Parallel, threads: int) -> tuple[int, int]:
        """Minimum blocks and maximum threads."""
        bounds = stmt.launch_bounds
        if bounds is None:
            return 1, threads
        most = self._bound(bounds.max_threads, 0) or threads
        least = self._bound(bounds.min_blocks, 1) or 1
        if self._bound(bounds.max_cluster, 1) > 1:
            self.diagnostics.error(
                "launch-bounds",
                bounds,
                "clusters are not supported",
                rule="launch_bounds(max threads, min blocks); the third argument is at most 1",
                repair="drop the third argument",
            )
        if most < threads:
            self.diagnostics.error(
                "launch-bounds",
                bounds,
                f"at most {most} threads are promised, the block has {threads}",
                rule="launch_bounds is not below the number of threads",
                repair="write _ for the first argument: it is then computed",
            )
        return least, most

    def _bound(self, expr: syntax.Expr | None, default: int) -> int:
        if expr is None:
            return default
        value = self.tables.constants.get(expr)
        if not isinstance(value, int) or value < 0:
            self.diagnostics.error(
                "launch-bounds",
                expr,
                "an argument of launch_bounds is not a constant of 0 or more",
                rule="launch_bounds takes constants, or _",
                repair="use a literal or a #define of this file",
            )
            return default
        return value
