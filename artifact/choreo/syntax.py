"""The syntax tree of a ``.co`` file: plain dataclasses, each with its place in the source.

Nodes compare by identity, so that later passes can keep what they find in tables keyed by
node; :func:`same` compares two trees by shape, without their places. Nothing here knows what a
construct means: docs/language/ explains the forms, ``tables.py`` what the passes find out.

This module has a file and its functions, and the names of all nodes: who needs several writes
``from artifact.choreo import syntax`` and ``syntax.Mma``.
"""

from __future__ import annotations

from dataclasses import dataclass

from artifact.choreo.syntax_declarations import (
    EventDecl,
    FragDecl,
    LocalDecl,
    ScalarDecl,
    SharedDecl,
    ViewDecl,
)
from artifact.choreo.syntax_expressions import (
    Binary,
    BoolLit,
    Bound,
    BuiltinCall,
    ChunkAt,
    Compose,
    Convert,
    Element,
    Expr,
    Extent,
    FloatLit,
    Increment,
    Index,
    Infinity,
    IntLit,
    Name,
    SpanAs,
    Squeeze,
    StringLit,
    Subspan,
    Ternary,
    Unary,
    View,
    ViewFrom,
    ViewOp,
    Wildcard,
    int_literal,
)
from artifact.choreo.syntax_nodes import Node, Span, children, same, walk
from artifact.choreo.syntax_statements import (
    AllReduce,
    Apply,
    Assert,
    Assign,
    Block,
    Break,
    CallStmt,
    Continue,
    CopyFragment,
    ExprStmt,
    Foreach,
    If,
    Inthreads,
    LaunchBounds,
    Level,
    LevelKind,
    Mma,
    MmaFill,
    MmaLoad,
    MmaStore,
    Parallel,
    Reduce,
    Return,
    Stmt,
    Target,
    Transfer,
    Trigger,
    Wait,
    While,
)

__all__ = [
    "AllReduce",
    "Apply",
    "Assert",
    "Assign",
    "Binary",
    "Block",
    "BoolLit",
    "Bound",
    "Break",
    "BuiltinCall",
    "CallStmt",
    "ChunkAt",
    "Compose",
    "Continue",
    "Convert",
    "CopyFragment",
    "Element",
    "EventDecl",
    "Expr",
    "ExprStmt",
    "Extent",
    "File",
    "FloatLit",
    "Foreach",
    "FragDecl",
    "Function",
    "If",
    "Increment",
    "Index",
    "Infinity",
    "IntLit",
    "Inthreads",
    "LaunchBounds",
    "Level",
    "LevelKind",
    "LocalDecl",
    "Mma",
    "MmaFill",
    "MmaLoad",
    "MmaStore",
    "Name",
    "Node",
    "Parallel",
    "Reduce",
    "Return",
    "ScalarDecl",
    "ScalarParam",
    "SharedDecl",
    "Span",
    "SpanAs",
    "Squeeze",
    "Stmt",
    "StringLit",
    "Subspan",
    "Target",
    "TensorParam",
    "Ternary",
    "Text",
    "Transfer",
    "Trigger",
    "Unary",
    "View",
    "ViewDecl",
    "ViewFrom",
    "ViewOp",
    "Wait",
    "While",
    "Wildcard",
    "children",
    "int_literal",
    "same",
    "walk",
]


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
