"""Names and what they stand for: nested scopes, declarations, uses.

Which of a statement's names are declared and which are used is the business of ``names.py``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager

from artifact.choreo import syntax
from artifact.choreo.arithmetic import ALIASES
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.kinds import USE_INSTEAD, WITH_ARTICLE
from artifact.choreo.tables import Symbol, SymbolKind, Tables


class Scope:
    """The names of one block; the outermost one has the parameters and the function's body."""

    def __init__(self, outer: Scope | None) -> None:
        self.outer = outer
        self.names: dict[str, Symbol] = {}

    def find(self, name: str) -> Symbol | None:
        """The symbol that a name means here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def visible(self) -> set[str]:
        """Every name that means something here."""
        return set(self.names) | (self.outer.visible() if self.outer else set())


class Scopes:
    """The scopes of one function, from its parameters to the block at hand.

    Attributes:
        scope: That of the block at hand.
        in_kernel: Whether it is inside ``parallel``.
    """

    def __init__(self, tables: Tables, diagnostics: Diagnostics, headers: tuple[str, ...]) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.headers = headers
        self.scope = Scope(None)
        self.in_kernel = False

    @contextmanager
    def inner(self) -> Iterator[None]:
        """A block: what is declared in it is unknown behind it."""
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            yield
        finally:
            self.scope = outer

    def declare(
        self, name: str, kind: SymbolKind, node: syntax.Node, type: str | None = None
    ) -> Symbol:
        """Make a symbol in the scope at hand; say so where it hides or repeats another."""
        found = self.scope.find(name)
        if name in self.scope.names:
            self.diagnostics.error(
                "declared-twice",
                node,
                f"{name} is declared already in this scope",
                rule="a scope declares a name once, futures and parallel variables too",
                repair="choose another name, or declare a mutable once and assign to it",
            )
        elif found is not None:
            self.diagnostics.add(
                "info",
                "shadows",
                node,
                f"{name} is a new variable here; it hides the {found.kind} of line "
                f"{found.node.span.line}",
                rule="assigning to an immutable of an outer scope declares a new variable",
                repair="declare the outer one mutable if it is meant to change",
            )
        symbol = Symbol(
            name, kind, node, ALIASES.get(type, type) if type else None, host=not self.in_kernel
        )
        self.scope.names[name] = symbol
        self.tables.symbols.append(symbol)
        self.tables.declares[node] = (*self.tables.declares.get(node, ()), symbol)
        return symbol

    def use(self, name: syntax.Name, allowed: frozenset[SymbolKind], wanted: str) -> Symbol | None:
        """Resolve a name that must be of some kind."""
        symbol = self.scope.find(name.id)
        if symbol is None:
            near = difflib.get_close_matches(name.id, self.scope.visible(), 1)
            repair = f"declare or #define {name.id}"
            if near:
                repair = f"did you mean {near[0]}?"
            elif self.headers:
                repair += f" in this file, also if {' or '.join(self.headers)} defines it"
            self.diagnostics.error(
                "undeclared",
                name,
                f"{name.id} is used before it is declared",
                rule="a name is visible from its declaration to the end of its block; macros of "
                "included headers are not visible in a __co__ function",
                repair=repair,
            )
            return None
        if symbol.kind == "future" and "shared" in allowed and "future" not in allowed:
            # The name of a transfer to an anonymous buffer names the buffer too.
            for other in self.tables.declares[symbol.node]:
                if other.kind == "shared":
                    symbol = other
        if symbol.kind not in allowed:
            self.diagnostics.error(
                "wrong-kind",
                name,
                f"{name.id} is {WITH_ARTICLE[symbol.kind]}, but {wanted} is needed here",
                rule="scalars, buffers, fragments, events and futures each have their own uses",
                repair=USE_INSTEAD.get(symbol.kind),
            )
            return None
        self.tables.uses[name] = symbol
        return symbol
