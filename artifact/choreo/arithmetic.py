"""Arithmetic of the language's scalars at compile time: types, and folding as C would compute."""

from __future__ import annotations

import math
from collections.abc import Sequence

from artifact.choreo import syntax

Value = int | float | bool

#: Narrow to wide, signed before unsigned of one width, so that a later one wins as in C.
INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
FLOATS = ("bf16", "f16", "f32", "f64")

#: C spellings of element types.
ALIASES = {"int": "s32", "float": "f32", "double": "f64", "half": "f16", "bfp16": "bf16"}

#: Bytes of an element.
BYTES = {
    "bool": 1,
    "s8": 1,
    "u8": 1,
    "s16": 2,
    "u16": 2,
    "bf16": 2,
    "f16": 2,
    "s32": 4,
    "u32": 4,
    "f32": 4,
    "s64": 8,
    "u64": 8,
    "f64": 8,
}

#: Builtins of one float.
UNARY_FLOAT = ("__exp2f", "__exp", "__log", "__sqrt", "__rsqrt", "__fabs")


def literal_type(literal: syntax.IntLit | syntax.FloatLit) -> str:
    """The type that a literal has on its own (co-language.md, 2)."""
    if isinstance(literal, syntax.FloatLit):
        return "f32" if literal.suffix == "f" else "f64"
    sign = "u" if "u" in literal.suffix else "s"
    narrow = f"{sign}32"
    return narrow if "l" not in literal.suffix and fits(literal.value, narrow) else f"{sign}64"


def fits(value: Value, type_: str) -> bool:
    """Whether an integer type holds a value."""
    bits = int(type_[1:])
    low, high = (0, 1 << bits) if type_[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return value == int(value) and low <= value < high


def in_range(value: float, type_: str) -> bool:
    """Whether an integer type holds a value without its fraction."""
    return math.isfinite(value) and fits(math.trunc(value), type_)


def same_after(value: Value, type_: str | None) -> bool:
    """Whether a constant is what it was after its conversion to a declared type."""
    if type_ == "bool":
        return value in (0, 1)
    return type_ not in INTEGERS or fits(value, type_)


def common(left: str, right: str) -> str:
    """The type in which two operands meet: C's rules, bf16 and f16 computed in f32."""
    if left in FLOATS or right in FLOATS:
        return "f64" if "f64" in (left, right) else "f32"
    ranks = [INTEGERS.index(t) if t in INTEGERS else 0 for t in (left, right)]
    return INTEGERS[max(*ranks, INTEGERS.index("s32"))]


def fold_unary(op: str, value: Value, type_: str) -> Value:
    """``op value``."""
    match op:
        case "-":
            return _wrapped(-value, type_)
        case "!":
            return not value
        case "~":
            return _wrapped(~int(value), type_)
    return value


def _wrapped(value: Value, type_: str) -> Value:
    """An unsigned type's value, modulo its width."""
    if type_ in INTEGERS and type_[0] == "u":
        return int(value) % (1 << int(type_[1:]))
    return value


def fold(op: str, left: Value, right: Value, type_: str) -> Value | None:
    """``left op right`` in a type; null where a signed type overflows."""
    match op:
        case "&&":
            return bool(left) and bool(right)
        case "||":
            return bool(left) or bool(right)
        case "<":
            return left < right
        case ">":
            return left > right
        case "<=":
            return left <= right
        case ">=":
            return left >= right
        case "==":
            return left == right
        case "!=":
            return left != right
    if type_ in FLOATS:
        return _fold_float(op, float(left), float(right))
    if any(isinstance(v, float) and not math.isfinite(v) for v in (left, right)):
        return None
    value = _fold_integer(op, int(left), int(right))
    if value is None or type_ not in INTEGERS:
        return None
    value = int(_wrapped(value, type_))
    return value if fits(value, type_) else None


def _fold_float(op: str, left: float, right: float) -> float | None:
    try:
        match op:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left / right if right else _by_zero(left, right)
    except OverflowError:
        return math.inf
    return None


def _by_zero(left: float, right: float) -> float:
    """IEEE 754: infinite with the sign of both, not a number of zero and of what is none."""
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _fold_integer(op: str, left: int, right: int) -> int | None:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return divide(left, right)
        case "%":
            return left - divide(left, right) * right
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "<<":
            return left << right if 0 <= right < 64 else None
        case ">>":
            return left >> right if 0 <= right < 64 else None
    return None


def divide(left: int, right: int) -> int:
    """Division that truncates toward zero, as C's does."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def fold_call(name: str, values: Sequence[Value | None]) -> Value | None:
    """A builtin of constants; null where it is not an integer's affair."""
    if any(value is None for value in values):
        return None
    numbers = [value for value in values if value is not None]
    match name:
        case "cdiv":
            if not all(isinstance(number, int) for number in numbers):
                return None
            left, right = int(numbers[0]), int(numbers[1])
            return (left + right - 1) // right if right > 0 else None
        case "__max":
            return max(numbers)
        case "__min":
            return min(numbers)
    return None
