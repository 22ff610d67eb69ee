"""What needs the meeting of a shared store keeps it, and what the host function checks stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from artifact.choreo.compiler import compile_text
from tests.choreo.test_splitting import ANOTHER, FILL, LOAD, PRODUCT, STORE, stays, tile

Make = Callable[..., Any]
Edits = tuple[tuple[str, str], ...]

# The tile is loaded in every trip: the consumers hand it back by 'taken'.
READY = ("shared event loaded;", "shared event loaded, other, taken = ready;")
RELOADED = (LOAD, f"foreach {{i}} in [n] {{ wait taken; {LOAD}")
TRIGGERED = ("// producer", "}")
TRIPS = ("wait loaded;", "foreach {i} in [n] { wait loaded;")
TAKEN = ("// before", "trigger taken;")
END = ("// behind", "}")
LOOP = (READY, RELOADED, TRIGGERED, TRIPS)
FIRST, SECOND = "inthreads (p == 1) { trigger other; }", "inthreads (p == 2) { wait other; }"

# The consumers load what they multiply: one thread for all of them.
OWN = (
    ("load = tma", "inthreads (t < 16) { spare = tma"),
    ("=> x_s;", "=> spare_s; wait spare; }"),
    ("shared bf16 [128, 128] x_s;", "shared bf16 [128, 128] x_s, spare_s;"),
    ("trigger loaded after load;", ""),
    (
        "wait loaded;",
        "foreach {i} in [n] { own = tma.load.async.swiz<128> x.subspan(128, 128).at(tile, 0)"
        " => x_s; trigger loaded after own; wait loaded;",
    ),
    END,
)

NEEDED: dict[str, Edits] = {
    "one warpgroup hands back what both read": (
        *LOOP,
        ("// behind", "inthreads (p == 1) { trigger taken; } }"),
    ),
    "one warpgroup waits for what both read": (
        ("shared event loaded;", "shared event loaded, other;"),
        ("shared bf16 [128, 128] x_s;", "shared bf16 [128, 128] x_s, more;"),
        (
            "// producer",
            "next = tma.load.async.swiz<128> x.subspan(128, 128).at(tile, 0) => more;"
            " trigger other after next;",
        ),
        ("// before", "inthreads (p == 1) { wait other; }"),
        (
            "// behind",
            "last = mma.fill.f32 0.0f; mma.row.row last, more.subspan(64, 128).at(cid, 0), more;",
        ),
    ),
    "an event from one to the other in every trip": (
        *LOOP,
        ("// before", f"trigger taken; {FIRST} {SECOND}"),
        END,
    ),
    "one loads for both": OWN,
    "both read the stored tensor": (
        (
            "// before",
            "apply {i, j} in acc.span acc.at(i, j) ="
            " __to<f32>(Z.at(tile * 128 + 127 - cid * 64 - i, j));",
        ),
        (STORE, "tma.copy y_s => Z.subspan(128, 128).at(tile, 0);"),
        ("global bf16 [R, 128] Z", "global bf16 [S, 128] Z"),
    ),
    "each stores the whole tile": ((STORE, STORE.replace("at(tile", "at(tile + cid")),),
}


@pytest.mark.parametrize("edits", NEEDED.values(), ids=NEEDED)
def test_the_warpgroups_go_on_meeting_where_something_needs_it(whole: Make, edits: Edits) -> None:
    stays(whole(tile(*edits)))


def test_they_need_not_meet_where_all_do_alike(whole: Make) -> None:
    assert whole(tile(*LOOP, TAKEN, END)).clean().tables.moved


EVENTS = ("shared event loaded;", "shared event loaded, other;")
APART = (PRODUCT, f"{SECOND} {PRODUCT} {FIRST}")


@pytest.mark.parametrize("behind", ["", "call croq::cuda::setreg_inc(168);"])
def test_one_may_begin_behind_the_other_where_nothing_follows_the_store(
    whole: Make, behind: str
) -> None:
    assert whole(tile(EVENTS, APART, ("// behind", behind))).clean().tables.moved


ANOTHER_EVENT = ("shared event loaded;", "shared event loaded, other, again;")


@pytest.mark.parametrize(
    "edits",
    [
        (ANOTHER_EVENT, ("// producer", "trigger again;"), ("// behind", "wait again;")),
        (ANOTHER_EVENT, ("// producer", "wait again;"), ("// behind", "trigger again;")),
        (EVENTS, ANOTHER,
         ("// behind", "tma.copy.swiz<128> x.subspan(128, 128).at(tile, 0) => z_s;")),
        (EVENTS, ("// behind", "again = mma.load x_s.subspan(64, 128).at(cid, 0);")),
        (EVENTS, ("// behind", PRODUCT)),
    ],
    ids=["a wait", "a trigger", "a load", "an operand", "a product"],
)  # fmt: skip
def test_it_may_not_where_something_does(whole: Make, edits: Edits) -> None:
    stays(whole(tile(APART, *edits)))


def test_what_one_loads_for_itself_keeps_their_meeting(whole: Make) -> None:
    """Waits and triggers may be apart here, loads not."""
    load = "spare = tma.load.async.swiz<128> x.subspan(128, 128).at(tile, 0) => z_s; wait spare;"
    stays(whole(tile(ANOTHER, ("// before", f"inthreads (p == 1) {{ {load} }}"))))


@pytest.mark.parametrize(
    "name",
    [
        "one warpgroup hands back what both read",
        "an event from one to the other in every trip",
        "one loads for both",
    ],
)
def test_what_needs_the_meeting_runs_in_any_order(program: Make, name: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 128, 128), np.float32)
    given = {
        "X": x,
        "Y": np.full_like(x, np.nan),
        "Z": x[0].copy(),
        "ids": np.zeros(1, np.uint32),
    }
    made = program(tile(*NEEDED[name]))
    found = [made.run(given, {"n": 4}, seed=seed).tensors["Y"] for seed in range(6)]
    assert all(np.array_equal(found[0], other) for other in found)
    assert not np.isnan(found[0]).any()


# The host function's checks --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "checks"),
    [
        ((LOAD, LOAD.replace("at(tile, 0)", "at(0, 0)")), ["S % 128 == 0", "128 <= S"]),
        ((STORE, STORE.replace("at(tile, 0)", "at(1, 0)")), ["S % 128 == 0", "256 <= S"]),
    ],
    ids=["the load is at a constant row", "the store is"],
)
def test_no_check_is_weaker_for_a_tile_at_a_constant_row(
    edit: tuple[str, str], checks: list[str]
) -> None:
    cuda = compile_text(tile(edit), "t.co").cuda
    assert [check in cuda for check in checks] == [True, True]


# Meetings that the source splits itself --------------------------------------------------------

BY_HAND = (
    ("shared bf16 [128, 128] y_s;", "shared bf16 [64, 128] y_s[2];"),
    (FILL, "mma.store acc, y_s[cid];"),
    (STORE, "tma.copy y_s[cid] => y.subspan(64, 128).at(tile * 2 + cid, 0);"),
)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("one warpgroup hands back what both read", "narrowed-release"),
        ("one warpgroup waits for what both read", "narrowed-wait"),
    ],
)
def test_a_store_by_each_warpgroup_is_no_meeting_of_all(whole: Make, name: str, code: str) -> None:
    assert whole(tile(*NEEDED[name], *BY_HAND)).codes == [code]


def by_a_thread_of_each(name: str) -> Edits:
    """What one warpgroup does for both, done by one thread of each for its own, by hand."""
    alone = "inthreads (p == 1)"
    return (*((old, new.replace(alone, "inthreads (t == 0)")) for old, new in NEEDED[name]),
            *BY_HAND)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["one warpgroup hands back what both read", "one warpgroup waits for what both read"],
)
def test_it_is_one_of_each_warpgroup(program: Make, whole: Make, name: str) -> None:
    text = tile(*by_a_thread_of_each(name))
    assert whole(text).clean()
    x = np.random.default_rng(3).standard_normal((1, 128, 128), np.float32)
    given = {
        "X": x,
        "Y": np.full_like(x, np.nan),
        "Z": x[0].copy(),
        "ids": np.zeros(1, np.uint32),
    }
    found = [program(text).run(given, {"n": 4}, seed=seed).tensors["Y"] for seed in range(6)]
    assert all(np.array_equal(found[0], other) for other in found)
    assert not np.isnan(found[0]).any()
