"""Loads that their own threads wait for: issue, wait, and where the threads meet before."""

from __future__ import annotations

import pytest

from artifact.choreo.compiler import compile_text
from artifact.choreo.diagnostics import CompileError

PROGRAM = """
__co__ void f(global bf16 [M, 64] X, global bf16 [M, 64] O, u32 n) {{
  parallel.async {{b}} by [M / 64] : block {{
    shared bf16 [64, 64] x_s, y_s;
    {block}
    parallel w by [2] : group-4, t by 128 : thread {{
      {body}
    }}
  }}
}}
"""
X = "{}tma.load{}.swiz<128> X.subspan(64, 64).at({}, 0) => {}_s;"
LOAD = X.format("x = ", "", "b", "x")
COPY = "tma.copy.swiz<128> X.subspan(64, 64).at(b, 0) => x_s;"
MULTIPLY = "acc = mma.fill.f32 0.0f; mma.row.row acc, x_s, x_s;"
STORE = "mma.store acc, O.subspan(64, 64).at(b, 0);"


def emitted(body: str, block: str = "") -> list[str]:
    """The code of the kernel's roles, without comments and empty lines."""
    cuda = compile_text(PROGRAM.format(body=body, block=block), "t.co").cuda
    cuda = cuda[: cuda.index("void f(const choreo")]
    lines = [line.strip() for line in cuda[cuda.index("const unsigned b =") :].splitlines()]
    return [line for line in lines if line and not line.startswith(("//", "#"))]


def around_load(lines: list[str], number: int = 0) -> tuple[str, list[str]]:
    """What stands before the elected thread's block of a load, and what after it."""
    issues = [i for i, line in enumerate(lines) if line.startswith("cu::tma_load(")]
    issue = issues[number]
    return lines[issue - 3], lines[issue + 2 : issue + 4]


@pytest.mark.parametrize("load", [LOAD, COPY])
def test_every_thread_waits_for_a_synchronous_load(load: str) -> None:
    lines = emitted(f"inthreads (w == 1) {{ {load} {MULTIPLY} {STORE} }}")
    name = "x_done" if load == LOAD else "load_done"
    before, after = around_load(lines)
    assert before == "if (w == 1) {"
    assert after == [f"cu::mbarrier_wait(&{name}[0], {name}_parity);", f"{name}_parity ^= 1;"]


def test_the_parity_of_a_synchronous_load_is_a_variable_of_every_thread() -> None:
    cuda = compile_text(PROGRAM.format(body="", block=f"{LOAD}"), "t.co").cuda
    assert "unsigned x_done_parity = 0;" in cuda
    assert "cu::mbarrier_init(&x_done[0], 1);" in cuda


@pytest.mark.parametrize("how", ["", ".async"])
def test_in_a_loop_the_readers_of_the_last_trip_meet_before_the_load(how: str) -> None:
    wait = "wait x;" if how else ""
    load = X.format("x = ", how, "k", "x") + wait
    lines = emitted(
        f"inthreads (w == 1) {{ foreach {{k}} in [n] {{ {load} {MULTIPLY} {STORE} }} }}"
    )
    before, after = around_load(lines)
    assert before == "cu::named_barrier_sync(15, 128);"
    assert after[0] == "cu::mbarrier_wait(&x_done[0], x_done_parity);"


def test_the_second_load_of_a_trip_needs_no_meeting_of_its_own() -> None:
    loads = X.format("", "", "k", "x") + X.format("", "", "k", "y")
    multiply = "acc = mma.fill.f32 0.0f; mma.row.row acc, x_s, y_s;"
    lines = emitted(
        f"inthreads (w == 1) {{ foreach {{k}} in [n] {{ {loads} {multiply} {STORE} }} }}"
    )
    assert around_load(lines, 0)[0] == "cu::named_barrier_sync(15, 128);"
    assert around_load(lines, 1)[0] == "load_done_parity ^= 1;"


def test_a_second_load_into_a_buffer_comes_after_its_readers() -> None:
    again = "inthreads (w == 1) {{ {0} {1} {0} {1} }}".format(COPY, f"{{ {MULTIPLY} {STORE} }}")
    lines = emitted(again)
    assert around_load(lines, 0)[0] == "if (w == 1) {"
    assert around_load(lines, 1)[0] == "cu::named_barrier_sync(15, 128);"


@pytest.mark.parametrize("argument", ["x_s", "half"])
def test_a_helper_with_the_buffer_is_a_reader(argument: str) -> None:
    view = "half = x_s.subspan(32, 64).at(0, 0);"
    lines = emitted(f"{view} inthreads (w == 1) {{ {COPY} call read({argument}); {COPY} }}")
    assert around_load(lines, 1)[0] == "cu::named_barrier_sync(15, 128);"


def test_without_a_reader_the_threads_of_a_loop_still_keep_to_one_generation() -> None:
    loop = f"foreach {{k}} in [n] {{ {COPY} }}"
    assert around_load(emitted("", loop))[0] == "__syncthreads();"
    assert around_load(emitted(f"inthreads (w == 0 && t < 32) {{ {loop} }}"))[0] == "__syncwarp();"
    some = f"inthreads (w == 1 && t < 4) {{ {loop} }}"
    assert around_load(emitted(some))[0] == "__syncwarp(0xf);"
    lines = emitted(f"inthreads (w == 0 && t == 0) {{ {loop} }}")
    assert around_load(lines)[0].startswith("for (unsigned k = 0")


def test_threads_that_cannot_meet_are_refused() -> None:
    loop = f"foreach {{k}} in [n] {{ {COPY} }}"
    with pytest.raises(CompileError) as caught:
        emitted(f"inthreads (w == 0 && t < 33) {{ {loop} }}")
    assert [d.code for d in caught.value.diagnostics] == ["partial-warps"]


def test_a_tile_that_was_not_squeezed_is_a_tile_of_its_buffer() -> None:
    text = """
    __co__ void f(global bf16 [B, S, H, 128] Q, global bf16 [M, 128] O) {
      parallel {t, h, b} by [S / 128, H, B] : block {
        rows = dma.copy.swiz<128> Q.subspan(1, 128, 1, 128).at(b, t, h, 0) => shared;
        parallel w by [2] : group-4, u by 128 : thread {
          acc = mma.fill.f32 0.0f;
          mma.row.row acc, rows.chunkat(w, _), rows;
          mma.store acc, O.subspan(64, 128).at(w, 0);
        }
      }
    }
    """
    cuda = compile_text(text, "t.co").cuda
    assert "cu::k_major<128>(rows + w * 8192)" in cuda
