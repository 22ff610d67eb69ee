"""MMA plans and what is wrong with shapes, operands and threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from artifact.choreo import syntax

FILL = "acc = mma.fill.f32 0.0f;\n"
A = "q_tile.subspan(64, 128).at(cid, 0)"


def test_a_plan(consumer: Callable) -> None:
    analysed = consumer(f"{FILL}mma.row.row acc, {A}, ring[0].subspan(64, 128).at(1, 0);").clean()
    (plan,) = analysed.tables.mmas.values()
    assert (plan.n, plan.k, plan.a_swizzle, plan.b_swizzle) == (64, 128, 128, 128)
    assert plan.clears


def test_b_of_row_col_is_k_by_n(consumer: Callable) -> None:
    analysed = consumer(
        "frag bf16 [64, 64] a {1.0f};\n"
        f"{FILL}mma.row.col acc, a, ring[0].subspan(64, 128).at(1, 0);"
    ).clean()
    (plan,) = analysed.tables.mmas.values()
    assert (plan.n, plan.k, plan.a_swizzle) == (128, 64, 0)
    assert plan.a is analysed.symbol("a")


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ("mma.row.row acc, q_tile, ring[0]", "A has 128 rows"),
        (f"mma.row.row acc, {A}, ring[0].subspan(128, 64).at(0, 0)", "K = 128, B has K = 64"),
        (f"mma.row.row acc, {A}, ring[0].subspan(4, 128).at(0, 0)", "N = 4"),
        (
            "mma.row.row acc, q_tile.subspan(64, 8).at(cid, 0), ring[0].subspan(128, 8).at(0, 0)",
            "K = 8",
        ),
    ],
)
def test_shapes_that_do_not_match(consumer: Callable, operation: str, why: str) -> None:
    analysed = consumer(f"{FILL}{operation};")
    assert "mma-shape" in analysed.codes
    assert why in analysed.said("mma-shape").message


@pytest.mark.parametrize(
    "part", ["view(64, 128).from(4, 0)", "view(64, 64).from(0, 32)", "view(64, 128).from(n, 0)"]
)
def test_operands_begin_at_whole_swizzle_patterns(consumer: Callable, part: str) -> None:
    columns = 64 if "64, 64" in part else 128
    analysed = consumer(
        f"{FILL}mma.row.row acc, q_tile.{part}, ring[0].subspan(128, {columns}).at(0, 0);"
    )
    assert analysed.codes == ["mma-alignment"]
    assert analysed.place("mma-alignment").startswith("q_tile.view")


@pytest.mark.parametrize(
    ("shape", "part", "codes"),
    [
        # The second panel would begin in the midst of a pattern, of which the first knows nothing.
        ("[68, 128]", "view(64, 128).from(0, 0)", ["mma-alignment"]),
        ("[68, 64]", "view(64, 64).from(0, 0)", []),
        ("[72, 128]", "view(64, 128).from(0, 0)", []),
    ],
)
@pytest.mark.parametrize(
    "use",
    [f"{FILL}mma.row.row acc, {{a}}, ring[0].subspan(128, {{k}}).at(0, 0)", "a = mma.load {a}"],
)
def test_panels_begin_at_whole_swizzle_patterns(
    threads: Callable, shape: str, part: str, codes: list[str], use: str
) -> None:
    rows, k = shape.strip("[]").split(", ")
    operation = use.format(a=f"odd.{part}", k=k)
    analysed = threads(
        f"shared bf16 {shape} odd;\n"
        "dma.copy.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[0];\n"
        f"dma.copy.swiz<128> q.view({rows}, {k}).from(0, 0) => odd;\n{operation};"
    )
    assert analysed.codes == codes


def test_whole_warpgroups_multiply_and_share_their_conditions(consumer: Callable) -> None:
    operation = f"{FILL}mma.row.row acc, {A}, ring[0];"
    assert (
        set(consumer(f"inthreads (t < 96) {{\n{operation}\n}}").codes)
        == {
            "fragment-threads",
            "mma-threads",
        }
        or "fragment-threads" in consumer(f"inthreads (t < 96) {{\n{operation}\n}}").codes
    )
    assert consumer(f"if (t < 64) {{\n{operation}\n}}").codes == ["divergent"]
    # Different for warpgroups, the same within each.
    consumer(f"if (cid == 0) {{\n{operation}\n}}").clean()


def test_a_fill_is_fused_only_where_its_mma_is_the_next_to_touch_it(consumer: Callable) -> None:
    multiply = f"mma.row.row acc, {A}, ring[0];\n"

    def fused(body: str) -> int:
        analysed = consumer(body).clean()
        assert sum(p.clears for p in analysed.tables.mmas.values()) == len(
            analysed.tables.fused_fills
        )
        return len(analysed.tables.fused_fills)

    assert fused(f"{FILL}x = 1;\n{multiply}") == 1
    assert fused(f"{FILL}{multiply}{multiply}") == 1
    assert fused(f"acc = mma.fill.f32 1.0f;\n{multiply}") == 0
    assert fused(f"{FILL}foreach {{i}} in [n] {{\n{multiply}}}") == 0
    assert fused(f"{FILL}apply {{i, j}} in acc.span\n  acc.at(i, j) = 1.0f;\n{multiply}") == 0
    assert fused(f"while (n > 0) {{\n{FILL}if (n > 3) {{\n break;\n}}\n{multiply}}}") == 0


def test_a_store_may_go_to_the_tensor(consumer: Callable) -> None:
    analysed = consumer(
        f"{FILL}mma.row.row acc, {A}, ring[0];\nmma.store acc, o.subspan(64, 128).at(tile # p, 0);"
    ).clean()
    (store,) = analysed.all(syntax.MmaStore)
    assert analysed.tables.views[store.destination].root.name == "O"


ELEMENTS = (
    "mutable u32 some = 0;\n"
    f"{FILL}mma.row.row acc, {A}, ring[0];\nfrag f32 [64] top;\nreduce_max(top, acc, 1);\n"
    "apply {i, j} in acc.span {\n  if (acc.at(i, j) > 1.0f)\n    some = 1;\n}\n"
)
USES = [
    "mma.row.row acc, q_tile.subspan(64, 128).at(PLACE, 0), ring[0];",
    "mma.row.row acc, q_tile.subspan(64, 128).at(0, 0), ring[PLACE];",
    "f = mma.row.row.async acc, q_tile.subspan(64, 128).at(0, 0), ring[PLACE];\nwait f;",
    "a = mma.load q_tile.subspan(64, 128).at(PLACE, 0);\nmma.row.row acc, a, ring[0];",
    "mma.store acc, ring[1].subspan(64, 128).at(PLACE, 0);",
    "mma.store acc, ring[PLACE].subspan(64, 128).at(0, 0);",
    "mma.store acc, o.subspan(64, 128).at(PLACE, 0);",
    "v = ring[1].subspan(64, 128).at(PLACE, 0);\nmma.store acc, v;",
]


@pytest.mark.parametrize(
    "place",
    [
        "t % 2",
        "ids.at(t) % 2",
        "some",
        "__any(__above(acc, top)) ? 1 : 0",
        "k",
        "t / 64",
    ],
)
@pytest.mark.parametrize("use", USES)
def test_the_threads_of_a_warpgroup_name_one_tile(consumer: Callable, use: str, place: str) -> None:
    computed = "k = some + 1 - 1;\n" if place == "k" else ""
    found = consumer(f"{ELEMENTS}{computed}{use.replace('PLACE', place)}")
    assert "operand-differs" in found.codes
    # Beside it only what follows from a place that is not known.
    assert set(found.codes) <= {"operand-differs", "unwaited-load"}


@pytest.mark.parametrize("place", ["cid", "p - 1", "ids.at(tile) % 2", "n % 2", "k", "m"])
@pytest.mark.parametrize("use", USES)
def test_a_tile_may_depend_on_the_warpgroup(consumer: Callable, use: str, place: str) -> None:
    computed = "k = 2 - p;\nmutable u32 m = 0;\nif (cid == 1)\n  m = 1;\n"
    found = consumer(f"{ELEMENTS}{computed}{use.replace('PLACE', place)}")
    assert "operand-differs" not in found.codes
