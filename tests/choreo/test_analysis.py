"""The repository's kernels: what the passes find out about them, and that nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from artifact.choreo import syntax

CONSUMERS = ((1 << 384) - 1) ^ ((1 << 128) - 1)
WARP = (1 << 32) - 1


@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4", "v5"])
def test_nothing_is_found_wrong(kernel: Callable, name: str) -> None:
    analysed = kernel(name)
    assert [d.code for d in analysed.diagnostics.found] == []
    assert analysed.tables.launch is not None
    assert analysed.tables.launch.threads == (256 if name == "v1" else 384)
    assert analysed.tables.launch.is_async


@pytest.mark.parametrize("name", ["v2", "v3", "v4"])
def test_rings_are_filled_by_bytes_and_freed_by_warps(kernel: Callable, name: str) -> None:
    analysed = kernel(name)
    for event in ("kf", "vf"):
        plan = analysed.event(event)
        assert (plan.kind, plan.slots, plan.ready, plan.arrivals) == ("transaction", 2, False, 1)
        assert plan.waiting == CONSUMERS
    for event in ("ke", "ve"):
        plan = analysed.event(event)
        # Two consumer warpgroups: 256 threads in 8 warps.
        assert (plan.kind, plan.slots, plan.ready) == ("arrivals", 2, True)
        assert (plan.arrivals, plan.per_warp) == (8, True)
        assert plan.triggering == CONSUMERS
    assert analysed.event("kf").triggering == WARP


def test_the_q_hand_off_of_v3_is_a_named_barrier(kernel: Callable) -> None:
    plan = kernel("v3").event("qe")
    assert (plan.kind, plan.barrier, plan.ready) == ("named", 14, True)
    # Two producer warps wait, two consumer warpgroups trigger.
    assert plan.waiting == (1 << 64) - 1
    assert plan.triggering == CONSUMERS


def test_the_warps_of_v3s_producer_elect_their_own_leaders(kernel: Callable) -> None:
    loads = [p for p in kernel("v3").transfers() if p.kind == "tma-load"]
    assert [(p.event.name, p.leaders) for p in loads if p.event] == [
        ("qf", (0,)),
        ("kf", (0,)),
        ("vf", (32,)),
    ]


def test_the_steady_loop_of_v4_waits_for_qk_with_pv_in_flight(kernel: Callable) -> None:
    analysed = kernel("v4")
    ((first,), (qk,), (pv,), (final,)) = (
        analysed.waits(name) for name in ("first_qk", "qk", "pv", "final_pv")
    )
    assert [p.depth for p in (first, qk, pv, final)] == [0, 1, 0, 0]
    assert [m.result for m in qk.completes] == ["qk"]
    assert [m.result for m in pv.completes] == ["pv"]


def test_only_the_scores_are_cleared_by_their_mma(kernel: Callable) -> None:
    analysed = kernel("v4")
    cleared = {m.result: p.clears for m, p in analysed.tables.mmas.items()}
    assert cleared == {"first_qk": True, "qk": True, "pv": False, "final_pv": False}
    # acc_o is filled before a loop that may run no times.
    assert sorted(f.accumulator for f in analysed.tables.fused_fills) == ["acc_s", "acc_s"]


@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4"])
def test_fragments_lie_as_their_mmas_and_reductions_say(kernel: Callable, name: str) -> None:
    plans = {
        s.name: (p.layout, p.rows, p.columns) for s, p in kernel(name).tables.fragments.items()
    }
    assert plans.pop("acc_s") == plans.pop("acc_o") == ("accumulator", 64, 128)
    probabilities = plans.pop("probabilities" if name == "v2" else "acc_s_cast")
    assert probabilities == ("operand", 64, 128)
    assert set(plans.values()) == {("row", 64, 1)}


@pytest.mark.parametrize("name", ["v2", "v4"])
def test_each_consumer_stores_its_own_rows(kernel: Callable, name: str) -> None:
    analysed = kernel(name)
    buffer = analysed.tables.shared[analysed.symbol("o_buf")]
    assert (buffer.tiles, buffer.tile_bytes) == (2, 64 * 128 * 2)
    store = analysed.transfers()[-1]
    assert (store.kind, store.leaders) == ("tma-store", (128, 256))
    # The first of two: each warpgroup meets at one of its own.
    assert (store.barrier, store.barrier_threads) == (13, 128)
    assert (store.rows, store.columns) == (64, 128)
    assert store.map is not None
    assert (store.map.root, store.map.row_dim, store.map.swizzle) == ("O", 1, 128)
    assert not store.reused


def test_the_consumers_of_v3_store_together(kernel: Callable) -> None:
    analysed = kernel("v3")
    buffer = analysed.tables.shared[analysed.symbol("o_buf")]
    assert (buffer.tiles, buffer.tile_bytes) == (1, 128 * 128 * 2)
    store = analysed.transfers()[-1]
    assert (store.kind, store.leaders) == ("tma-store", (128,))
    # Q's event is at 14.
    assert (store.barrier, store.barrier_threads) == (15, 256)
    assert (store.rows, store.columns) == (128, 128)
    assert store.reused


def test_v1_copies_with_all_threads_of_the_block(kernel: Callable) -> None:
    analysed = kernel("v1")
    for plan in analysed.transfers():
        assert plan.kind == "cooperative-load"
        assert (plan.barrier, plan.barrier_threads) == (None, 256)
        assert analysed.tables.shared[plan.target.root].swizzle == 128
    assert analysed.tables.shared_bytes == 3 * 32768


def test_a_function_with_errors_does_not_hide_those_of_another(whole: Callable) -> None:
    from artifact.choreo.analysis import analyse
    from artifact.choreo.diagnostics import Diagnostics
    from artifact.choreo.parse import parse_file

    body = "{ parallel b by N : block { x = missing; } }"
    text = f"__co__ void f(global f32 [N] x) {body}\n__co__ void g(global f32 [N] x) {body}\n"
    diagnostics = Diagnostics("t.co", text)
    file = parse_file(text, "t.co", {}, diagnostics)
    assert file is not None
    analyse(file, diagnostics)
    assert [(d.code, d.span.line) for d in diagnostics.found if d.code == "undeclared"] == [
        ("undeclared", 1),
        ("undeclared", 2),
    ]


def test_every_wait_and_transfer_of_a_clean_kernel_has_a_plan(kernel: Callable) -> None:
    for name in ("v1", "v2", "v3", "v4", "v5"):
        analysed = kernel(name)
        for node in syntax.walk(analysed.tables.function):
            if isinstance(node, syntax.Wait):
                assert all(target in analysed.tables.waits for target in node.targets)
            elif isinstance(node, syntax.Transfer):
                assert node in analysed.tables.transfers
            elif isinstance(node, syntax.Mma):
                assert node in analysed.tables.mmas
            elif isinstance(node, syntax.View) and node.ops:
                assert node in analysed.tables.views


# What moves in the loop of v3 and of v4, by what the statement does, and what is said of it.
HALVED = [
    ("acc_s.at(i, j) = __exp2f(acc_s.at(i, j)", "Columns 0 to 63: "),
    ("acc_s.at(i, j) = __exp2f(acc_s.at(i, j)", "Columns 64 to 127, "),
    ("scores_sum.at(i) = scores_sum.at(i) + acc_s.at(i, j);", "Columns 0 to 63: "),
    ("scores_sum.at(i) = scores_sum.at(i) + acc_s.at(i, j);", "Columns 64 to 127, "),
    ("logsum.at(i) = logsum.at(i) + scores_sum.at(i);", "From before the wait: "),
    ("acc_s_cast.at(i, j) = __to<bf16>(acc_s.at(i, j));", "Columns 0 to 63, "),
    ("acc_s_cast.at(i, j) = __to<bf16>(acc_s.at(i, j));", "Columns 64 to 127."),
]
SUNK = [
    ("acc_o.at(i, j) = acc_o.at(i, j) * scores_scale.at(i);", "Of the trip before, "),
    ("acc_o.at(i, j) = acc_o.at(i, j) * scores_scale.at(i);", "Of the last trip, "),
]
# What the splitting pass changes in v2 and v4.
SPLIT = [
    "shared bf16 [BLOCK_M, DIM] o_buf;",
    "mma.store acc_o, o_buf.subspan(WG_M, DIM).at(cid, 0);",
    "tma.copy o_buf => O_head.subspan(BLOCK_M, DIM).at(bm, 0);",
]


def moved(analysed: Any) -> tuple[list[str], list[tuple[syntax.Stmt, str]]]:
    """Lines of the source that the splitting pass changed; what else moved, with its note."""
    lines = analysed.text.split("\n")
    split, rest = [], []
    for stmt, note in sorted(analysed.tables.moved.items(), key=lambda item: item[0].span.line):
        if isinstance(stmt, syntax.SharedDecl | syntax.MmaStore | syntax.Transfer):
            assert note == "Each warpgroup stores its own rows, and meets with itself alone."
            split.append(lines[stmt.span.line - 1].strip())
        else:
            rest.append((stmt, note))
    return split, rest


@pytest.mark.parametrize("name", ["v3", "v4"])
def test_the_moved_tree_is_the_one_that_is_kept(kernel: Callable, name: str) -> None:
    # A tree in which a rule is broken is dropped without a word: only the timing would show it.
    analysed = kernel(name)
    lines = analysed.text.split("\n")
    (loop,) = [n for n, line in enumerate(lines, 1) if "foreach {step}" in line]
    (wait,) = [n for n, line in enumerate(lines, 1) if line.strip() == "wait pv;"]
    split, ((renewed, one), *rest) = moved(analysed)
    assert split == (SPLIT if name == "v4" else [])
    assert lines[renewed.span.line - 1].strip() == "frag f32 [WG_M] scores_scale;"
    assert one.startswith("One, so that line ")
    assert len(rest) == len(HALVED + SUNK)
    for (stmt, note), (does, says) in zip(rest, HALVED + SUNK, strict=True):
        assert stmt.span.line > loop
        # The body of the apply has a line of its own.
        assert lines[stmt.span.line].strip().startswith(does)
        assert note.startswith(says)
    assert f"the wait of line {wait}." in rest[0][1]


def test_in_v2_the_store_alone_is_split(kernel: Callable) -> None:
    assert moved(kernel("v2")) == (SPLIT, [])


@pytest.mark.parametrize("name", ["v1", "v5"])
def test_in_the_other_kernels_nothing_moves(kernel: Callable, name: str) -> None:
    assert not kernel(name).tables.moved
