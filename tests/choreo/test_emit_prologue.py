"""The block's prologue: who waits until the barriers are there."""

from __future__ import annotations

import pytest

from artifact.choreo.compiler import compile_text

PROGRAM = """
__co__ void f(global bf16 [M, 64] X, global bf16 [M, 64] O) {{
  parallel.async {{b}} by [M / 128] : block {{
    shared bf16 [128, 64] x_s, y_s;
    shared event there;
    parallel w by [{groups}] : {level}, t by {threads} : thread {{
      inthreads.async ({first}) {{
        load = tma.load.async.swiz<128> X.subspan(128, 64).at(b, 0) => x_s;
        trigger there after load;
      }}
      {body}
    }}
  }}
}}
"""
FIRST = "cu::wait_for_first_warp<{}>();"
ALL = "__syncthreads();"
MULTIPLY = "acc = mma.fill.f32 0.0f; wait there; mma.row.row acc, x_s, x_s;"


def prologue(
    body: str, groups: int = 2, threads: int = 128, first: str = "w == 0 && t < 32"
) -> list[str]:
    """The lines between the initialisation of the barriers and the first level's variables."""
    level = "group-4" if threads == 128 else "group"
    return lines(
        PROGRAM.format(body=body, groups=groups, threads=threads, level=level, first=first)
    )


def lines(text: str) -> list[str]:
    """Those lines of a program."""
    cuda = compile_text(text, "p.co").cuda
    begin = cuda.index("cu::fence_barrier_init();")
    part = cuda[begin : cuda.index("// 3: parallel.async", begin)]
    return [s for line in part.splitlines()[2:] if (s := line.strip()) and not s.startswith("//")]


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_the_first_warp_does_not_wait_where_the_block_meets_nowhere_else(groups: int) -> None:
    assert prologue("wait there;", groups) == [FIRST.format(128 * groups)]


def test_a_meeting_of_some_threads_is_no_meeting_of_the_block() -> None:
    copy = "dma.copy.swiz<128> X.subspan(128, 64).at(b, 0) => y_s;"
    assert prologue(f"inthreads.async (w > 0) {{ {copy} }}", 3) == [FIRST.format(384)]


@pytest.mark.parametrize(
    "body",
    [
        # A cooperative copy ends with a meeting of its threads: of all of them.
        "dma.copy.swiz<128> X.subspan(128, 64).at(b, 0) => y_s;",
        # Loads in a loop keep to one generation.
        "foreach {k} in [2] { tma.copy.swiz<128> X.subspan(128, 64).at(k, 0) => y_s; }",
        # A helper may meet without our knowing, and a program names barriers of its own.
        "call helper(t);",
        "call __bar_sync(0, 256);",
    ],
)
def test_the_block_meets_as_a_whole_where_it_meets_again(body: str) -> None:
    assert prologue(body) == [ALL]


def test_a_store_has_a_barrier_of_its_own() -> None:
    assert prologue("wait there; tma.copy x_s => O.subspan(128, 64).at(b, 0);") == [
        FIRST.format(256)
    ]


def test_one_warp_needs_no_other() -> None:
    assert prologue("wait there;", 1, 32, "t == 0") == [ALL]


def test_a_block_of_part_of_a_warp_meets() -> None:
    """The barrier counts threads by warps."""
    text = PROGRAM.format(body="wait there;", groups=1, threads=48, level="group", first="t < 32")
    assert lines(text.replace("w by [1] : group, t by 48", "t by 48")) == [ALL]


def test_the_register_calls_meet_nobody() -> None:
    assert prologue("inthreads.async (w > 0) { call croq::cuda::setreg_dec(40); }", 3) == [
        FIRST.format(384)
    ]
