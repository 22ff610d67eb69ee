"""The syntax tree of every construct, with its places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.parse import parse_file
from artifact.choreo.syntax import Node, Span

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [*ROOT.glob("kernels/*.co"), *ROOT.glob("tests/assets/choreo/*.co")]


def parsed(text: str, defines: Mapping[str, str] | None = None) -> syntax.File:
    """The tree of a file without findings."""
    diagnostics = Diagnostics("t.co", text)
    file = parse_file(text, "t.co", defines or {}, diagnostics)
    assert diagnostics.found == []
    assert file is not None
    return file


def function(text: str) -> syntax.Function:
    """The one function of a file."""
    (found,) = [part for part in parsed(text).parts if isinstance(part, syntax.Function)]
    return found


def statements(text: str) -> tuple[syntax.Stmt, ...]:
    """The statements of a body."""
    return function(f"__co__ void f() {{\n{text}\n}}").body.body


def statement(text: str) -> syntax.Stmt:
    (found,) = statements(text)
    return found


def shape(node: object) -> Any:
    """A node as ``(class, field, ..)`` without places; numbers and names as they are spelled."""
    if isinstance(node, tuple):
        return [shape(item) for item in node]
    if isinstance(node, (syntax.IntLit, syntax.FloatLit, syntax.Name)):
        return node.id if isinstance(node, syntax.Name) else node.text
    if isinstance(node, Node):
        names = [f.name for f in fields(node) if f.name != "span"]
        return (type(node).__name__, *(shape(getattr(node, name)) for name in names))
    return node


def expression(text: str) -> Any:
    assigned = statement(f"x = {text};")
    assert isinstance(assigned, syntax.Assign)
    return shape(assigned.value)


# Whole files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_whole_kernels(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    file = parsed(text)
    assert any(isinstance(part, syntax.Function) for part in file.parts)
    lines = text.split("\n")
    for node in syntax.walk(file):
        span = node.span
        assert 1 <= span.line <= span.end_line <= len(lines)
        assert (span.line, span.column) < (span.end_line, span.end_column)
        assert span.end_column <= len(lines[span.end_line - 1]) + 1
    for node in syntax.walk(file):
        for child in syntax.children(node):
            inner, outer = child.span, node.span
            assert (outer.line, outer.column) <= (inner.line, inner.column) or _shared(node)
            assert (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)


def _shared(node: Node) -> bool:
    """Whether a node has children that stand before it: one of several names after one shape."""
    declarations = (syntax.SharedDecl, syntax.EventDecl, syntax.FragDecl, syntax.Parallel)
    return isinstance(node, declarations)


def test_text_is_kept_verbatim() -> None:
    file = parsed("#define A 1\nint a = A;\n__co__ void f() { x = A; }\r\n// end")
    before, made, after = file.parts
    assert isinstance(before, syntax.Text)
    assert isinstance(after, syntax.Text)
    assert before.text == "#define A 1\nint a = A;\n"
    assert after.text == "\r\n// end"
    assert made.span == Span(3, 1, 3, 27)
    assert file.span == Span(1, 1, 4, 7)


def test_parameters() -> None:
    made = function("__co__ void f(global bf16 [N, 4 * C] x, f32[N] h, float a, int n0) {}")
    assert shape(made) == (
        "Function",
        "void",
        "f",
        [
            ("TensorParam", True, "bf16", ["N", ("Binary", "*", "4", "C")], "x"),
            ("TensorParam", False, "f32", ["N"], "h"),
            ("ScalarParam", "float", "a"),
            ("ScalarParam", "int", "n0"),
        ],
        ("Block", []),
    )
    assert function("__co__ void f() {}").params == ()


def test_defines_of_the_command_line() -> None:
    (made,) = parsed("__co__ void f() { x = A; }", {"A": "7"}).parts
    assert isinstance(made, syntax.Function)
    assert shape(made.body) == ("Block", [("Assign", "x", "=", "7")])


# Expressions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "suffix"),
    [
        ("0", 0, ""),
        ("42", 42, ""),
        ("42u", 42, "u"),
        ("42UL", 42, "ul"),
        ("42ll", 42, "ll"),
        ("0x2A", 42, ""),
        ("0XffULL", 255, "ull"),
        ("1.5", 1.5, ""),
        ("0.12751743f", 0.12751743, "f"),
        ("1e-7f", 1e-7, "f"),
        ("1.E+2", 100.0, ""),
        (".5F", 0.5, "f"),
    ],
)
def test_numbers_keep_their_spelling(text: str, value: float, suffix: str) -> None:
    (assigned,) = statements(f"x = {text};")
    assert isinstance(assigned, syntax.Assign)
    number = assigned.value
    assert isinstance(number, (syntax.IntLit, syntax.FloatLit))
    assert (number.text, number.value, number.suffix) == (text, value, suffix)
    assert isinstance(number.value, type(value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", ("BoolLit", True)),
        ("false", ("BoolLit", False)),
        ("inf", ("Infinity",)),
        ("-inf", ("Unary", "-", ("Infinity",))),
        ("- - a", ("Unary", "-", ("Unary", "-", "a"))),
        ("!~+a", ("Unary", "!", ("Unary", "~", ("Unary", "+", "a")))),
        ("a + b * c", ("Binary", "+", "a", ("Binary", "*", "b", "c"))),
        ("(a + b) * c", ("Binary", "*", ("Binary", "+", "a", "b"), "c")),
        ("a - b - c", ("Binary", "-", ("Binary", "-", "a", "b"), "c")),
        ("a < b << c", ("Binary", "<", "a", ("Binary", "<<", "b", "c"))),
        ("a & b == c", ("Binary", "&", "a", ("Binary", "==", "b", "c"))),
        ("a | b ^ c & d", ("Binary", "|", "a", ("Binary", "^", "b", ("Binary", "&", "c", "d")))),
        ("a || b && c", ("Binary", "||", "a", ("Binary", "&&", "b", "c"))),
        ("a >= b != c", ("Binary", "!=", ("Binary", ">=", "a", "b"), "c")),
        ("a ? b : c ? d : e", ("Ternary", "a", "b", ("Ternary", "c", "d", "e"))),
        ("a # b # c", ("Compose", ("Compose", "a", "b"), "c")),
        ("a * b # c", ("Binary", "*", "a", ("Compose", "b", "c"))),
        ("#a * #b", ("Binary", "*", ("Bound", "a"), ("Bound", "b"))),
        ("cdiv(a, 2)", ("BuiltinCall", "cdiv", ["a", "2"])),
        ("f()", ("BuiltinCall", "f", [])),
        ("choreo::f(1)", ("BuiltinCall", "choreo::f", ["1"])),
        ("__exp2f(a - b)", ("BuiltinCall", "__exp2f", [("Binary", "-", "a", "b")])),
        ("__to<bf16>(a)", ("Convert", "bf16", "a")),
        ("t.at(i, j + 1)", ("Element", "t", None, ["i", ("Binary", "+", "j", "1")])),
        ("t[k].at(i, 0)", ("Element", "t", "k", ["i", "0"])),
        ("t[i]", ("Index", "t", "i")),
        ("t.span", ("Extent", "t", None, False)),
        ("t.span(1)", ("Extent", "t", "1", False)),
        ("|t|", ("Extent", "t", None, True)),
        ("a | |t|", ("Binary", "|", "a", ("Extent", "t", None, True))),
        ("a++", ("Increment", "++", False, "a")),
        ("--a", ("Increment", "--", True, "a")),
        ("a - --b", ("Binary", "-", "a", ("Increment", "--", True, "b"))),
        ("by + in + ready", ("Binary", "+", ("Binary", "+", "by", "in"), "ready")),
        ("_a", "_a"),
    ],
)
def test_expressions(text: str, expected: object) -> None:
    assert expression(text) == expected


# Statements --------------------------------------------------------------------------------------

VIEW = ("View", "q", [("Subspan", ["64", "64"], None, ["b", "0"])])
TILE = ("View", "tile", [])
SLOT = ("View", ("Index", "ring", ("Binary", "%", "order", "2")), [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # declarations
        ("x = 1;", ("Assign", "x", "=", "1")),
        ("int n = 1;", ("ScalarDecl", "n", "int", False, "1")),
        ("mutable n = 1;", ("ScalarDecl", "n", None, True, "1")),
        ("mutable u32 n = 1;", ("ScalarDecl", "n", "u32", True, "1")),
        ("x = tile[1];", ("Assign", "x", "=", ("Index", "tile", "1"))),
        ("v = q.subspan(64, 64).at(b, 0);", ("ViewDecl", "v", VIEW)),
        (
            "v = q.subspan(_, 2).step(3, 4);",
            ("ViewDecl", "v", ("View", "q", [("Subspan", [("Wildcard",), "2"], ["3", "4"], None)])),
        ),
        (
            "v = q.view(1, 2).from(3, 4).sqz();",
            ("ViewDecl", "v", ("View", "q", [("ViewFrom", ["1", "2"], ["3", "4"]), ("Squeeze",)])),
        ),
        (
            "v = ring[i].chunkat(w, _).span_as(4, 8);",
            (
                "ViewDecl",
                "v",
                (
                    "View",
                    ("Index", "ring", "i"),
                    [("ChunkAt", ["w", ("Wildcard",)]), ("SpanAs", ["4", "8"])],
                ),
            ),
        ),
        ("shared bf16 [64, N] t;", ("SharedDecl", "bf16", ["64", "N"], "t", None)),
        ("shared bf16[64] t[2];", ("SharedDecl", "bf16", ["64"], "t", "2")),
        ("shared event e;", ("EventDecl", "e", None, False, None)),
        ("shared event e[N] = ready;", ("EventDecl", "e", "N", True, None)),
        ("shared event<128> e = ready;", ("EventDecl", "e", None, True, "128")),
        ("frag f32 [64, 8] f;", ("FragDecl", "f32", ["64", "8"], "f", None)),
        (
            "frag f32 [64] f {-inf};",
            ("FragDecl", "f32", ["64"], "f", ("Unary", "-", ("Infinity",))),
        ),
        (
            "local u32 [2, n] c[3] {0};",
            ("LocalDecl", "u32", ["2", "n"], "c", "3", "0"),
        ),
        ("local f32 [4] a;", ("LocalDecl", "f32", ["4"], "a", None, None)),
        # assignments
        ("t.at(i) = 1;", ("Assign", ("Element", "t", None, ["i"]), "=", "1")),
        ("t.at(i) *= 2;", ("Assign", ("Element", "t", None, ["i"]), "*=", "2")),
        ("x <<= 2;", ("Assign", "x", "<<=", "2")),
        ("x++;", ("ExprStmt", ("Increment", "++", False, "x"))),
        ("--x;", ("ExprStmt", ("Increment", "--", True, "x"))),
        # threads
        (
            "parallel.async {a, b} by [2, N] : block {}",
            ("Parallel", True, [("Level", ["a", "b"], ["2", "N"], "block")], None, ("Block", [])),
        ),
        (
            "parallel w by 3 : group-4, u by [128] : thread x = 1;",
            (
                "Parallel",
                False,
                [("Level", ["w"], ["3"], "group-4"), ("Level", ["u"], ["128"], "thread")],
                None,
                ("Block", [("Assign", "x", "=", "1")]),
            ),
        ),
        (
            "parallel {w} by [3] : group {}",
            ("Parallel", False, [("Level", ["w"], ["3"], "group")], None, ("Block", [])),
        ),
        ("parallel p by N / 4 + 1 {}", None),
        (
            "[[launch_bounds(_, 1)]] parallel p by 6 {}",
            (
                "Parallel",
                False,
                [("Level", ["p"], ["6"], None)],
                ("LaunchBounds", None, "1", None),
                ("Block", []),
            ),
        ),
        (
            "inthreads.async (p == 0) {}",
            ("Inthreads", True, ("Binary", "==", "p", "0"), ("Block", [])),
        ),
        ("inthreads (p) x++;", None),
        # control flow
        ("foreach {i} in [n] {}", ("Foreach", ["i"], ["n"], ("Block", []))),
        ("foreach i in n {}", ("Foreach", ["i"], ["n"], ("Block", []))),
        ("foreach {i, j} in [n, 2] {}", ("Foreach", ["i", "j"], ["n", "2"], ("Block", []))),
        ("foreach i in n - 1 x = i;", None),
        ("while (a < b) {}", ("While", ("Binary", "<", "a", "b"), ("Block", []))),
        ("if (a) break;", ("If", "a", ("Block", [("Break",)]), None)),
        (
            "if (a) continue; else return;",
            ("If", "a", ("Block", [("Continue",)]), ("Block", [("Return",)])),
        ),
        (
            "if (a) if (b) return; else break;",
            (
                "If",
                "a",
                ("Block", [("If", "b", ("Block", [("Return",)]), ("Block", [("Break",)]))]),
                None,
            ),
        ),
        ("{ ; x = 1; ; }", ("Block", [("Assign", "x", "=", "1")])),
        # transfers
        (
            "t = dma.copy.swiz<128> q.subspan(64, 64).at(b, 0) => shared;",
            ("Transfer", "t", "dma", "copy", False, None, 128, VIEW, None),
        ),
        (
            "l = tma.load.async.evict_last.swizzle<64>\n q.subspan(64, 64).at(b, 0)\n"
            " => ring[order % 2];",
            ("Transfer", "l", "tma", "load", True, "evict_last", 64, VIEW, SLOT),
        ),
        (
            "tma.load.evict_first q.subspan(64, 64).at(b, 0) => tile;",
            ("Transfer", None, "tma", "load", False, "evict_first", None, VIEW, TILE),
        ),
        (
            "tma.copy tile => q.subspan(64, 64).at(b, 0);",
            ("Transfer", None, "tma", "copy", False, None, None, TILE, VIEW),
        ),
        # matrix operations and fragments
        ("acc = mma.fill.f32 0.0f;", ("MmaFill", "acc", "f32", "0.0f")),
        ("acc = mma.fill -1.0f;", ("MmaFill", "acc", None, ("Unary", "-", "1.0f"))),
        (
            "mma.row.col acc, p, tile;",
            ("Mma", None, "row", "col", False, "acc", ("View", "p", []), TILE),
        ),
        (
            "f = mma.row.row.async acc, q.subspan(64, 64).at(b, 0), ring[order % 2];",
            ("Mma", "f", "row", "row", True, "acc", VIEW, SLOT),
        ),
        ("a = mma.load q.subspan(64, 64).at(b, 0);", ("MmaLoad", "a", VIEW)),
        ("mma.store acc, q.subspan(64, 64).at(b, 0);", ("MmaStore", "acc", VIEW)),
        ("reduce_max(m, s, 1);", ("Reduce", "max", "m", "s", "1")),
        ("reduce_sum(m, s, 1);", ("Reduce", "sum", "m", "s", "1")),
        ("all_reduce_sum(l);", ("AllReduce", "sum", "l")),
        ("all_reduce_max(l);", ("AllReduce", "max", "l")),
        ("copy(a, b);", ("CopyFragment", "a", "b")),
        (
            "apply {i, j} in s.span s.at(i, j) = 0;",
            (
                "Apply",
                ["i", "j"],
                "s",
                None,
                ("Block", [("Assign", ("Element", "s", None, ["i", "j"]), "=", "0")]),
            ),
        ),
        ("apply i in r.span {}", ("Apply", ["i"], "r", None, ("Block", []))),
        (
            "apply {i, j} in s.subspan(64, 8).at(0, 1) {}",
            ("Apply", ["i", "j"], "s", ("Subspan", ["64", "8"], None, ["0", "1"]), ("Block", [])),
        ),
        (
            "apply {i, j} in s.view(64, 8).from(0, 16) {}",
            ("Apply", ["i", "j"], "s", ("ViewFrom", ["64", "8"], ["0", "16"]), ("Block", [])),
        ),
        # events and calls
        ("wait e;", ("Wait", [("Target", "e", None, None)])),
        (
            "wait e.at(order), f[1];",
            ("Wait", [("Target", "e", None, "order"), ("Target", "f", "1", None)]),
        ),
        ("trigger e;", ("Trigger", [("Target", "e", None, None)], [])),
        (
            "trigger e.at(order++) after a, b;",
            (
                "Trigger",
                [("Target", "e", None, ("Increment", "++", False, "order"))],
                ["a", "b"],
            ),
        ),
        ("call croq::cuda::setreg_dec(40);", ("CallStmt", "croq::cuda::setreg_dec", [], ["40"])),
        ("call f();", ("CallStmt", "f", [], [])),
        (
            "call f<2, N - 1>(a < b, q.subspan(64, 64).at(b, 0));",
            ("CallStmt", "f", ["2", ("Binary", "-", "N", "1")], [("Binary", "<", "a", "b"), VIEW]),
        ),
        ("assert(a);", ("Assert", "a", None)),
        ('assert(a, "x\\n" "y");', ("Assert", "a", ("StringLit", "x\\ny"))),
    ],
)
def test_statements(text: str, expected: object) -> None:
    found = shape(statement(text))
    if expected is not None:
        assert found == expected


def test_several_names_are_several_declarations() -> None:
    made = statements(
        "shared bf16 [4] a, b[2];\nshared event c, d[2] = ready, e[3];\nfrag f32 [64] g {0}, h;"
    )
    assert [(type(n).__name__, n.name) for n in made] == [  # type: ignore[union-attr]
        ("SharedDecl", "a"),
        ("SharedDecl", "b"),
        ("EventDecl", "c"),
        ("EventDecl", "d"),
        ("EventDecl", "e"),
        ("FragDecl", "g"),
        ("FragDecl", "h"),
    ]
    assert [n.ready for n in made if isinstance(n, syntax.EventDecl)] == [False, True, False]
    # each stands where its name does; one alone stands where its statement does
    assert made[1].span == Span(2, 20, 2, 24)
    assert statement("shared event c;").span == Span(2, 1, 2, 16)


def test_levels_without_variables_get_names_no_program_has() -> None:
    (made,) = statements("parallel by [2] : group-4, by 128 : thread { parallel by 3 {} }")
    assert isinstance(made, syntax.Parallel)
    inner = made.body.body[0]
    assert isinstance(inner, syntax.Parallel)
    names = [name for level in (*made.levels, *inner.levels) for name in level.variables]
    assert names == ["__level0", "__level1", "__level2"]


# Places ------------------------------------------------------------------------------------------


def test_places_of_a_statement() -> None:
    text = "f = tma.load.async\n  q.subspan(64, _).step(1, 2).at(b, 0).sqz()\n    => ring[i + 1];"
    made = statement(text)
    assert isinstance(made, syntax.Transfer)
    assert made.destination is not None
    assert made.span == Span(2, 1, 4, 20)
    assert made.source.span == Span(3, 3, 3, 45)
    subspan, squeeze = made.source.ops
    assert subspan.span == Span(3, 4, 3, 39)
    assert squeeze.span == Span(3, 39, 3, 45)
    assert made.destination.span == Span(4, 8, 4, 19)
    assert isinstance(made.destination.base, syntax.Index)
    assert made.destination.base.index.span == Span(4, 13, 4, 18)


def test_places_of_an_expansion_are_the_use() -> None:
    made = function(
        "#define T(v, i) v.subspan(N, 4).at(i, 0)\n#define N 8\n__co__ void f() {\n v = T(q, 3);\n}"
    )
    view = made.body.body[0]
    assert isinstance(view, syntax.ViewDecl)
    assert view.span == Span(4, 2, 4, 14)
    assert {node.span for node in syntax.walk(view.view)} == {Span(4, 6, 4, 13)}


def test_tabs_and_wide_characters_count_as_one_column() -> None:
    (made,) = statements('\t/* 注 */ assert(x, "é");')
    assert isinstance(made, syntax.Assert)
    assert made.condition.span == Span(2, 17, 2, 18)
