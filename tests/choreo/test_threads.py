"""Whether the threads of a role get to a statement together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from artifact.choreo.threads import of_one_warp, warp_mask, warpgroup_mask, warpgroups, warps

ROLES = """\
inthreads (p == 0) {
  mutable k = 0;
  foreach {i} in [n] {
BODY
  }
}
inthreads (p > 0) { foreach {i} in [n] { wait empty.at(i); trigger full.at(i); } }
"""
TRIGGER = "wait full.at(i); trigger empty.at(i);"


@pytest.mark.parametrize(
    "body",
    [
        f"if (t < 16) continue; {TRIGGER}",
        f"if (t < 16) {{ break; }} {TRIGGER}",
        f"{TRIGGER} if (t < 16) {{ break; }}",
        f"{TRIGGER} if (t < 16) return;",
        f"{TRIGGER} inthreads (t < 16) {{ return; }}",
        f"if (t < 16) {{ k = 1; }} if (k > 0) {{ continue; }} {TRIGGER}",
    ],
)
def test_a_jump_of_some_threads_splits_a_role(threads: Callable[[str], Any], body: str) -> None:
    assert "divergent" in threads(ROLES.replace("BODY", body)).codes


@pytest.mark.parametrize(
    "body",
    [
        f"if (i > 2) continue; {TRIGGER}",
        f"if (n > 2) {{ break; }} {TRIGGER}",
        # All threads get here in the next trip, and behind the loop.
        f"{TRIGGER} if (t < 16) {{ continue; }}",
        f"foreach {{z}} in [n] {{ if (t < z) {{ break; }} }} {TRIGGER}",
    ],
)
def test_other_jumps_do_not(threads: Callable[[str], Any], body: str) -> None:
    assert "divergent" not in threads(ROLES.replace("BODY", body)).codes


def test_a_jump_of_another_role_does_not(threads: Callable[[str], Any]) -> None:
    early = "inthreads (p == 2) { return; }"
    body = ROLES.replace("p > 0", "p == 1").replace("BODY", TRIGGER)
    assert threads(early + body).codes == []


def test_a_count_that_some_threads_stop_at_differs(threads: Callable[[str], Any]) -> None:
    body = "while (k < 5) { if (k > t) { break; } k++; } wait full.at(k); trigger empty.at(k);"
    assert "order-differs" in threads(ROLES.replace("BODY", body)).codes


@pytest.mark.parametrize("word", ["break", "continue"])
def test_a_jump_stands_in_a_loop(threads: Callable[[str], Any], word: str) -> None:
    assert threads(f"if (n > 2) {{ {word}; }}").codes == ["jump-place"]
    assert threads(f"foreach {{i}} in [n] {{ if (n > 2) {{ {word}; }} }}").codes == []


def test_scalars_that_all_depend_on_each_other_are_looked_at_once(threads: Callable) -> None:
    # A search that looks again at what it has seen would take 12! ways through these.
    names = [f"m{n}" for n in range(12)]
    declared = "\n".join(f"mutable s32 {name} = {n};" for n, name in enumerate(names))
    every = " + ".join(names)
    counted = "\n".join(f"  if ({every} > {n})\n    {m} = {every};" for n, m in enumerate(names))
    guarded = f"inthreads (p == 0) {{\n  if ({every} > 5)\n    trigger done;\n}}"
    waited = "inthreads (p == 1) {\n  wait done;\n}"
    threads(f"{declared}\nforeach {{i}} in [n] {{\n{counted}\n}}\n{guarded}\n{waited}").clean()
    one = declared.replace("mutable s32 m7 = 7;", "mutable s32 m7 = t;")
    analysed = threads(f"{one}\nforeach {{i}} in [n] {{\n{counted}\n}}\n{guarded}\n{waited}")
    assert "divergent" in analysed.codes


def test_warps_and_warpgroups_are_whole_and_do_not_overlap() -> None:
    assert [warp_mask(n) for n in range(4)] == [0xFFFFFFFF << 32 * n for n in range(4)]
    assert sum(warp_mask(n) for n in range(4, 8)) == warpgroup_mask(1)
    assert warps(0) == warpgroups(0) == ()
    # The last thread of one and the first of another, with nobody in between.
    some = 1 << 31 | 1 << 96 | 1 << 256
    assert (warps(some), warpgroups(some)) == ((0, 3, 8), (0, 2))
    assert [of_one_warp(m) for m in (0, 1 << 31, 0b11 << 31, 0xFFFFFFFF << 64)] == [
        True, True, False, True
    ]  # fmt: skip
