"""Expressions as the interpreter computes them: as C would, in FP32 where the types say so.

A value is an integer, a boolean, an FP32 (or FP64) number, or within ``apply`` an array of them,
one for each element. Integers wrap as their type does; a signed overflow is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from artifact.choreo import syntax
from artifact.choreo.arithmetic import ALIASES, FLOATS, INTEGERS, common, divide, fold, fold_call
from artifact.choreo.comparisons import ABOVE, VOTE
from artifact.choreo.interpret_error import Report
from artifact.choreo.interpret_locals import Lanes, LocalBuffer
from artifact.choreo.interpret_memory import round_bf16
from artifact.choreo.tables import Symbol, Tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from artifact.choreo.interpret_fragments import Fragment

    Array = NDArray[Any]

Value = Any
_COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")


def cast(value: Value, type_: str | None) -> Value:
    """A value as one of an element type; 16-bit floats are FP32 numbers that they can represent."""
    import numpy as np

    kind = ALIASES.get(type_ or "", type_ or "")
    array = isinstance(value, np.ndarray)
    match kind:
        case "f32":
            return value.astype(np.float32) if array else np.float32(value)
        case "f64":
            return value.astype(np.float64) if array else np.float64(value)
        case "bf16":
            return round_bf16(value)
        case "f16":
            half = value.astype(np.float16) if array else np.float16(value)
            return half.astype(np.float32)
        case "bool":
            return value.astype(bool) if array else bool(value)
    if kind not in INTEGERS:
        return value
    bits = int(kind[1:])
    whole = value.astype(np.int64) if array else int(value)
    low = 0 if kind[0] == "u" else 1 << (bits - 1)
    if bits == 64 and array:
        return whole
    return ((whole + low) & ((1 << bits) - 1)) - low


class Values:
    """Evaluates expressions of one group of threads.

    Attributes:
        variables: What every symbol is at the moment: scalars, loop and parallel variables.
        bounds: The bounds of bounded variables.
        element: What a fragment's element is at the place at hand; null outside of ``apply``.
        fragments: The rows that the threads' warp has of every fragment.
        locals: The local buffers of the group's threads.
        lanes: Which of those threads compute at the place at hand.
    """

    def __init__(
        self,
        tables: Tables,
        variables: dict[Symbol, Value],
        tensors: Mapping[Symbol, Array],
        report: Report,
    ) -> None:
        self.variables = variables
        self.bounds: dict[Symbol, int] = {}
        self.element: Callable[[syntax.Element], Value] | None = None
        self.fragments: Mapping[Symbol, Fragment] = {}
        self.locals: dict[Symbol, LocalBuffer] = {}
        self.lanes = Lanes.of(0)
        self._tables = tables
        self._tensors = tensors
        self._report = report

    def of(self, node: syntax.Expr) -> Value:
        """The value of an expression, in its own type."""
        constant = self._tables.constants.get(node)
        if constant is not None:
            return cast(constant, self._type(node))
        return self._compute(node)

    def integer(self, node: syntax.Expr) -> int:
        """The value of an integer expression that is one for all threads at hand."""
        value = self.of(node)
        if not isinstance(value, int):
            raise self._report.error("unsupported", node, "this differs between threads")
        return int(value)

    def converted(self, node: syntax.Expr, type_: str | None) -> Value:
        """The value of an expression in another type."""
        return cast(self.of(node), type_)

    def _type(self, node: syntax.Expr) -> str:
        return self._tables.types.get(node, "s32")

    def _compute(self, node: syntax.Expr) -> Value:
        match node:
            case syntax.IntLit() | syntax.FloatLit() | syntax.BoolLit():
                return cast(node.value, self._type(node))
            case syntax.Infinity():
                return cast(float("inf"), "f32")
            case syntax.Name():
                return self._name(node)
            case syntax.Unary():
                return self._unary(node)
            case syntax.Binary():
                return self._binary(node)
            case syntax.Ternary():
                return self._ternary(node)
            case syntax.BuiltinCall():
                return self._call(node)
            case syntax.Convert():
                return self.converted(node.operand, node.type)
            case syntax.Bound():
                return self._bound(node.name)
            case syntax.Compose():
                return self.of(node.left) * self._bound(node.right) + self.of(node.right)
            case syntax.Extent():
                return self._extent(node)
            case syntax.Element():
                return self._element(node)
        raise self._report.error("unsupported", node, "this expression is not interpreted")

    def _name(self, node: syntax.Name) -> Value:
        symbol = self._tables.uses[node]
        if symbol not in self.variables:
            raise self._report.error(
                "unsupported",
                node,
                f"{node.id} differs between threads that the interpreter runs together",
                cause="a value may depend on the thread's warp and warpgroup, not on its lane",
            )
        return self.variables[symbol]

    # Operators ---------------------------------------------------------------------------------

    def _unary(self, node: syntax.Unary) -> Value:
        value = self.of(node.operand)
        match node.op:
            case "!":
                return ~cast(value, "bool") if _is_array(value) else not value
            case "-":
                value = -value
            case "~":
                value = ~value
        return cast(value, self._type(node))

    def _binary(self, node: syntax.Binary) -> Value:
        left = self.of(node.left)
        if node.op in ("&&", "||"):
            return self._logical(node, left)
        type_ = self._type(node.left)
        if node.op not in ("<<", ">>"):
            type_ = common(type_, self._type(node.right))
        left, right = cast(left, type_), self.converted(node.right, type_)
        if type_ in FLOATS or _is_array(left) or _is_array(right):
            return self.combine(node.op, left, right, type_)
        return self._scalar(node, left, right, type_)

    def _logical(self, node: syntax.Binary, left: Value) -> Value:
        import numpy as np

        if _is_array(left):
            right = self.of(node.right)
            return (np.logical_and if node.op == "&&" else np.logical_or)(left, right)
        if bool(left) == (node.op == "||"):
            return bool(left)
        right = self.of(node.right)
        return right if _is_array(right) else bool(right)

    def _scalar(self, node: syntax.Binary, left: Value, right: Value, type_: str) -> Value:
        if node.op in ("/", "%") and right == 0:
            raise self._report.error("out-of-range", node, "this divides by zero")
        value = fold(node.op, left, right, type_)
        if value is None:
            raise self._report.error(
                "out-of-range", node, f"{left} {node.op} {right} does not fit {type_}"
            )
        return value

    def combine(self, op: str, left: Value, right: Value, type_: str) -> Value:
        """``left op right`` of FP32 numbers or of arrays, whose type is ``type_``."""
        import numpy as np

        if op in _COMPARISONS:
            compare = {
                "<": np.less,
                ">": np.greater,
                "<=": np.less_equal,
                ">=": np.greater_equal,
                "==": np.equal,
                "!=": np.not_equal,
            }[op]
            found = compare(left, right)
            return found if _is_array(found) else bool(found)
        if type_ in FLOATS:
            with np.errstate(all="ignore"):
                operate = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op]
                return cast(operate(left, right), type_)
        whole: dict[str, Callable[[Value, Value], Value]] = {
            "+": np.add,
            "-": np.subtract,
            "*": np.multiply,
            "&": np.bitwise_and,
            "|": np.bitwise_or,
            "^": np.bitwise_xor,
            "<<": np.left_shift,
            ">>": np.right_shift,
            "/": np.vectorize(divide, otypes=[np.int64]),
            "%": np.fmod,
        }
        return cast(whole[op](left, right), type_)

    def _ternary(self, node: syntax.Ternary) -> Value:
        import numpy as np

        condition = self.of(node.condition)
        type_ = self._type(node)
        if not _is_array(condition):
            return self.converted(node.then if condition else node.otherwise, type_)
        then, otherwise = (self.converted(n, type_) for n in (node.then, node.otherwise))
        return np.where(condition, then, otherwise)

    def _call(self, node: syntax.BuiltinCall) -> Value:
        import numpy as np

        type_ = self._type(node)
        if node.name == VOTE:
            # The threads at hand are those of a warp, each with its own elements.
            outer, self.lanes = self.lanes, replace(self.lanes, apart=True)
            try:
                return bool(np.any(self.of(node.args[0])))
            finally:
                self.lanes = outer
        if node.name == ABOVE:
            matrix, limit = (self.fragments[self._tables.uses[name]] for name in node.args)
            return matrix.above(limit, node)
        if type_ in INTEGERS:
            values = [self.of(argument) for argument in node.args]
            if not any(map(_is_array, values)):
                value = fold_call(node.name, values)
                if value is None:
                    raise self._report.error("out-of-range", node, "this has no value")
                return cast(value, type_)
        arguments = [self.converted(argument, type_) for argument in node.args]
        functions: dict[str, Callable[..., Value]] = {
            "__exp2f": np.exp2,
            "__exp": np.exp,
            "__log": np.log,
            "__sqrt": np.sqrt,
            "__rsqrt": lambda x: 1 / np.sqrt(x),
            "__fabs": np.abs,
            "__fmaf": lambda a, b, c: np.float64(a) * b + c,
            # A number wins over a NaN, as fmaxf and fminf do.
            "__max": np.fmax,
            "__min": np.fmin,
        }
        if node.name not in functions:
            raise self._report.error("unsupported", node, f"{node.name} is not interpreted")
        with np.errstate(all="ignore"):
            return cast(functions[node.name](*arguments), type_)

    # Bounds, shapes, memory --------------------------------------------------------------------

    def _bound(self, node: syntax.Expr) -> int:
        if isinstance(node, syntax.Compose):
            return self._bound(node.left) * self._bound(node.right)
        if isinstance(node, syntax.Name):
            symbol = self._tables.uses[node]
            plan = self._tables.levels.get(symbol)
            return plan.bound if plan is not None else self.bounds[symbol]
        raise self._report.error("unsupported", node, "this has no bound")

    def _extent(self, node: syntax.Extent) -> int:
        import math

        extents = self._extents(self._tables.uses[node.base])
        if node.dim is None:
            return math.prod(extents)
        return extents[self.integer(node.dim)]

    def _extents(self, symbol: Symbol) -> list[int]:
        plan = self._tables.fragments.get(symbol)
        if plan is not None:
            return [plan.rows] if plan.layout == "row" else [plan.rows, plan.columns]
        node = symbol.node
        if symbol in self._tensors:
            return list(self._tensors[symbol].shape)
        if isinstance(node, syntax.SharedDecl | syntax.LocalDecl):
            return [self.integer(extent) for extent in node.extents]
        view = node.view if isinstance(node, syntax.ViewDecl) else None
        if isinstance(node, syntax.Transfer):
            view = node.source
        if view is None:
            raise self._report.error("unsupported", node, f"{symbol.name} has no shape")
        return [self.extent(extent) for extent in self._tables.views[view].extents]

    def extent(self, extent: int | syntax.Expr) -> int:
        """An extent as the tables have it."""
        return extent if isinstance(extent, int) else self.integer(extent)

    def _element(self, node: syntax.Element) -> Value:
        symbol = self._tables.uses[node.base]
        if symbol.kind == "fragment":
            if self.element is None:
                raise self._report.error(
                    "unsupported", node, f"an element of {node.base.id} outside of apply"
                )
            return self.element(node)
        if symbol.kind == "local":
            return cast(self.locals[symbol].read(*self.place(node), self.lanes, node), symbol.type)
        tensor = self._tensors[symbol]
        indices = tuple(self.of(index) for index in node.indices)
        for index, extent in zip(indices, tensor.shape, strict=True):
            if _any(index < 0) or _any(index >= extent):
                raise self._report.error(
                    "out-of-range", node, f"an index of {node.base.id}, whose extent is {extent}"
                )
        return cast(tensor[indices], symbol.type)

    def place(self, node: syntax.Element) -> tuple[Value, tuple[Value, ...]]:
        """The number of the buffer and the indices of a local buffer's element."""
        number = 0 if node.tile is None else self.of(node.tile)
        return number, tuple(self.of(index) for index in node.indices)

    def set_element(
        self, node: syntax.Element, op: str, value: syntax.Expr, symbol: Symbol
    ) -> None:
        """Assign an element of a local buffer, in the threads at hand."""
        type_ = symbol.type or "f32"
        buffer, place = self.locals[symbol], self.place(node)
        new = self.converted(value, type_)
        if op != "=":
            old = cast(buffer.read(*place, self.lanes, node), type_)
            new = cast(self.combine(op[:-1], old, new, type_), type_)
        buffer.write(*place, self.lanes, new, node)


def _is_array(value: Value) -> bool:
    import numpy as np

    return isinstance(value, np.ndarray)


def _any(value: Value) -> bool:
    return bool(value.any()) if _is_array(value) else bool(value)
