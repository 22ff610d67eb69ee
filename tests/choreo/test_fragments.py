"""Fragments: layouts by use, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

QK = "mma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"


def test_layouts_follow_from_mma_reduction_copy_and_apply(consumer: Callable) -> None:
    analysed = consumer(
        "frag f32 [64] m;\nfrag f32 [64] before;\nfrag f32 [64] scale;\nfrag f32 [64] last;\n"
        "frag bf16 [64, 128] half_p;\nfrag f32 [64, 128] kept;\n"
        f"acc = mma.fill.f32 0.0f;\n{QK}reduce_max(m, acc, 1);\ncopy(before, m);\n"
        "apply {i} in before.span\n  scale.at(i) = before.at(i);\n"
        "apply {i} in scale.span\n  last.at(i) = scale.at(i);\n"
        "copy(kept, acc);\n"
        "apply {i, j} in kept.span\n  half_p.at(i, j) = __to<bf16>(kept.at(i, j) * last.at(i));\n"
    ).clean()
    for name in ("m", "before", "scale", "last"):
        assert analysed.fragment(name).layout == "row"
    assert analysed.fragment("half_p").layout == "operand"
    assert analysed.fragment("kept").layout == "accumulator"


def test_an_accumulator_is_as_wide_as_its_b(consumer: Callable) -> None:
    analysed = consumer(
        "acc = mma.fill.f32 0.0f;\n"
        "mma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0].subspan(64, 128).at(1, 0);"
    ).clean()
    plan = analysed.fragment("acc")
    assert (plan.layout, plan.rows, plan.columns) == ("accumulator", 64, 64)


def test_a_fragment_used_only_in_calls_is_a_guess_and_an_error(consumer: Callable) -> None:
    analysed = consumer("frag f32 [64] row {0.0f};\ncall helper(row);")
    assert analysed.codes == ["fragment-layout"]
    assert analysed.place("fragment-layout") == "frag f32 [64] row {0.0f};"


@pytest.mark.parametrize(
    ("over", "body", "where"),
    [
        ("{i, j} in acc", "acc.at(i, j) = acc.at(j, i);", "acc.at(j, i)"),
        ("{i, j} in acc", "acc.at(i, j) = acc.at(i, 0);", "acc.at(i, 0)"),
        ("{i, j} in acc", "acc.at(i, j) = row.at(j);", "row.at(j)"),
        ("{i} in row", "row.at(i) = row.at(i + 1);", "row.at(i + 1)"),
        ("{i} in row", "row.at(i) = acc.at(i, i);", "acc.at(i, i)"),
    ],
)
def test_elements_are_reached_at_the_coordinates_alone(
    consumer: Callable, over: str, body: str, where: str
) -> None:
    analysed = consumer(
        f"frag f32 [64] row {{0.0f}};\nacc = mma.fill.f32 0.0f;\n{QK}reduce_max(row, acc, 1);\n"
        f"apply {over}.span\n  {body}"
    )
    assert analysed.codes == ["apply-access"]
    assert analysed.place("apply-access") == where


def test_row_statements_stand_before_what_runs_for_elements(consumer: Callable) -> None:
    start = f"frag f32 [64] row {{0.0f}};\nacc = mma.fill.f32 0.0f;\n{QK}"
    scale, add = "row.at(i) = row.at(i) * 2.0f;", "row.at(i) = row.at(i) + acc.at(i, j);"
    consumer(f"{start}apply {{i, j}} in acc.span {{\n{scale}\n{add}\n}}").clean()
    late = consumer(f"{start}apply {{i, j}} in acc.span {{\n{add}\n{scale}\n}}")
    assert late.codes == ["apply-order"]
    assert late.place("apply-order") == scale
    # A condition on the column makes it run for every element.
    masked = "if (j > 3) {\n row.at(i) = row.at(i) * 2.0f;\n}"
    consumer(f"{start}apply {{i, j}} in acc.span {{\n{add}\n{masked}\n}}").clean()


def test_a_body_has_scalars_of_its_own(consumer: Callable) -> None:
    consumer(
        f"acc = mma.fill.f32 0.0f;\n{QK}"
        "apply {i, j} in acc.span {\n  x = acc.at(i, j) * 2.0f;\n  acc.at(i, j) = x;\n}"
    ).clean()


@pytest.mark.parametrize("statement", ["wait loaded;", "foreach {k} in [3] {\n}", QK])
def test_a_body_has_nothing_else(consumer: Callable, statement: str) -> None:
    analysed = consumer(
        f"acc = mma.fill.f32 0.0f;\n{QK}apply {{i, j}} in acc.span {{\n{statement}\n}}"
    )
    assert "apply-statement" in analysed.codes
