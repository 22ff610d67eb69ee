"""Statements of the syntax tree: threads, control flow, operations, events, calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from artifact.choreo.syntax_declarations import (
    EventDecl,
    FragDecl,
    LocalDecl,
    ScalarDecl,
    SharedDecl,
    ViewDecl,
)
from artifact.choreo.syntax_expressions import (
    Element,
    Expr,
    Increment,
    Name,
    StringLit,
    Subspan,
    View,
    ViewFrom,
)
from artifact.choreo.syntax_nodes import Node


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
    """``return;`` (functions of the language return void)."""


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
