"""The kernels run on the CPU: right in any order, and every broken one is caught at its line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from artifact.choreo.interpret import InterpreterError
from artifact.choreo.interpret_memory import from_bf16_bits, round_bf16, to_bf16_bits

Make = Callable[..., Any]
Edits = tuple[tuple[str, str], ...]


def inputs(batch: int, seq: int, heads: int) -> dict[str, np.ndarray]:
    """Q, K and V of a standard normal distribution as BF16, and an O that nobody has written."""
    rng = np.random.default_rng(20)
    shape = (batch, seq, heads, 128)
    made = {name: round_bf16(rng.standard_normal(shape, np.float32)) for name in "QKV"}
    return {**made, "O": np.full(shape, np.nan, np.float32)}


def assert_attention(found: np.ndarray, given: dict[str, np.ndarray]) -> None:
    """Hold an output against FP64: it may differ by the rounding of P and that of O to BF16."""
    q, k, v = (given[name].astype(np.float64).transpose(0, 2, 1, 3) for name in "QKV")
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(128)
    causal = np.tril(np.ones(scores.shape[-2:], bool))
    scores = np.where(causal, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    expected = (p @ v).transpose(0, 2, 1, 3)
    rounding = 2.0**-8 * ((p @ np.abs(v)).transpose(0, 2, 1, 3) + np.abs(expected))
    assert np.all(np.abs(found - expected) <= rounding + 1e-5)


def tasks(batch: int, heads: int, tiles: int, ctas: int) -> dict[str, np.ndarray]:
    """Task lists as runtime/schedule.h packs them: each tile to the CTA with the least work."""
    lists: list[list[tuple[int, int]]] = [[] for _ in range(ctas)]
    costs = [0] * ctas
    for bm in reversed(range(tiles)):
        for entry in range(batch * heads):
            cta = costs.index(min(costs))
            lists[cta].append((entry, bm))
            costs[cta] += 2 * (bm + 1) + 4
    packed = [
        bm | entry % heads << 8 | entry // heads << 14
        for each in lists
        for entry, bm in sorted(each, key=lambda task: (task[0], -task[1]))
    ]
    offsets = np.cumsum([0, *map(len, lists)])
    return {"tasks": np.array(packed, np.uint32), "offsets": offsets.astype(np.uint32)}


@pytest.mark.parametrize(
    ("name", "batch", "seq", "heads"),
    [("v1", 1, 256, 1), ("v2", 1, 384, 1), ("v2", 2, 128, 2), ("v4", 1, 384, 1), ("v4", 1, 128, 1)],
)
@pytest.mark.parametrize("seed", range(3))
def test_kernel_computes_attention(
    edited: Make, name: str, batch: int, seq: int, heads: int, seed: int
) -> None:
    given = inputs(batch, seq, heads)
    outcome = edited(name).run(given, seed=seed)
    assert outcome.blocks == batch * heads * seq // 128
    assert_attention(outcome.tensors["O"], given)


@pytest.mark.parametrize("name", ["v3", "v5", "v5_q_registers"])
@pytest.mark.parametrize(
    ("seq", "heads", "ctas", "seed"), [(384, 1, 2, 0), (256, 2, 2, 1), (256, 1, 3, 2)]
)
def test_persistent_kernel_computes_attention(
    edited: Make, name: str, seq: int, heads: int, ctas: int, seed: int
) -> None:
    given = {**inputs(1, seq, heads), **tasks(1, heads, seq // 128, ctas)}
    outcome = edited(name).run(given, {"ctas": ctas}, seed=seed)
    assert outcome.blocks == ctas
    assert_attention(outcome.tensors["O"], given)


def growing(seq: int, heads: int, ctas: int) -> dict[str, np.ndarray]:
    """Scores that pass the maximum of their row by more than 2^8, also between two tiles."""
    given = inputs(1, seq, heads)
    given["Q"] = round_bf16(given["Q"] * np.float32(8))
    return {**given, **tasks(1, heads, seq // 128, ctas)}


SUM = "                row_sum.at(i) = row_sum.at(i) * row_scale.at(i);\n"
OUTPUT = (
    "            // The tensor cores are at QK.\n            if (grown) {",
    "            if (false) {",
)


# Each step finds the exact maxima, as if every limit were negative.
LIMIT = ("grown = __any(__above(acc_s, row_limit));", "grown = __any(true);")


@pytest.mark.parametrize(("seq", "heads", "ctas", "seed"), [(512, 1, 1, 0), (384, 2, 2, 1)])
def test_what_was_added_up_is_rescaled_where_a_maximum_grows(
    edited: Make, seq: int, heads: int, ctas: int, seed: int
) -> None:
    given = growing(seq, heads, ctas)
    assert_attention(edited("v5").run(given, {"ctas": ctas}, seed=seed).tensors["O"], given)
    # The inputs are such that each part of it matters.
    for edit in ((SUM, ""), OUTPUT):
        found = edited("v5", edit).run(given, {"ctas": ctas}, seed=seed).tensors["O"]
        with pytest.raises(AssertionError):
            assert_attention(found, given)


def test_limits_below_zero_change_no_result(edited: Make) -> None:
    """Scores far below zero: their limits say "perhaps", and maxima that did not grow stay."""
    given = inputs(1, 384, 1)
    # One direction that all queries share, and all keys against it: scores of about -200.
    given["Q"][..., 0], given["K"][..., 0] = 16, -12.5
    given.update(tasks(1, 1, 3, 1))
    for edits in ((), (LIMIT,)):
        found = edited("v5", *edits).run(given, {"ctas": 1}).tensors["O"]
        assert_attention(found, given)
    # The inputs are such that the limits are below zero.
    scores = np.einsum("bshd,bthd->bhst", given["Q"], given["K"])
    assert np.max(scores) + 63 < 0


def test_a_wrong_mask_is_not_within_tolerance(edited: Make) -> None:
    given = inputs(1, 128, 1)
    wrong = edited("v2", ("if (j > cid * WG_M + i)", "if (j >= cid * WG_M + i + 2)"))
    with pytest.raises(AssertionError):
        assert_attention(wrong.run(given).tensors["O"], given)


def test_one_seed_is_one_run(edited: Make) -> None:
    given = inputs(1, 256, 1)
    kept = {name: tensor.copy() for name, tensor in given.items()}
    kernel = edited("v2")
    first, second, other = (kernel.run(given, seed=seed) for seed in (5, 5, 6))
    assert first.turns == second.turns != other.turns
    # Sums are in the order of the program, whoever comes first.
    np.testing.assert_array_equal(first.tensors["O"], other.tensors["O"])
    for name, tensor in given.items():
        np.testing.assert_array_equal(tensor, kept[name])


def test_bits_in_bits_out(edited: Make) -> None:
    given = inputs(1, 128, 1)
    bits = {name: to_bf16_bits(tensor) for name, tensor in given.items()}
    kernel = edited("v2")
    found = kernel.run(bits).tensors["O"]
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(from_bf16_bits(found), kernel.run(given).tensors["O"])


# Broken kernels --------------------------------------------------------------------------------

BEFORE_KE = "          wait qk;\n          trigger ke.at(order);\n"
V4_PV = "          wait pv;\n          trigger ve.at(v_pipe_order++);\n"
V4_END = "acc_o.at(i, j) = acc_o.at(i, j) * scores_scale.at(i);\n        }\n"

BROKEN: list[tuple[str, str, Edits, str, str, str]] = [
    (
        "a release is missing",
        "v2",
        ((BEFORE_KE, "          wait qk;\n"),),
        "deadlock",
        "wait ke.at(order);",
        "nobody can go on",
    ),
    (
        "nothing is free at first",
        "v2",
        (("ke[K_STAGES] = ready", "ke[K_STAGES]"),),
        "deadlock",
        "wait ke.at(order);",
        "nobody can go on",
    ),
    (
        "K is released before QK is complete",
        "v2",
        ((BEFORE_KE, "          trigger ke.at(order);\n          wait qk;\n"),),
        "overwrite",
        "k_load = tma",
        r"k_buf\[0\] is overwritten .* the MMA of line",
    ),
    (
        "the producer does not wait for a free slot",
        "v2",
        (("            wait ke.at(order);\n", ""),),
        "overwrite",
        "k_load = tma",
        r"k_buf\[0\] is overwritten .* the load of line .* \(generation 0 of kf slot 0\)",
    ),
    (
        "one slot for two stages",
        "v2",
        (("K_head.subspan(BLOCK_N, DIM).at(bn, 0) => k_buf[order % K_STAGES]",
          "K_head.subspan(BLOCK_N, DIM).at(bn, 0) => k_buf[0]"),),
        "overwrite",
        "k_load = tma",
        r"k_buf\[0\] is overwritten",
    ),
    (
        "the consumers do not wait for V",
        "v2",
        (("          wait vf.at(order);\n", ""),),
        "early-read",
        "pv = mma",
        r"v_buf\[0\] is read (before anything|while the load|without waiting for the load)",
    ),
    (
        "the consumers do not wait for Q",
        "v2",
        (("        wait qf;\n", ""),),
        "early-read",
        "qk = mma",
        "q_shared is read",
    ),
    (
        "K completes the event of V",
        "v2",
        (("trigger kf.at(order) after k_load", "trigger vf.at(order) after k_load"),
         ("trigger vf.at(order++) after v_load", "trigger kf.at(order++) after v_load")),
        "early-read",
        "qk = mma",
        r"k_buf\[0\] is read .*the load of line .* \(generation 0 of vf slot 0\)",
    ),
    (
        "a wait by the slot",
        "v2",
        (("wait kf.at(order);", "wait kf.at(order % K_STAGES);"),),
        "missed-generation",
        "wait kf.at(order % K_STAGES);",
        "generation 0 of kf slot 0 again",
    ),
    (
        "a wait by the order of the other ring",
        "v4",
        (("wait kf.at(k_pipe_order);\n          qk", "wait kf.at(v_pipe_order);\n          qk"),),
        "missed-generation",
        "wait kf.at(v_pipe_order);",
        "generation 0 of kf slot 0 again",
    ),
    (
        "a wait two generations ahead",
        "v2",
        (("wait kf.at(order);", "wait kf.at(order + 2 * K_STAGES);"),),
        "missed-generation",
        "wait kf.at(order + 2 * K_STAGES);",
        "the wait for generation 2 of kf slot 0 comes too early",
    ),
    (
        "a second trigger",
        "v2",
        ((BEFORE_KE, BEFORE_KE + "          trigger ke.at(order); // again\n"),),
        "over-arrival",
        "// again",
        "by the same threads again in generation 1, which 8 arrivals complete|counts for that one",
    ),
    (
        "a plain trigger of a load's event",
        "v2",
        ((BEFORE_KE, "          wait qk;\n          trigger kf.at(order);\n"),),
        "over-arrival",
        "trigger kf.at(order);",
        "kf slot 0 is triggered",
    ),
    (
        "a trigger by the slot",
        "v2",
        (("trigger ke.at(order);", "trigger ke.at(order % K_STAGES);"),),
        "over-arrival",
        "trigger ke.at(order % K_STAGES);",
        "triggered for generation 1, and generation 2 is pending",
    ),
    (
        "scores are read while QK runs",
        "v2",
        ((BEFORE_KE, ""), ("          wait pv;\n", "          wait qk, pv;\n")),
        "in-flight",
        "acc_s.at(i, j) = -inf;",
        "acc_s is written while the MMA of line .* still accumulates in it",
    ),
    (
        "probabilities are overwritten while PV reads them",
        "v4",
        ((V4_PV, ""), (V4_END, "acc_o.at(i, j) = acc_o.at(i, j);\n" + V4_PV + "        }\n")),
        "in-flight",
        "acc_s_cast.at(i, j) = __to<bf16>(acc_s.at(i, j)); // in the loop",
        "acc_s_cast is overwritten while the MMA of line .* still reads it",
    ),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("name", "edits", "fault", "place", "message"),
    [case[1:] for case in BROKEN],
    ids=[case[0] for case in BROKEN],
)
def test_broken_kernel_is_caught(
    edited: Make, name: str, edits: Edits, fault: str, place: str, message: str, seed: int
) -> None:
    if "// in the loop" in place:
        # The statement stands twice: mark the second.
        loop = "          apply {i, j} in acc_s_cast.span\n            "
        mark = "acc_s_cast.at(i, j) = __to<bf16>(acc_s.at(i, j));"
        edits = (*edits, (loop + mark, f"{loop}{mark} // in the loop"))
    kernel = edited(name, *edits)
    with pytest.raises(InterpreterError, match=message) as caught:
        kernel.run(inputs(1, 384, 1), seed=seed)
    assert caught.value.fault == fault
    assert caught.value.line == kernel.line(place)
    assert caught.value.where is not None
    assert caught.value.where.startswith(f"t.co:{caught.value.line}:")
    assert caught.value.where.endswith(f"seed {seed}")


@pytest.mark.parametrize("seed", range(4))
def test_an_accumulator_that_nobody_waits_for(edited: Make, seed: int) -> None:
    # Which of the two comes first depends on the order of the run.
    kernel = edited("v2", ("          wait pv;\n", ""))
    with pytest.raises(InterpreterError) as caught:
        kernel.run(inputs(1, 384, 1), seed=seed)
    found = caught.value
    read = found.fault == "in-flight" and "acc_o" in found.what
    assert read or (found.fault == "overwrite" and "v_buf[0]" in found.what)


def test_a_deadlock_names_everybody(edited: Make) -> None:
    kernel = edited("v2", (BEFORE_KE, "          wait qk;\n"))
    with pytest.raises(InterpreterError) as caught:
        kernel.run(inputs(1, 384, 1))
    producer, consumer = caught.value.details
    wait_ke, wait_kf = kernel.line("wait ke.at(order);"), kernel.line("wait kf.at(order);")
    assert producer == (
        f"threads 0-31, role (p == 0): line {wait_ke} waits for ke slot 0, generation 1 "
        "(0 of 1 arrivals)"
    )
    assert consumer == (
        f"threads 128-383, role (p > 0): line {wait_kf} waits for kf slot 0, generation 1 "
        "(0 of 1 arrivals)"
    )


EARLY_QE = (
    ("          // The last QK of this task is done: the producer may load the next Q.\n"
     "          trigger qe;\n", ""),
    ("          first_k_slot =", "          trigger qe;\n          first_k_slot ="),
)  # fmt: skip
RESTART = (
    ("        frag bf16 [WG_M, BLOCK_N] acc_s_cast;\n\n"
     "        mutable u32 k_pipe_order = 0;\n        mutable u32 v_pipe_order = 0;\n",
     "        frag bf16 [WG_M, BLOCK_N] acc_s_cast;\n"),
    ("          // Prologue: QK of", "          mutable u32 k_pipe_order = 0;\n"
     "          mutable u32 v_pipe_order = 0;\n          // QK of"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("edits", "fault", "place", "message"),
    [
        ((("            wait qe;\n", ""),), "overwrite", "q_load = tma", "q_shared is overwritten"),
        (EARLY_QE, "overwrite", "q_load = tma", "q_shared is overwritten .* the MMA of line"),
        ((("          trigger qe;\n", ""),), "deadlock", "wait qe;", "nobody can go on"),
        (RESTART, "missed-generation", "wait kf.at(k_pipe_order); // first", "again, after"),
    ],
    ids=["no wait for a free Q", "Q is released early", "Q is never released", "orders restart"],
)
def test_broken_persistent_kernel_is_caught(
    edited: Make, edits: Edits, fault: str, place: str, message: str
) -> None:
    mark = "wait kf.at(k_pipe_order);\n          inthreads (p == 2)"
    first = (mark, mark.replace(";\n", "; // first\n"))
    kernel = edited("v3", *edits, first)
    with pytest.raises(InterpreterError, match=message) as caught:
        kernel.run({**inputs(1, 384, 1), **tasks(1, 1, 3, 1)}, {"ctas": 1}, seed=3)
    assert caught.value.fault == fault
    assert caught.value.line == kernel.line(place)


Q_LOAD = "          q_frag = mma.load q_shared.subspan(WG_M, DIM).at(cid, 0);\n"
Q_SAID = "          // Q is in registers: the producer may load the next one.\n"
QE = "          trigger qe;\n"


@pytest.mark.parametrize(
    ("edits", "faults", "message"),
    [
        ((("          wait qf;\n", ""),), ["early-read"], "q_shared is read"),
        (((Q_LOAD + Q_SAID + QE, QE + Q_LOAD),), ["early-read", "overwrite"], "q_shared is"),
        (((QE, ""),), ["deadlock"], "nobody can go on"),
        (
            (("            wait qk;\n", Q_LOAD + "            wait qk;\n"),),
            ["in-flight", "early-read", "overwrite"], "q_frag is overwritten|q_shared is",
        ),
    ],
    ids=["Q is not waited for", "Q is released early", "Q is never released", "Q is loaded again"],
)  # fmt: skip
@pytest.mark.parametrize("seed", range(2))
def test_broken_loads_of_q_are_caught(
    edited: Make, edits: Edits, faults: list[str], message: str, seed: int
) -> None:
    kernel = edited("v5_q_registers", *edits)
    with pytest.raises(InterpreterError, match=message) as caught:
        kernel.run({**inputs(1, 384, 1), **tasks(1, 1, 3, 1)}, {"ctas": 1}, seed=seed)
    assert caught.value.fault in faults


def test_the_wait_for_a_named_barrier_shows_in_a_deadlock(edited: Make) -> None:
    kernel = edited("v3")
    (qe,) = [s for s in kernel.tables.events if s.name == "qe"]
    assert kernel.tables.events[qe].kind == "named"
    # One consumer warpgroup never gets to the hand-over.
    stuck = edited("v3", ("          trigger qe;\n", "          if (cid == 0) trigger qe;\n"))
    with pytest.raises(InterpreterError) as caught:
        stuck.run({**inputs(1, 256, 1), **tasks(1, 1, 2, 1)}, {"ctas": 1})
    assert caught.value.fault == "deadlock"
    assert any("waits for qe, generation 1 (" in line for line in caught.value.details)


# In the loop, and where a task's end and the next one's begin are one stage of the pipeline.
V5_SCALE = (
    "            // The tensor cores are at QK.\n            if (grown) {\n"
    "              apply {i, j} in acc_o.span\n"
    "                acc_o.at(i, j) = acc_o.at(i, j) * row_scale.at(i);\n            }\n"
)
V5_PV = (
    "            wait vf.at(v_order);\n"
    "            pv = mma.row.col.async acc_o, probabilities, v_buf[v_order % V_STAGES];\n"
)
V5_WAIT_PV = "            wait pv;\n            trigger ve.at(v_order++);\n"
V5_LAST = (
    "apply {i, j} in probabilities.subspan(WG_M, HALF).at(0, 1)\n"
    "              probabilities.at(i, j) = __to<bf16>(acc_s.at(i, j));\n"
)
V5_QF = "position++;\n            wait qf;\n"
V5_Q = "            q_frag = mma.load q_shared.subspan(WG_M, DIM).at(cid, 0);\n"
V5_QE = "            trigger qe;\n"
V5_TURN = (
    "            inthreads (p == 1) {\n              wait first_turn;\n            }\n"
    "            inthreads (p == 2) {\n              wait second_turn;\n            }\n"
    "            acc_s = mma.fill.f32 0.0f;\n            next_qk"
)
# Only tasks of more tiles than one have a loop; those of one follow each other the fastest.
LOOP, NEXT = (384, 1), (128, 5)


@pytest.mark.parametrize(
    ("edits", "shape", "faults", "message"),
    [
        (
            ((V5_SCALE + V5_PV, V5_PV + V5_SCALE),),
            LOOP, {"in-flight"}, "acc_o is (read|written) while",
        ),
        (
            ((V5_WAIT_PV, ""), (V5_LAST, V5_LAST + V5_WAIT_PV)),
            LOOP, {"in-flight"}, "probabilities is overwritten while the MMA",
        ),
        (
            ((V5_WAIT_PV, V5_WAIT_PV.split("\n")[1] + "\n            wait pv;\n"),),
            LOOP, {"overwrite"}, r"v_buf\[.\] is overwritten .* the MMA",
        ),
        (
            ((V5_QF, "position++;\n"),),
            NEXT, {"early-read", "overwrite", "over-arrival"}, "q_shared is|qe is",
        ),
        (((V5_Q + V5_QE, V5_QE + V5_Q),), NEXT, {"early-read", "overwrite"}, "q_shared is"),
        (
            (("            wait kf.at(k_order);\n" + V5_TURN, V5_TURN),),
            NEXT, {"early-read", "missed-generation"}, "k_buf",
        ),
        ((("first_turn = ready", "first_turn"),), LOOP, {"deadlock"}, "nobody can go on"),
        (
            (("mma.store acc_o, o_buf[cid]", "mma.store acc_o, o_buf[0]"),),
            LOOP, {"overwrite", "early-read"}, "o_buf",
        ),
    ],
    ids=[
        "the output is scaled beside PV", "P is converted beside PV", "V is released early",
        "the next Q is not waited for", "the next Q is released early",
        "the next K is not waited for", "nobody begins", "one tile for two stores",
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", range(2))
def test_broken_continuous_kernel_is_caught(
    edited: Make, edits: Edits, shape: tuple[int, int], faults: set[str], message: str, seed: int
) -> None:
    kernel = edited("v5", *edits)
    with pytest.raises(InterpreterError, match=message) as caught:
        kernel.run(growing(*shape, 1), {"ctas": 1}, seed=seed)
    assert caught.value.fault in faults
