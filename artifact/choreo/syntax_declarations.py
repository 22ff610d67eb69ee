"""Declarations of the syntax tree: what gives a name its meaning, and is not an operation."""

from __future__ import annotations

from dataclasses import dataclass

from artifact.choreo.syntax_expressions import Expr, View
from artifact.choreo.syntax_nodes import Node


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
