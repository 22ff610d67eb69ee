"""Printing a tree and parsing the text gives the tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.lexer import COMPOUND, ELEMENT_TYPES
from artifact.choreo.parse import parse_file
from artifact.choreo.print_expressions import print_expression
from artifact.choreo.printer import print_file, print_function
from artifact.choreo.syntax import Span

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted([*ROOT.glob("kernels/*.co"), *ROOT.glob("tests/assets/choreo/*.co")])
HERE = Span(1, 1, 1, 2)


def parsed(text: str) -> syntax.File:
    diagnostics = Diagnostics("t.co", text)
    file = parse_file(text, "t.co", {}, diagnostics)
    assert diagnostics.found == [], text
    assert file is not None
    return file


# Trees -------------------------------------------------------------------------------------------

idents = st.sampled_from(["a", "b1", "order", "k_buf", "ready", "block", "x"])
types = st.sampled_from(sorted(ELEMENT_TYPES))


def made(kind, *parts):
    """A strategy of nodes."""
    return st.builds(lambda *values: kind(HERE, *values), *parts)


def many(strategy, least=1, most=3):
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


def maybe(strategy):
    return st.none() | strategy


names = made(syntax.Name, idents)
leaves = st.one_of(
    names,
    made(syntax.Name, st.just("choreo::N")),
    st.sampled_from([("7", 7, ""), ("0x1fULL", 31, "ull")]).map(lambda v: syntax.IntLit(HERE, *v)),
    st.sampled_from([("1e-7f", 1e-7, "f"), ("2.5", 2.5, "")]).map(
        lambda v: syntax.FloatLit(HERE, *v)
    ),
    made(syntax.BoolLit, st.booleans()),
    st.just(syntax.Infinity(HERE)),
    made(syntax.Bound, names),
    made(syntax.Increment, st.sampled_from(["++", "--"]), st.booleans(), names),
    made(syntax.Extent, names, st.none(), st.booleans()),
)


def wider(inner):
    operators = ["||", "&&", "|", "^", "&", "==", "!=", "<", ">", "<=", ">="]
    operators += ["<<", ">>", "+", "-", "*", "/", "%"]
    return st.one_of(
        made(syntax.Unary, st.sampled_from("-+!~"), inner),
        made(syntax.Binary, st.sampled_from(operators), inner, inner),
        made(syntax.Ternary, inner, inner, inner),
        made(syntax.Compose, inner, inner),
        made(syntax.BuiltinCall, st.sampled_from(["cdiv", "__max", "croq::f"]), many(inner, 0)),
        made(syntax.Convert, types, inner),
        made(syntax.Element, names, maybe(inner), many(inner)),
        made(syntax.Index, names, inner),
        made(syntax.Extent, names, inner),
    )


exprs = st.recursive(leaves, wider, max_leaves=8)
strings = st.sampled_from(["", 'a \\" b', "x\\n"]).map(lambda text: syntax.StringLit(HERE, text))
extents = exprs | st.just(syntax.Wildcard(HERE))
bases = names | made(syntax.Index, names, exprs)
view_ops = st.one_of(
    made(syntax.Subspan, many(extents), maybe(many(exprs)), maybe(many(exprs))),
    made(syntax.ViewFrom, many(exprs), maybe(many(exprs))),
    made(syntax.ChunkAt, many(extents)),
    made(syntax.SpanAs, many(exprs)),
    st.just(syntax.Squeeze(HERE)),
)
apply_parts = st.one_of(
    made(syntax.Subspan, many(extents), maybe(many(exprs)), maybe(many(exprs))),
    made(syntax.ViewFrom, many(exprs), maybe(many(exprs))),
)
parts = made(syntax.View, bases, many(view_ops, 1, 2))
views = parts | made(syntax.View, bases, st.just(()))
# A tile as a whole is a view where a call passes it.
arguments = (
    exprs.map(lambda e: syntax.View(HERE, e, ()) if isinstance(e, syntax.Index) else e) | parts
)
targets = st.one_of(
    made(syntax.Target, names, maybe(exprs), st.none()),
    made(syntax.Target, names, st.none(), exprs),
)
transfers = st.one_of(
    made(
        syntax.Transfer,
        maybe(idents),
        st.just("tma"),
        st.just("load"),
        st.booleans(),
        st.sampled_from([None, "evict_first", "evict_last"]),
        st.sampled_from([None, 32, 64, 128]),
        views,
        maybe(views),
    ),
    made(
        syntax.Transfer,
        maybe(idents),
        st.sampled_from(["dma", "tma"]),
        st.just("copy"),
        st.booleans(),
        st.none(),
        st.sampled_from([None, 32, 64, 128]),
        views,
        maybe(views),
    ),
)
orders = st.sampled_from(["row", "col"])
simple = st.one_of(
    made(syntax.ScalarDecl, idents, types, st.booleans(), exprs),
    made(syntax.ScalarDecl, idents, st.none(), st.just(True), exprs),
    made(syntax.ViewDecl, idents, parts),
    made(syntax.SharedDecl, types, many(exprs), idents, maybe(exprs)),
    made(syntax.LocalDecl, types, many(exprs), idents, maybe(exprs), maybe(exprs)),
    made(syntax.EventDecl, idents, maybe(exprs), st.booleans(), maybe(exprs)),
    made(syntax.FragDecl, types, many(exprs), idents, maybe(exprs)),
    made(
        syntax.Assign,
        names | made(syntax.Element, names, maybe(exprs), many(exprs)),
        st.sampled_from(["=", *sorted(COMPOUND)]),
        exprs,
    ),
    st.sampled_from([syntax.Break(HERE), syntax.Continue(HERE), syntax.Return(HERE)]),
    transfers,
    made(syntax.MmaFill, idents, maybe(types), exprs),
    made(syntax.Mma, maybe(idents), orders, orders, st.booleans(), names, views, views),
    made(syntax.MmaLoad, idents, views),
    made(syntax.MmaStore, names, views),
    made(syntax.Reduce, st.sampled_from(["max", "sum"]), names, names, exprs),
    made(syntax.AllReduce, st.sampled_from(["max", "sum"]), names),
    made(syntax.CopyFragment, names, names),
    made(syntax.Wait, many(targets)),
    made(syntax.Trigger, many(targets), many(names, 0)),
    made(syntax.CallStmt, names, many(exprs, 0, 2), many(arguments, 0)),
    made(syntax.Assert, exprs, maybe(strings)),
    made(
        syntax.ExprStmt,
        made(syntax.Increment, st.sampled_from(["++", "--"]), st.booleans(), names),
    ),
)


@st.composite
def named(draw, kind, *rest, values=exprs):
    """A node that has as many variables as bounds."""
    variables = draw(many(idents))
    bounds = tuple(draw(values) for _ in variables)
    return kind(HERE, variables, bounds, *(draw(part) for part in rest))


levels = named(syntax.Level, st.sampled_from([None, "block", "group-4", "group", "thread"]))
bounds = made(syntax.LaunchBounds, maybe(exprs), maybe(exprs), maybe(exprs))


def blocks(inner):
    block = made(syntax.Block, many(inner, 0))
    return st.one_of(
        block,
        made(syntax.Parallel, st.booleans(), many(levels, 1, 2), maybe(bounds), block),
        made(syntax.Inthreads, st.booleans(), exprs, block),
        named(syntax.Foreach, block),
        made(syntax.While, exprs, block),
        made(syntax.If, exprs, block, maybe(block)),
        made(syntax.Apply, many(idents, 1, 2), names, maybe(apply_parts), block),
    )


statements = st.recursive(simple, blocks, max_leaves=6)
params = st.one_of(
    made(syntax.TensorParam, st.booleans(), types, many(exprs), idents),
    made(syntax.ScalarParam, types, idents),
)
functions = made(
    syntax.Function,
    st.just("void"),
    idents,
    many(params, 0),
    made(syntax.Block, many(statements, 0, 4)),
)


@settings(max_examples=60, deadline=None)
@given(functions)
def test_print_then_parse(tree: syntax.Function) -> None:
    text = print_function(tree)
    (found,) = parsed(text).parts
    assert syntax.same(found, tree), text


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_parse_print_parse(path: Path) -> None:
    file = parsed(path.read_text(encoding="utf-8"))
    text = print_file(file)
    again = parsed(text)
    assert syntax.same(file.parts, again.parts)
    assert print_file(again) == text


def test_text_is_printed_as_it_was() -> None:
    text = "#define A 1\r\n\tint a ;\n__co__ void f() {\n}\n// \\\n end"
    assert print_file(parsed(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "(a + b) * c",
        "a + b * c",
        "a - (b - c)",
        "a - b - c",
        "(a ? b : c) ? d : e",
        "a ? b : c ? d : e",
        "-(-a)",
        "-(--a)",
        "!~a",
        "(a * b) # c",
        "a * b # c",
        "|t| | a",
        "(a < b) << c",
    ],
)
def test_parentheses_are_those_needed(text: str) -> None:
    (made_,) = parsed(f"__co__ void f() {{ x = {text}; }}").parts
    assert isinstance(made_, syntax.Function)
    (assign,) = made_.body.body
    assert isinstance(assign, syntax.Assign)
    assert print_expression(assign.value) == text


def test_the_style() -> None:
    text = """\
__co__ void f(global bf16 [N, 64] q, int n) {
  [[launch_bounds(_, 1)]]
  parallel.async {b} by [N] : block {
    shared event e[2] = ready;
    if (b > 0) {
      trigger e.at(b) after x;
    } else {
      call g<2>(b);
    }
    {
      return;
    }
  }
}"""
    assert print_file(parsed(text)) == text
