"""The scalars pass: the type of every expression, and the values known at compile time.

Rules (co-language.md, 3, 6, 7, 13; those of expressions are in ``expressions.py``):

* A dimension symbol is ``u32``; variables of ``parallel`` and ``foreach`` have the type of their
  bound, those of threads and coordinates of ``apply`` are ``s32``.
* An immutable scalar without a type has that of its value, a mutable one too.
* Sizes of tiles, fragments and events are positive constants.
* A constant condition of ``assert`` that is false is an error.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.arithmetic import ALIASES, INTEGERS
from artifact.choreo.constant_rules import by_zero, shifts
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.expressions import Conversion, Expressions
from artifact.choreo.kinds import SCALARS
from artifact.choreo.tables import Tables
from artifact.choreo.traverse import bodies

_INTEGER_ONLY = ("%=", "&=", "|=", "^=", "<<=", ">>=")


def check(tables: Tables, diagnostics: Diagnostics) -> list[Conversion]:
    """Fill ``types`` and ``constants``, set the types of inferred scalars.

    Returns:
        The implicit conversions, which are judged when threads are known.
    """
    scalars = _Scalars(tables, diagnostics)
    for parameter in tables.function.params:
        scalars.known_type(parameter, parameter.type)
        if isinstance(parameter, syntax.TensorParam):
            for extent in parameter.extents:
                scalars.constant(extent, "an extent of a parameter", symbols=True)
    for stmt in tables.function.body.body:
        scalars.statement(stmt)
    return scalars.conversions


class _Scalars(Expressions):
    """Types statements in source order."""

    def statement(self, stmt: syntax.Stmt) -> None:
        """Type the expressions of a statement and what it declares, then its blocks."""
        self.stmt = stmt
        match stmt:
            case syntax.ScalarDecl() | syntax.Assign(target=syntax.Name()):
                self._scalar(stmt)
            case syntax.Assign():
                to = self.type_of(stmt.target)
                self._combine(stmt, to)
            case syntax.Parallel():
                for level in stmt.levels:
                    self._bounds(level, level.bounds, s32=level.kind != "block")
                if stmt.launch_bounds is not None:
                    self._below(stmt.launch_bounds)
            case syntax.Foreach():
                self._bounds(stmt, stmt.bounds)
            case syntax.Apply():
                for symbol in self.tables.declares.get(stmt, ()):
                    symbol.type = "s32"
                self._below(stmt)
            case syntax.If() | syntax.While() | syntax.Inthreads():
                self.type_of(stmt.condition)
            case syntax.SharedDecl() | syntax.FragDecl() | syntax.LocalDecl():
                self.known_type(stmt, stmt.type)
                for extent in stmt.extents:
                    self.constant(extent, "an extent of a tile")
                if not isinstance(stmt, syntax.FragDecl) and stmt.tiles is not None:
                    self.constant(stmt.tiles, "a number of tiles")
                if not isinstance(stmt, syntax.SharedDecl) and stmt.init is not None:
                    self.convert(stmt.init, ALIASES.get(stmt.type, stmt.type))
            case syntax.EventDecl():
                for count in (stmt.slots, stmt.count):
                    if count is not None:
                        self.constant(count, "a count of an event")
            case syntax.MmaFill():
                symbol = self.tables.fills[stmt]
                self.known_type(stmt, symbol.type or "f32")
                self.convert(stmt.value, symbol.type or "f32")
            case syntax.Assert():
                self.type_of(stmt.condition)
                if self.tables.constants.get(stmt.condition) is False:
                    text = stmt.text.text if stmt.text else "its condition is false"
                    self.diagnostics.error(
                        "assertion-false",
                        stmt,
                        f"this assertion fails: {text}",
                        rule="a constant condition of assert is evaluated at compile time",
                        repair="change the constants so that the condition holds",
                    )
            case _:
                self._below(stmt)
        for body in bodies(stmt):
            for inner in body.body:
                self.statement(inner)

    def _below(self, node: syntax.Node) -> None:
        """Type every expression of a statement that asks nothing of them."""
        for child in syntax.children(node):
            if isinstance(child, syntax.Block):
                continue
            if isinstance(child, syntax.Name):
                # A name that is no scalar stands for a buffer, a fragment, an event, a future.
                if self._is_scalar(child):
                    self.type_of(child)
            elif isinstance(child, syntax.Index):
                self.integer(child.index, "the number of a tile")
            elif isinstance(child, syntax.Target):
                if child.order is not None:
                    self.integer(child.order, "an order", whole=True)
                if child.index is not None:
                    self.integer(child.index, "a slot")
            elif isinstance(child, (syntax.View, *_VIEW_OPS)):
                self._below(child)
            elif isinstance(child, _EXPRESSIONS):
                if isinstance(node, _VIEW_OPS):
                    self.integer(child, "an extent or index of a view")
                else:
                    self.type_of(child, whole=isinstance(node, syntax.ExprStmt))

    def _is_scalar(self, name: syntax.Name) -> bool:
        symbol = self.tables.uses.get(name)
        return symbol is not None and symbol.kind in SCALARS

    def _scalar(self, stmt: syntax.ScalarDecl | syntax.Assign) -> None:
        declared = self.tables.declares.get(stmt)
        if declared is None:
            assert isinstance(stmt, syntax.Assign) and isinstance(stmt.target, syntax.Name)
            symbol = self.tables.uses[stmt.target]
            self.tables.types[stmt.target] = symbol.type or "s32"
            self._combine(stmt, symbol.type or "s32")
            return
        (symbol,) = declared
        if symbol.type is None:
            symbol.type = self.type_of(stmt.value)
        else:
            self.known_type(stmt, symbol.type)
            self.convert(stmt.value, symbol.type)

    def _combine(self, stmt: syntax.Assign, to: str) -> None:
        if stmt.op not in _INTEGER_ONLY:
            self.convert(stmt.value, to)
            if stmt.op == "/=" and to in INTEGERS:
                self._divisor(stmt)
            return
        type_ = self.type_of(stmt.value)
        if to not in INTEGERS or type_ not in (*INTEGERS, "bool"):
            self.not_integer(stmt, f"'{stmt.op}'", type_ if to in INTEGERS else to)
        elif stmt.op not in ("<<=", ">>="):
            self.converted(stmt.value, type_, to)
            if stmt.op == "%=":
                self._divisor(stmt)
        elif shifts(self.tables, self.diagnostics, stmt.value, to):
            self.converted(stmt.value, type_, to)

    def _divisor(self, stmt: syntax.Assign) -> None:
        if self.tables.constants.get(stmt.value) == 0:
            by_zero(self.diagnostics, stmt)

    def _bounds(
        self, node: syntax.Node, bounds: tuple[syntax.Expr, ...], *, s32: bool = False
    ) -> None:
        symbols = self.tables.declares.get(node, ())
        types = [self.integer(bound, "a bound") for bound in bounds]
        for symbol, type_ in zip(symbols, types, strict=False):
            symbol.type = "s32" if s32 else type_

    def constant(self, expr: syntax.Expr, what: str, *, symbols: bool = False) -> None:
        """Type an expression that must be a positive constant (or a dimension symbol)."""
        self.integer(expr, what)
        value = self.tables.constants.get(expr)
        if symbols and isinstance(expr, syntax.Name):
            return
        if value is None:
            self.diagnostics.error(
                "not-constant",
                expr,
                f"{what} must be known at compile time",
                rule="tiles, fragments, local buffers and events have constant sizes",
                repair="use a literal or a #define of this file",
            )
        elif value < 1:
            self.diagnostics.error(
                "not-positive",
                expr,
                f"{what} must be at least 1, this is {value}",
                rule="sizes and counts are positive",
                repair="use a positive constant",
            )


_VIEW_OPS = (
    syntax.Subspan,
    syntax.ViewFrom,
    syntax.ChunkAt,
    syntax.SpanAs,
    syntax.Squeeze,
)
_EXPRESSIONS = (
    syntax.IntLit,
    syntax.FloatLit,
    syntax.BoolLit,
    syntax.Infinity,
    syntax.StringLit,
    syntax.Unary,
    syntax.Increment,
    syntax.Binary,
    syntax.Ternary,
    syntax.BuiltinCall,
    syntax.Convert,
    syntax.Bound,
    syntax.Compose,
    syntax.Element,
    syntax.Extent,
)
