"""Which tiles always lie in their dimension, and the run-time checks that make it so.

Rows past the end of a batch are the next batch's rows, not rows out of bounds: a transfer cannot
tell, so that a tile has to lie in its dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from artifact.choreo import syntax
from artifact.choreo.emit_bounds import largest_origin
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_expressions import Expressions
from artifact.choreo.emit_names import Names
from artifact.choreo.mma import origin_terms
from artifact.choreo.tables import Symbol, Term, ViewPlan


@dataclass(frozen=True)
class WholeTiles:
    """A dimension of a parameter that must be a multiple of a tile's extent."""

    tensor: Symbol
    dim: int
    extent: int


@dataclass(frozen=True)
class Placed:
    """A tile with an extent in a dimension that begins anywhere, not at a multiple of it."""

    tensor: Symbol
    dim: int
    extent: int
    terms: tuple[Term, ...]


def whole_tiles(ctx: Context) -> tuple[WholeTiles, ...]:
    """What the transfers demand, in source order, each dimension symbol and extent once.

    A tile that begins at a multiple of its extent, or somewhere that only the kernel knows.
    """
    found: dict[tuple[object, int], WholeTiles] = {}
    anywhere = set(placed_tiles(ctx))
    for tile in _tiles(ctx):
        if tile not in anywhere:
            declared = _declared(tile.tensor, tile.dim)
            key = (ctx.tables.uses.get(declared, declared), tile.extent)
            found.setdefault(key, WholeTiles(tile.tensor, tile.dim, tile.extent))
    # A multiple of 128 is one of 64 too.
    return tuple(
        rule
        for (size, extent), rule in found.items()
        if not any(s is size and e > extent and e % extent == 0 for s, e in found)
    )


def placed_tiles(ctx: Context) -> tuple[Placed, ...]:
    """The tiles of transfers that begin at an element which the host function knows."""
    host = _with_host_names(ctx)
    return tuple(tile for tile in _tiles(ctx) if _is_placed(host, tile))


def never_partial(ctx: Context, view: ViewPlan, dim: int, extent: int) -> bool:
    """Whether a view of ``extent`` in a dimension of its tensor always lies in it."""
    if not _aligned(ctx, origin_terms(ctx.tables, view, dim), extent):
        return False
    declared = _declared(view.root, dim)
    size = ctx.expressions.integer(declared)
    if size is not None:
        return size % extent == 0
    symbol = ctx.tables.uses.get(declared)
    return symbol is not None and any(
        ctx.tables.uses.get(_declared(rule.tensor, rule.dim)) is symbol
        and rule.extent % extent == 0
        for rule in whole_tiles(ctx)
    )


def _tiles(ctx: Context) -> Iterator[Placed]:
    """Every tile of a transfer, in the dimensions whose size is not constant."""
    for node in syntax.walk(ctx.function.body):
        if not isinstance(node, syntax.Transfer):
            continue
        plan = ctx.tables.transfers[node]
        view = plan.target if plan.kind == "tma-store" else plan.source
        for dim, extent in zip(view.dims, view.extents, strict=True):
            declared = _declared(view.root, dim)
            if isinstance(extent, int) and ctx.expressions.integer(declared) is None:
                yield Placed(view.root, dim, extent, origin_terms(ctx.tables, view, dim))


def _with_host_names(ctx: Context) -> Context:
    """A context in which everything that the host function may name has a name."""
    names = Names()
    for symbol in ctx.tables.symbols:
        if symbol.kind in ("parameter", "dimension") or (symbol.kind == "scalar" and symbol.host):
            names.declare(symbol)
    return Context(ctx.tables, ctx.source, names, Expressions(ctx.tables, names))


def _is_placed(ctx: Context, tile: Placed) -> bool:
    constant = all(ctx.expressions.integer(term.index) is not None for term in tile.terms)
    if not constant and _aligned(ctx, tile.terms, tile.extent):
        return False
    return largest_origin(ctx, tile.terms) is not None


def _aligned(ctx: Context, terms: tuple[Term, ...], extent: int) -> bool:
    """Whether an origin is always a multiple of the extent."""
    for term in terms:
        if not isinstance(term.scale, int):
            return False
        index = ctx.expressions.integer(term.index)
        if (term.scale if index is None else term.scale * index) % extent:
            return False
    return True


def _declared(tensor: Symbol, dim: int) -> syntax.Expr:
    if not isinstance(tensor.node, syntax.TensorParam):
        raise AssertionError(f"{tensor.name} is no tensor parameter")
    return tensor.node.extents[dim]
