"""Half of a tile is converted beside the exponentials of the other, where nobody can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from artifact.choreo import analysis, halving, syntax
from tests.choreo.test_sinking import bits, printed

Make = Callable[..., Any]

STEP = """\
frag f32 [64] top;
frag f32 [64] part;
frag f32 [64] sum {0.0f};
frag bf16 [64, 128] p_tile {0.5f};
out = mma.fill.f32 0.0f;
mutable u32 order = 0;
foreach {step} in [n] {
  acc = mma.fill.f32 0.0f;
  qk = mma.row.row.async acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];
  pv = mma.row.col.async out, p_tile, ring[0];
  wait qk;
  reduce_max(top, acc, 1);
  // before
  apply {i, j} in acc.span
    acc.at(i, j) = __exp2f(acc.at(i, j) - top.at(i));
  // middle
  apply {i} in part.span
    part.at(i) = 0.0f;
  apply {i, j} in acc.span
    part.at(i) = part.at(i) + acc.at(i, j);
  apply {i} in sum.span
    sum.at(i) = sum.at(i) + part.at(i);
  // wait
  wait pv;
  trigger empty.at(order++);
  // behind
  apply {i, j} in p_tile.span
    p_tile.at(i, j) = __to<bf16>(acc.at(i, j));
  // tail
}
// rest
last = mma.row.col.async out, p_tile, ring[0];
wait last;
mma.store out, q_tile.subspan(64, 128).at(cid, 0);
copy(top, sum);
"""
EXPONENTIALS = "    acc.at(i, j) = __exp2f(acc.at(i, j) - top.at(i));\n"
SUM = "    part.at(i) = part.at(i) + acc.at(i, j);\n"
TOTAL = "  apply {i} in sum.span\n    sum.at(i) = sum.at(i) + part.at(i);\n"
CONVERSION = "    p_tile.at(i, j) = __to<bf16>(acc.at(i, j));\n"
QK = "  qk = mma.row.row.async acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
PV = "  pv = mma.row.col.async out, p_tile, ring[0];\n"


def step(*edits: tuple[str, str]) -> str:
    text = STEP
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def accepted(made: Any) -> Any:
    """Tables without an error; nobody waits for what the step triggers."""
    assert set(made.codes) <= {"never-waited"}, made.diagnostics.in_order()
    return made.tables


def loop(made: Any) -> list[str]:
    """The loop's lines from the maximum on; the braces of ``apply`` are left out."""
    lines = [line for line in printed(made) if line != "}"]
    return lines[lines.index("reduce_max(top, acc, 1);") + 1 : lines.index("wait last;") - 1]


def test_the_first_half_is_converted_before_the_exponentials_of_the_second(consumer: Make) -> None:
    assert loop(consumer(STEP)) == [
        "apply {i, j} in acc.subspan(_, 64).at(0, 0) {",
        "acc.at(i, j) = __exp2f(acc.at(i, j) - top.at(i));",
        "apply {i} in part.span {",
        "part.at(i) = 0.0f;",
        "apply {i, j} in acc.subspan(_, 64).at(0, 0) {",
        "part.at(i) = part.at(i) + acc.at(i, j);",
        "wait pv;",
        "trigger empty.at(order++);",
        "apply {i, j} in p_tile.subspan(_, 64).at(0, 0) {",
        "p_tile.at(i, j) = __to<bf16>(acc.at(i, j));",
        "apply {i, j} in acc.subspan(_, 64).at(0, 1) {",
        "acc.at(i, j) = __exp2f(acc.at(i, j) - top.at(i));",
        "apply {i, j} in acc.subspan(_, 64).at(0, 1) {",
        "part.at(i) = part.at(i) + acc.at(i, j);",
        "apply {i} in sum.span {",
        "sum.at(i) = sum.at(i) + part.at(i);",
        "apply {i, j} in p_tile.subspan(_, 64).at(0, 1) {",
        "p_tile.at(i, j) = __to<bf16>(acc.at(i, j));",
    ]


def test_what_moved_has_its_place_in_the_source_and_a_note(consumer: Make) -> None:
    made = consumer(STEP)
    lines = made.text.split("\n")
    (wait,) = [n for n, line in enumerate(lines, 1) if line.strip() == "wait pv;"]
    notes = [(lines[s.span.line].strip(), note) for s, note in made.tables.moved.items()]
    assert notes == [
        (EXPONENTIALS.strip(), f"Columns 0 to 63: the others follow the wait of line {wait}."),
        (SUM.strip(), f"Columns 0 to 63: the others follow the wait of line {wait}."),
        (CONVERSION.strip(), "Columns 0 to 63, beside the arithmetic of the others."),
        (EXPONENTIALS.strip(), "Columns 64 to 127, from before the wait."),
        (SUM.strip(), "Columns 64 to 127, from before the wait."),
        (TOTAL.split("\n")[1].strip(), "From before the wait: it needs all 128 columns."),
        (CONVERSION.strip(), "Columns 64 to 127."),
    ]
    # Each is a node of its own, as every table needs.
    nodes = [node for stmt in made.tables.moved for node in syntax.walk(stmt)]
    assert len(nodes) == len(set(nodes))


@pytest.mark.parametrize(
    ("edits", "moved"),
    [
        ((("foreach {step} in [n] {", "mutable int k = 0;\nwhile (k < n) {\n  k = k + 1;"),), 7),
        (((SUM, SUM.replace("= part.at(i) +", "+=")),), 7),
        ((("  // tail\n", "  if (step > 4)\n    break;\n"),), 7),
        (((EXPONENTIALS, "  {\n" + EXPONENTIALS + SUM + "  }\n"),
          ("  apply {i, j} in acc.span\n" + SUM, ""),
          ("  apply {i} in part.span\n    part.at(i) = 0.0f;\n", ""),
          ("  // before\n", "  apply {i} in part.span\n    part.at(i) = 0.0f;\n")), 5),
        (((TOTAL, ""),), 6),
        (((TOTAL, TOTAL + "  all_reduce_sum(sum);\n"),), 8),
        ((("  // middle\n", "  apply {i, j} in acc.span\n    acc.at(i, j) = acc.at(i, j) + 0.5f;\n"
           ),), 9),
        (((EXPONENTIALS, EXPONENTIALS.replace("(acc.at(i, j) -", "(acc.at(i, j) * 0.5f -")),), 7),
        (((SUM, SUM.replace("= part.at(i) +", "= part.at(i) * 0.5f +")),), 7),
        ((("  // before\n", "  apply {i, j} in acc.span\n    if (j > i)\n"
           "      acc.at(i, j) = -inf;\n  reduce_max(top, acc, 1);\n"),), 7),
        ((("  // before\n", "  apply {i} in sum.span\n    sum.at(i) = sum.at(i) * top.at(i);\n"),),
         7),
        ((("  // middle\n", "  apply {i, j} in acc.span\n"
           "    acc.at(i, j) = __max(acc.at(i, j), 0.5f);\n"),), 9),
        (((CONVERSION, CONVERSION.replace("acc.at(i, j)", "acc.at(i, j) * top.at(i)")),), 7),
        ((("  // behind\n", "  apply {i, j} in out.span\n    out.at(i, j) = out.at(i, j) * 2.0f;\n"
           ),), 7),
        ((("apply {i, j} in p_tile.span", "apply {i, j} in acc.span"),), 7),
        (((EXPONENTIALS, EXPONENTIALS.replace("__exp2f(", "__rsqrt(")),), 7),
        ((("  // behind\n", "  apply {i} in scale.span\n    scale.at(i) = __to<f32>(ids.at(i));\n"),
          ("frag f32 [64] top;\n", "frag f32 [64] top;\nfrag f32 [64] scale;\n"),
          ("copy(top, sum);\n", "copy(scale, sum);\n")), 7),
        ((("  // wait\n", "  apply {i, j} in acc.span\n    other.at(i, j) = acc.at(i, j);\n"),
          ("frag f32 [64] top;\n", "frag f32 [64] top;\nfrag f32 [64, 128] other {0.0f};\n")), 9),
    ],
    ids=["while", "compound", "break behind", "one loop for exponentials and sum", "no total",
         "a total over the lanes", "two statements on the elements", "a product within a sum",
         "a sum that is scaled", "a mask", "a total that is scaled", "a maximum of each element",
         "a factor of the row",
         "another accumulator behind the wait", "over the matrix", "another special function",
         "memory behind the wait", "another matrix"],
)  # fmt: skip
def test_other_forms_are_split_too(
    consumer: Make, edits: tuple[tuple[str, str], ...], moved: int
) -> None:
    assert len(accepted(consumer(step(*edits))).moved) == moved


SCALED = "  apply {i, j} in acc.span\n    acc.at(i, j) = acc.at(i, j) * 0.5f;\n"
LOW = ("frag f32 [64] top;\n", "frag f32 [64] top;\nfrag f32 [64, 128] low {0.25f};\n")
SECOND_SUM = "  apply {i, j} in acc.span\n    sum.at(i) = sum.at(i) + acc.at(i, j);\n"
TOP_CHANGES = "  apply {i} in top.span\n    top.at(i) = top.at(i) + 1.0f;\n"
TOP_SCALED = TOP_CHANGES.replace("+ 1.0f", "* sum.at(i)")


@pytest.mark.parametrize(
    "edits",
    [
        # The exponentials of the first half need the maximum of all columns.
        (("  // middle\n", "  reduce_max(top, acc, 1);\n"),
         ("  apply {i, j} in acc.span\n" + SUM,
          "  apply {i, j} in acc.span\n    part.at(i) = part.at(i) + top.at(i);\n")),
        # Two sums in one variable: the second would begin before the first ends.
        (("  // wait\n", SECOND_SUM.replace("sum.at", "part.at")),),
        (("  // wait\n", SECOND_SUM),),
        # A maximum is found by two chains.
        ((SUM, "    part.at(i) = __max(part.at(i), acc.at(i, j));\n"),),
        # Once for each element, not once for each half.
        ((SUM, "    {\n    part.at(i) = part.at(i) * 0.5f;\n" + SUM + "    }\n"),),
        ((SUM, "    if (j < 70)\n" + SUM),),
        ((SUM, "    {\n    f32 x = acc.at(i, j);\n    part.at(i) = part.at(i) + x;\n    }\n"),),
        # Another vector's value, which changes between.
        (("  // middle\n", TOP_CHANGES), (CONVERSION, CONVERSION.replace("acc.at(i, j)",
          "acc.at(i, j) * top.at(i)"))),
        ((CONVERSION, CONVERSION.replace("acc.at(i, j)", "acc.at(i, j) * sum.at(i)")),),
        (("  // behind\n", TOP_CHANGES),),
        (("  // behind\n", TOP_SCALED),),
        (("  // behind\n", "  copy(top, sum);\n"),),
        (("  // behind\n", "  all_reduce_sum(part);\n"),),
        # The order counts the triggers.
        ((SUM, SUM.replace("acc.at(i, j)", "acc.at(i, j) * __to<f32>(order)")),),
        # Products that nvcc could contract with a sum in one order, and not in the other.
        ((EXPONENTIALS, EXPONENTIALS.replace("acc.at(i, j) - top.at(i));",
          "acc.at(i, j)) * top.at(i);")), (CONVERSION, CONVERSION.replace("acc.at(i, j)",
          "acc.at(i, j) + 1.5f"))),
        (("  // middle\n", SCALED),),
        (("  // middle\n", SCALED.replace("= acc.at(i, j) *", "*=")),),
        (("  // before\n", SCALED + "  reduce_max(top, acc, 1);\n"),),
        (("  // before\n", "  if (n > 2) {\n" + SCALED + "  }\n"),),
        (("  // middle\n", SCALED.replace("* 0.5f", "/ top.at(i)")),),
        (("  // middle\n", SCALED.replace("acc.at(i, j) * 0.5f", "-(acc.at(i, j) * 0.5f)")),),
        ((EXPONENTIALS, EXPONENTIALS.replace("__exp2f", "__log")),),
        ((SUM, SUM.replace("part.at(i) +", "part.at(i) *")),),
        (("  // before\n", SCALED.replace("acc", "low") + "  copy(acc, low);\n"), LOW),
        (("  // before\n", SCALED.replace("acc", "low") + "  apply {i, j} in acc.span\n"
          "    acc.at(i, j) = low.at(i, j);\n"), LOW),
        ((TOTAL, TOTAL.replace("+ part", "* top") + TOTAL),),
        # Memory that somebody may write when it is handed back.
        ((SUM, SUM.replace("acc.at(i, j)", "acc.at(i, j) * __to<f32>(ids.at(j))")),),
        ((CONVERSION, CONVERSION.replace("acc.at(i, j)", "acc.at(i, j) * __to<f32>(ids.at(j))")),),
        # Something else behind the wait.
        (("  // behind\n", "  wait loaded;\n"),),
        (("  // behind\n", "  if (n > 2)\n    trigger done;\n"),),
        (("  // behind\n", "  reduce_max(top, acc, 1);\n"),),
        # No conversion, or another one.
        (("apply {i, j} in p_tile.span", "apply {i, j} in p_tile.subspan(_, 64).at(0, 0)"),),
        ((CONVERSION, CONVERSION.replace("= __to<bf16>(acc", "*= __to<bf16>(acc")),),
        ((CONVERSION, CONVERSION.replace("acc.at(i, j)", "top.at(i)")),),
        ((CONVERSION, CONVERSION.replace("acc.at(i, j)", "acc.at(i, j) * out.at(i, j)")),),
        ((CONVERSION, "    if (j < 64)\n" + CONVERSION),),
        (("  // behind\n", "  apply {i, j} in acc.span\n"
          "    acc.at(i, j) = acc.at(i, j) * __to<f32>(p_tile.at(i, j));\n"),),
        (("  // behind\n", "  copy(p_tile, other);\n"),
         ("frag bf16 [64, 128] p_tile", "frag bf16 [64, 128] other {0.5f};\n"
          "frag bf16 [64, 128] p_tile")),
        ((CONVERSION, "    {\n" + CONVERSION + "    acc.at(i, j) = 0.0f;\n    }\n"),),
        (("  // behind\n", "  p_tile = mma.load q_tile.subspan(64, 128).at(cid, 0);\n"),),
        # Nothing to run beside.
        ((EXPONENTIALS, EXPONENTIALS.replace("__exp2f", "__fabs")),),
        ((PV, ""), ("  // wait\n", PV)),
        ((EXPONENTIALS, EXPONENTIALS.replace("acc.at(i, j) - top.at(i)", "top.at(i)")),
         ("apply {i, j} in acc.span\n    acc.at(i, j) = ", "apply {i} in top.span\n    top.at(i) = "
          ), ("__exp2f(top.at(i))", "__exp2f(top.at(i))")),
        # Halves already.
        (("apply {i, j} in acc.span\n" + EXPONENTIALS,
          "apply {i, j} in acc.subspan(_, 64).at(0, 0)\n" + EXPONENTIALS),
         ("apply {i, j} in acc.span\n" + SUM, "apply {i, j} in acc.subspan(_, 64).at(0, 0)\n" + SUM)
         ),
        # A branch, and not the loop's own body.
        (("  // before\n", "  if (n > 0) {\n"), ("  // tail\n", "  }\n"), (QK + PV, ""),
         ("  wait qk;\n  reduce_max(top, acc, 1);\n", ""),
         ("  acc = mma.fill.f32 0.0f;\n", ""),
         ("  // wait\n", ""), ("  if (n > 0) {\n", "  if (n > 0) {\n  acc = mma.fill.f32 0.0f;\n"
          + QK + PV + "  wait qk;\n  reduce_max(top, acc, 1);\n")),
        # The wait is for two.
        (("out = mma.fill.f32 0.0f;\n", "out = mma.fill.f32 0.0f;\nmore = mma.fill.f32 0.0f;\n"),
         (PV, PV + "  pv2 = mma.row.col.async more, p_tile, ring[0];\n"),
         ("  wait pv;\n", "  wait pv, pv2;\n"), ("// rest\n", "copy(more, out);\n")),
        (("out = mma.fill.f32 0.0f;\n", "out = mma.fill.f32 0.0f;\nmore = mma.fill.f32 0.0f;\n"),
         (PV, PV + "  pv2 = mma.row.col.async more, p_tile, ring[0];\n"),
         ("  wait pv;\n", "  wait pv2;\n"), ("  // tail\n", "  wait pv;\n"),
         ("// rest\n", "copy(more, out);\n")),
    ],
)  # fmt: skip
def test_what_could_change_a_result_stays(
    consumer: Make, edits: tuple[tuple[str, str], ...]
) -> None:
    tables = accepted(consumer(step(*edits)))
    assert not tables.moved
    # Not only because the new tree would break a rule.
    assert halving.halve_conversions(tables) is None


def test_what_one_wait_splits_no_other_wait_moves(consumer: Make) -> None:
    text = step(
        ("frag f32 [64] top;\n", "frag f32 [64] top;\nfrag f32 [64] scale {1.0f};\n"
         "frag bf16 [64, 128] other {0.5f};\nmore = mma.fill.f32 0.0f;\n"),
        (QK, QK + "  low = mma.fill.f32 0.0f;\n" + QK.replace("acc", "low").replace("qk", "qk2")),
        (PV, PV + "  pv2 = mma.row.col.async more, other, ring[0];\n"),
        ("  wait qk;\n", "  wait qk, qk2;\n"),
        ("  // behind\n", "  apply {i, j} in low.span {\n"
         "    low.at(i, j) = __exp2f(low.at(i, j));\n"
         "    scale.at(i) = scale.at(i) + low.at(i, j);\n  }\n"),
        ("  // tail\n", "  wait pv2;\n  apply {i, j} in other.span\n"
         "    other.at(i, j) = __to<bf16>(low.at(i, j));\n"),
        ("// rest\n", "copy(more, out);\n"),
    )  # fmt: skip
    # Either conversion for itself; the second wait does not move the first one as a whole.
    assert len(accepted(consumer(text)).moved) == 7 + 4
    scaled = text.replace(
        CONVERSION, CONVERSION.replace("acc.at(i, j)", "acc.at(i, j) * scale.at(i)")
    )
    assert scaled != text
    made = consumer(scaled)
    assert len(accepted(made).moved) == 7
    assert not any("low.subspan" in line for line in printed(made))


def test_errors_are_about_the_order_of_the_source(consumer: Make) -> None:
    # Behind the wait, where the second half goes, it would be right.
    early = "  apply {i, j} in acc.span\n    acc.at(i, j) = acc.at(i, j) + out.at(i, j);\n"
    made = consumer(step(("  // wait\n", early)))
    assert "accumulator-in-flight" in made.codes
    assert made.place("accumulator-in-flight") == "out.at(i, j)"


# The kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "moved"), [("v1", 0), ("v2", 0), ("v4", 7), ("v3", 7), ("v5", 0)])
def test_which_kernels_it_is_for(edited: Make, name: str, moved: int) -> None:
    made = halving.halve_conversions(edited(name, move=False).tables)
    assert len(made.notes if made else ()) == moved


# The later a column, the more it counts: any other order would show.
ORDERED = (
    "scores_sum.at(i) = scores_sum.at(i) + acc_s.at(i, j);",
    "scores_sum.at(i) = scores_sum.at(i) * 0.75f + acc_s.at(i, j);",
)


@pytest.fixture
def halved(edited: Make, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A kernel in which nothing else is moved; a text of its own, so that nothing is cached."""
    for other in ("split_stores", "sink_scalings"):
        monkeypatch.setattr(analysis, other, lambda *_: None)
    epilogue = "// Epilogue: the last PV, with"
    return lambda name, text: edited(name, ORDERED, (epilogue, epilogue + text))


# In the first query tile the loop has no trip; later ones have one and more.
@pytest.mark.parametrize("seq", [128, 256, 512])
@pytest.mark.parametrize("name", ["v4", "v3"])
def test_results_are_the_same_bit_for_bit(edited: Make, halved: Make, name: str, seq: int) -> None:
    made, source = halved(name, " or without"), edited(name, ORDERED, move=False)
    assert made.codes == source.codes == ()
    assert len(made.tables.moved) == 7
    np.testing.assert_array_equal(bits(made, seq), bits(source, seq, seed=1))


@pytest.mark.parametrize("halves", [(1, 0), (0, 0), (1, 1)])
def test_other_columns_would_show(
    edited: Make, halved: Make, monkeypatch: pytest.MonkeyPatch, halves: tuple[int, int]
) -> None:
    half = halving._half
    monkeypatch.setattr(halving, "_half", lambda stmt, width, n: half(stmt, width, halves[n]))
    made = halved("v4", f" and never {halves}")
    assert len(made.tables.moved) == 7
    assert (bits(made, 256) != bits(edited("v4", ORDERED, move=False), 256)).any()
