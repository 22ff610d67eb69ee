"""Lines of C++: indentation, blocks, wrapping."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from artifact.choreo.writer import WIDTH, Writer


def test_blocks_indent_and_close() -> None:
    out = Writer()
    with out.block("if (a)"):
        out.line("x();")
        with out.block():
            out.line("y();")
    assert out.text() == "if (a) {\n  x();\n  {\n    y();\n  }\n}\n"


def test_a_blank_line_stands_neither_twice_nor_at_the_ends_of_a_block() -> None:
    out = Writer()
    out.blank()
    with out.block("do"):
        out.blank()
        out.line("x();")
        out.blank()
        out.blank()
        out.line("y();")
        out.blank()
    assert out.text() == "do {\n  x();\n\n  y();\n}\n"


def test_a_directive_stands_at_the_margin() -> None:
    out = Writer(depth=3)
    out.flush_left("#pragma unroll")
    out.comment("why")
    assert out.text() == "#pragma unroll\n      // why\n"


def test_a_call_that_fits_is_one_line() -> None:
    out = Writer()
    out.call("f(", ["a", "b"])
    assert out.text() == "f(a, b);\n"


def test_a_wide_call_hangs_under_its_first_argument() -> None:
    out = Writer()
    out.call("function(", ["a" * 60, "b" * 60])
    assert out.text() == f"function({'a' * 60},\n         {'b' * 60});\n"


def test_an_argument_too_wide_for_that_hangs_under_the_call() -> None:
    out = Writer()
    out.call("function(", ["a", "b" * 112])
    assert out.text() == f"function(a,\n    {'b' * 112});\n"


@given(st.lists(st.text("abcdefgh ", min_size=1, max_size=90).map(str.strip), max_size=8))
def test_wrapping_loses_nothing_and_keeps_the_width(arguments: list[str]) -> None:
    out = Writer(depth=2)
    out.call("some_function(", arguments)
    lines = out.text().splitlines()
    assert all(len(line) <= WIDTH for line in lines)
    flat = "".join(out.text().split())
    assert flat == "some_function(" + "".join(",".join(arguments).split()) + ");"
