"""MMA: descriptors and k steps, issue and wait, work that runs beside an operation, stores."""

from __future__ import annotations

import re

import pytest

from artifact.choreo.compiler import compile_text

PROGRAM = """
__co__ void f(global bf16 [M, 128] X, global bf16 [{rows}, 128] O, u32 n) {{
  parallel.async {{b}} by [cdiv(M, 128)] : block {{
    x_s = dma.copy.swiz<{swizzle}> X.subspan(128, 128).at(b, 0) => shared;
    parallel w by [2] : group-4, t by 128 : thread {{
      {body}
    }}
  }}
}}
"""
P = "frag bf16 [64, 128] p {0.5f};"
QK = "acc = mma.fill.f32 0.0f; mma.row.row acc, x_s.chunkat(w, _), x_s;"


def emitted(body: str, swizzle: int = 128, rows: str = "M") -> str:
    cuda = compile_text(PROGRAM.format(body=body, swizzle=swizzle, rows=rows), "m.co").cuda
    return cuda[cuda.index(": parallel w by") :]


@pytest.mark.parametrize(
    ("swizzle", "step"),
    [
        # Within a panel 16 columns are 32 bytes; a panel has the rows of the whole buffer.
        (128, "k / 4 * 16384 + k % 4 * 32"),
        (64, "k / 2 * 8192 + k % 2 * 32"),
        (32, "k * 4096"),
    ],
)
def test_k_steps_of_a_k_major_operand(swizzle: int, step: str) -> None:
    cuda = emitted(QK, swizzle)
    assert f"cu::k_major<{swizzle}>(x_s + w * {64 * swizzle});" in cuda
    assert f"cu::k_major<{swizzle}>(x_s);" in cuda
    assert f"cu::wgmma_nk<128>(acc, a.at({step}), b_2.at({step}), k > 0);" in cuda


@pytest.mark.parametrize("swizzle", [128, 64, 32])
def test_k_steps_of_an_mn_major_operand(swizzle: int) -> None:
    cuda = emitted(P + "acc = mma.fill.f32 0.0f; mma.row.col acc, p, x_s;", swizzle)
    # 16 rows of a panel; from panel to panel all 128 rows.
    assert f"cu::mn_major<{swizzle}>(x_s, {128 * swizzle});" in cuda
    assert f"cu::wgmma_kn<128>(acc, p + 4 * k, b_2.at(k * {16 * swizzle}), k > 0);" in cuda


def test_one_statement_is_fenced_issued_committed_and_waited_for() -> None:
    cuda = emitted(QK)
    order = [
        cuda.index(part)
        for part in (
            "cu::wgmma_begin(acc);",
            "cu::wgmma_nk<128>(",
            "cu::wgmma_commit();",
            "cu::wgmma_wait<0>();",
            "cu::wgmma_end(acc);",
        )
    ]
    assert order == sorted(order)


def test_a_fill_that_its_mma_does_costs_nothing_and_another_one_does() -> None:
    assert "= 0.0f;" not in emitted(QK)
    other = emitted("acc = mma.fill.f32 1.0f; mma.row.row acc, x_s.chunkat(w, _), x_s;")
    assert "for (int r = 0; r < 64; ++r) acc[r] = 1.0f;" in other
    assert "k > 0" not in other


TWO = """
      frag bf16 [64, 128] p {{0.5f}};
      scores = mma.fill.f32 0.0f;
      acc = mma.fill.f32 0.0f;
      qk = mma.row.row.async scores, x_s.chunkat(w, _), x_s;
      pv = mma.row.col.async acc, p, x_s;
      wait qk;
      {beside}
      wait pv;
      mma.store acc, O.subspan(64, 128).at(b # w, 0);
"""


def test_the_depth_of_a_wait_is_what_may_stay_in_flight() -> None:
    cuda = emitted(TWO.format(beside=""))
    waits = re.findall(r"cu::wgmma_(wait\w*<\d>\(.*?\)|end\(\w+\));", cuda)
    assert waits == ["wait<1>()", "end(scores)", "wait<0>()", "end(acc)"]


def test_a_wait_stays_behind_the_work_that_runs_beside_the_operation() -> None:
    beside = (
        "frag f32 [64] m;"
        "reduce_max(m, scores, 1);"
        "apply {i, j} in scores.span scores.at(i, j) = scores.at(i, j) - m.at(i);"
    )
    cuda = emitted(TWO.format(beside=beside))
    tail = cuda[cuda.index("row = 0") :]
    assert (
        tail.index("cu::wgmma_fence_registers(scores);")
        < tail.index("cu::wgmma_wait_after<0>(m);")
        < tail.index("cu::wgmma_end(acc);")
    )


def test_what_the_next_operation_takes_is_not_fenced_while_it_runs() -> None:
    # acc is scaled beside qk, and belongs to pv when qk is waited for.
    cuda = emitted(
        P + "scores = mma.fill.f32 0.0f; acc = mma.fill.f32 0.0f;"
        "first = mma.row.col.async acc, p, x_s; wait first;"
        "qk = mma.row.row.async scores, x_s.chunkat(w, _), x_s;"
        "apply {i, j} in acc.span acc.at(i, j) = acc.at(i, j) * 2.0f;"
        "apply {i, j} in p.span p.at(i, j) = __to<bf16>(0.5f);"
        "pv = mma.row.col.async acc, p, x_s; wait qk; wait pv;"
    )
    tail = cuda[cuda.index("* 2.0f") :]
    between = tail[tail.rindex("wgmma_commit") : tail.index("cu::wgmma_wait<1>();")]
    assert "fence" not in between
    assert "wgmma_wait_after" not in tail


def test_work_before_the_issue_is_not_beside_the_operation() -> None:
    cuda = emitted(
        P + QK + "frag f32 [64] m; reduce_max(m, acc, 1);"
        "o = mma.fill.f32 0.0f; pv = mma.row.col.async o, p, x_s; wait pv;"
    )
    assert "wgmma_wait_after" not in cuda


def test_rows_past_the_end_are_left_out_unless_there_are_none() -> None:
    store = QK + "mma.store acc, O.subspan(64, 128).at(b # w, 0);"
    address = "O + size_t((b * 2 + w) * 64) * 128, 128"
    whole = " ".join(emitted(store).split())
    # The copy of X has demanded that M is a multiple of 128.
    assert f"cu::store_fragment_global({address}, 64, acc);" in whole
    partial = " ".join(emitted(store, rows="R").split())
    assert f"({address}, int(R) - int((b * 2 + w) * 64), acc);" in partial


OWN = "cu::named_barrier_sync(1 + cu::warpgroup_index(), 128);"


def stored_operand(body: str) -> list[str]:
    """The code of a program with 8 warpgroups that each store an operand."""
    text = """
    __co__ void f(global bf16 [M, 64] X, u32 n) {
      parallel.async b by M : block {
        shared bf16 [64, 64] p_s[8];
        x_s = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => shared;
        parallel w by [8] : group-4, t by 128 : thread {
          acc = mma.fill.f32 0.0f; mma.row.row acc, x_s, x_s;
          BODY
        }
      }
    }
    """
    body = body.replace("STORE", "mma.store acc, p_s[w];")
    body = body.replace("USE", "mma.row.row acc, p_s[w], x_s;")
    cuda = compile_text(text.replace("BODY", body), "m.co").cuda
    cuda = cuda[cuda.index(": parallel w by") : cuda.index("void f(const choreo")]
    lines = [line.strip() for line in cuda.splitlines()]
    return [line for line in lines if line and not line.startswith("//")]


def test_a_stored_operand_is_shown_and_its_warpgroup_meets() -> None:
    lines = stored_operand("STORE USE")
    store = next(i for i, line in enumerate(lines) if line.startswith("cu::store_fragment<128>("))
    assert lines[store - 1] != OWN
    assert lines[store + 1 : store + 3] == ["cu::fence_async_proxy();", OWN]


@pytest.mark.parametrize("body", ["foreach {k} in [n] { STORE USE }", "STORE USE STORE USE"])
def test_a_warpgroup_meets_before_it_stores_over_an_operand(body: str) -> None:
    lines = stored_operand(body)
    stores = [i for i, line in enumerate(lines) if line.startswith("cu::store_fragment<128>(")]
    assert lines[stores[-1] - 1] == OWN


def test_a_tile_that_no_mma_reads_needs_none_of_this() -> None:
    assert OWN not in stored_operand("foreach {k} in [n] { STORE }")
