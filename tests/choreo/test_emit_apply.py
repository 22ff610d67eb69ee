"""apply: loops over owned elements, what runs once a row, what is computed once a row."""

from __future__ import annotations

import pytest

from artifact.choreo.compiler import compile_text

PROGRAM = """
__co__ void f(global bf16 [B, 128, 64] X, float c) {{
  parallel.async {{b}} by [B] : block {{
    tile = dma.copy.swiz<128> X.subspan(1, 128, 64).at(b, 0, 0).sqz() => shared;
    parallel w by [2] : group-4, t by 128 : thread {{
      frag f32 [64] m {{-inf}};
      frag f32 [64] s {{0.0f}};
      frag bf16 [64, 64] p {{0.5f}};
      acc = mma.fill.f32 0.0f;
      mma.row.row acc, tile.chunkat(w, _), tile.subspan(64, 64).at(0, 0);
      reduce_max(m, acc, 1);
      reduce_sum(s, acc, 1);
      {statement}
      out = mma.fill.f32 0.0f;
      mma.row.col out, p, tile.subspan(64, 64).at(0, 0);
      mma.store out, X.subspan(1, 64, 64).at(b, w, 0).sqz();
    }}
  }}
}}
"""


def emitted(statement: str) -> list[str]:
    """The code of one statement, without its comment, stripped."""
    cuda = compile_text(PROGRAM.format(statement=statement), "a.co").cuda
    lines = [line.strip() for line in cuda.splitlines()]
    begin = next(i for i, line in enumerate(lines) if line.startswith("// 13: "))
    end = next(i for i, line in enumerate(lines) if line.endswith("out = mma.fill.f32 0.0f;"))
    return lines[begin + 1 : end]


ROWS = ["#pragma unroll", "for (int row = 0; row < 2; ++row) {"]
ELEMENTS = ["#pragma unroll", "for (int e = 0; e < 16; ++e) {"]
PAIRS = ["#pragma unroll", "for (int e = 0; e < 16; e += 2) {"]


def test_a_row_vector_has_one_loop() -> None:
    assert emitted("apply {i} in m.span m.at(i) = m.at(i) * s.at(i);") == [
        *ROWS,
        "m[row] = m[row] * s[row];",
        "}",
    ]


def test_what_does_not_change_along_a_row_is_computed_before_its_elements() -> None:
    # So that nvcc makes one FMA and one EX2 of an element.
    statement = "apply {i, j} in acc.span acc.at(i, j) = __exp2f(acc.at(i, j) * c - m.at(i) * c);"
    assert emitted(statement) == [
        *ROWS,
        "const float row_0 = m[row] * c;",
        *ELEMENTS,
        "acc[cu::element(row, e)] = exp2f(acc[cu::element(row, e)] * c - row_0);",
        "}",
        "}",
    ]


def test_equal_parts_are_computed_once() -> None:
    lines = emitted(
        "apply {i, j} in acc.span acc.at(i, j) = acc.at(i, j) / (s.at(i) + c) + (s.at(i) + c);"
    )
    assert [line for line in lines if "row_" in line] == [
        "const float row_0 = s[row] + c;",
        "acc[cu::element(row, e)] = acc[cu::element(row, e)] / row_0 + row_0;",
    ]


def test_what_an_element_changes_is_not_computed_before() -> None:
    lines = emitted("apply {i, j} in acc.span s.at(i) = s.at(i) * c + acc.at(i, j);")
    assert lines[2:] == [
        *ELEMENTS,
        "s[row] = s[row] * c + acc[cu::element(row, e)];",
        "}",
        "}",
    ]


@pytest.mark.parametrize(
    "guarded",
    [
        "if (k < 8) acc.at(i, j) = acc.at(i, j) + buf.at(k) * s.at(i);",
        "acc.at(i, j) = k < 8 ? buf.at(k) * s.at(i) : acc.at(i, j);",
        "if (k < 8 && buf.at(k) * s.at(i) > 1.0f) acc.at(i, j) = 0.0f;",
        "if (k < 8) acc.at(i, j) = acc.at(i, j) + bufs[k].at(0) * s.at(i);",
        "if (k < 8) acc.at(i, j) = acc.at(i, j) + __to<f32>(8 / k) * s.at(i);",
        "if (k < 8) acc.at(i, j) = acc.at(i, j) + __to<f32>(1 << k) * s.at(i);",
    ],
    ids=["if", "?:", "&&", "buffer of an array", "division", "shift"],
)
def test_what_a_condition_guards_is_not_computed_before_it(guarded: str) -> None:
    declared = "local f32 [8] buf {1.0f}; local f32 [2] bufs[8] {1.0f}; k = __to<s32>(c);"
    lines = emitted(f"{declared} apply {{i, j}} in acc.span {{ {guarded} }}")
    assert not any("const float row_" in line for line in lines)
    # A product of two row vectors may be: both exist.
    plain = guarded
    for part in ("buf.at(k)", "bufs[k].at(0)", "__to<f32>(8 / k)", "__to<f32>(1 << k)"):
        plain = plain.replace(part, "m.at(i)")
    lines = emitted(f"{declared} apply {{i, j}} in acc.span {{ {plain} }}")
    assert "const float row_0 = m[row] * s[row];" in lines


def test_an_element_that_is_there_in_any_case_is_computed_before() -> None:
    declared = "local f32 [2] bufs[8] {1.0f};"
    update = "if (j < 8) acc.at(i, j) = acc.at(i, j) + bufs[3].at(1) * s.at(i);"
    lines = emitted(f"{declared} apply {{i, j}} in acc.span {{ {update} }}")
    assert "const float row_0 = bufs[7] * s[row];" in lines


def test_a_plain_value_of_the_row_needs_no_constant() -> None:
    lines = emitted("apply {i, j} in acc.span acc.at(i, j) = acc.at(i, j) * s.at(i);")
    assert not any("row_0" in line for line in lines)


def test_what_touches_row_vectors_alone_runs_once_a_row() -> None:
    lines = emitted(
        "apply {i, j} in acc.span { m.at(i) = m.at(i) + 1.0f; acc.at(i, j) = m.at(i); }"
    )
    assert lines[2:6] == [
        "m[row] = m[row] + 1.0f;",
        *ELEMENTS,
        "acc[cu::element(row, e)] = m[row];",
    ]


def test_coordinates_exist_where_their_values_are_used() -> None:
    mask = emitted("apply {i, j} in acc.span { if (j > w * 64 + i) acc.at(i, j) = -inf; }")
    assert "const int i = cu::fragment_row() + 8 * row;" in mask
    assert "const int j = cu::fragment_column() + cu::column_of(e);" in mask
    plain = emitted("apply {i, j} in acc.span acc.at(i, j) = acc.at(i, j) + m.at(i);")
    assert not any("fragment_" in line for line in plain)


def test_operands_are_converted_in_pairs() -> None:
    lines = emitted("apply {i, j} in p.span p.at(i, j) = __to<bf16>(acc.at(i, j) * m.at(i));")
    assert lines[2:] == [
        *PAIRS,
        "p[cu::element(row, e) / 2] = cu::pack_bf16(acc[cu::element(row, e)] * m[row],",
        "acc[cu::element(row, e + 1)] * m[row]);",
        "}",
        "}",
    ]


def test_a_pair_reads_its_own_halves() -> None:
    lines = emitted("apply {i, j} in p.span p.at(i, j) = __to<bf16>(p.at(i, j) * 2.0f);")
    text = " ".join(lines)
    assert "cu::unpack_low(p[cu::element(row, e) / 2]) * 2.0f" in text
    assert "cu::unpack_high(p[cu::element(row, e + 1) / 2]) * 2.0f" in text


def test_a_store_into_half_a_register_keeps_the_other_half() -> None:
    lines = emitted(
        "apply {i, j} in p.span { if (acc.at(i, j) > 0.0f) p.at(i, j) = __to<bf16>(c); }"
    )
    assert "cu::set_bf16(p[cu::element(row, e) / 2], e, c);" in lines


def test_elements_and_operands_take_turns() -> None:
    # The pair needs both of its elements done.
    lines = emitted(
        "apply {i, j} in acc.span { acc.at(i, j) = acc.at(i, j) * c;"
        " p.at(i, j) = __to<bf16>(acc.at(i, j)); }"
    )
    assert lines[2:4] == ELEMENTS
    assert lines[6:8] == PAIRS


def test_what_carries_along_the_row_stays_in_one_loop() -> None:
    lines = emitted(
        "apply {i, j} in acc.span { s.at(i) = s.at(i) + acc.at(i, j);"
        " p.at(i, j) = __to<bf16>(s.at(i)); }"
    )
    assert lines[2:] == [
        *ELEMENTS,
        "s[row] = s[row] + acc[cu::element(row, e)];",
        "cu::set_bf16(p[cu::element(row, e) / 2], e, s[row]);",
        "}",
        "}",
    ]


def test_a_scalar_of_the_body_differs_where_an_element_is_in_it() -> None:
    lines = emitted(
        "apply {i, j} in acc.span { low = m.at(i) * c; x = acc.at(i, j) - low;"
        " acc.at(i, j) = x * x; }"
    )
    assert lines[2] == "const float low = m[row] * c;"
    assert lines[3:] == [
        *ELEMENTS,
        "const float x = acc[cu::element(row, e)] - low;",
        "acc[cu::element(row, e)] = x * x;",
        "}",
        "}",
    ]


def test_a_part_has_the_elements_of_its_columns() -> None:
    first, second = (
        emitted(
            f"apply {{i, j}} in p.subspan(_, 32).at(0, {k}) p.at(i, j) = __to<bf16>(acc.at(i, j));"
        )
        for k in (0, 1)
    )
    assert "for (int e = 0; e < 8; e += 2) {" in first
    assert "for (int e = 8; e < 16; e += 2) {" in second
    statement = "apply {i, j} in acc.view(64, 16).from(0, 8) if (j > i) acc.at(i, j) = 0.0f;"
    assert "for (int e = 2; e < 6; ++e) {" in emitted(statement)


@pytest.mark.parametrize("name", ["max", "min"])
def test_an_extreme_of_a_row_is_two_chains(name: str) -> None:
    statement = f"apply {{i, j}} in acc.span m.at(i) = __{name}(m.at(i), acc.at(i, j) * c);"
    assert emitted(statement) == [
        *ROWS,
        "float odd = acc[cu::element(row, 0 + 1)] * c;",
        *PAIRS,
        f"m[row] = f{name}f(m[row], acc[cu::element(row, e)] * c);",
        f"odd = f{name}f(odd, acc[cu::element(row, e + 1)] * c);",
        "}",
        f"m[row] = f{name}f(m[row], odd);",
        "}",
    ]


def test_the_chains_of_a_part_begin_there_and_know_their_columns() -> None:
    statement = (
        "apply {i, j} in acc.subspan(_, 8).at(0, 1)"
        " m.at(i) = __max(m.at(i), j > i ? acc.at(i, j) : c);"
    )
    lines = emitted(statement)
    column = "(cu::fragment_column() + cu::column_of({}))"
    assert f"float odd = {column.format('2 + 1')} > i ? acc[cu::element(row, 2 + 1)] : c;" in lines
    assert "for (int e = 2; e < 4; e += 2) {" in lines
    assert any(column.format("e + 1") in line for line in lines)


@pytest.mark.parametrize(
    "statement",
    [
        "m.at(i) = m.at(i) + acc.at(i, j);",
        "m.at(i) = __max(m.at(i), acc.at(i, j) + m.at(i));",
        "m.at(i) = __max(s.at(i), acc.at(i, j));",
        "{ m.at(i) = __max(m.at(i), acc.at(i, j)); s.at(i) = s.at(i) + acc.at(i, j); }",
    ],
)
def test_what_has_an_order_stays_one_chain(statement: str) -> None:
    assert "for (int e = 0; e < 16; ++e) {" in emitted(f"apply {{i, j}} in acc.span {statement}")
