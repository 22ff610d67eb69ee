"""``__above``: all elements that a thread holds against the limits of their rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from artifact.choreo.compiler import compile_text
from artifact.choreo.interpret import InterpreterError
from artifact.choreo.interpret_memory import round_bf16
from tests.choreo.conftest import _CONSUMER, _THREADS

Make = Callable[..., Any]

QK = "mma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
BEGIN = "frag f32 [64] limit {8.0f};\nacc = mma.fill.f32 0.0f;\n" + QK

# What may be compared ---------------------------------------------------------------------------


def test_a_limit_is_a_row_vector_by_its_use_alone(consumer: Make) -> None:
    found = consumer(BEGIN + "if (__any(__above(acc, limit)))\n  all_reduce_max(limit);").clean()
    assert found.fragment("limit").layout == "row"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("__above(acc, n)", "wrong-kind"),
        ("__above(acc, 8.0f)", "wrong-kind"),
        ("__above(acc, limit.at(0))", "wrong-kind"),
        ("__above(q_tile, limit)", "wrong-kind"),
        ("__above(acc)", "unknown-builtin"),
        ("__above(acc, limit, limit)", "unknown-builtin"),
        ("__above(acc, acc)", "reduce-layout"),
        ("__above(limit, limit)", "reduce-layout"),
        ("__above(a, limit)", "reduce-layout"),
        ("__above(acc, unwritten)", "fragment-undefined"),
        ("__above(acc, short)", "fragment-layout"),
    ],
)
def test_it_compares_an_accumulator_with_a_row_vector(consumer: Make, call: str, code: str) -> None:
    declared = "frag f32 [64] unwritten;\n" if "unwritten" in call else ""
    declared += "frag f32 [32] short {0.0f};\n" if "short" in call else ""
    load = "a = mma.load q_tile.subspan(64, 128).at(cid, 0);\nmma.row.row acc, a, ring[0];\n"
    use = "if (__any(__above(acc, limit)))\n  n2 = 1;\n"
    assert consumer(f"{declared}{BEGIN}{load}{use}some = __any({call});").codes == [code]


def test_a_body_of_apply_sees_one_element(consumer: Make) -> None:
    body = "apply {i, j} in acc.span {\n  if (__above(acc, limit))\n    acc.at(i, j) = 0.0f;\n}"
    found = consumer(BEGIN + body)
    assert found.codes == ["apply-access"]
    assert found.place("apply-access") == "acc"


FLIGHT = "f = mma.row.row.async acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"


@pytest.mark.parametrize("use", ["some = {};", "if ({})\n  n2 = 1;", "while ({})\n  n2 = 1;"])
def test_an_accumulator_in_flight_is_not_compared(consumer: Make, use: str) -> None:
    use = use.format("__any(__above(acc, limit))")
    assert consumer(f"{BEGIN}{FLIGHT}{use}\nwait f;").codes == ["accumulator-in-flight"]
    consumer(f"{BEGIN}{FLIGHT}wait f;\n{use}").clean()


def test_what_another_warpgroup_wrote_is_not_compared(consumer: Make) -> None:
    found = consumer(
        "frag f32 [64] limit;\nacc = mma.fill.f32 0.0f;\n" + QK + "inthreads (p == 1) {\n"
        "  apply {i} in limit.span\n    limit.at(i) = 8.0f;\n}\n"
        "inthreads (p == 2) {\n  some = __any(__above(acc, limit));\n}"
    )
    assert found.codes == ["written-elsewhere"]


@pytest.mark.parametrize("how", ["if (__above(acc, limit))", "x = __above(acc, limit);\nif (x)"])
def test_the_answer_is_a_threads_own(consumer: Make, how: str) -> None:
    found = consumer(f"{BEGIN}{how}\n  all_reduce_max(limit);")
    assert found.codes == ["divergent"]
    voted = how.replace("__above(acc, limit)", "__any(__above(acc, limit))")
    consumer(f"{BEGIN}{voted}\n  all_reduce_max(limit);").clean()
    # One for a warp, not for a warpgroup.
    assert consumer(f"{BEGIN}{voted} {{\n{QK}}}").codes == ["divergent"]


# What it becomes and does -----------------------------------------------------------------------

PROGRAM = """\
__co__ void f(global bf16 [64, 64] X, global bf16 [64, 64] O, float most, float other) {
  parallel {b} by [1] : block {
    parallel p by 1 : group-4, t by 128 : thread {
      tile = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => shared;
      frag f32 [64] limit;
      acc = mma.fill.f32 0.0f;
      mma.row.row acc, tile, tile;
      apply {i} in limit.span
        limit.at(i) = i % 16 < 8 ? most : other;
      BODY
      mma.store acc, O.subspan(64, 64).at(0, 0);
    }
  }
}
"""
SHOW = "apply {i, j} in acc.span\n  acc.at(i, j) = over ? 1.0f : 0.0f;"


def test_it_is_one_call() -> None:
    body = "over = __any(__above(acc, limit));\n" + SHOW
    cuda = compile_text(PROGRAM.replace("BODY", body), "a.co").cuda
    assert "const bool over = cu::warp_any(cu::above(acc, limit));\n" in cuda


def ran(program: Make, body: str, most: float, other: float, x: np.ndarray) -> np.ndarray:
    made = program(PROGRAM.replace("BODY", body))
    assert made.codes == ()
    out = np.full((64, 64), np.nan, np.float32)
    return made.run({"X": x, "O": out}, {"most": most, "other": other}).tensors["O"]


def by_thread(over: np.ndarray) -> np.ndarray:
    """Whether any element of a thread is over: warp, row of eight, lane; at all its elements."""
    parts = over.reshape(4, 2, 8, 8, 4, 2)
    threads = parts.any(axis=(1, 3, 5), keepdims=True)
    return np.broadcast_to(threads, parts.shape).reshape(64, 64)


@pytest.mark.parametrize("name", ["over", "!under"])
def test_each_thread_has_an_answer_about_both_of_its_rows(program: Make, name: str) -> None:
    x = round_bf16(np.random.default_rng(3).standard_normal((64, 64), np.float32))
    product = x @ x.T
    limits = np.where(np.arange(64) % 16 < 8, np.float32(16), np.float32(40))[:, None]
    body = "over = __above(acc, limit);\n"
    if name == "!under":
        # What is computed from it is each thread's own, too.
        body = "mutable bool under = false;\nunder = !__above(acc, limit);\nover = !under;\n"
    found = ran(program, body + SHOW, 16.0, 40.0, x)
    np.testing.assert_array_equal(found, by_thread(product > limits))
    assert 0.1 < found.mean() < 0.9


def test_an_element_that_equals_its_limit_is_not_above(program: Make) -> None:
    x = np.eye(64, dtype=np.float32)
    body = "over = __any(__above(acc, limit));\n" + SHOW
    assert not ran(program, body, 1.0, 1.0, x).any()
    assert ran(program, body, float(np.nextafter(np.float32(1), np.float32(0))), 1.0, x).any()
    assert not ran(program, body, float("inf"), 0.0, -0 * x).any()


@pytest.mark.parametrize("limit", [-1.0, -0.0, float("-inf")])
def test_a_limit_with_a_sign_is_perhaps_exceeded(program: Make, limit: float) -> None:
    x = np.zeros((64, 64), np.float32)
    # As integers -0.5 is less than -1.0.
    below = "apply {i, j} in acc.span\n  acc.at(i, j) = -0.5f;\n"
    for limits in ((limit, 8.0), (8.0, limit)):
        body = f"{below}over = __above(acc, limit);\n{SHOW}"
        assert (ran(program, body, *limits, x) == 1).all()


def test_a_thread_does_not_decide_for_its_warp(program: Make) -> None:
    made = program(PROGRAM.replace("BODY", "if (__above(acc, limit))\n  x = 1;"))
    x = np.eye(64, dtype=np.float32)
    with pytest.raises(InterpreterError) as caught:
        made.run({"X": x, "O": x}, {"most": 0.5, "other": 0.5})
    assert caught.value.fault == "unsupported"


# Bounds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "apply {i} in limit.span\n  limit.at(i) = limit.at(i) + 100.0f;",
        "reduce_max(limit, acc, 1);",
        "copy(limit, other);",
        "acc = mma.fill.f32 200.0f;",
    ],
    ids=["apply", "reduction", "copy", "fill"],
)
def test_a_bound_looks_at_the_elements_once(change: str) -> None:
    body = (
        f"{BEGIN}frag f32 [64] other {{100.0f}};\n"
        f"foreach {{z}} in [__any(__above(acc, limit)) ? 4 : 2] {{\n{change}\n}}\n"
        "apply {i} in limit.span\n  other.at(i) = limit.at(i);"
    )
    cuda = compile_text(_THREADS.replace("BODY", _CONSUMER.replace("BODY", body)), "t.co").cuda
    (bound,) = re.findall(r"const int z_bound = (.*);", cuda)
    assert "above" in bound
    assert "for (int z = 0; z < z_bound; ++z) {" in cuda
