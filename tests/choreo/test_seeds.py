"""Triggers of ready events: what hands a tile back, and what is a seed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

PRODUCER = """\
inthreads.async (p == 0 && t < 32) {
  mutable u32 order = 0;
  foreach {i} in [n] {
    wait empty.at(order);
    f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[order % 2];
    trigger full.at(order++) after f;
  }
}
"""


def consumer(body: str, role: str = "p > 0") -> str:
    """A producer of a ring of two slots, and a role that reads it."""
    return f"{PRODUCER}inthreads.async ({role}) {{\n  mutable u32 order = 0;\n{body}\n}}\n"


WAIT = "wait full.at(order);\n"
FREE = "trigger empty.at(order++);\n"
LOOP = f"foreach {{i}} in [n] {{\n{WAIT}{FREE}}}\n"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f"{WAIT}{FREE}{LOOP}", id="a prologue of its own"),
        pytest.param(
            "wait full.at(0);\nwait full.at(1);\ntrigger empty.at(0);\ntrigger empty.at(1);",
            id="two tiles at once",
        ),
        pytest.param(
            f"{WAIT}foreach {{i}} in [n] {{\nwait full.at(order + 1);\n{FREE}}}\n{FREE}",
            id="one tile behind",
        ),
        pytest.param(
            "foreach {i} in [n] {\nif (i > 0) trigger empty.at(order + 1);\n"
            "wait full.at(order++);\n}",
            id="one tile behind, but in the first trip",
        ),
        pytest.param(
            "foreach {s} in [2] {\nwait full.at(s);\n}\nforeach {s} in [2] {\n"
            "trigger empty.at(s);\n}",
            id="all tiles, then all slots",
        ),
        pytest.param(
            "wait full.at(0);\nwait full.at(1);\ntrigger empty;", id="all slots in one statement"
        ),
        pytest.param(
            f"foreach {{i}} in [n] {{\nif (i > 2) {{\n{WAIT}}} else {{\n{WAIT}}}\n{FREE}}}",
            id="a wait in each branch",
        ),
        pytest.param(
            f"foreach {{i}} in [n] {{\ninthreads (p == 1) {WAIT}inthreads (p == 2) {WAIT}{FREE}}}",
            id="each warpgroup for itself",
        ),
        pytest.param(
            f"foreach {{i}} in [n] {{\ninthreads (t % 32 == 0) {WAIT}{FREE}}}",
            id="one lane of each warp waits",
        ),
    ],
)
def test_what_hands_tiles_back(threads: Callable, body: str) -> None:
    assert "seeded-twice" not in threads(consumer(body)).codes


def test_a_release_by_those_who_are_told_of_the_load(threads: Callable) -> None:
    told = f"foreach {{i}} in [n] {{\nwait done;\n{FREE}}}"
    waits = "foreach {i} in [n] {\nwait full.at(order++);\ntrigger done;\n}"
    other = f"inthreads.async (p == 2) {{\nmutable u32 order = 0;\n{told}\n}}\n"
    threads(consumer(waits, "p == 1") + other).clean()


@pytest.mark.parametrize(
    ("store", "codes"),
    [
        ("tma.copy q_tile => o.subspan(128, 128).at(tile, 0);", []),
        (
            "tma.copy q_tile.subspan(64, 128).at(p - 1, 0)"
            " => o.subspan(64, 128).at(tile * 2 + p - 1, 0);",
            ["seeded-twice"],
        ),
    ],
    ids=["all meet", "each warpgroup meets with itself"],
)
def test_a_release_by_those_who_met_who_waited(
    threads: Callable, store: str, codes: list[str]
) -> None:
    body = f"""\
foreach {{i}} in [n] {{
  inthreads (p == 1) {{
    wait full.at(order);
    trigger empty.at(order);
  }}
  {store}
  inthreads (p == 2) trigger empty.at(order);
  order++;
}}
"""
    assert threads(consumer(body)).codes == codes


def test_one_load_event_for_all_slots(threads: Callable) -> None:
    threads(
        """\
inthreads.async (p == 0 && t < 32) {
  foreach {i} in [n] {
    wait empty.at(0), empty.at(1);
    f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[0];
    g = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[1];
    trigger loaded after f, g;
  }
}
inthreads.async (p > 0) {
  foreach {i} in [n] {
    wait loaded;
    trigger empty.at(0);
    trigger empty.at(1);
  }
}
"""
    ).clean()


def test_an_event_that_only_takes_turns_guards_no_tile(threads: Callable) -> None:
    turn = "foreach {i} in [n] {\nwait done;\ntrigger taken;\n}"
    body = consumer(LOOP, "p == 1").replace("    wait empty", "    wait taken;\n    wait empty")
    body = body.replace("after f;", "after f;\n    trigger done;")
    assert threads(f"{body}inthreads.async (p == 2) {{\n{turn}\n}}").codes == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f"wait loaded;\ntrigger empty.at(0);\n{LOOP}", id="behind another wait"),
        pytest.param(f"{WAIT}{FREE}trigger empty.at(1);\n{LOOP}", id="behind a release"),
        pytest.param(f"{LOOP}trigger empty.at(0);", id="behind the loop"),
        pytest.param(f"wait loaded;\nif (n > 2) trigger empty.at(0);\n{LOOP}", id="in an if"),
        pytest.param(
            f"foreach {{i}} in [n] {{\n{WAIT}{FREE}if (i == 0) trigger empty.at(0);\n}}",
            id="in an if of the loop",
        ),
        pytest.param(f"{LOOP}foreach {{s}} in [2] {{\ntrigger empty.at(s);\n}}", id="slot by slot"),
        pytest.param(f"{WAIT}trigger empty;\n{LOOP}", id="two slots for one wait"),
    ],
)
def test_seeds(threads: Callable, body: str) -> None:
    body = consumer(body) + "inthreads.async (p == 0 && t >= 32) {\n  trigger loaded;\n}\n"
    analysed = threads(body)
    assert "seeded-twice" in analysed.codes
    assert "no wait for full" in analysed.said("seeded-twice").message
