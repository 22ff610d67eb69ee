"""Transfers: maps, leaders, barriers, and what completes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from artifact.choreo.tables import TensorMapPlan

LOAD = "tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;\n"


def test_the_old_spelling_of_a_load_is_a_load(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 0) {\n"
        "  f = tma.copy.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;\n"
        "  trigger loaded after f;\n}\ninthreads (p > 0) {\n  wait loaded;\n}"
    ).clean()
    (plan,) = analysed.transfers()
    assert (plan.kind, plan.bytes, plan.rows, plan.columns) == ("tma-load", 32768, 128, 128)
    assert plan.map == TensorMapPlan("Q", 2, 1, 128, 128, 128)
    assert plan.event is analysed.symbol("loaded")


def test_a_synchronous_load_has_a_hidden_event_that_its_threads_wait_for(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 0 && t < 32) {\n"
        "  tma.load.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;\n}"
    ).clean()
    (plan,) = analysed.transfers()
    assert plan.slot is None and plan.event is not None
    assert analysed.tables.events[plan.event].waiting == (1 << 32) - 1


@pytest.mark.parametrize(
    ("condition", "leader"),
    [("p == 0", 0), ("p == 0 && t >= 32", 32), ("p > 0", 128), ("p == 2 && t == 77", 256 + 77)],
)
def test_exactly_one_thread_issues_the_lowest(
    threads: Callable, condition: str, leader: int
) -> None:
    analysed = threads(f"inthreads ({condition}) {{\n  f = {LOAD}  wait f;\n}}").clean()
    assert analysed.transfers()[0].leaders == (leader,)


@pytest.mark.parametrize(
    "tile", ["ring[p - 1]", "ring[t % 2]", "q_tile.subspan(128, 64).at(0, p - 1)"]
)
def test_the_threads_of_a_load_name_one_tile(threads: Callable, tile: str) -> None:
    columns = 64 if "64" in tile else 128
    analysed = threads(
        f"inthreads (p > 0) {{\n  f = tma.load.async.swiz<128> "
        f"q.subspan(128, {columns}).at(tile, 0) => {tile};\n  wait f;\n}}"
    )
    assert analysed.codes == ["transfer-differs"]


def test_a_tile_of_the_warpgroup_is_one_tile_for_a_role_of_one(threads: Callable) -> None:
    threads(
        "inthreads (p == 1) {\n  f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0)"
        " => ring[p - 1];\n  wait f;\n}"
    ).clean()


def test_a_store_of_each_warpgroup_has_its_leaders_and_barriers(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p > 0) {\n  cid = p - 1;\n  tma.copy ring[cid] => o.subspan(128, 128)"
        ".at(tile * 2 + cid, 0);\n}"
    ).clean()
    (plan,) = analysed.transfers()
    assert plan.leaders == (128, 256)
    assert (plan.barrier, plan.barrier_threads) == (13, 128)


def test_barriers_of_stores_avoid_each_other_and_those_of_events(threads: Callable) -> None:
    analysed = threads(
        "inthreads.async (p == 0) {\n  foreach {i} in [n] {\n    wait taken;\n"
        f"    f = {LOAD}    trigger loaded after f;\n  }}\n}}\n"
        "inthreads.async (p > 0) {\n  foreach {i} in [n] {\n    wait loaded;\n"
        "    trigger taken;\n  }\n  tma.copy ring[0] => o.subspan(128, 128).at(tile, 0);\n"
        "  tma.copy ring[p - 1] => o.subspan(128, 128).at(tile, 0);\n"
        "  inthreads (p == 1) {\n    tma.copy ring[1] => o.subspan(128, 128).at(tile, 0);\n  }\n}"
    ).clean()
    assert analysed.event("taken").barrier == 14
    stores = [p for p in analysed.transfers() if p.kind == "tma-store"]
    ids = [{p.barrier + k for k in range(len(p.leaders))} for p in stores]
    assert ids[0] == {15}
    assert not ids[0] & ids[1] and not ids[1] & ids[2] and not ids[0] & ids[2]
    assert all(14 not in found for found in ids)


def test_a_store_by_one_thread_is_no_meeting_of_warps(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 0 && t == 0) {\n  tma.copy q_tile => o.subspan(128, 128).at(tile, 0);\n}"
    )
    assert analysed.codes == ["partial-warps"]


def test_a_buffer_that_is_written_after_its_store_is_marked(threads: Callable) -> None:
    store = "tma.copy q_tile => o.subspan(128, 128).at(tile, 0);\n"
    fill = "dma.copy q.subspan(128, 128).at(tile, 0) => q_tile;\n"

    def reused(body: str) -> bool:
        return threads(body).clean().transfers()[-1 if body.endswith(store) else 0].reused

    assert not reused(fill + store)
    assert reused(store + fill)
    in_loop = threads(f"foreach {{i}} in [n] {{\n{fill}{store}}}").clean()
    assert [p.reused for p in in_loop.transfers()] == [False, True]


def test_a_cooperative_copy_in_a_role_meets_at_a_barrier_of_its_own(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p > 0) {\n  dma.copy.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;\n}\n"
        "dma.copy.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[0];"
    ).clean()
    role, block = analysed.transfers()
    assert (role.barrier, role.barrier_threads) == (15, 256)
    assert (block.barrier, block.barrier_threads) == (None, 384)


def test_a_squeezed_row_is_a_tile_of_one_row(threads: Callable) -> None:
    analysed = threads(
        "shared bf16 [1, 128] row;\ninthreads (p == 0) {\n"
        "  f = tma.load.async q.subspan(1, 128).at(tile, 0) => row;\n  wait f;\n}"
    ).clean()
    (plan,) = analysed.transfers()
    assert (plan.rows, plan.columns, plan.map.row_dim) == (1, 128, 2) or plan.map.row_dim == 1


def test_a_tile_of_four_dimensions_is_squeezed(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 0) {\n  f = tma.load.async.swiz<128> "
        "Q.subspan(1, 128, 1, 128).at(batch, tile, head, 0) => q_tile;\n  wait f;\n}"
    ).clean()
    (plan,) = analysed.transfers()
    assert (plan.map.row_dim, plan.source.dims, plan.source.extents) == (1, (1, 3), (128, 128))


@pytest.mark.parametrize(
    ("between", "codes"),
    [
        ("x = 1;", []),
        ("order++;", ["order-changes"]),
        ("order = order + 1;", ["order-changes"]),
        ("other++;", []),
        ("if (n > 0) {\n order++;\n}", ["order-changes"]),
    ],
)
def test_nothing_between_a_load_and_its_trigger_changes_the_order(
    threads: Callable, between: str, codes: list[str]
) -> None:
    analysed = threads(
        "inthreads (p == 0) {\n  mutable u32 order = 0;\n  mutable u32 other = 0;\n"
        f"  f = {LOAD}  {between}\n  trigger full.at(order) after f;\n}}\n"
        "inthreads (p > 0) {\n  wait full.at(0);\n}"
    )
    assert analysed.codes == codes


@pytest.mark.parametrize(
    ("transfer", "code"),
    [
        (
            "dma.copy q.subspan(64, 64).at(tile, 0) => o.subspan(64, 64).at(tile, 0);",
            "transfer-direction",
        ),
        ("dma.copy q_tile => o.subspan(128, 128).at(tile, 0);", "transfer-direction"),
        ("tma.copy q_tile => ring[0];", "transfer-direction"),
        ("tma.copy q_tile => o.subspan(64, 128).at(tile, 0);", "transfer-shape"),
        (
            "dma.copy q.subspan(128, 4).at(tile, 0) => q_tile.subspan(128, 4).at(0, 0);",
            "transfer-bytes",
        ),
    ],
)
def test_what_a_transfer_cannot_do(threads: Callable, transfer: str, code: str) -> None:
    assert threads(transfer).codes == [code]
