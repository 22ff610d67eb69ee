"""Types and constant values of expressions, and the implicit conversions in them.

Rules (co-language.md, 2, 3, 12):

* An integer literal without a suffix is ``s32`` if it fits, else ``s64``; a float literal is
  ``f64``, with ``f`` it is ``f32``. An expression of literals without suffixes adapts to the other
  operand [R], so that ``order % 2`` says nothing of a ``u32`` order.
* Operands meet in a common type as in C; bf16 and f16 are computed with in f32.
* Integers are folded as C computes them; unsigned ones wrap, signed ones may not overflow.
"""

from __future__ import annotations

from dataclasses import dataclass

from artifact.choreo import syntax
from artifact.choreo.arithmetic import (
    ALIASES,
    FLOATS,
    INTEGERS,
    UNARY_FLOAT,
    common,
    fits,
    fold,
    fold_call,
    fold_unary,
    in_range,
    literal_type,
    same_after,
)
from artifact.choreo.comparisons import ABOVE, VOTE
from artifact.choreo.constant_rules import by_zero, check_indices, shifts
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.names import bound_of
from artifact.choreo.tables import Tables

_COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
_INTEGER_ONLY = ("%", "&", "|", "^", "<<", ">>")
_ARITY = {
    **dict.fromkeys(UNARY_FLOAT, 1),
    "__max": 2,
    "__min": 2,
    "cdiv": 2,
    "__fmaf": 3,
    VOTE: 1,
    ABOVE: 2,
}


@dataclass(frozen=True, eq=False)
class Conversion:
    """An implicit conversion, in a statement (null: in a parameter)."""

    stmt: syntax.Stmt | None
    expr: syntax.Expr
    source: str
    to: str


class Expressions:
    """Fills ``types`` and ``constants``; keeps the implicit conversions for a later pass."""

    def __init__(self, tables: Tables, diagnostics: Diagnostics) -> None:
        self.tables = tables
        self.diagnostics = diagnostics
        self.conversions: list[Conversion] = []
        self.stmt: syntax.Stmt | None = None
        """The statement at hand."""

    def known_type(self, node: syntax.Node, name: str) -> None:
        """An element type that the language has."""
        if ALIASES.get(name, name) not in (*INTEGERS, *FLOATS, "bool"):
            self.diagnostics.error(
                "unknown-type",
                node,
                f"{name} is no element type",
                rule="element types are bool, s8 .. s64, u8 .. u64, f16, bf16, f32, f64",
                repair="use one of these types",
            )

    def integer(self, expr: syntax.Expr, what: str, *, whole: bool = False) -> str:
        """Type an expression that must be an integer."""
        type_ = self.type_of(expr, whole=whole)
        if type_ not in INTEGERS:
            self.not_integer(expr, what, type_)
            return "s32"
        return type_

    def not_integer(self, place: syntax.Node, what: str, type_: str) -> None:
        """Say that something that must be an integer is none."""
        self.diagnostics.error(
            "not-an-integer",
            place,
            f"{what} needs an integer, this is {type_}",
            rule="indices, bounds, orders and the operators % & | ^ << >> take integers",
            repair="convert it: __to<u32>(..)",
        )

    def convert(self, expr: syntax.Expr, to: str) -> None:
        """Type an expression whose value goes where a ``to`` is."""
        self.converted(expr, self.type_of(expr), to)

    def converted(self, expr: syntax.Expr, source: str, to: str) -> None:
        """A typed expression goes where a ``to`` is."""
        if source == to or to == "bool":
            return
        value = self.tables.constants.get(expr)
        if to in INTEGERS and isinstance(value, float) and not in_range(value, to):
            self.diagnostics.error(
                "constant-overflow",
                expr,
                f"this constant does not fit {to}",
                rule="a constant lies in the range of the type that it is converted to",
                repair="use a floating-point type, or a number of the range",
            )
            return
        if self.flexible(expr) and (to in FLOATS or source in INTEGERS):
            self._adapt(expr, to)
        self._converted(expr, source, to)

    def _converted(self, expr: syntax.Expr, source: str, to: str) -> None:
        self.conversions.append(Conversion(self.stmt, expr, source, to))

    def flexible(self, expr: syntax.Expr) -> bool:
        """Whether an expression is made of literals without suffixes, and so has no type yet."""
        match expr:
            case syntax.IntLit() | syntax.FloatLit():
                return not expr.suffix
            case syntax.Infinity():
                return True
            case syntax.Unary(op="-" | "+"):
                return self.flexible(expr.operand)
            case syntax.Binary():
                arithmetic = expr.op in ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^")
                return arithmetic and self.flexible(expr.left) and self.flexible(expr.right)
            case syntax.BuiltinCall(name="cdiv"):
                return all(map(self.flexible, expr.args))
        return False

    def _adapt(self, expr: syntax.Expr, to: str) -> None:
        """Give an expression of literals the type of what it stands beside."""
        self.tables.types[expr] = to
        match expr:
            case syntax.Unary():
                self._adapt(expr.operand, to)
            case syntax.Binary() if to in INTEGERS or expr.op in ("+", "-", "*"):
                self._adapt(expr.left, to)
                self._adapt(expr.right, to)

    def type_of(self, expr: syntax.Expr, *, whole: bool = False) -> str:
        """Type an expression and everything in it; fold it where its parts are constant."""
        type_ = self._infer(expr, whole)
        self.tables.types[expr] = type_
        return type_

    def _infer(self, expr: syntax.Expr, whole: bool) -> str:
        constants = self.tables.constants
        match expr:
            case syntax.IntLit() | syntax.FloatLit():
                constants[expr] = expr.value
                return literal_type(expr)
            case syntax.BoolLit():
                constants[expr] = expr.value
                return "bool"
            case syntax.Infinity():
                constants[expr] = float("inf")
                return "f32"
            case syntax.StringLit():
                return self._string(expr)
            case syntax.Name():
                return self._name(expr)
            case syntax.Increment():
                return self._increment(expr, whole)
            case syntax.Unary():
                return self._unary(expr)
            case syntax.Binary():
                return self._binary(expr)
            case syntax.Ternary():
                self.type_of(expr.condition)
                return self._meet(expr.then, expr.otherwise)
            case syntax.BuiltinCall():
                return self._call(expr)
            case syntax.Convert():
                self.type_of(expr.operand)
                self.known_type(expr, expr.type)
                to = ALIASES.get(expr.type, expr.type)
                value = constants.get(expr.operand)
                if value is not None and to in INTEGERS and fits(value, to):
                    constants[expr] = int(value)
                elif value == 0 and to in FLOATS:
                    # Any other value may be rounded.
                    constants[expr] = 0.0
                return to
            case syntax.Bound():
                return self._bound(expr)
            case syntax.Compose():
                return self._compose(expr)
            case syntax.Element():
                if expr.tile is not None:
                    self.integer(expr.tile, "the number of a buffer")
                for index in expr.indices:
                    self.integer(index, "an index")
                base = self.tables.uses.get(expr.base)
                tensor = base.node if base is not None else None
                if isinstance(tensor, syntax.TensorParam):
                    check_indices(self.tables, self.diagnostics, expr, tensor)
                return (base.type if base is not None else None) or "f32"
            case syntax.Extent():
                return self._extent(expr)
            case syntax.Index():
                self.integer(expr.index, "the number of a tile")
                self.diagnostics.error(
                    "wrong-kind",
                    expr,
                    "a shared tile is no scalar",
                    rule="shared tiles are used through transfers and MMAs",
                    repair="use it as an operand of a transfer or an MMA",
                )
                return "s32"
        raise AssertionError(f"an expression of an unknown kind: {expr!r}")

    def _string(self, expr: syntax.StringLit) -> str:
        """A text is an argument of a call, and no value."""
        if not (isinstance(self.stmt, syntax.CallStmt) and expr in self.stmt.args):
            self.diagnostics.error(
                "string-value",
                expr,
                "a text where a value is expected",
                rule="a text is the message of assert or an argument of call",
                repair="use a number",
            )
        return "s32"

    def _name(self, expr: syntax.Name) -> str:
        symbol = self.tables.uses.get(expr)
        if symbol is None:
            return "s32"
        node = symbol.node
        if symbol.kind == "scalar" and isinstance(node, syntax.ScalarDecl | syntax.Assign):
            value = self.tables.constants.get(node.value)
            if value is not None and same_after(value, symbol.type):
                self.tables.constants[expr] = value
        return symbol.type or "s32"

    def _increment(self, expr: syntax.Increment, whole: bool) -> str:
        type_ = self.integer(expr.name, f"'{expr.op}'")
        if not whole:
            self.diagnostics.error(
                "nested-increment",
                expr,
                f"'{expr.op}' stands inside an expression",
                rule="an increment is a statement of its own, or the whole order of an event",
                repair=f"write '{expr.name.id}{expr.op};' as a statement",
            )
        return type_

    def _unary(self, expr: syntax.Unary) -> str:
        type_ = self.type_of(expr.operand)
        if expr.op == "~" and type_ not in INTEGERS:
            self.not_integer(expr, "'~'", type_)
        value = self.tables.constants.get(expr.operand)
        if value is not None and (expr.op != "~" or type_ in INTEGERS):
            self.tables.constants[expr] = fold_unary(expr.op, value, type_)
        if expr.op == "!":
            return "bool"
        return "s32" if type_ == "bool" else type_

    def _binary(self, expr: syntax.Binary) -> str:
        if expr.op in ("&&", "||"):
            self.type_of(expr.left)
            self.type_of(expr.right)
            self._fold(expr, "bool")
            return "bool"
        type_ = self._meet(expr.left, expr.right, shift=expr.op in ("<<", ">>"))
        if expr.op in _INTEGER_ONLY and type_ not in INTEGERS:
            self.not_integer(expr, f"'{expr.op}'", type_)
        elif expr.op in ("<<", ">>") and not self._whole(expr.right):
            self.not_integer(expr, f"'{expr.op}'", self.tables.types[expr.right])
            return type_
        elif expr.op in ("<<", ">>") and not shifts(
            self.tables, self.diagnostics, expr.right, type_
        ):
            return type_
        self._fold(expr, type_)
        return "bool" if expr.op in _COMPARISONS else type_

    def _whole(self, expr: syntax.Expr) -> bool:
        """Whether a typed expression is an integer, or a bool."""
        return self.tables.types[expr] in (*INTEGERS, "bool")

    def _fold(self, expr: syntax.Binary, type_: str) -> None:
        left, right = (self.tables.constants.get(e) for e in (expr.left, expr.right))
        if expr.op in _INTEGER_ONLY and type_ not in INTEGERS:
            return
        if expr.op in ("/", "%") and right == 0 and type_ in INTEGERS:
            by_zero(self.diagnostics, expr)
        elif left is not None and right is not None:
            value = fold(expr.op, left, right, type_)
            if value is None:
                self.diagnostics.error(
                    "constant-overflow",
                    expr,
                    f"this constant does not fit {type_}",
                    rule="constant arithmetic may not overflow",
                    repair="use a suffix that gives a wider type, such as u or ll",
                )
            else:
                self.tables.constants[expr] = value

    def _meet(self, left: syntax.Expr, right: syntax.Expr, *, shift: bool = False) -> str:
        """The common type of two operands; literals adapt, lossy conversions warn."""
        types = self.type_of(left), self.type_of(right)
        if shift:
            return types[0]
        loose = self.flexible(left), self.flexible(right)
        if loose[0] != loose[1]:
            literal, other = (left, types[1]) if loose[0] else (right, types[0])
            literal_is_float = types[1 - loose[0]] in FLOATS
            if other in FLOATS or (other in INTEGERS and not literal_is_float):
                other = "f32" if other in ("bf16", "f16") else other
                self._adapt(literal, other)
                self._converted(literal, "s32" if not literal_is_float else other, other)
                return other
        type_ = common(*types)
        for operand, source in zip((left, right), types, strict=True):
            if source in INTEGERS and type_ in INTEGERS and source != type_:
                self._converted(operand, source, type_)
        return type_

    def _call(self, expr: syntax.BuiltinCall) -> str:
        arity = _ARITY.get(expr.name)
        if arity is None or len(expr.args) != arity:
            known = ", ".join(sorted(_ARITY))
            self.diagnostics.error(
                "unknown-builtin",
                expr,
                f"{expr.name} of {len(expr.args)} arguments is no builtin",
                rule=f"the builtins are {known}, each with its number of arguments",
                repair="call a device function of your own with 'call name(..);'",
            )
            for arg in expr.args:
                self.type_of(arg)
            return "f32"
        if expr.name == ABOVE:
            # Fragments, not values.
            return "bool"
        if expr.name == VOTE:
            self.type_of(expr.args[0])
            return "bool"
        if expr.name in ("__max", "__min", "cdiv"):
            type_ = self._meet(expr.args[0], expr.args[1])
            if expr.name == "cdiv" and type_ not in INTEGERS:
                self.not_integer(expr, "cdiv", type_)
            elif expr.name == "cdiv" and self.tables.constants.get(expr.args[1]) == 0:
                by_zero(self.diagnostics, expr)
        else:
            types = [self.type_of(arg) for arg in expr.args]
            type_ = "f32"
            for arg, source in zip(expr.args, types, strict=True):
                if source == "f64" and not self.flexible(arg):
                    type_ = "f64"
            for arg in expr.args:
                if self.flexible(arg):
                    self._adapt(arg, type_)
        values = [self.tables.constants.get(arg) for arg in expr.args]
        value = fold_call(expr.name, values)
        if value is not None:
            self.tables.constants[expr] = value
        return type_

    def _bound(self, expr: syntax.Bound) -> str:
        symbol = self.tables.uses.get(expr.name)
        if symbol is None or symbol.kind == "coordinate":
            return "s32"
        bound = bound_of(symbol)
        value = self.tables.constants.get(bound)
        if value is not None:
            self.tables.constants[expr] = value
        return symbol.type or "s32"

    def _compose(self, expr: syntax.Compose) -> str:
        right = expr.right
        symbol = self.tables.uses.get(right) if isinstance(right, syntax.Name) else None
        if symbol is None or symbol.kind not in ("level", "loop"):
            self.type_of(right)
            self.diagnostics.error(
                "not-bounded",
                right,
                "the right side of '#' has no bound",
                rule="'a # b' is a * #b + b: b is a variable of parallel or foreach",
                repair="write the index out: 'a * n + b'",
            )
            return self.type_of(expr.left)
        return self._meet(expr.left, right)

    def _extent(self, expr: syntax.Extent) -> str:
        if expr.dim is not None:
            self.integer(expr.dim, "the number of a dimension")
        symbol = self.tables.uses.get(expr.base)
        extents = getattr(symbol.node, "extents", None) if symbol is not None else None
        if extents is None:
            return "u32"
        values = [self.tables.constants.get(extent) for extent in extents]
        if expr.count:
            if None not in values:
                count = 1
                for value in values:
                    count *= int(value or 0)
                self.tables.constants[expr] = count
        elif expr.dim is not None:
            dim = self.tables.constants.get(expr.dim)
            if not isinstance(dim, int) or not 0 <= dim < len(values):
                self.diagnostics.error(
                    "dimension-range",
                    expr,
                    f"{expr.base.id} has the dimensions 0 to {len(values) - 1}",
                    rule="x.span(i) names a dimension by a constant",
                    repair="use a constant in this range",
                )
            elif (value := values[dim]) is not None:
                self.tables.constants[expr] = value
        return "u32"
