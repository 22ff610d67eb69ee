"""Run-time checks of tiles that begin at any element, and of those that begin at whole tiles."""

from __future__ import annotations

import pytest

from artifact.choreo.compiler import compile_text

PROGRAM = """
__co__ void f(global bf16 [S, 64] X, global bf16 [S, 64] O, global u32 [N] starts, u32 first) {{
  u32 half = S / 2;
  parallel.async {{b, c}} by [N, 3] : block {{
    shared bf16 [48, 64] x_s;
    parallel w by [1] : group-4, t by 128 : thread {{
      {body}
      tma.load.swiz<128> X.{view} => x_s;
    }}
  }}
}}
"""
WHOLE = "S % 48 == 0"


def checks(view: str, body: str = "") -> list[str]:
    """The conditions of the host function on the rows of X."""
    cuda = compile_text(PROGRAM.format(view=view, body=body), "t.co").cuda
    host = " ".join(cuda[cuda.index("void f(const choreo") :].split())
    found = [part.partition(', "')[0] for part in host.split("choreo::runtime_check(")[1:]]
    return [c for c in found if "shape()" not in c and c != "N > 0"]


@pytest.mark.parametrize(
    ("origin", "condition"),
    [
        ("0", "48 <= S"),
        ("16", "64 <= S"),
        ("first", "std::uint64_t(first) + 48 <= S"),
        ("S - 48", "(std::uint64_t(S) - 48) + 48 <= S"),
        ("half", "std::uint64_t(half) + 48 <= S"),
        ("b * 16", "((std::uint64_t(N) - 1) * 16) + 48 <= S"),
        ("b # c", "((std::uint64_t(N) - 1) * 3 + 2) + 48 <= S"),
        ("cdiv(S, 4) + c", "(std::uint64_t(choreo::cdiv(S, 4)) + 2) + 48 <= S"),
    ],
)
def test_a_known_origin_is_checked_against_the_end(origin: str, condition: str) -> None:
    assert checks(f"view(48, 64).from({origin}, 0)") == [condition]


def test_a_step_is_an_origin_like_any_other() -> None:
    found = checks("subspan(48, 64).step(16, 64).at(b, 0)")
    assert found == ["(std::uint64_t(N) - 1) * 16 + 48 <= S"]


def test_a_local_scalar_is_what_it_was_set_to() -> None:
    found = checks("view(48, 64).from(at, 0)", "u32 at = half + b;")
    assert found == ["(std::uint64_t(half) + (std::uint64_t(N) - 1)) + 48 <= S"]


@pytest.mark.parametrize(
    ("view", "body"),
    [
        # Whole tiles by their number, and origins that only the kernel knows.
        ("subspan(48, 64).at(b, 0)", ""),
        ("view(48, 64).from(b * 48 - c, 0)", ""),
        ("view(48, 64).from(at, 0)", "u32 at = starts.at(b);"),
        ("view(48, 64).from(at, 0)", "mutable u32 at = 0;"),
    ],
)
def test_whole_tiles_and_unknown_origins_ask_for_a_multiple(view: str, body: str) -> None:
    assert checks(view, body) == [WHOLE]


@pytest.mark.parametrize(("view", "whole"), [("from(first, 0)", False), ("from(0, 0)", True)])
def test_a_store_at_any_row_masks_what_passes_the_end(view: str, whole: bool) -> None:
    text = """
    __co__ void f(global bf16 [S, 64] X, u32 first) {
      parallel.async b by [S / 64] : block {
        shared bf16 [64, 64] x_s;
        parallel w by [1] : group-4, t by 128 : thread {
          tma.load.swiz<128> X.subspan(64, 64).at(b, 0) => x_s;
          acc = mma.fill.f32 0.0f; mma.row.row acc, x_s, x_s;
          mma.store acc, X.view(64, 64).VIEW;
        }
      }
    }
    """
    cuda = compile_text(text.replace("VIEW", view), "t.co").cuda
    (line,) = [line for line in cuda.splitlines() if "cu::store_fragment_global(" in line]
    assert ("64, 64, acc" in line) == whole
    assert ("int(S) - int(first)" in line) != whole
