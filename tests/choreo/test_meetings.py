"""Where the threads of a cooperative copy meet before it."""

from __future__ import annotations

import pytest

from artifact.choreo.compiler import compile_text

FRAME = """
__co__ void f(global bf16 [M, 128] A, global bf16 [N, 128] B, global bf16 [M, N] C, int n) {{
  parallel m by [cdiv(M, 64)] : block {{
    {outside}
    parallel w by [1] : group-4, t by 128 : thread {{
      acc = mma.fill.f32 0.0f;
      {body}
      mma.store acc, C.subspan(64, 64).at(m, 0);
    }}
  }}
}}
"""

A = "a = dma.copy.swiz<128> A.subspan(64, 128).at(m, 0) => shared;"
B = "b = dma.copy.swiz<128> B.subspan(64, 128).at({}, 0) => shared;"
MMA = "mma.row.row acc, a, b;"


def meetings(body: str, outside: str = "") -> dict[str, bool]:
    """Whether threads meet before the copy into each buffer."""
    cuda = compile_text(FRAME.format(body=body, outside=outside), "meetings.co").cuda
    lines = [line.strip() for line in cuda.splitlines()]
    found = {}
    for number, line in enumerate(lines):
        if line.startswith("cu::copy_tile_async"):
            buffer = line.partition("(")[2].partition(",")[0]
            found[buffer] = lines[number - 1] == "__syncthreads();"
    return found


def test_once() -> None:
    assert meetings(f"{A} {B.format(0)} {MMA}") == {"a": False, "b": False}


def test_two_copies_of_a_loop_part_each_other() -> None:
    body = f"foreach k in n {{ {A} {B.format('k')} {MMA} }}"
    # b's copy makes all meet after the reads of the trip before... only if those came before it.
    assert meetings(body) == {"a": True, "b": False}


def test_a_copy_between_the_reads_of_each() -> None:
    body = f"""
      {A}
      p = mma.fill.f32 0.0f;
      foreach k in n {{
        {B.format("k")}
        mma.row.row acc, a, b;
        c = dma.copy.swiz<128> B.subspan(64, 128).at(k, 0) => shared;
        mma.row.row p, a, c;
      }}
      mma.store p, C.subspan(64, 64).at(m, 1);
    """
    assert meetings(body) == {"a": False, "b": False, "c": False}


def test_alone_in_a_loop() -> None:
    assert meetings(f"{A} foreach k in n {{ {B.format('k')} {MMA} }}")["b"]


@pytest.mark.parametrize(
    "body",
    [
        # The read may go on behind the next copy.
        """foreach k in n {
             B0
             f = mma.row.row.async acc, a, b;
             c = dma.copy.swiz<128> B.subspan(64, 128).at(k, 0) => shared;
             wait f;
             mma.row.row acc, a, c;
           }""",
        # A branch may leave the other copy out.
        """foreach k in n {
             B0
             mma.row.row acc, a, b;
             if (k == 0) {
               c = dma.copy.swiz<128> B.subspan(64, 128).at(k, 0) => shared;
               mma.row.row acc, a, c;
             }
           }""",
        # So may a jump.
        """foreach k in n {
             B0
             mma.row.row acc, a, b;
             if (k == 3) continue;
             c = dma.copy.swiz<128> B.subspan(64, 128).at(k, 0) => shared;
             mma.row.row acc, a, c;
           }""",
    ],
)
def test_no_other_meeting_is_sure(body: str) -> None:
    assert meetings(A + body.replace("B0", B.format("k")))["b"]
