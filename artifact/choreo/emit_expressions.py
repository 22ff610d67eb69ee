"""Expressions of the language as C++ expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from artifact.choreo import syntax
from artifact.choreo.arithmetic import ALIASES, INTEGERS
from artifact.choreo.comparisons import ABOVE, VOTE
from artifact.choreo.emit_names import Names
from artifact.choreo.tables import Symbol, Tables
from artifact.choreo.views import squeezed

#: Element types in C++; ``choreo::`` is the runtime's namespace.
CXX_TYPES = {
    "s8": "choreo::s8",
    "s16": "choreo::s16",
    "s32": "int",
    "s64": "choreo::s64",
    "u8": "choreo::u8",
    "u16": "choreo::u16",
    "u32": "unsigned",
    "u64": "choreo::u64",
    "bool": "bool",
    "f16": "choreo::f16",
    "bf16": "choreo::bf16",
    "f32": "float",
    "f64": "double",
}

#: Binding strength, as in C++; a higher one binds tighter.
_BINARY = {
    "*": 11,
    "/": 11,
    "%": 11,
    "+": 10,
    "-": 10,
    "<<": 9,
    ">>": 9,
    "<": 8,
    ">": 8,
    "<=": 8,
    ">=": 8,
    "==": 7,
    "!=": 7,
    "&": 6,
    "^": 5,
    "|": 4,
    "&&": 3,
    "||": 2,
}
_TERNARY, _UNARY, _POSTFIX = 1, 12, 13
#: Operators whose mixture compilers warn about: the inner one gets parentheses.
_EASILY_MISREAD = {("&&", "||"), ("&", "|"), ("^", "|"), ("&", "^")}

_FLOAT_CALLS = {
    "__exp2f": "exp2f",
    "__exp": "expf",
    "__log": "logf",
    "__sqrt": "sqrtf",
    "__rsqrt": "rsqrtf",
    "__fabs": "fabsf",
    "__fmaf": "fmaf",
}
_WHOLE = (*INTEGERS, "bool")
_HALVES = ("bf16", "f16")


def _values_of_names(node: syntax.Node) -> Iterator[syntax.Name]:
    """The names in an expression whose values it has, not only their bounds or shapes."""
    if isinstance(node, syntax.Name):
        yield node
    elif not isinstance(node, syntax.Bound | syntax.Extent):
        for child in syntax.children(node):
            yield from _values_of_names(child)


class Expressions:
    """Writes expressions; ``element`` says what an element access is at the place at hand."""

    def __init__(self, tables: Tables, names: Names) -> None:
        self._tables = tables
        self._names = names
        self.element: Callable[[syntax.Element], str] | None = None
        self.replaced: dict[syntax.Node, str] = {}
        """Sub-expressions that were computed before, to the name of their value."""

    def text(self, node: syntax.Expr, binding: int = 0) -> str:
        """The C++ of an expression, in parentheses if it binds weaker than ``binding``."""
        known = self.replaced.get(node)
        if known is not None:
            return known
        text, own = self._write(node)
        return f"({text})" if own < binding else text

    def single(self, node: syntax.Expr, binding: int = 0) -> str:
        """A value to compute with: what has 16 bits is computed with in FP32.

        Elements of an operand fragment are unpacked to FP32 where they are read.
        """
        if self._tables.types.get(node) not in _HALVES or self._is_unpacked(node):
            return self.text(node, binding)
        return f"choreo::to_f32({self.text(node)})"

    def _is_unpacked(self, node: syntax.Expr) -> bool:
        if not isinstance(node, syntax.Element):
            return False
        plan = self._tables.fragments.get(self._tables.uses[node.base])
        return plan is not None and plan.layout == "operand"

    def factor(self, node: syntax.Expr) -> str:
        """An expression that may stand beside ``*``, ``/`` or ``%``."""
        return self.text(node, 12)

    def extent(self, extent: int | syntax.Expr, binding: int = 0) -> str:
        """An extent as the tables have it: a number or an expression."""
        return str(extent) if isinstance(extent, int) else self.text(extent, binding)

    def constant(self, node: syntax.Expr) -> int | float | bool | None:
        """The value of an expression, where it is known at compile time."""
        if isinstance(node, syntax.IntLit):
            return node.value
        return self._tables.constants.get(node)

    def integer(self, node: syntax.Expr) -> int | None:
        """The value of an expression that is an integer known at compile time."""
        value = self.constant(node)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _write(self, node: syntax.Expr) -> tuple[str, int]:
        """The text and how tight it binds."""
        folded = self._folded(node)
        if folded is not None:
            return folded
        match node:
            case syntax.IntLit():
                return node.text, _POSTFIX
            case syntax.FloatLit():
                single = not node.suffix and self._tables.types.get(node) == "f32"
                return node.text + ("f" if single else ""), _POSTFIX
            case syntax.BoolLit():
                return "true" if node.value else "false", _POSTFIX
            case syntax.Infinity():
                return "INFINITY", _POSTFIX
            case syntax.StringLit():
                return f'"{node.text}"', _POSTFIX
            case syntax.Name():
                return self._names.of(self._tables.uses[node]), _POSTFIX
            case syntax.Unary():
                inner = self.single(node.operand, _UNARY)
                # Two signs in a row would be a decrement.
                return node.op + (f"({inner})" if inner.startswith(node.op) else inner), _UNARY
            case syntax.Increment():
                name = self.text(node.name)
                return (node.op + name, _UNARY) if node.prefix else (name + node.op, _POSTFIX)
            case syntax.Binary():
                return self._binary(node)
            case syntax.Ternary():
                condition = self.text(node.condition, 2)
                then, otherwise = (self.single(n, 2) for n in (node.then, node.otherwise))
                return f"{condition} ? {then} : {otherwise}", _TERNARY
            case syntax.BuiltinCall():
                return self._call(node)
            case syntax.Convert():
                return self.converted(node.operand, node.type), _POSTFIX
            case syntax.Bound():
                return self._bound(node), 10
            case syntax.Compose():
                bound = self.bound_of(node.right)
                return f"{self.factor(node.left)} * {bound} + {self.text(node.right, 11)}", 10
            case syntax.Element():
                if self.element is None:
                    raise AssertionError(f"an element outside of its context: {node.span}")
                return self.element(node), _POSTFIX
            case syntax.Extent():
                return self._extent_of(node)
            case syntax.Index():
                raise AssertionError(f"a tile where a value is expected: {node.span}")
        raise AssertionError(f"no expression: {node}")

    def _folded(self, node: syntax.Expr) -> tuple[str, int] | None:
        """A compound integer constant as one number.

        Names stay: an edit of the source should show in the same place of what is generated.
        """
        if isinstance(node, syntax.IntLit | syntax.Name) or any(_values_of_names(node)):
            return None
        value = self.integer(node)
        if value is None:
            return None
        suffix = "u" if self._tables.types.get(node) == "u32" and value > 0x7FFFFFFF else ""
        return f"{value}{suffix}", _UNARY if value < 0 else _POSTFIX

    def _binary(self, node: syntax.Binary) -> tuple[str, int]:
        own = _BINARY[node.op]
        left, right = self.single(node.left, own), self.single(node.right, own + 1)
        if isinstance(node.left, syntax.Binary) and (node.left.op, node.op) in _EASILY_MISREAD:
            left = f"({left})"
        if isinstance(node.right, syntax.Binary) and (node.right.op, node.op) in _EASILY_MISREAD:
            right = right if right.startswith("(") else f"({right})"
        return f"{left} {node.op} {right}", own

    def _call(self, node: syntax.BuiltinCall) -> tuple[str, int]:
        args = [self.single(a) for a in node.args]
        if node.name == ABOVE:
            return f"cu::above({', '.join(args)})", _POSTFIX
        if node.name == VOTE:
            return f"cu::warp_any({self.text(node.args[0])})", _POSTFIX
        if node.name == "cdiv":
            return f"choreo::cdiv({', '.join(args)})", _POSTFIX
        if node.name in ("__max", "__min"):
            kind = self._tables.types.get(node, "f32")
            function = node.name[2:] if kind in _WHOLE else f"f{node.name[2:]}f"
            if kind == "f64":
                function = f"f{node.name[2:]}"
            if kind in _WHOLE:
                # The overloads of min and max want one type on both sides.
                cxx = CXX_TYPES[kind]
                args = [
                    a if self._is_of(n, kind) else f"{cxx}({a})"
                    for n, a in zip(node.args, args, strict=True)
                ]
            return f"{function}({', '.join(args)})", _POSTFIX
        return f"{_FLOAT_CALLS.get(node.name, node.name)}({', '.join(args)})", _POSTFIX

    def _is_of(self, node: syntax.Expr, kind: str) -> bool:
        """Whether the C++ of an expression has an integer type; a literal's own is int."""
        wide = kind not in ("s32", "u32")
        literal = wide and self.integer(node) is not None
        return self._tables.types.get(node) == kind and not literal

    def converted(self, operand: syntax.Expr, target: str) -> str:
        """``__to<target>(operand)``."""
        source = self._tables.types.get(operand)
        target = ALIASES.get(target, target)
        cxx = CXX_TYPES[target]
        if source == target or (target == "f32" and source in _HALVES):
            text = self.single(operand)
            return f"({text})" if " " in text and not text.startswith("choreo::") else text
        if target in _HALVES:
            return f"choreo::from_f32<{cxx}>({self.single(operand)})"
        return f"{cxx}({self.single(operand)})"

    def bound_of(self, node: syntax.Expr) -> str:
        """How many values a bounded expression can take, ready to stand beside ``*``."""
        if isinstance(node, syntax.Compose):
            return f"({self.bound_of(node.left)} * {self.bound_of(node.right)})"
        if isinstance(node, syntax.Name):
            return self._symbol_bound(self._tables.uses[node])
        raise AssertionError(f"no bounded expression: {node}")

    def _symbol_bound(self, symbol: Symbol) -> str:
        plan = self._tables.levels.get(symbol)
        if plan is not None:
            return str(plan.bound)
        launch = self._tables.launch
        if launch is not None:
            for axis, (variable, bound) in zip("xyz", launch.grid, strict=False):
                if variable is symbol:
                    value = self.integer(bound)
                    return f"gridDim.{axis}" if value is None else str(value)
        if isinstance(symbol.node, syntax.Foreach):
            position = symbol.node.variables.index(symbol.name)
            return self.factor(symbol.node.bounds[position])
        raise AssertionError(f"{symbol.name} has no bound")

    def _bound(self, node: syntax.Bound) -> str:
        return self._symbol_bound(self._tables.uses[node.name])

    def _extent_of(self, node: syntax.Extent) -> tuple[str, int]:
        extents = self.extents(self._tables.uses[node.base])
        if node.dim is not None:
            dim = self.integer(node.dim)
            if dim is None:
                raise AssertionError(f"an extent's number is no constant: {node.span}")
            return self.extent(extents[dim], 12), 12
        return " * ".join(self.extent(e, 12) for e in extents), 11

    def extents(self, symbol: Symbol) -> tuple[int | syntax.Expr, ...]:
        """The shape of a tensor, buffer, fragment or view."""
        plan = self._tables.fragments.get(symbol)
        if plan is not None:
            return (plan.rows,) if plan.layout == "row" else (plan.rows, plan.columns)
        node = symbol.node
        if isinstance(node, syntax.ViewDecl):
            return self._tables.views[node.view].extents
        if isinstance(node, syntax.Transfer):
            if node.destination is not None:
                return self._tables.views[node.destination].extents
            # An anonymous buffer has no extents of 1.
            return squeezed(self._tables.views[node.source]).extents
        if isinstance(node, syntax.TensorParam | syntax.SharedDecl | syntax.LocalDecl):
            return tuple(self._known(e) for e in node.extents)
        raise AssertionError(f"{symbol.name} has no shape")

    def _known(self, node: syntax.Expr) -> int | syntax.Expr:
        value = self.integer(node)
        return node if value is None else value
