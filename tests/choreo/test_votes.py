"""Votes of a warp, what every thread has for itself, conditions of some warps, parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from artifact.choreo.compiler import compile_text
from artifact.choreo.interpret import InterpreterError
from artifact.choreo.interpret_memory import round_bf16

Make = Callable[..., Any]

QK = "mma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
# A row vector of the maxima, and a scalar that each thread has for itself.
BEGIN = (
    "frag f32 [64] top;\nacc = mma.fill.f32 0.0f;\n" + QK + "reduce_max(top, acc, 1);\n"
    "mutable f32 most = 0.0f;\n"
    "apply {i, j} in acc.span\n  most = __max(most, acc.at(i, j));\n"
)


@pytest.mark.parametrize(
    "statement",
    [
        QK,
        "f = mma.row.row.async acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\nwait f;\n",
        "a = mma.load q_tile.subspan(64, 128).at(cid, 0);\n"
        "other = mma.fill.f32 0.0f;\nmma.row.row other, a, ring[0];\n",
        "mma.store acc, ring[1].subspan(64, 128).at(cid, 0);\n",
        "trigger done;\n",
        "wait full.at(0);\n",
        "tma.copy ring[1] => o.subspan(128, 128).at(tile, 0);\n",
        "call setreg_inc(240);\n",
    ],
    ids=["mma", "async mma", "mma.load", "mma.store", "trigger", "wait", "transfer", "registers"],
)
def test_what_a_warpgroup_does_together_is_not_the_work_of_some_warps(
    consumer: Make, statement: str
) -> None:
    found = consumer(f"{BEGIN}some = __any(most > 8.0f);\nif (some) {{\n{statement}}}")
    assert set(found.codes) & {"divergent", "register-threads"}
    # All threads of a warpgroup agree on the task.
    same = consumer(f"{BEGIN}if (n > 8) {{\n{statement}}}")
    assert not set(same.codes) & {"divergent", "register-threads"}


@pytest.mark.parametrize(
    "value",
    ["__any(most > 8.0f)", "!__any(most > 8.0f)", "__any(most > 8.0f) && n > 3"],
)
@pytest.mark.parametrize("how", ["if ({})", "some = {};\nother = some;\nif (other)"])
def test_a_warp_may_do_what_its_lanes_do_together(consumer: Make, value: str, how: str) -> None:
    body = (
        "all_reduce_max(top);\nreduce_sum(top, acc, 1);\n"
        "apply {i, j} in acc.span\n  acc.at(i, j) = acc.at(i, j) * top.at(i);\n"
    )
    consumer(f"{BEGIN}{how.format(value)} {{\n{body}}}").clean()


def test_what_a_thread_alone_found_does_not_hold_for_its_warp(consumer: Make) -> None:
    found = consumer(BEGIN + "if (most > 8.0f)\n  all_reduce_max(top);")
    assert found.codes == ["divergent"]
    assert "splits a warp here" in found.said("divergent").message
    # Nor does what was computed under such a condition.
    found = consumer(
        BEGIN + "mutable u32 k = 0;\nif (most > 8.0f)\n  k = 1;\nif (k > 0)\n  all_reduce_max(top);"
    )
    assert found.codes == ["divergent"]
    found = consumer(
        BEGIN + "if (most > 8.0f) {\n  some = __any(n > 3);\n  if (some)\n    n2 = 1;\n}"
    )
    assert found.codes == ["divergent"]


def test_a_vote_on_what_all_know_is_no_new_condition(consumer: Make) -> None:
    consumer(f"{BEGIN}if (__any(n > 8)) {{\n{QK}}}").clean()


def test_fragments_change_under_a_vote_while_another_product_is_in_flight(consumer: Make) -> None:
    flight = (
        "out = mma.fill.f32 0.0f;\n"
        "f = mma.row.row.async {}, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
        "if (__any(most > 8.0f)) {{\n"
        "  apply {{i, j}} in out.span\n    out.at(i, j) = out.at(i, j) * top.at(i);\n}}\nwait f;\n"
        "mma.row.row out, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
    )
    consumer(BEGIN + flight.format("acc")).clean()
    found = consumer(BEGIN + flight.format("out"))
    assert "accumulator-in-flight" in found.codes


def test_a_body_may_not_vote_nor_a_part_of_a_warp(consumer: Make, threads: Make) -> None:
    body = (
        "apply {i, j} in acc.span {\n  if (__any(acc.at(i, j) > n2))\n    acc.at(i, j) = 0.0f;\n}"
    )
    assert consumer(f"{BEGIN}n2 = 1.0f;\n{body}").codes == ["vote-place"]
    assert threads("inthreads (t < 40) {\n  x = __any(n > 1);\n}").codes == ["vote-threads"]
    threads("inthreads (t < 64) {\n  x = __any(n > 1);\n}").clean()
    assert threads("x = n > 1 ? __any(n > 2) : false;").codes == ["vote-place"]
    assert threads("x = __any(n);").codes == ["vote-type"]


# What it becomes -------------------------------------------------------------------------------

PROGRAM = """\
__co__ void f(global bf16 [64, 64] X, global bf16 [64, 64] O, float limit) {
  parallel {b} by [1] : block {
    parallel p by 1 : group-4, t by 128 : thread {
      tile = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => shared;
      frag f32 [64] row;
      acc = mma.fill.f32 0.0f;
      mma.row.row acc, tile, tile;
      apply {i, j} in acc.span
        row.at(i) = 0.0f;
      BODY
      mma.store acc, O.subspan(64, 64).at(0, 0);
    }
  }
}
"""
VOTE = (
    "mutable bool over = false;\n"
    "apply {i, j} in acc.span {\n  if (acc.at(i, j) > limit)\n    over = true;\n}\n"
    "mutable bool any = false;\nany = __any(over);\n"
)


def test_a_vote_is_one_call() -> None:
    cuda = compile_text(
        PROGRAM.replace("BODY", f"{VOTE}if (!any) all_reduce_max(row);"), "v.co"
    ).cuda
    lines = [line.strip() for line in cuda.splitlines()]
    order = [
        "bool over = false;",
        "over = true;",
        "any = cu::warp_any(over);",
        "if (!any) {",
        "cu::all_reduce_max(row);",
    ]
    assert [line for line in lines if line in order] == order


# What it does ----------------------------------------------------------------------------------


def ran(program: Make, body: str, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """What was stored, and the product."""
    made = program(PROGRAM.replace("BODY", body))
    assert made.codes == ()
    x = round_bf16(np.random.default_rng(7).standard_normal((64, 64), np.float32))
    out = np.full((64, 64), np.nan, np.float32)
    found = made.run({"X": x, "O": out}, {"limit": limit}).tensors["O"]
    return found, x @ x.T


def test_each_warp_has_an_answer_of_its_own(program: Make) -> None:
    x = round_bf16(np.random.default_rng(7).standard_normal((64, 64), np.float32))
    tops = (x @ x.T).reshape(4, 16, 64).max(axis=(1, 2))
    limit = float(np.sort(tops)[1:3].mean())
    body = (
        VOTE
        + "if (any) {\n  apply {i, j} in acc.span\n    acc.at(i, j) = 1.0f;\n} else {\n"
        + ("  apply {i, j} in acc.span\n    acc.at(i, j) = 2.0f;\n}")
    )
    found, _ = ran(program, body, limit)
    np.testing.assert_array_equal(
        found, np.repeat(np.where(tops > limit, 1, 2), 16)[:, None] + 0 * found
    )
    assert {1, 2} == set(found.ravel())


def test_a_mutable_of_apply_is_of_each_thread(program: Make) -> None:
    # A thread has two rows, 8 apart, and every eighth pair of their columns.
    body = (
        "mutable f32 sum = 0.0f;\nmutable u32 count = 0;\n"
        "apply {i, j} in acc.span {\n  sum = sum + acc.at(i, j);\n  count = count + 1;\n}\n"
        "apply {i} in row.span\n  row.at(i) = sum;\n"
        "apply {i, j} in acc.span\n  acc.at(i, j) = row.at(i) + sum + __to<f32>(count);"
    )
    found, product = ran(program, body, 0.0)
    threads = product.reshape(4, 2, 8, 8, 4, 2).sum(axis=(1, 3, 5))
    expected = 2 * np.broadcast_to(threads[:, None, :, None, :, None], (4, 2, 8, 8, 4, 2)) + 32
    np.testing.assert_allclose(found, expected.reshape(64, 64), rtol=2.0**-7, atol=0.1)


def test_lanes_have_their_own_maxima_until_they_exchange_them(program: Make) -> None:
    own = (
        "apply {i} in row.span\n  row.at(i) = -inf;\n"
        "apply {i, j} in acc.span\n  row.at(i) = __max(row.at(i), acc.at(i, j));\n"
    )
    show = "apply {i, j} in acc.span\n  acc.at(i, j) = row.at(i);"
    found, product = ran(program, own + show, 0.0)
    lanes = product.reshape(64, 8, 4, 2).max(axis=(1, 3))
    expected = np.broadcast_to(lanes[:, None, :, None], (64, 8, 4, 2)).reshape(64, 64)
    np.testing.assert_array_equal(found, round_bf16(expected))
    found, product = ran(program, f"{own}all_reduce_max(row);\n{show}", 0.0)
    np.testing.assert_array_equal(found, round_bf16(product.max(axis=1)[:, None] + 0 * product))


def test_threads_that_differ_do_not_decide_for_their_warp(program: Make) -> None:
    made = program(PROGRAM.replace("BODY", VOTE + "if (over)\n  x = 1;"))
    x = np.eye(64, dtype=np.float32)
    with pytest.raises(InterpreterError) as caught:
        made.run({"X": x, "O": x}, {"limit": 0.5})
    assert caught.value.fault == "unsupported"


# Parts of fragments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        "subspan(_, 32).at(0, 1)",
        "subspan(64, 32).at(0, 1)",
        "view(64, 32).from(0, 32)",
    ],
)
def test_a_part_has_the_coordinates_of_the_whole(program: Make, part: str) -> None:
    body = (
        f"apply {{i, j}} in acc.{part}\n  acc.at(i, j) = __to<f32>(j + i);\n"
        f"apply {{i, j}} in acc.{part}\n  row.at(i) = row.at(i) + acc.at(i, j);\n"
        "all_reduce_sum(row);\n"
        "apply {i, j} in acc.subspan(_, 8).at(0, 0)\n  acc.at(i, j) = row.at(i);"
    )
    found, product = ran(program, body, 0.0)
    i, j = np.indices((64, 64))
    expected = np.where(j >= 32, i + j, product).astype(np.float32)
    expected[:, :8] = expected[:, 32:].sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(found, round_bf16(expected))


@pytest.mark.parametrize(
    "part",
    [
        "subspan(32, 64).at(0, 0)",
        "subspan(_, 64).at(1, 0)",
        "subspan(_, 12).at(0, 0)",
        "subspan(_, 64)",
        "subspan(_, n).at(0, 0)",
        "subspan(_, 64).at(0, n)",
        "subspan(_, 64).at(0, 2)",
        "subspan(_, 64).step(64, 32).at(0, 0)",
        "subspan(64).at(0)",
        "view(64, 64).from(0, 4)",
        "view(64, 64).from(0, 72)",
    ],
)
def test_a_part_is_whole_rows_of_groups_of_columns(consumer: Make, part: str) -> None:
    found = consumer(f"{BEGIN}apply {{i, j}} in acc.{part}\n  acc.at(i, j) = 0.0f;")
    assert found.codes == ["apply-part"]


def test_a_row_vector_has_no_parts(consumer: Make) -> None:
    assert consumer(BEGIN + "apply {i} in top.view(8).from(0)\n  top.at(i) = 0.0f;").codes == [
        "apply-part"
    ]


def test_a_part_of_a_fragment_indexes_that_part_of_a_local_buffer(consumer: Make) -> None:
    text = BEGIN + (
        "local f32 [64] b {0.0f};\n"
        "apply {i, j} in acc.subspan(_, 64).at(0, PART)\n  b.at(j) = 1.0f;"
    )
    consumer(text.replace("PART", "0")).clean()
    assert consumer(text.replace("PART", "1")).codes == ["index-range"]
