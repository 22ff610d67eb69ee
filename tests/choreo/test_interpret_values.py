"""What the interpreter computes: scalars as C does, fragments as a warpgroup's threads do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.choreo.interpret import InterpreterError, run
from artifact.choreo.interpret_memory import from_bf16_bits, round_bf16, to_bf16_bits
from artifact.choreo.tables import Tables
from artifact.errors import UsageError

Make = Callable[..., Any]
GOLDEN = Path(__file__).resolve().parents[1] / "assets" / "choreo" / "golden"

# Scalars ---------------------------------------------------------------------------------------

SCALARS = """\
__co__ void example(global f32 [N] x, global u32 [4] ids, int n, u32 u, float f, bool b) {
  int past = n - 10;
  assert(past == -3, "host code runs");
  parallel {g, h} by [2, n - 4] : block {
    parallel w by [2] : group-4, t by 128 : thread {
BODY
    }
  }
}
"""
ARGUMENTS = {"n": 7, "u": 3, "f": 0.1, "b": True}
TENSORS = {"x": np.arange(6, dtype=np.float32), "ids": np.array([9, 2, 4, 1], np.uint32)}


@pytest.fixture
def scalars(program: Make) -> Callable[[str], Any]:
    """Runs statements with n = 7, u = 3, f = 0.1f, b = true, x = 0 to 5, ids = 9, 2, 4, 1."""
    return lambda body: program(SCALARS.replace("BODY", body)).run(TENSORS, ARGUMENTS)


@pytest.mark.parametrize(
    "condition",
    [
        "n / 2 == 3 && -n / 2 == -3 && -n % 4 == -3",
        "u - 4u == 4294967295u",
        "(u << 30) == 3221225472u && (u >> 1) == 1u",
        "(n & 5) == 5 && (n | 8) == 15 && (n ^ 1) == 6 && ~n == -8",
        "cdiv(n, 2) == 4 && __max(n, 9) == 9 && __min(n, 9) == 7",
        "!b == false && (b || n / (n - 7) == 1) && !(!b && n / (n - 7) == 1)",
        "(n > 5 ? 1.5f : f) == 1.5f",
        "f + 0.2f == 0.3f",
        "__to<s32>(f * 25.0f) == 2 && __to<bf16>(f) > f",
        "__exp2f(3.0f) == 8.0f && __sqrt(16.0f) == 4.0f && __rsqrt(4.0f) == 0.5f",
        "__fmaf(2.0f, 3.0f, 1.0f) == 7.0f && __fabs(0.0f - 2.5f) == 2.5f",
        "-inf < f && __max(f, -inf) == f",
        "past == -3 && N == 6 && x.span(0) == 6 && |ids| == 4",
        "#w == 2 && #g == 2 && #h == 3 && w # g == w * 2 + g && g # h == g * 3 + h",
        "ids.at(u) == 1 && x.at(ids.at(2)) == 4.0f",
        "ids.at(w) == (w == 0 ? 9u : 2u)",
    ],
)
def test_expressions(scalars: Callable[[str], Any], condition: str) -> None:
    assert scalars(f"assert({condition});").blocks == 6
    with pytest.raises(InterpreterError, match="an assertion does not hold: why") as error:
        scalars(f'assert(!({condition}), "why");')
    assert error.value.fault == "assertion"


def test_statements(scalars: Callable[[str], Any]) -> None:
    scalars(
        """
        mutable u32 k = 0;
        mutable total = 0;
        while (k < 10) {
          k++;
          if (k == 3) continue;
          if (k == 8) break;
          total += 2;
        }
        assert(k == 8 && total == 12);
        foreach {i, j} in [n - 5, 3] {
          if (j == 2) break;
          total = total + __to<s32>(i * 3 + j);
        }
        assert(total == 20);
        foreach {i} in [n - 7] { assert(false, "no trip"); }
        { int total = 1; assert(total == 1); }
        if (b && total != 20) { assert(false); } else { k--; }
        assert(k == 7);
        if (n == 7) return;
        assert(false);
        """
    )


@pytest.mark.parametrize(
    ("body", "fault", "message"),
    [
        ("assert(n / (n - 7) == 0);", "out-of-range", "divides by zero"),
        ("assert(n * 1000000000 > 0);", "out-of-range", r"7 \* 1000000000 does not fit s32"),
        ("assert(x.at(n) > 0.0f);", "out-of-range", "an index of x, whose extent is 6"),
        ("assert(t < 128);", "unsupported", "t differs between threads"),
        ("call helper(n);", "unsupported", "helper is C.., which is not interpreted"),
        ("x.at(0) = 1.0f;", "unsupported", "assigned outside of apply"),
    ],
)
def test_what_has_no_value(
    scalars: Callable[[str], Any], body: str, fault: str, message: str
) -> None:
    with pytest.raises(InterpreterError, match=message) as error:
        scalars(body)
    assert error.value.fault == fault
    assert error.value.line == SCALARS[: SCALARS.index("BODY")].count("\n") + 1


# Fragments -------------------------------------------------------------------------------------


def test_apply_reductions_and_fills(program: Make) -> None:
    text = (GOLDEN / "fragments.co").read_text()
    made = program(text.replace("      call clamp(acc, top);\n", ""))
    rng = np.random.default_rng(8)
    # Small integers, so that products are exact in whatever order they are summed.
    x, y = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((1, 128, 64), (1, 64, 64)))
    c = np.float32(0.25)
    found = made.run({"X": x, "Y": y, "Z": np.zeros_like(x)}, {"c": 0.25}).tensors["Z"][0]

    row, j = np.arange(128)[:, None], np.arange(64)
    i = row % 64
    acc = x[0] @ y[0].T
    acc = np.where(j > row, -np.inf, np.where(i % 2 == 0, acc + j * c, acc)).astype(np.float32)
    top, before = acc.max(1, keepdims=True), acc
    acc = np.exp2(acc * c - top * c) / np.float32(3) + np.float32(1) / np.float32(3)
    total = acc.sum(1, keepdims=True)
    acc = acc * (1 / total)
    p = round_bf16(acc)
    raised = p + before
    p = round_bf16(np.where(raised > 0.5, round_bf16(raised), p) * 2)
    total = np.where(i > 3, total * 2, total)
    expected = p @ y[0] + (p @ y[0] + 1) + acc * total
    np.testing.assert_allclose(found, expected, rtol=2**-7, atol=1e-3)


LANES = """\
__co__ void example(global bf16 [64, 64] X, global bf16 [64, 64] Y) {
  parallel {b} by [1] : block {
    x_s = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => shared;
    parallel w by 1 : group-4, t by 128 : thread {
      frag f32 [64] sum {0.0f};
      frag bf16 [64, 64] one {1.0f};
      acc = mma.fill.f32 0.0f;
      mma.row.row acc, one, x_s;
      apply {i, j} in acc.span {
        here = __to<f32>(j);
        if (j % 2 == 0) {
          here = here + 100.0f;
          sum.at(i) += here;
        }
      }
      ALL
      apply {i, j} in acc.span
        acc.at(i, j) = sum.at(i);
      mma.store acc, Y.subspan(64, 64).at(0, 0);
    }
  }
}
"""


def lanes(program: Make, statement: str) -> np.ndarray:
    text = LANES.replace("ALL", statement).replace("          here = here + 100.0f;\n", "")
    x = np.zeros((64, 64), np.float32)
    return program(text).run({"X": x, "Y": x}).tensors["Y"]


def test_a_lane_adds_up_its_own_elements(program: Make) -> None:
    found = lanes(program, "")
    # Of columns 8 k + 2 lane and the one after, a lane added the even ones.
    column = np.arange(64)
    expected = np.array([sum(8 * k + 2 * (c % 8 // 2) for k in range(8)) for c in column])
    np.testing.assert_array_equal(found, np.broadcast_to(round_bf16(expected * 1.0), (64, 64)))


def test_all_reduce_sum_adds_up_the_lanes(program: Make) -> None:
    found = lanes(program, "all_reduce_sum(sum);")
    np.testing.assert_array_equal(found, round_bf16(np.full((64, 64), float(sum(range(0, 64, 2))))))


# What the analysis says ------------------------------------------------------------------------


def attention(made: Any, tables: Tables, scalars: dict[str, int] | None = None) -> np.ndarray:
    """Run a kernel with tables that were changed."""
    rng = np.random.default_rng(3)
    seq = 256
    shape = (1, seq, 1, 128)
    tensors = {n: round_bf16(rng.standard_normal(shape, np.float32)) for n in "QKVO"}
    tensors |= {"tasks": np.array([1, 0], np.uint32), "offsets": np.array([0, 2], np.uint32)}
    function = made.function
    arguments = {"ctas": 1}
    return run(made.file, {function: tables}, function.name, tensors, arguments, seed=1).tensors[
        "O"
    ]


def with_event(tables: Tables, name: str, **changes: Any) -> Tables:
    events = {s: replace(p, **changes) if s.name == name else p for s, p in tables.events.items()}
    return replace(tables, events=events)


def with_transfer(tables: Tables, result: str | None, **changes: Any) -> Tables:
    transfers = {
        node: replace(plan, **changes) if node.result == result else plan
        for node, plan in tables.transfers.items()
    }
    return replace(tables, transfers=transfers)


@pytest.mark.parametrize(
    ("change", "fault", "message"),
    [
        (lambda t: with_event(t, "ve", arrivals=7), "over-arrival", "ve slot 0 is triggered"),
        (lambda t: with_event(t, "ve", arrivals=9), "deadlock", "nobody can go on"),
        (lambda t: with_event(t, "qf", arrivals=2), "deadlock", "nobody can go on"),
        (lambda t: with_transfer(t, "q_load", leaders=(0, 32)), "overwrite", "q_shared is overwri"),
        (lambda t: with_transfer(t, None, reused=False), "overwrite", "o_buf is overwritten"),
        (
            lambda t: replace(t, waits={
                target: replace(plan, depth=2) if target.name.id == "qk" else plan
                for target, plan in t.waits.items()
            }),
            "in-flight",
            "the MMA of line .* is still in flight after this wait leaves 2",
        ),
    ],
    ids=["arrivals too few", "arrivals too many", "load counted twice", "two leaders",
         "store not waited for", "depth too large"],
)  # fmt: skip
def test_a_wrong_analysis_shows(
    edited: Make, change: Callable[[Tables], Tables], fault: str, message: str
) -> None:
    made = edited("v3")
    assert np.isfinite(attention(made, made.tables)).all()
    with pytest.raises(InterpreterError, match=message) as error:
        attention(made, change(made.tables))
    assert error.value.fault == fault


def test_a_fill_that_its_mma_does_not_do_leaves_nothing_defined(edited: Make) -> None:
    made = edited("v3")
    mmas = {node: replace(plan, clears=False) for node, plan in made.tables.mmas.items()}
    assert np.isnan(attention(made, replace(made.tables, mmas=mmas))).any()


# Arguments -------------------------------------------------------------------------------------


def test_arguments_are_checked(edited: Make) -> None:
    made = edited("v2")
    zeros = np.zeros((1, 128, 1, 128), np.float32)
    given = dict.fromkeys("QKVO", zeros)
    with pytest.raises(UsageError, match="attention_v2 needs V"):
        made.run(dict.fromkeys("QKO", zeros))
    with pytest.raises(UsageError, match="K has another shape than its parameter") as error:
        made.run({**given, "K": np.zeros((1, 256, 1, 128), np.float32)})
    assert error.value.expected == "(1, 128, 1, 128)"
    with pytest.raises(UsageError, match="attention_v3 needs ctas"):
        edited("v3").run({**given, "tasks": zeros, "offsets": zeros})
    with pytest.raises(UsageError, match="there is no __co__ function attention"):
        run(made.file, {made.tables.function: made.tables}, "attention", given, seed=0)


def test_an_analysis_that_gave_up(program: Make) -> None:
    text = (GOLDEN / "overlap.co").read_text().replace("Q_b.subspan(64, 128)", "Q_b.subspan(64)")
    made = program(text)
    assert made.codes
    with pytest.raises(UsageError, match="did not get through") as error:
        made.run(dict.fromkeys("QKO", np.zeros((1, 64, 128), np.float32)))
    assert error.value.where is not None
    assert error.value.where.startswith("t.co:")


# BF16 ------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_bf16_is_the_nearest_and_of_two_the_even_one(bits: int) -> None:
    value = np.array([bits], np.uint32).view(np.float32)
    found = to_bf16_bits(value)[0]
    if np.isnan(value[0]):
        assert np.isnan(from_bf16_bits(np.array([found]))[0])
        return
    below, exact = bits >> 16, bits & 0xFFFF == 0
    if exact or np.isinf(value[0]):
        assert found == below
        return
    # The same numbers as fractions of the distance of the two neighbours.
    part = Fraction(bits & 0xFFFF, 0x10000)
    nearest = below + int(part > Fraction(1, 2) or (part == Fraction(1, 2) and below % 2 == 1))
    assert found == nearest
