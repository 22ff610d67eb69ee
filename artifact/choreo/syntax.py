"""The syntax tree of a ``.co`` file: plain dataclasses, each with its place in the source.

Nodes compare by identity, so that later passes can keep what they find in tables keyed by
node; :func:`same` compares two trees by shape, without their places. Nothing here knows what a
construct means: docs/language/ explains the forms, ``tables.py`` what the passes find out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal


@dataclass(frozen=True, slots=True)
class Span:
    """Where a node stands in the original file; counted from 1, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, eq=False)
class Node:
    """What every node has."""

    span: Span


# Expressions -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class IntLit(Node):
    """An integer as spelled (``text``), with its value and its suffix letters in lower case."""

    text: str
    value: int
    suffix: str


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


# Declarations ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScalarDecl(Node):
    """``x = e;`` for a new name, ``int n = e;``, ``mutable [T] k = e;``.

    ``type`` is null where it is inferred. Whether ``x = e;`` declares or assigns is decided by
    the names pass: the parser makes it an :class:`Assign`.
    """

    name: str
    type: str | None
    mutable: bool
    value: Expr


@dataclass(frozen=True, eq=False)
class ViewDecl(Node):
    """``v = Q.subspan(..)...;``: a name for a view."""

    name: str
    view: View


@dataclass(frozen=True, eq=False)
class SharedDecl(Node):
    """``shared T [d, ..] name;`` or ``name[N];``, one name a node."""

    type: str
    extents: tuple[Expr, ...]
    name: str
    tiles: Expr | None


@dataclass(frozen=True, eq=False)
class LocalDecl(Node):
    """``local T [d, ..] name {init};`` or ``name[N] {init};``, one name a node."""

    type: str
    extents: tuple[Expr, ...]
    name: str
    tiles: Expr | None
    init: Expr | None


@dataclass(frozen=True, eq=False)
class EventDecl(Node):
    """``shared event e;``, ``e[N]``, ``= ready``, one name a node; ``count`` of ``event<N>``."""

    name: str
    slots: Expr | None
    ready: bool
    count: Expr | None


@dataclass(frozen=True, eq=False)
class FragDecl(Node):
    """``frag T [d, ..] name {init};``."""

    type: str
    extents: tuple[Expr, ...]
    name: str
    init: Expr | None


# Statements ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Assign(Node):
    """``target op value``; ``op`` is ``=`` or a compound such as ``+=``."""

    target: Name | Element
    op: str
    value: Expr


@dataclass(frozen=True, eq=False)
class Block(Node):
    """``{ ... }``; a body of one statement is a block of one."""

    body: tuple[Stmt, ...]


LevelKind = Literal["block", "group-4", "group", "thread"]


@dataclass(frozen=True, eq=False)
class Level(Node):
    """One level of ``parallel``: its variables, their bounds (as many) and where it maps to."""

    variables: tuple[str, ...]
    bounds: tuple[Expr, ...]
    kind: LevelKind | None


@dataclass(frozen=True, eq=False)
class LaunchBounds(Node):
    """``[[launch_bounds(M, m)]]``; a wildcard is null."""

    max_threads: Expr | None
    min_blocks: Expr | None
    max_cluster: Expr | None


@dataclass(frozen=True, eq=False)
class Parallel(Node):
    """``parallel[.async] levels body``; nested levels stand outermost first."""

    is_async: bool
    levels: tuple[Level, ...]
    launch_bounds: LaunchBounds | None
    body: Block


@dataclass(frozen=True, eq=False)
class Inthreads(Node):
    """``inthreads[.async] (condition) body``: a role."""

    is_async: bool
    condition: Expr
    body: Block


@dataclass(frozen=True, eq=False)
class Foreach(Node):
    """``foreach {i, ..} in [n, ..] body``; the left variable is the outer loop."""

    variables: tuple[str, ...]
    bounds: tuple[Expr, ...]
    body: Block


@dataclass(frozen=True, eq=False)
class While(Node):
    """``while (condition) body``."""

    condition: Expr
    body: Block


@dataclass(frozen=True, eq=False)
class If(Node):
    """``if (condition) then else otherwise``."""

    condition: Expr
    then: Block
    otherwise: Block | None


@dataclass(frozen=True, eq=False)
class Break(Node):
    """``break;``."""


@dataclass(frozen=True, eq=False)
class Continue(Node):
    """``continue;``."""


@dataclass(frozen=True, eq=False)
class Transfer(Node):
    """``[f =] dma|tma.copy|load[.async][.evict_*][.swiz<N>] source => destination;``.

    ``destination`` null is ``=> shared``: an anonymous buffer of the source's shape, which the
    result names.
    """

    result: str | None
    engine: Literal["dma", "tma"]
    operation: Literal["copy", "load"]
    is_async: bool
    evict: Literal["evict_first", "evict_last"] | None
    swizzle: int | None
    source: View
    destination: View | None


@dataclass(frozen=True, eq=False)
class MmaFill(Node):
    """``acc = mma.fill[.f32] value;``."""

    accumulator: str
    type: str | None
    value: Expr


@dataclass(frozen=True, eq=False)
class Mma(Node):
    """``[f =] mma.row.row|col[.async] acc, a, b;``: acc += A * B."""

    result: str | None
    a_order: Literal["row", "col"]
    b_order: Literal["row", "col"]
    is_async: bool
    accumulator: Name
    a: View
    b: View


@dataclass(frozen=True, eq=False)
class MmaLoad(Node):
    """``a = mma.load view;``: a register operand from shared memory."""

    fragment: str
    source: View


@dataclass(frozen=True, eq=False)
class MmaStore(Node):
    """``mma.store acc, view;``."""

    accumulator: Name
    destination: View


@dataclass(frozen=True, eq=False)
class Reduce(Node):
    """``reduce_max(dst, src, 1);`` or ``reduce_sum``."""

    kind: Literal["max", "sum"]
    target: Name
    source: Name
    dim: Expr


@dataclass(frozen=True, eq=False)
class AllReduce(Node):
    """``all_reduce_max(v);`` or ``all_reduce_sum``."""

    kind: Literal["max", "sum"]
    target: Name


@dataclass(frozen=True, eq=False)
class CopyFragment(Node):
    """``copy(dst, src);``."""

    target: Name
    source: Name


@dataclass(frozen=True, eq=False)
class Apply(Node):
    """``apply {i, j} in x.span body``; ``part``: the box of it that a view operation names."""

    variables: tuple[str, ...]
    fragment: Name
    part: Subspan | ViewFrom | None
    body: Block


@dataclass(frozen=True, eq=False)
class Target(Node):
    """``e``, ``e[i]`` (``index``), ``e.at(order)`` (``order``), or a future."""

    name: Name
    index: Expr | None
    order: Expr | None


@dataclass(frozen=True, eq=False)
class Wait(Node):
    """``wait target, ..;``."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, eq=False)
class Trigger(Node):
    """``trigger target, .. [after future, ..];``."""

    targets: tuple[Target, ...]
    after: tuple[Name, ...]


@dataclass(frozen=True, eq=False)
class CallStmt(Node):
    """``call name<..>(args);``; an argument is an expression or a view."""

    name: Name
    template_args: tuple[Expr, ...]
    args: tuple[Expr | View, ...]


@dataclass(frozen=True, eq=False)
class Assert(Node):
    """``assert(condition, "text");``."""

    condition: Expr
    text: StringLit | None


@dataclass(frozen=True, eq=False)
class ExprStmt(Node):
    """``i++;``."""

    value: Increment


@dataclass(frozen=True, eq=False)
class Return(Node):
    """``return;`` (the four kernels return void)."""


Stmt = (
    ScalarDecl
    | ViewDecl
    | SharedDecl
    | LocalDecl
    | EventDecl
    | FragDecl
    | Assign
    | Block
    | Parallel
    | Inthreads
    | Foreach
    | While
    | If
    | Break
    | Continue
    | Transfer
    | MmaFill
    | MmaLoad
    | Mma
    | MmaStore
    | Reduce
    | AllReduce
    | CopyFragment
    | Apply
    | Wait
    | Trigger
    | CallStmt
    | Assert
    | ExprStmt
    | Return
)


# Top level -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TensorParam(Node):
    """``global T [d, ..] name``; an extent that is an unknown name declares a dimension symbol."""

    is_global: bool
    type: str
    extents: tuple[Expr, ...]
    name: str


@dataclass(frozen=True, eq=False)
class ScalarParam(Node):
    """``int n``: by value."""

    type: str
    name: str


@dataclass(frozen=True, eq=False)
class Function(Node):
    """``__co__ void name(params) body``."""

    returns: str
    name: str
    params: tuple[TensorParam | ScalarParam, ...]
    body: Block


@dataclass(frozen=True, eq=False)
class Text(Node):
    """C++ that is copied through unchanged: host text, ``__device__`` functions, directives."""

    text: str


@dataclass(frozen=True, eq=False)
class File(Node):
    """A whole file, its parts in source order."""

    path: str
    parts: tuple[Text | Function, ...]


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below one, in source order."""
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, Node):
                    yield item


def walk(node: Node) -> Iterator[Node]:
    """A node and everything below it, in source order."""
    yield node
    for child in children(node):
        yield from walk(child)


def same(left: object, right: object) -> bool:
    """Whether two trees have one shape and spelling, wherever they stand."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if not isinstance(left, Node) or not isinstance(right, Node):
        return left == right
    return type(left) is type(right) and all(
        same(getattr(left, f.name), getattr(right, f.name))
        for f in fields(left)
        if f.name != "span"
    )
