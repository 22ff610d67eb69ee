"""Trees with statements elsewhere, or otherwise, than in the source: what the passes make."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from artifact.choreo import syntax

_N = TypeVar("_N", bound=syntax.Node)
Added = dict[tuple[syntax.Block, int], list[syntax.Stmt]]
"""New statements by block and position: before the statement that stands there."""


@dataclass
class Moved:
    """A function with statements elsewhere than in its source, or others in their place.

    Attributes:
        function: The whole tree. Statements that did not change are the source's own nodes; every
            node has the place in the source that it came from.
        notes: What the generated text says of each statement that moved, changed or was added.
    """

    function: syntax.Function
    notes: dict[syntax.Stmt, str] = field(default_factory=dict)


def edited(node: _N, removed: set[syntax.Stmt], added: Added) -> _N:
    """A tree with statements taken out and put in; what did not change is shared.

    Args:
        node: The tree.
        removed: Statements of it.
        added: Others, also such as were removed elsewhere.
    """
    changes: dict[str, Any] = {}
    for part in fields(node):
        value = getattr(node, part.name)
        if isinstance(value, syntax.Node):
            new = edited(value, removed, added)
            if new is not value:
                changes[part.name] = new
        elif isinstance(value, tuple):
            items: list[Any] = [
                edited(v, removed, added) if isinstance(v, syntax.Node) else v for v in value
            ]
            if isinstance(node, syntax.Block):
                items = _with_edits(node, items, removed, added)
            if len(items) != len(value) or any(map(operator.is_not, items, value)):
                changes[part.name] = tuple(items)
    return replace(node, **changes) if changes else node


def _with_edits(
    block: syntax.Block, items: Sequence[syntax.Stmt], removed: set[syntax.Stmt], added: Added
) -> list[syntax.Stmt]:
    """What a block has in place of its statements, which are edited themselves."""
    made: list[syntax.Stmt] = []
    for position, (stmt, new) in enumerate(zip(block.body, items, strict=True)):
        made += added.get((block, position), ())
        if stmt not in removed:
            made.append(new)
    return made + added.get((block, len(block.body)), [])
