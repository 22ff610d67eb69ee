"""The kinds of symbols: which of them may stand where, and how messages call them."""

from __future__ import annotations

from artifact.choreo.tables import SymbolKind

#: What a scalar expression may read.
SCALARS: frozenset[SymbolKind] = frozenset(
    ("parameter", "dimension", "scalar", "mutable", "level", "loop", "coordinate")
)
#: What has a bound.
BOUNDED: frozenset[SymbolKind] = frozenset(("level", "loop", "coordinate"))
TENSORS: frozenset[SymbolKind] = frozenset(("tensor",))
FRAGMENTS: frozenset[SymbolKind] = frozenset(("fragment",))
LOCALS: frozenset[SymbolKind] = frozenset(("local",))
ELEMENTS: frozenset[SymbolKind] = TENSORS | FRAGMENTS | LOCALS
BUFFERS: frozenset[SymbolKind] = frozenset(("tensor", "shared", "view"))
SHAPED: frozenset[SymbolKind] = BUFFERS | FRAGMENTS | LOCALS
MUTABLE: frozenset[SymbolKind] = frozenset(("mutable",))
EVENT: frozenset[SymbolKind] = frozenset(("event",))
FUTURE: frozenset[SymbolKind] = frozenset(("future",))
WAITABLE: frozenset[SymbolKind] = EVENT | FUTURE
ARGUMENTS: frozenset[SymbolKind] = SCALARS | BUFFERS | FRAGMENTS | LOCALS

WITH_ARTICLE: dict[SymbolKind, str] = {
    "tensor": "a tensor parameter",
    "parameter": "a parameter",
    "dimension": "a dimension symbol",
    "scalar": "an immutable scalar",
    "mutable": "a mutable scalar",
    "level": "a variable of parallel",
    "loop": "a variable of foreach",
    "coordinate": "a coordinate of apply",
    "view": "a view",
    "shared": "a shared buffer",
    "local": "a local buffer",
    "event": "an event",
    "fragment": "a fragment",
    "future": "a future",
}

USE_INSTEAD: dict[SymbolKind, str] = {
    "event": "events are named only by wait and trigger",
    "future": "futures are named only by wait and 'trigger .. after'",
    "fragment": "read an element with .at(..) inside an apply",
    "tensor": "read an element with .at(..)",
    "shared": "shared buffers are used through transfers and MMAs",
    "local": "a thread reads and writes its local buffer element by element: .at(..)",
    "view": "views are used through transfers and MMAs",
    "scalar": "declare it 'mutable' if it is meant to change",
}

ASSIGN_INSTEAD: dict[SymbolKind, str] = {
    "scalar": "declare it 'mutable'",
    "parameter": "copy it: 'mutable n2 = n;'",
    "fragment": "assign its elements inside an apply, or use mma.fill",
    "local": "assign its elements: .at(..) = ..",
    "loop": "a loop variable is counted by its loop; use a mutable of your own",
}
