"""Local buffers in the interpreter: every thread has its own elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from artifact.choreo.interpret import InterpreterError
from artifact.choreo.interpret_memory import round_bf16

Make = Callable[..., Any]

# O = f(X * X^T) of one warpgroup; the statements see the product in acc, and locals of their own.
TEXT = """\
__co__ void f(global bf16 [64, 64] X, global bf16 [64, 64] O, int n) {
  parallel {b} by [1] : block {
    parallel p by 1 : group-4, t by 128 : thread {
      tile = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => shared;
      acc = mma.fill.f32 0.0f;
      mma.row.row acc, tile, tile;
      BODY
      mma.store acc, O.subspan(64, 64).at(0, 0);
    }
  }
}
"""


def ran(program: Make, body: str, n: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """What was stored, and the product."""
    made = program(TEXT.replace("BODY", body))
    assert made.codes == ()
    x = round_bf16(np.random.default_rng(7).standard_normal((64, 64), np.float32))
    out = np.full((64, 64), np.nan, np.float32)
    found = made.run({"X": x, "O": out}, {"n": n}).tensors["O"]
    return found, x @ x.T


def test_scalars_of_a_thread_by_constant_and_computed_indices(program: Make) -> None:
    found, _ = ran(
        program,
        "local s32 [2, 4] c[2] {1};\nlocal f32 [4] a;\nlocal bool [2] flag {false};\n"
        "foreach {i, j} in [2, 4]\n  c[1].at(i, j) = i * 10 + j;\n"
        "foreach {k} in [4]\n  a.at(k) = __to<f32>(c[k % 2].at(1, 3 - k) - n);\n"
        "c[n - 2].at(1, n) += 1000;\nflag.at(1) = a.at(3) > 6.0f;\n"
        "apply {i, j} in acc.span {\n  acc.at(i, j) = 0.0f;\n"
        "  if (j < 4)\n    acc.at(i, j) = a.at(j);\n"
        "  if (j == 4)\n    acc.at(i, j) = __to<f32>(c[1].at(1, 3));\n"
        "  if (j == 5 && flag.at(1))\n    acc.at(i, j) = 1.0f;\n}",
    )
    expected = np.zeros((64, 64), np.float32)
    expected[:, :6] = [1 - 3, 12 - 3, 1 - 3, 10 - 3, 1013, 1]
    np.testing.assert_array_equal(found, round_bf16(expected))


def test_integers_wrap_and_halves_are_rounded(program: Make) -> None:
    found, _ = ran(
        program,
        "local u8 [1] small {250};\nlocal bf16 [1] half;\nsmall.at(0) += 10;\n"
        "half.at(0) = __to<bf16>(1.00390625f);\n"
        "apply {i, j} in acc.span\n"
        "  acc.at(i, j) = __to<f32>(small.at(0)) + __to<f32>(half.at(0));",
    )
    assert (found == 5.0).all()


def test_what_apply_writes_is_of_each_thread(program: Make) -> None:
    # Threads of one row quad have 16 of its columns each, and two rows.
    found, product = ran(
        program,
        "local f32 [2] sums {0.0f};\n"
        "apply {i, j} in acc.span {\n  if (j < 32)\n    sums.at(0) += acc.at(i, j);\n"
        "  sums.at(1) = sums.at(0);\n}\n"
        "apply {i, j} in acc.span\n  acc.at(i, j) = sums.at(0) + sums.at(1) * 0.0f;",
    )
    expected = np.zeros((64, 64), np.float32)
    columns = np.arange(64)
    for row in range(64):
        rows = [row // 16 * 16 + row % 8 + half for half in (0, 8)]
        for lane in range(4):
            own = columns[columns % 8 // 2 == lane]
            expected[np.ix_([row], own)] = product[np.ix_(rows, own[own < 32])].sum()
    np.testing.assert_allclose(found, round_bf16(expected), rtol=0.01, atol=0.3)


def test_both_rows_of_a_thread_count_in_their_order(program: Make) -> None:
    found, _ = ran(
        program,
        "local s32 [1] steps {0};\nfrag f32 [64] first;\n"
        "apply {i, j} in acc.span {\n  first.at(i) = __to<f32>(steps.at(0));\n"
        "  steps.at(0) += 1;\n  acc.at(i, j) = first.at(i);\n}",
    )
    columns = np.arange(64)
    step = columns // 8 * 2 + columns % 2
    expected = [step if row % 16 < 8 else step + 16 for row in range(64)]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


def test_a_scalar_of_each_thread_takes_columns(program: Make) -> None:
    found, _ = ran(
        program,
        "mutable f32 x = 0.0f;\nmutable f32 last = 0.0f;\n"
        "apply {i, j} in acc.span {\n  x += __to<f32>(j);\n  last = __to<f32>(j);\n}\n"
        "apply {i, j} in acc.span\n  acc.at(i, j) = j < 8 ? x : last;",
    )
    columns = np.arange(64)
    lane = columns % 8 // 2
    expected = np.where(
        columns < 8, [2 * columns[columns % 8 // 2 == n].sum() for n in lane], 56 + 2 * lane + 1
    )
    np.testing.assert_array_equal(found, np.tile(round_bf16(expected.astype(np.float32)), (64, 1)))


def test_row_vectors_write_too(program: Make) -> None:
    found, product = ran(
        program,
        "frag f32 [64] top;\nreduce_max(top, acc, 1);\nlocal f32 [2] of {0.0f};\n"
        "apply {i} in top.span\n  of.at(i / 8 % 2) = top.at(i);\n"
        "apply {i, j} in acc.span\n  acc.at(i, j) = of.at(i / 8 % 2);",
    )
    expected = np.repeat(product.max(1)[:, None], 64, 1)
    np.testing.assert_allclose(found, expected, rtol=0.01)


def test_a_role_writes_its_own_buffers_alone(program: Make) -> None:
    body = (
        "local s32 [1] a {1};\ninthreads (t < 40) {\n  a.at(0) = 5;\n}\n"
        "apply {i, j} in acc.span\n  acc.at(i, j) = __to<f32>(a.at(0));"
    )
    found, _ = ran(program, body)
    threads = np.where(np.arange(128) < 40, 5.0, 1.0)
    columns = np.arange(64)
    of = np.arange(64)[:, None] // 16 * 32 + np.arange(64)[:, None] % 8 * 4 + columns % 8 // 2
    np.testing.assert_array_equal(found, threads[of])


@pytest.mark.parametrize(
    ("body", "fault", "line"),
    [
        ("local f32 [4] a;\na.at(n) = 1.0f;\nx = a.at(0);", "undefined", "x = a.at(0);"),
        ("local f32 [4] a {0.0f};\nx = a.at(n + 1);", "out-of-range", "x = a.at(n + 1);"),
        ("local f32 [4] a {0.0f};\na.at(n - 4) = 1.0f;", "out-of-range", "a.at(n - 4) = 1.0f;"),
        ("local f32 [4] a[2] {0.0f};\nx = a[n].at(0);", "out-of-range", "x = a[n].at(0);"),
        (
            "local f32 [1] a {0.0f};\napply {i, j} in acc.span\n  a.at(0) = acc.at(i, j);\n"
            "x = a.at(0);",
            "unsupported",
            "x = a.at(0);",
        ),
    ],
)
def test_a_fault_has_its_line(program: Make, body: str, fault: str, line: str) -> None:
    made = program(TEXT.replace("BODY", body))
    tensors = {name: np.arange(4096.0, dtype="f4").reshape(64, 64) % 7 for name in "XO"}
    with pytest.raises(InterpreterError) as caught:
        made.run(tensors, {"n": 3})
    assert (caught.value.fault, caught.value.line) == (fault, made.line(line))


def test_each_time_a_declaration_is_reached_is_a_new_buffer(program: Make) -> None:
    made = program(
        TEXT.replace(
            "BODY", "foreach {k} in [2] {\n  local f32 [2] a;\n  a.at(k) = 1.0f;\n  x = a.at(0);\n}"
        )
    )
    with pytest.raises(InterpreterError) as caught:
        made.run({name: np.ones((64, 64), np.float32) for name in "XO"}, {"n": 3})
    assert caught.value.fault == "undefined"


def test_a_warp_votes_on_what_its_threads_have(program: Make) -> None:
    body = (
        "local u32 [2] grew {0};\nmutable u32 count = 0;\napply {i, j} in acc.span {\n"
        "  if (i == ROW && j == 5) {\n    grew.at(1) = 1;\n    count = count + 7;\n  }\n}\n"
        "grew.at(0) = count;\n"
        "if (__any(grew.at(1) > 0 && grew.at(0) == 7)) {\n  apply {i, j} in acc.span\n"
        "    acc.at(i, j) = 1.0f;\n} else {\n"
        "  apply {i, j} in acc.span\n    acc.at(i, j) = 0.0f;\n}"
    )
    for row in (0, 9, 40, 63):
        found, _ = ran(program, body.replace("ROW", str(row)))
        expected = np.zeros((64, 64), np.float32)
        expected[row // 16 * 16 : row // 16 * 16 + 16] = 1
        np.testing.assert_array_equal(found, expected)
