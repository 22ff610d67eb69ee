"""Scalars that C++ would refuse, or understand in another way."""

from __future__ import annotations

import pytest

from artifact.choreo.compiler import compile_text
from artifact.choreo.diagnostics import CompileError

PROGRAM = """
__co__ void f(global bf16 [S, 64] X, global u32 [N] ids, s64 wide, float h) {{
  {host}
  parallel.async b by [S] : block {{
    parallel t by [64] : thread {{
      {body}
    }}
  }}
}}
"""


def emitted(body: str, host: str = "") -> str:
    return compile_text(PROGRAM.format(body=body, host=host), "t.co").cuda


def refused(body: str, host: str = "") -> set[str]:
    with pytest.raises(CompileError) as caught:
        emitted(body, host)
    return {d.code for d in caught.value.diagnostics if d.severity == "error"}


@pytest.mark.parametrize(
    "body",
    [
        "ids.at(t) = 5 << h;",
        "ids.at(t) = 5L << ~0x10 * inf;",
        "ids.at(t) <<= inf;",
        "ids.at(t) %= h;",
        "ids.at(t) &= X.at(b, t);",
        "ids.at(t) = ~inf;",
    ],
)
def test_operators_of_integers_take_integers(body: str) -> None:
    assert refused(body) == {"not-an-integer"}


@pytest.mark.parametrize("declared", ["int k = -inf;", "u8 k = 1e30f;", "u32 k = -2.5f;"])
def test_a_constant_that_its_type_cannot_hold(declared: str) -> None:
    assert refused("ids.at(t) = k;", declared) == {"constant-overflow"}
    assert refused(f"{declared} ids.at(t) = k;") == {"constant-overflow"}


def test_a_bool_of_an_infinity_is_no_infinity() -> None:
    assert "yes - 5L" in emitted("X.at(b, t) = __to<bf16>(yes - 5L);", "bool yes = -inf;")


def test_a_mutable_of_the_host_is_refused() -> None:
    assert refused("ids.at(t) = k;", "mutable u32 k = 1;") == {"host-statement"}


def test_a_half_is_assigned_what_cxx_can_convert() -> None:
    assert "X[size_t(b) * 64 + t] = float(wide);" in emitted("X.at(b, t) = wide;")
    assert "= float(h > 1.0f);" in emitted("X.at(b, t) = h > 1.0f;")
    assert "const choreo::bf16 half = 7;" in emitted("X.at(b, t) = half;", "bf16 half = 7;")


def test_a_compound_assignment_of_halves_computes_in_fp32() -> None:
    cuda = emitted("X.at(b, t) *= h + 1.0f; ids.at(t) += X.at(b, t);")
    element = "X[size_t(b) * 64 + t]"
    half = "choreo::from_f32<choreo::bf16>"
    assert f"{element} = {half}(choreo::to_f32({element}) * (h + 1.0f));" in cuda
    assert f"ids[t] += choreo::to_f32({element});" in cuda


def test_the_largest_of_a_wide_integer_and_a_literal_has_one_type() -> None:
    assert "max(wide, choreo::s64(0x10))" in emitted("ids.at(t) = __to<u32>(__max(wide, 0x10));")
