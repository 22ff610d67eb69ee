"""Types and constants of expressions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifact.choreo import syntax
from artifact.choreo.arithmetic import divide, fits, fold
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.parse import parse_file


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("1", "s32"),
        ("1u", "u32"),
        ("4294967296", "s64"),
        ("1.5", "f64"),
        ("1.5f", "f32"),
        ("-inf", "f32"),
        ("true", "bool"),
        ("n", "s32"),
        ("S", "u32"),
        ("tile", "u32"),
        ("p", "s32"),
        ("S - 1", "u32"),
        ("1.0 * 2.0f", "f32"),
        ("n < 3", "bool"),
        ("!n", "bool"),
        ("__to<bf16>(1.0f)", "bf16"),
        ("__to<bf16>(1.0f) * 2.0f", "f32"),
        ("__exp2f(1.0)", "f32"),
        ("cdiv(S, 128)", "u32"),
        ("n > 0 ? 1 : S", "u32"),
        ("ids.at(0)", "u32"),
        ("#p", "s32"),
    ],
)
def test_types(threads: Callable, expression: str, type_: str) -> None:
    analysed = threads(f"x = {expression};")
    assert analysed.symbol("x").type == type_


def test_literals_adapt_to_the_other_operand_and_say_nothing(threads: Callable) -> None:
    analysed = threads("mutable u32 order = 0;\nslot = order % 2;\nodd = order >= 3;")
    assert analysed.codes == []
    literals = [n for n in analysed.all(syntax.IntLit) if n.span.line == 9]
    assert [analysed.tables.types[n] for n in literals] == ["u32"]


@pytest.mark.parametrize(
    "text", ["cid = p - 1;\nx = S + cid;", "u32 x = n;", "x = S + n;", "x = S < n;", "u32 x = -1;"]
)
def test_a_value_that_may_be_negative_becomes_unsigned_with_a_warning(
    threads: Callable, text: str
) -> None:
    assert threads(text).codes == ["sign-change"]


@pytest.mark.parametrize(
    "text",
    [
        "u32 x = 1;",
        "x = S + p;",
        "foreach {i} in [3] {\n  u32 x = i * 128 + p;\n}",
        "m = 3;\nx = S + m;",
        "u32 x = __to<u32>(n);",
        "x = tile * 128 + p # p;",
        "inthreads (p > 0) {\n  cid = p - 1;\n  x = S + cid;\n  y = S + (cid * 64 + p);\n}",
    ],
)
def test_what_is_never_negative_does_not_warn(threads: Callable, text: str) -> None:
    assert threads(text).codes == []


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * 3 + 1", 7),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("1u - 2u", 2**32 - 1),
        ("1 << 5", 32),
        ("cdiv(129, 128)", 2),
        ("__max(3, 4)", 4),
        ("3 < 4 && 2 > 1", True),
        ("0.5f * 4.0f", 2.0),
        ("~0u", 2**32 - 1),
        ("Q.span(3)", 128),
        ("|q_tile|", 128 * 128),
        ("#p", 3),
    ],
)
def test_constants(threads: Callable, expression: str, value: object) -> None:
    analysed = threads(f"x = {expression};\ny = x;").clean()
    assign = next(a for a in analysed.all(syntax.Assign) if a.target.id == "y")
    assert analysed.tables.constants[assign.value] == value


def test_what_is_not_constant_has_no_value(threads: Callable) -> None:
    analysed = threads("mutable k = 1;\nx = k + 1;\ny = S;").clean()
    for assign in analysed.all(syntax.Assign)[-2:]:
        assert assign.value not in analysed.tables.constants


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1).filter(bool))
def test_division_truncates_as_in_c(left: int, right: int) -> None:
    quotient = divide(left, right)
    remainder = fold("%", left, right, "s64")
    assert quotient * right + remainder == left
    assert abs(remainder) < abs(right)
    assert remainder == 0 or (remainder < 0) == (left < 0)


@given(
    st.sampled_from(["+", "-", "*", "/", "%", "&", "|", "^"]),
    st.integers(0, 2**32 - 1),
    st.integers(1, 2**32 - 1),
)
def test_unsigned_arithmetic_wraps_and_signed_arithmetic_fits(
    op: str, left: int, right: int
) -> None:
    value = fold(op, left, right, "u32")
    assert value is not None
    assert fits(value, "u32")
    wide = fold(op, left, right, "s32")
    assert wide is None or fits(wide, "s32")


@pytest.mark.parametrize(
    ("expression", "code", "place"),
    [
        ("cdiv(n, 0)", "division-by-zero", "cdiv(n, 0)"),
        ("cdiv(S, 2 - 2)", "division-by-zero", "cdiv(S, 2 - 2)"),
        ("1u << 40", "shift-range", "40"),
        ("S >> 32", "shift-range", "32"),
        ("n << (0 - 1)", "shift-range", "(0 - 1)"),
        ("__to<u64>(n) << 64", "shift-range", "64"),
        ("ids.at(0 - 1)", "index-range", "0 - 1"),
        ("18446744073709551616u", "constant-overflow", "18446744073709551616u"),
        ("9223372036854775808", "constant-overflow", "9223372036854775808"),
        ("1.0e999", "constant-overflow", "1.0e999"),
    ],
)
def test_a_constant_without_a_meaning(
    whole: Callable, expression: str, code: str, place: str
) -> None:
    text = (
        "__co__ void f(global u32 [S] ids, int n) {\n  parallel b by [S] : block {\n"
        f"    parallel t by [64] : thread {{\n      x = {expression};\n    }}\n  }}\n}}\n"
    )
    if code == "constant-overflow":
        # The parser says it: there is no tree.
        diagnostics = Diagnostics("t.co", text)
        parse_file(text, "t.co", {}, diagnostics)
        found = diagnostics.found
    else:
        found = whole(text).diagnostics.found
    assert [(d.code, d.severity) for d in found] == [(code, "error")]
    span = found[0].span
    assert text.splitlines()[span.line - 1][span.column - 1 : span.end_column - 1] == place
    assert found[0].rule and found[0].repair


@pytest.mark.parametrize(
    "expression",
    [
        "1u << 31",
        "__to<u64>(n) << 63",
        "S >> 0",
        "cdiv(n, 1)",
        "ids.at(1000)",
        "0xffffffffffffffffu",
    ],
)
def test_a_constant_at_the_edge(whole: Callable, expression: str) -> None:
    analysed = whole(
        "__co__ void f(global u32 [S] ids, int n) {\n  parallel b by [S] : block {\n"
        f"    parallel t by [64] : thread {{\n      x = {expression};\n    }}\n  }}\n}}\n"
    )
    assert [d.code for d in analysed.diagnostics.found if d.severity == "error"] == []


@pytest.mark.parametrize(("index", "codes"), [("63", []), ("64", ["index-range"])])
def test_an_index_of_a_constant_extent(whole: Callable, index: str, codes: list[str]) -> None:
    analysed = whole(
        "__co__ void f(global f32 [S, 64] x) {\n  parallel b by [S] : block {\n"
        f"    parallel t by [64] : thread {{\n      x.at(b, {index}) = 1.0f;\n    }}\n  }}\n}}\n"
    )
    assert analysed.codes == codes


@pytest.mark.parametrize(
    ("left", "right", "value"),
    [(0.0, 0.0, math.nan), (1.0, 0.0, math.inf), (1.0, -0.0, -math.inf), (-2.0, 0.0, -math.inf)],
)
def test_a_float_divided_by_zero(left: float, right: float, value: float) -> None:
    np.testing.assert_equal(fold("/", left, right, "f64"), value)


def test_what_is_infinite_is_no_integer() -> None:
    assert not fits(-math.inf, "s32")
    assert not fits(1 << 100_000, "u64")
    assert fold("+", -math.inf, 1, "s32") is None


@pytest.mark.parametrize(
    ("stmt", "code"),
    [
        ("z <<= 32;", "shift-range"),
        ("z >>= 40;", "shift-range"),
        ("z /= 0;", "division-by-zero"),
        ("z %= 2 - 2;", "division-by-zero"),
        ("z <<= 31;", None),
        ("z /= 1;", None),
    ],
)
def test_a_compound_assignment_of_a_constant(
    threads: Callable, stmt: str, code: str | None
) -> None:
    codes = threads(f"mutable u32 z = 1;\n{stmt}").codes
    assert codes == ([] if code is None else [code])
