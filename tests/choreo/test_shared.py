"""Shared buffers: places and swizzles."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest


def test_tiles_begin_at_multiples_of_1024_and_share_nothing(threads: Callable) -> None:
    analysed = threads("shared f32 [3, 5] small[3], other;").clean()
    small, other = (analysed.tables.shared[analysed.symbol(n)] for n in ("small", "other"))
    assert (small.tile_bytes, small.tiles, small.rows, small.columns) == (1024, 3, 3, 5)
    assert other.offset == small.offset + 3 * 1024
    places = sorted(
        (p.offset, p.offset + p.tiles * p.tile_bytes) for p in analysed.tables.shared.values()
    )
    assert all(start % 1024 == 0 for start, _ in places)
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    assert analysed.tables.shared_bytes == places[-1][1]


def test_a_buffer_has_the_swizzle_of_its_load(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 0) {\n"
        "  f = tma.load.async.swiz<64> q.subspan(128, 128).at(tile, 0) => q_tile;\n  wait f;\n}"
    ).clean()
    assert analysed.tables.shared[analysed.symbol("q_tile")].swizzle == 64


@pytest.mark.parametrize(
    ("columns", "swizzle"), [(128, 128), (64, 128), (32, 64), (16, 32), (8, 0)]
)
def test_a_buffer_that_only_mma_fills_has_the_widest_that_fits(
    consumer: Callable, columns: int, swizzle: int
) -> None:
    analysed = consumer(
        f"shared bf16 [128, {columns}] out;\nacc = mma.fill.f32 0.0f;\n"
        f"mma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), "
        f"ring[0].subspan({columns}, 128).at(0, 0);\n"
        f"mma.store acc, out.subspan(64, {columns}).at(cid, 0);\n"
        f"tma.copy out => o.subspan(128, {columns}).at(tile, 0);"
    ).clean()
    assert analysed.tables.shared[analysed.symbol("out")].swizzle == swizzle
    assert analysed.transfers()[-1].map.swizzle == swizzle


def test_a_store_may_say_the_swizzle_of_such_a_buffer(consumer: Callable) -> None:
    analysed = consumer(
        "shared bf16 [128, 128] out;\nacc = mma.fill.f32 0.0f;\n"
        "mma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
        "mma.store acc, out.subspan(64, 128).at(cid, 0);\n"
        "tma.copy.swiz<64> out => o.subspan(128, 128).at(tile, 0);"
    ).clean()
    assert analysed.tables.shared[analysed.symbol("out")].swizzle == 64


def test_the_transfers_of_a_buffer_agree(threads: Callable) -> None:
    load = "tma.load.async{} q.subspan(128, 128).at(tile, 0) => q_tile"
    body = "inthreads (p == 0) {{\n  f = {};\n  wait f;\n  g = {};\n  wait g;\n}}"
    both = threads(body.format(load.format(".swiz<128>"), load.format("")))
    assert both.codes == ["swizzle-differs"]
    assert both.said("swizzle-differs").span.line == 12
    threads(body.format(load.format(".swiz<128>"), load.format(".swiz<128>"))).clean()
