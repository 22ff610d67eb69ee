"""Elements of local buffers in CUDA; whole programs with them are among the golden ones."""

from __future__ import annotations

import re

import pytest

from artifact.choreo.compiler import compile_text

PROGRAM = """
__device__ void helper(float* x) {{ *x = 0.0f; }}
__co__ void f(global f32 [N] X, int n) {{
  parallel.async {{b}} by [N] : block {{
    parallel t by [32] : thread {{
      {body}
    }}
  }}
}}
"""


def emitted(body: str) -> list[str]:
    """The code of the innermost statements, without comments, stripped."""
    cuda = compile_text(PROGRAM.format(body=body), "a.co").cuda
    begin = cuda.index("parallel t by [32] : thread")
    lines = [line.strip() for line in cuda[begin : cuda.index("\n}", begin)].splitlines()[1:]]
    return [line for line in lines if not re.match(r"//|const int t = |$", line)]


@pytest.mark.parametrize(
    ("access", "text"),
    [
        ("a[0].at(0, 0)", "a[0]"),
        ("a[1].at(2, 3)", "a[23]"),
        ("a[n].at(0, 0)", "a[n * 12]"),
        ("a[0].at(n, 0)", "a[n * 4]"),
        ("a[0].at(0, n)", "a[n]"),
        ("a[0].at(0, n + 1)", "a[n + 1]"),
        ("a[0].at(0, n - 1)", "a[n - 1]"),
        ("a[1].at(0, n - 1)", "a[(n - 1) + 12]"),
        ("a[n - 1].at(n % 3, 2)", "a[(n - 1) * 12 + (n % 3) * 4 + 2]"),
        ("a[1].at(n, n < 2 ? 1 : 0)", "a[n * 4 + (n < 2 ? 1 : 0) + 12]"),
    ],
)
def test_an_element_is_at_one_index(access: str, text: str) -> None:
    body = f"local f32 [3, 4] a[2] {{1.5f}};\n{access} = X.at({access.count('n')});"
    *_, last = emitted(body)
    assert last.startswith(f"{text} = X[")


def test_a_declaration_and_its_initialiser() -> None:
    assert emitted("local s32 [2, 3] e {n + 1};\nlocal f32 [2] never;\ne.at(0, 0) = n;") == [
        "int e[6];",
        "#pragma unroll",
        "for (int e_2 = 0; e_2 < 6; ++e_2) e[e_2] = n + 1;",
        "e[0] = n;",
    ]


def test_a_helper_gets_a_pointer() -> None:
    body = "local f32 [4] a, c[3];\ncall helper(a);\ncall helper(c[0]);\ncall helper(c[n % 3]);"
    assert emitted(body)[2:] == ["helper(a);", "helper(c);", "helper(c + (n % 3) * 4);"]


UNROLLED = "foreach {i} in [4]\n  a.at(i) = 1.0f;"


@pytest.mark.parametrize(
    ("body", "marks"),
    [
        (UNROLLED, 1),
        ("foreach {i} in [4]\n  a.at(3 - i) = 1.0f;", 1),
        ("foreach {i, j} in [2, 2]\n  a.at(2 * i + j) = 1.0f;", 2),
        ("foreach {i, j} in [n, 4]\n  a.at(j) = 1.0f;", 1),
        ("foreach {i} in [n]\n  a.at(i) = 1.0f;", 0),
        ("foreach {i} in [4]\n  a.at(n) = __to<f32>(i);", 0),
        (UNROLLED.replace("a.at", "big.at"), 0),
        (UNROLLED.replace("a.at", "X.at"), 0),
    ],
)
def test_a_loop_over_registers_is_unrolled(body: str, marks: int) -> None:
    lines = emitted(f"local f32 [4] a;\nlocal f32 [256] big;\n{body}")
    loops = [n for n, line in enumerate(lines) if line.startswith("for (")]
    assert sum(lines[n - 1] == "#pragma unroll" for n in loops) == marks


@pytest.mark.parametrize("change", ["a.at(1) += 1;", "call grow(a);"])
def test_the_number_of_trips_is_what_it_was(change: str) -> None:
    lines = emitted(f"local s32 [2] a {{3}};\nforeach {{i}} in [a.at(1)] {{\n  {change}\n}}")
    assert "const int i_bound = a[1];" in lines
    assert "for (int i = 0; i < i_bound; ++i) {" in lines
    kept = emitted("local s32 [2] a {3};\nforeach {i} in [a.at(1)]\n  X.at(i) = 0.0f;")
    assert "for (int i = 0; i < a[1]; ++i) {" in kept


def test_a_bound_in_a_tensor_is_read_once() -> None:
    # Others may write to it.
    lines = emitted("foreach {i} in [__to<s32>(X.at(n))] {\n  mutable k = 0;\n}")
    assert "const int i_bound = int(X[n]);" in lines
    assert "for (int i = 0; i < i_bound; ++i) {" in lines


def test_a_helper_gets_a_tile_of_shared_memory() -> None:
    lines = emitted("shared bf16 [64, 64] ring[2];\ncall helper(ring[n % 2], ring[0]);")
    *_, call = lines
    assert call == (
        "helper(reinterpret_cast<choreo::bf16*>(ring + (n % 2) * 8192), "
        "reinterpret_cast<choreo::bf16*>(ring));"
    )
