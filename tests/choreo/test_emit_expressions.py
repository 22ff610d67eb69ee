"""Expressions: precedence, spelling, types."""

from __future__ import annotations

import re

import pytest

from artifact.choreo.compiler import compile_text
from artifact.choreo.diagnostics import CompileError

PROGRAM = """
__co__ void f(global f32 [N, C] x, global bf16 [N] h, global u32 [N] n, float a, u32 k, int i) {{
  parallel.async {{b}} by [cdiv(N, 64)] : block {{
    parallel t by [64] : thread {{
      {type} value = {expression};
      x.at(0, 0) = __to<f32>(value);
    }}
  }}
}}
"""


def emitted(expression: str, type: str = "float") -> str:
    cuda = compile_text(PROGRAM.format(type=type, expression=expression), "e.co").cuda
    found = re.search(r"const \w+ value = (.*);", cuda)
    assert found is not None, cuda
    return found[1]


@pytest.mark.parametrize(
    ("expression", "cxx"),
    [
        # A spelling stays; what an unsuffixed literal adapts to is said where it matters.
        ("a * 0.12751743f", "a * 0.12751743f"),
        ("a * 1e-7f", "a * 1e-7f"),
        ("a * 0.5", "a * 0.5f"),
        ("-inf", "-INFINITY"),
        # Parentheses where C++ needs them, and nowhere else.
        ("(a + 1.0f) * a - (a * a)", "(a + 1.0f) * a - a * a"),
        ("a - (a - 1.0f)", "a - (a - 1.0f)"),
        ("a / (a * 2.0f)", "a / (a * 2.0f)"),
        ("-(-a)", "-(-a)"),
        ("a > 0.0f && a < 1.0f || i == 0 ? a : -a", "(a > 0.0f && a < 1.0f) || i == 0 ? a : -a"),
        # Builtins.
        ("__exp2f(a) + __log(a) + __sqrt(a)", "exp2f(a) + logf(a) + sqrtf(a)"),
        ("__exp(a) * __rsqrt(a) * __fabs(a)", "expf(a) * rsqrtf(a) * fabsf(a)"),
        ("__fmaf(a, a, 1.0f)", "fmaf(a, a, 1.0f)"),
        ("__max(a, 0.0f) + __min(a, 1.0f)", "fmaxf(a, 0.0f) + fminf(a, 1.0f)"),
        # Elements: what has 16 bits is computed with in FP32; large tensors take 64-bit indices.
        ("x.at(t, 1) * 2.0f", "x[size_t(t) * C + 1] * 2.0f"),
        ("x.at(b # t, t + 1)", "x[size_t(b * 64 + t) * C + t + 1]"),
        ("h.at(0) * a", "choreo::to_f32(h[0]) * a"),
        ("__to<f32>(h.at(0))", "choreo::to_f32(h[0])"),
        ("__to<f32>(__to<bf16>(a))", "choreo::to_f32(choreo::from_f32<choreo::bf16>(a))"),
        ("__to<f32>(i)", "float(i)"),
    ],
)
def test_float(expression: str, cxx: str) -> None:
    assert emitted(expression) == cxx


@pytest.mark.parametrize(
    ("expression", "cxx"),
    [
        ("k % 2 + k / 4 * 3", "k % 2 + k / 4 * 3"),
        ("(k & 7) << 2 | k >> 3", "(k & 7) << 2 | k >> 3"),
        ("k & (7 << 2)", "k & 28"),
        ("cdiv(N, 128) - 1", "choreo::cdiv(N, 128) - 1"),
        ("b # t + 0", "b * 64 + t + 0"),
        ("#t * 2", "128"),
        ("#b + #t", "gridDim.x + 64"),
        ("__max(k, 3)", "max(k, 3)"),
        ("__min(n.at(0), k)", "min(n[0], k)"),
        ("x.span(1) + 64 / 2", "C + 32"),
        ("~k", "~k"),
        ("k * (65536u * 65535u)", "k * 4294901760u"),
    ],
)
def test_integer(expression: str, cxx: str) -> None:
    assert emitted(expression, "u32") == cxx


def test_an_element_has_one_index_for_every_dimension() -> None:
    with pytest.raises(CompileError) as caught:
        emitted("x.at(t)")
    assert [d.code for d in caught.value.diagnostics] == ["view-rank"]
