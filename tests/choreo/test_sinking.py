"""Rescaling moves to where a product hides it, only where that changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from artifact.choreo import analysis, sinking, syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.parse import parse_file
from artifact.choreo.printer import print_function
from artifact.choreo.tables import Symbol
from artifact.choreo.traverse import Places, statements
from tests.choreo.test_interpret import inputs, tasks

Make = Callable[..., Any]

PIPELINE = """\
frag f32 [64] top;
frag f32 [64] scale;
frag f32 [64] sum {0.0f};
frag bf16 [64, 128] p_tile {0.5f};
out = mma.fill.f32 0.0f;
foreach {step} in [n] {
  acc = mma.fill.f32 0.0f;
  qk = mma.row.row.async acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];
  // head
  pv = mma.row.col.async out, p_tile, ring[0];
  wait qk;
  reduce_max(top, acc, 1);
  apply {i} in scale.span
    scale.at(i) = __exp2f(top.at(i));
  wait pv;
  apply {i, j} in out.span
    out.at(i, j) = out.at(i, j) * scale.at(i);
  // tail
}
// rest
last = mma.row.col.async out, p_tile, ring[0];
wait last;
mma.store out, q_tile.subspan(64, 128).at(cid, 0);
copy(top, sum);
"""
SCALING = """\
  apply {i, j} in out.span
    out.at(i, j) = out.at(i, j) * scale.at(i);
"""
SUM_OF_OUT = "apply {i, j} in out.span\n    sum.at(i) = sum.at(i) + out.at(i, j);\n"
SUM_OF_SCALE = "apply {i} in sum.span\n    sum.at(i) = sum.at(i) + scale.at(i);\n"
RENEWED = "apply {i} in scale.span\n    scale.at(i) = 0.5f;\n"


def pipeline(*edits: tuple[str, str]) -> str:
    text = PIPELINE
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def printed(made: Any) -> list[str]:
    """The lines of the function that the tables are about, without indentation."""
    return [line.strip() for line in print_function(made.tables.function).split("\n")]


def test_the_scaling_runs_beside_the_next_product(consumer: Make) -> None:
    lines = printed(consumer(PIPELINE).clean())
    start, end = lines.index("out = mma.fill.f32 0.0f;"), lines.index("wait last;")
    assert lines[start:end] == [
        "out = mma.fill.f32 0.0f;",
        "apply {i} in scale.span {",
        "scale.at(i) = 1.0f;",
        "}",
        "foreach {step} in [n] {",
        "acc = mma.fill.f32 0.0f;",
        "qk = mma.row.row.async acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];",
        "apply {i, j} in out.span {",
        "out.at(i, j) = out.at(i, j) * scale.at(i);",
        "}",
        "pv = mma.row.col.async out, p_tile, ring[0];",
        "wait qk;",
        "reduce_max(top, acc, 1);",
        "apply {i} in scale.span {",
        "scale.at(i) = __exp2f(top.at(i));",
        "}",
        "wait pv;",
        "}",
        "apply {i, j} in out.span {",
        "out.at(i, j) = out.at(i, j) * scale.at(i);",
        "}",
        "last = mma.row.col.async out, p_tile, ring[0];",
    ]


def test_what_moved_has_its_place_in_the_source_and_a_note(consumer: Make) -> None:
    made = consumer(PIPELINE)
    moved = list(made.tables.moved)
    assert [type(stmt) for stmt in moved] == [syntax.Apply] * 3
    lines = made.text.split("\n")
    assert [lines[stmt.span.line - 1].strip() for stmt in moved] == [
        "frag f32 [64] scale;",
        "apply {i, j} in out.span",
        "apply {i, j} in out.span",
    ]
    assert all(made.tables.moved.values())
    # Each is a node of its own, as every table needs.
    all_statements = list(statements(made.tables.function.body))
    assert len(all_statements) == len(set(all_statements))


@pytest.mark.parametrize(
    "edits",
    [
        ((SCALING, SCALING.replace("= out.at(i, j) * scale.at(i)", "*= scale.at(i)")),),
        ((SCALING, SCALING.replace("out.at(i, j) * scale.at(i)", "scale.at(i) * out.at(i, j)")),),
        (("  // tail\n", "  " + SUM_OF_SCALE),),
        (("// rest\n", RENEWED),),
        (("foreach {step} in [n] {", "mutable int k = 0;\nwhile (k < n) {\n  k = k + 1;"),),
        (("out = mma.fill.f32 0.0f;", "out = mma.fill.f32 2.5f;"),),
        (("scale.at(i) = __exp2f(top.at(i));", "{ scale.at(i) = 2.0f; sum.at(i) = scale.at(i);}"),),
        (("apply {i} in scale.span", "apply {i, j} in acc.subspan(_, 64).at(0, 0)"),),
        (("  apply {i} in scale.span\n    scale.at(i) = __exp2f(top.at(i));\n",
          "  copy(scale, top);\n"),),
    ],
    ids=["compound", "factors swapped", "vector read behind", "vector renewed after the loop",
         "while", "filled with a number", "vector read after its renewal",
         "vector renewed beside a half of the columns", "vector copied"],
)  # fmt: skip
def test_other_forms_move_too(consumer: Make, edits: tuple[tuple[str, str], ...]) -> None:
    assert len(consumer(pipeline(*edits)).clean().tables.moved) == 3


@pytest.mark.parametrize(
    "edits",
    [
        (("  // tail\n", "  " + SUM_OF_OUT),),
        (("  // head\n", "  " + SUM_OF_OUT),),
        (("  // head\n", "  if (step > 0) {\n" + SUM_OF_OUT + "}\n"),),
        (("  // tail\n", "  " + RENEWED),),
        (("  // tail\n", "  " + RENEWED.replace("scale.span", "sum.span")),),
        (("  // head\n", "  " + RENEWED),),
        (("frag f32 [64] scale;", "frag f32 [64] scale {1.0f};"), ("  // head\n", SUM_OF_SCALE)),
        (("// rest\n", SUM_OF_SCALE),),
        (("// rest\n", "copy(sum, scale);\n"),),
        (("// rest\n", "apply {i} in scale.span\n  if (n > 2)\n    scale.at(i) = 0.5f;\n"),),
        (
            ("  apply {i} in scale.span\n    scale.at(i) = __exp2f(top.at(i));\n", ""),
            ("frag f32 [64] scale;", "frag f32 [64] scale {0.5f};"),
        ),
        (
            ("scale.at(i) = __exp2f(top.at(i));", "if (n > 2)\n      scale.at(i) = 2.0f;"),
            ("frag f32 [64] scale;", "frag f32 [64] scale {0.5f};"),
        ),
        (
            ("__exp2f(top.at(i))", "scale.at(i) * __exp2f(top.at(i))"),
            ("frag f32 [64] scale;", "frag f32 [64] scale {0.5f};"),
        ),
        (("  // tail\n", "  if (step > 4)\n    break;\n"),),
        (("  wait qk;\n", ""), ("  // head\n", "  wait qk;\n")),
        (
            ("  // head\n", ""),
            ("foreach {step}", "first = mma.row.col.async out, p_tile, ring[0];\n"
             "wait first;\nforeach {step}"),
        ),
        (("out = mma.fill.f32 0.0f;", "out = mma.fill.f32 1e-40f;"),),
        (
            ("foreach {step}", "early = mma.fill.f32 0.0f;\nbefore = mma.row.row.async early, "
             "q_tile.subspan(64, 128).at(cid, 0), ring[0];\nforeach {step}"),
            ("  acc = mma.fill.f32 0.0f;\n", ""),
            ("  qk = mma.row.row.async acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n", ""),
            ("  wait qk;\n  reduce_max(top, acc, 1);\n", ""),
            ("scale.at(i) = __exp2f(top.at(i));", "scale.at(i) = 2.0f;"),
            ("// rest\n", "wait before;\nreduce_max(top, early, 1);\n"),
        ),
        (
            ("scale.at(i) = __exp2f(top.at(i));", "top.at(i) = 2.0f;"),
            ("  wait qk;\n", "  wait qk;\n  copy(scale, scale);\n"),
            ("frag f32 [64] scale;", "frag f32 [64] scale {0.5f};"),
        ),
        ((SCALING, SCALING.replace("out.span", "p_tile.span")),),
        (
            ("    scale.at(i) = __exp2f", "    scale.at(i) *= __exp2f"),
            ("frag f32 [64] scale;", "frag f32 [64] scale {0.5f};"),
        ),
        (
            ("frag f32 [64] scale;", "frag f32 [64, 128] scale;"),
            ("apply {i} in scale.span", "apply {i, j} in scale.span"),
            ("    scale.at(i) =", "    scale.at(i, j) ="),
            ("* scale.at(i)", "* scale.at(i, j)"),
        ),
        ((SCALING, SCALING.replace("* scale", "+ scale")),),
        ((SCALING, SCALING.replace("* scale.at(i)", "* 0.5f")),),
        ((SCALING, SCALING.replace("out.span", "out.subspan(_, 64).at(0, 0)")),),
        ((SCALING, "  apply {i, j} in out.span {\n    out.at(i, j) = out.at(i, j) * scale.at(i);\n"
          "    sum.at(i) = sum.at(i) + out.at(i, j);\n  }\n"),),
        (
            ("frag f32 [64] scale;\n", ""),
            ("  acc = mma.fill", "  frag f32 [64] scale;\n  acc = mma.fill"),
        ),
        (("// rest\n", SUM_OF_OUT),),
        (("// rest\n", "copy(other, out);\n"), ("frag f32 [64] top;", "frag f32 [64] top;\n"
          "frag f32 [64, 128] other {0.0f};")),
    ],
    ids=["accumulator read behind", "accumulator read before the product",
         "accumulator read in a branch", "vector written behind", "vector written beside another",
         "vector written before the product", "vector read before the product",
         "vector read after the loop", "vector copied after the loop",
         "vector sometimes renewed after the loop", "vector never renewed",
         "vector sometimes renewed", "vector renewed from itself", "break",
         "no product to run beside", "accumulator not filled", "accumulator subnormal",
         "a product of no trip", "vector copied from itself", "over another fragment",
         "vector multiplied", "factor of each element", "sum",
         "constant", "half of the columns", "more in the loop over elements", "vector of one trip",
         "accumulator summed behind the loop", "accumulator copied behind the loop"],
)  # fmt: skip
def test_what_could_change_a_result_stays(
    consumer: Make, edits: tuple[tuple[str, str], ...]
) -> None:
    made = consumer(pipeline(*edits)).clean()
    assert not made.tables.moved
    # Not only because the moved tree would break a rule.
    assert sinking.sink_scalings(made.tables, Places(made.tables.function)) is None


@pytest.mark.parametrize(
    ("rest", "moved"),
    [
        ("last = mma.row.col.async out, p_tile, ring[0];\nwait last;\n", 3),
        ("", 0),
        ("mutable u32 out = 1;\n", 0),
        ("frag f32 [64, 128] out {0.5f};\nlast = mma.row.col.async out, p_tile, ring[0];\n"
         "wait last;\nmma.store out, q_tile.subspan(64, 128).at(cid, 0);\n", 0),
    ],
    ids=["a product", "nothing", "a scalar with its name", "a fragment with its name"],
)  # fmt: skip
def test_the_accumulator_itself_is_scaled_behind_the_loop(
    consumer: Make, rest: str, moved: int
) -> None:
    # It is of the outer block, so that the inner one may hide its name.
    text = pipeline(
        ("frag f32 [64] scale;\n", ""),
        ("foreach {step}", "{\nfrag f32 [64] scale;\nout = mma.fill.f32 0.0f;\nforeach {step}"),
        ("// rest\n", f"{rest.replace('last', 'more')}{RENEWED}}}\n"),
    )
    assert len(consumer(text).clean().tables.moved) == moved


def outer(rest: str, before: str = "") -> str:
    """The pipeline in a loop; its vectors are declared outside."""
    start = PIPELINE.index("out = mma.fill")
    return (
        PIPELINE[:start].replace("scale;", "scale {1.0f};")
        + f"foreach {{task}} in [n] {{\n{before}"
        + PIPELINE[start:].replace("// rest\n", rest)
        + "}\n"
    )


def test_a_vector_may_live_from_one_loop_to_the_next(consumer: Make) -> None:
    assert len(consumer(outer(RENEWED)).clean().tables.moved) == 3
    # Not renewed: the next trip of the outer loop reads it.
    assert not consumer(outer("")).clean().tables.moved
    assert not consumer(outer("", SUM_OF_SCALE)).clean().tables.moved
    # Renewed unless the trip ends before that.
    assert not consumer(outer("if (task > 2)\n  continue;\n" + RENEWED)).clean().tables.moved


def test_the_last_scaling_comes_before_its_vector_changes(consumer: Make) -> None:
    lines = printed(consumer(PIPELINE.replace("// rest\n", RENEWED)).clean())
    renewal = lines.index("scale.at(i) = 0.5f;")
    assert lines[renewal - 3] == "out.at(i, j) = out.at(i, j) * scale.at(i);"
    assert lines[renewal + 2].startswith("last =")


def test_the_last_scaling_comes_before_the_trip_can_end(consumer: Make) -> None:
    body = PIPELINE.replace("// rest\n", "if (n > 7)\n  return;\n")
    lines = printed(consumer(body).clean())
    returns = lines.index("if (n > 7) {")
    assert lines[returns - 2 : returns] == ["out.at(i, j) = out.at(i, j) * scale.at(i);", "}"]


def test_waits_before_the_product_come_after_the_scaling(consumer: Make) -> None:
    made = consumer(pipeline(("  // head\n", "  wait loaded;\n"), ("// rest\n", "wait loaded;\n")))
    lines = printed(made)
    waits = [n for n, line in enumerate(lines) if line == "wait loaded;"][1:]
    assert [lines[n - 2] for n in waits] == ["out.at(i, j) = out.at(i, j) * scale.at(i);"] * 2
    assert [lines[n + 1].split(" ")[0] for n in waits] == ["pv", "last"]


def test_two_accumulators_share_a_vector(consumer: Make) -> None:
    text = pipeline(
        ("out = mma.fill.f32 0.0f;", "out = mma.fill.f32 0.0f;\nmore = mma.fill.f32 0.0f;"),
        ("  wait qk;\n", "  pv2 = mma.row.col.async more, p_tile, ring[0];\n  wait qk;\n"),
        ("  wait pv;\n", "  wait pv, pv2;\n"),
        ("  // tail\n", SCALING.replace("out", "more")),
        ("// rest\n", "mma.store more, q_tile.subspan(64, 128).at(cid, 0);\n"),
    )
    made = consumer(text).clean()
    assert len(made.tables.moved) == 5
    assert printed(made).count("scale.at(i) = 1.0f;") == 1


def test_errors_are_about_the_order_of_the_source(consumer: Make) -> None:
    # Moved, the multiplication would come after the wait.
    made = consumer(pipeline(("  wait pv;\n", ""), ("  // tail\n", "  wait pv;\n")))
    assert made.codes == ["accumulator-in-flight"]
    assert made.place("accumulator-in-flight") == "out.at(i, j)"


def test_a_tree_that_a_rule_refuses_is_not_taken(
    edited: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = edited("v4").text.replace("          wait pv;\n", "")
    file = parse_file(wrong, "t.co", {}, Diagnostics("t.co", wrong))
    assert file is not None
    (other,) = [part for part in file.parts if isinstance(part, syntax.Function)]
    asked = []

    def moved(*_: object) -> sinking.Moved:
        asked.append(True)
        return sinking.Moved(other)

    monkeypatch.setattr(analysis, "sink_scalings", moved)
    # The other passes make trees of their own, so that the source's would not be what is left.
    monkeypatch.setattr(analysis, "split_stores", lambda *_: None)
    monkeypatch.setattr(analysis, "halve_conversions", lambda *_: None)
    # A text of its own, so that nothing of it is cached.
    made = edited("v4", ("// Epilogue: the last PV", "// The last PV"))
    assert asked
    assert made.codes == ()
    assert made.tables.function is made.function


# The kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "moved"), [("v1", 0), ("v2", 0), ("v4", 3), ("v3", 3), ("v5_q_registers", 3)]
)
def test_which_kernels_it_is_for(edited: Make, name: str, moved: int) -> None:
    tables = edited(name, move=False).tables
    assert not tables.moved
    made = sinking.sink_scalings(tables, Places(tables.function))
    assert len(made.notes if made else ()) == moved


def bits(made: Any, seq: int, seed: int = 0) -> np.ndarray:
    """The output of a kernel, as bits."""
    given = inputs(1, seq, 1)
    persistent = "tasks" in {symbol.name for symbol in made.tables.symbols}
    scalars = {"ctas": 2} if persistent else {}
    if persistent:
        given |= tasks(1, 1, seq // 128, 2)
    out = made.run(given, scalars, seed=seed).tensors["O"]
    assert np.isfinite(out).all()
    return out.view(np.uint32)


# In the first query tile the loop has no trip; later ones have one and more.
@pytest.mark.parametrize("seq", [128, 256, 512])
@pytest.mark.parametrize("name", ["v4", "v3", "v5_q_registers"])
def test_results_are_the_same_bit_for_bit(edited: Make, name: str, seq: int) -> None:
    sunk, unsunk = edited(name), edited(name, move=False)
    assert sunk.codes == unsunk.codes == ()
    np.testing.assert_array_equal(bits(sunk, seq), bits(unsunk, seq, seed=1))


def test_another_factor_in_the_first_trip_would_show(
    edited: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = ("acc_o = mma.fill.f32 0.0f;", "acc_o = mma.fill.f32 1.0f;")
    expected = bits(edited("v4", filled, move=False), 256)
    np.testing.assert_array_equal(bits(edited("v4", filled), 256), expected)
    one = sinking._one

    def half(vector: Symbol) -> syntax.Apply:
        (assign,) = one(vector).body.body
        assert isinstance(assign, syntax.Assign)
        value = syntax.FloatLit(assign.span, "0.5f", 0.5, "f")
        body = syntax.Block(assign.span, (replace(assign, value=value),))
        return replace(one(vector), body=body)

    monkeypatch.setattr(sinking, "_one", half)
    # A text of its own, so that nothing of it is cached.
    wrong = edited("v4", filled, ("// Epilogue: the last PV", "// Last of all: PV"))
    assert (bits(wrong, 256) != expected).any()
