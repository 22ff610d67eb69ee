"""What all nodes of the syntax tree have, and the ways through them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below one, in source order."""
    # The fields of a dataclass, at the price of an attribute: every way through a tree asks.
    for name in node.__match_args__:
        value = getattr(node, name)
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
        same(getattr(left, name), getattr(right, name))
        for name in left.__match_args__
        if name != "span"
    )
