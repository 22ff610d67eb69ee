"""Which tiles always fill their dimension, and the run-time checks that make it so."""

from __future__ import annotations

from dataclasses import dataclass

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.tables import Symbol


@dataclass(frozen=True)
class WholeTiles:
    """A dimension of a parameter that must be a multiple of a tile's extent."""

    tensor: Symbol
    dim: int
    extent: int


def whole_tiles(ctx: Context) -> tuple[WholeTiles, ...]:
    """What the transfers demand, in source order, each dimension symbol and extent once.

    Rows past the end of a batch are the next batch's rows, not rows out of bounds: a transfer
    cannot tell, so that a tile has to lie in its dimension.
    """
    found: dict[tuple[object, int], WholeTiles] = {}
    for node in syntax.walk(ctx.function.body):
        if not isinstance(node, syntax.Transfer):
            continue
        plan = ctx.tables.transfers[node]
        view = plan.target if plan.kind == "tma-store" else plan.source
        for dim, extent in zip(view.dims, view.extents, strict=True):
            declared = _declared(view.root, dim)
            if isinstance(extent, int) and ctx.expressions.integer(declared) is None:
                key = (ctx.tables.uses.get(declared, declared), extent)
                found.setdefault(key, WholeTiles(view.root, dim, extent))
    # A multiple of 128 is one of 64 too.
    return tuple(
        rule
        for (size, extent), rule in found.items()
        if not any(s is size and e > extent and e % extent == 0 for s, e in found)
    )


def never_partial(ctx: Context, tensor: Symbol, dim: int, extent: int) -> bool:
    """Whether tiles of ``extent`` in a dimension always lie in it."""
    declared = _declared(tensor, dim)
    size = ctx.expressions.integer(declared)
    if size is not None:
        return size % extent == 0
    symbol = ctx.tables.uses.get(declared)
    return symbol is not None and any(
        ctx.tables.uses.get(_declared(rule.tensor, rule.dim)) is symbol
        and rule.extent % extent == 0
        for rule in whole_tiles(ctx)
    )


def _declared(tensor: Symbol, dim: int) -> syntax.Expr:
    if not isinstance(tensor.node, syntax.TensorParam):
        raise AssertionError(f"{tensor.name} is no tensor parameter")
    return tensor.node.extents[dim]
