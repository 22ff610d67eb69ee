"""The shared pass: shape, swizzle and place of every shared buffer.

Rules (co-language.md, 9, 11, 13):

* Buffers lie one after the other in the order of their declarations, each tile at a multiple of
  1024 bytes, which a 128-byte swizzle needs. None shares its space with another [R].
* A buffer's swizzle is that of the transfers that fill it; they agree. A buffer that only
  ``mma.store`` fills has that of the stores that read it, or the widest that its rows allow.
* A swizzle divides the rows of its buffer: each row is whole panels of that many bytes.
"""

from __future__ import annotations

from math import prod

from artifact.choreo import syntax
from artifact.choreo.arithmetic import BYTES
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import SharedPlan, Symbol, Tables
from artifact.choreo.traverse import statements
from artifact.choreo.views import shape_of

ALIGNMENT = 1024


def place_buffers(tables: Tables, diagnostics: Diagnostics) -> None:
    """Fill ``shared`` and ``shared_bytes``."""
    for symbol in tables.symbols:
        if symbol.kind != "shared":
            continue
        shape = shape_of(tables, symbol)
        if shape is None:
            continue
        sizes = [extent for extent in shape if isinstance(extent, int)]
        if len(sizes) != len(shape):
            diagnostics.error(
                "not-constant",
                symbol.node,
                f"the size of {symbol.name} is not known at compile time",
                rule="shared buffers have constant sizes",
                repair="copy a tile with constant extents",
            )
            continue
        _place(tables, diagnostics, symbol, sizes)


def _place(tables: Tables, diagnostics: Diagnostics, symbol: Symbol, sizes: list[int]) -> None:
    element = BYTES.get(symbol.type or "", 1)
    columns = sizes[-1] if sizes else 1
    rows = prod(sizes[:-1])
    node = symbol.node
    tiles = 1
    if isinstance(node, syntax.SharedDecl) and node.tiles is not None:
        count = tables.constants.get(node.tiles)
        tiles = count if isinstance(count, int) else 1
    # A multiple of 1024, so that every tile of an array begins at one.
    tile_bytes = -(-rows * columns * element // ALIGNMENT) * ALIGNMENT
    tables.shared[symbol] = SharedPlan(
        offset=tables.shared_bytes,
        tile_bytes=tile_bytes,
        tiles=tiles,
        rows=rows,
        columns=columns,
        swizzle=_swizzle(tables, diagnostics, symbol, columns * element),
    )
    tables.shared_bytes += tiles * tile_bytes


def _swizzle(tables: Tables, diagnostics: Diagnostics, symbol: Symbol, row_bytes: int) -> int:
    """The one swizzle that everything which fills the buffer says."""
    fills, stores, written = _transfers(tables, symbol)
    asked = [(t, t.swizzle or 0) for t in fills]
    if not fills:
        asked = [(t, t.swizzle) for t in stores if t.swizzle is not None]
    if not asked:
        wide = written and symbol.type in ("bf16", "f16")
        return next((s for s in (128, 64, 32) if wide and row_bytes % s == 0), 0)
    _, swizzle = asked[0]
    others = [(t, t.swizzle) for t in stores if t.swizzle is not None]
    for transfer, other in asked[1:] + (others if fills else []):
        if other != swizzle:
            diagnostics.error(
                "swizzle-differs",
                transfer,
                f"{symbol.name} has a swizzle of {swizzle} bytes by line "
                f"{asked[0][0].span.line}, here {other}",
                rule="all transfers of a buffer use one swizzle",
                repair=f"write .swiz<{swizzle}>"
                if swizzle
                else "drop the swizzle, or use it in all",
            )
    if swizzle and row_bytes % swizzle:
        diagnostics.error(
            "swizzle-box",
            asked[0][0],
            f"a swizzle of {swizzle} bytes does not match rows of {row_bytes} bytes",
            rule="a row of a swizzled tile is a multiple of the swizzle",
            repair=_swizzle_repair(row_bytes),
        )
        return 0
    return swizzle


def _swizzle_repair(row_bytes: int) -> str:
    fitting = next((s for s in (128, 64, 32) if row_bytes % s == 0), None)
    return f"write .swiz<{fitting}>" if fitting else "widen the tile, or drop the swizzle"


def _transfers(
    tables: Tables, symbol: Symbol
) -> tuple[list[syntax.Transfer], list[syntax.Transfer], bool]:
    """The transfers into a buffer, those out of it, and whether ``mma.store`` writes it."""
    fills, stores, written = [], [], False
    for stmt in statements(tables.function.body):
        if isinstance(stmt, syntax.MmaStore):
            plan = tables.views.get(stmt.destination)
            written = written or (plan is not None and plan.root is symbol)
        elif isinstance(stmt, syntax.Transfer):
            source = tables.views.get(stmt.source)
            target = tables.views.get(stmt.destination) if stmt.destination else None
            into_anonymous = stmt.destination is None and symbol.node is stmt
            if into_anonymous or (target is not None and target.root is symbol):
                fills.append(stmt)
            if source is not None and source.root is symbol:
                stores.append(stmt)
    return fills, stores, written
