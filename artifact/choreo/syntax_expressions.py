"""Expressions and views of the syntax tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from artifact.choreo.syntax_nodes import Node, Span


@dataclass(frozen=True, eq=False)
class IntLit(Node):
    """An integer as spelled (``text``), with its value and its suffix letters in lower case."""

    text: str
    value: int
    suffix: str


def int_literal(span: Span, value: int) -> IntLit:
    """A number that a pass puts where the source has none, as that would spell it.

    Args:
        span: The place that it is for.
        value: None below zero: a sign is an operator of its own.
    """
    return IntLit(span, str(value), value, "")


@dataclass(frozen=True, eq=False)
class FloatLit(Node):
    """A float as spelled: the spelling is what is emitted. ``suffix`` is ``f`` or empty (f64)."""

    text: str
    value: float
    suffix: str


@dataclass(frozen=True, eq=False)
class BoolLit(Node):
    """``true`` or ``false``."""

    value: bool


@dataclass(frozen=True, eq=False)
class Infinity(Node):
    """``inf``, an f32."""


@dataclass(frozen=True, eq=False)
class StringLit(Node):
    """A string; adjacent ones are one. ``text`` has the escapes as spelled, without the quotes."""

    text: str


@dataclass(frozen=True, eq=False)
class Name(Node):
    """A use of a name, possibly qualified (``croq::cuda::setreg_dec``)."""

    id: str


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """``- + ! ~`` before an operand."""

    op: str
    operand: Expr


@dataclass(frozen=True, eq=False)
class Increment(Node):
    """``i++ ++i i-- --i``: as a statement, or as the whole order of an event."""

    op: Literal["++", "--"]
    prefix: bool
    name: Name


@dataclass(frozen=True, eq=False)
class Binary(Node):
    """An operator of C between two operands."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False)
class Ternary(Node):
    """``condition ? then : otherwise``."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, eq=False)
class BuiltinCall(Node):
    """A call in an expression: ``cdiv(a, b)``, ``__exp2f(x)``, ``__max(a, b)`` ..."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Convert(Node):
    """``__to<T>(e)``."""

    type: str
    operand: Expr


@dataclass(frozen=True, eq=False)
class Bound(Node):
    """``#v``: the bound of a bounded variable."""

    name: Name


@dataclass(frozen=True, eq=False)
class Compose(Node):
    """``a # b``: ``a * #b + b``, bounded by ``#a * #b``."""

    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False)
class Element(Node):
    """``x.at(i, j)``: one element of a fragment, a global tensor or a local buffer.

    ``tile`` is the ``k`` of ``x[k].at(i, j)``, of an array of local buffers.
    """

    base: Name
    tile: Expr | None
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Index(Node):
    """``x[i]``: tile i of an array of shared tiles, or buffer i of an array of local ones."""

    base: Name
    index: Expr


@dataclass(frozen=True, eq=False)
class Extent(Node):
    """``x.span(i)`` (one extent), ``x.span`` (``dim`` is null: the whole shape) or ``|x|``."""

    base: Name
    dim: Expr | None
    count: bool = False


# Views -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Wildcard(Node):
    """``_``: the whole dimension."""


@dataclass(frozen=True, eq=False)
class Subspan(Node):
    """``.subspan(e, ..)``, with ``.step(s, ..)`` and ``.at(i, ..)`` where they stand."""

    extents: tuple[Expr | Wildcard, ...]
    steps: tuple[Expr, ...] | None
    indices: tuple[Expr, ...] | None


@dataclass(frozen=True, eq=False)
class ViewFrom(Node):
    """``.view(e, ..)`` with ``.from(o, ..)``: extents and element offsets."""

    extents: tuple[Expr, ...]
    offsets: tuple[Expr, ...] | None


@dataclass(frozen=True, eq=False)
class ChunkAt(Node):
    """``.chunkat(p, _, q)``."""

    factors: tuple[Expr | Wildcard, ...]


@dataclass(frozen=True, eq=False)
class SpanAs(Node):
    """``.span_as(d, ..)``."""

    extents: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Squeeze(Node):
    """``.sqz()``."""


@dataclass(frozen=True, eq=False)
class View(Node):
    """A base and what is taken of it, left to right; without operations the base as it is."""

    base: Name | Index
    ops: tuple[ViewOp, ...]


ViewOp = Subspan | ViewFrom | ChunkAt | SpanAs | Squeeze
Expr = (
    IntLit
    | FloatLit
    | BoolLit
    | Infinity
    | StringLit
    | Name
    | Unary
    | Increment
    | Binary
    | Ternary
    | BuiltinCall
    | Convert
    | Bound
    | Compose
    | Element
    | Index
    | Extent
)
