"""Hand-offs that only a part of the threads takes part in; and what is none of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.choreo.conftest import CANDIDATES, KERNELS
from tests.choreo.test_seeds import consumer


def edited(kernel: str, old: str, new: str) -> str:
    """A kernel's text with the first occurrence of a piece replaced."""
    (path,) = KERNELS.glob(f"{kernel}_*.co")
    text = path.read_text()
    assert old in text
    return text.replace(old, new, 1)


LOOP_QK = "wait kf.at(k_pipe_order);\n            qk"


@pytest.mark.parametrize(
    ("kernel", "old", "role"),
    [
        ("v2", "wait qf;", "t == 0"),
        ("v2", "wait kf.at(order);", "t == 0"),
        ("v2", "wait vf.at(order);", "p == 1"),
        # The lane that issues the load is not the one that has waited.
        ("v2", "wait ke.at(order);", "t == 5"),
        ("v2", "wait ve.at(order);", "t == 5"),
        ("v3", "wait qe;", "t == 0"),
        ("v3", "wait qf;", "t == 0"),
        # The wait of the prologue, by all, is for an older generation.
        ("v3", LOOP_QK, "p == 2"),
    ],
)
def test_a_wait_of_a_part_of_the_threads(whole: Callable, kernel: str, old: str, role: str) -> None:
    wait, _, rest = old.partition("\n")
    analysed = whole(edited(kernel, old, f"inthreads ({role}) {wait}\n{rest}"))
    assert analysed.codes == ["narrowed-wait"]
    assert analysed.place("narrowed-wait") == wait.removeprefix("wait ").rstrip(";")
    said = analysed.said("narrowed-wait")
    assert said.severity == "error" and said.rule and said.repair


@pytest.mark.parametrize(
    ("kernel", "trigger", "role"),
    [
        ("v2", "trigger ke.at(order);", "t == 0"),
        ("v3", "trigger qe;", "t == 0"),
        ("v3", "trigger qe;", "p == 1"),
        ("v3", "trigger qe;", "t < 32"),
    ],
)
def test_a_release_by_a_part_of_the_warps(
    whole: Callable, kernel: str, trigger: str, role: str
) -> None:
    analysed = whole(edited(kernel, trigger, f"inthreads ({role}) {trigger}"))
    assert analysed.codes == ["narrowed-release"]
    assert analysed.place("narrowed-release") == trigger.removeprefix("trigger ").rstrip(";")
    assert analysed.said("narrowed-release").severity == "error"


@pytest.mark.parametrize("stmt", ["wait qf;", "trigger qe;"])
def test_the_parts_of_a_role_may_do_it_one_by_one(whole: Callable, stmt: str) -> None:
    parts = f"inthreads (p == 1) {stmt} inthreads (p == 2) {stmt}"
    whole(edited("v3", stmt, parts)).clean()


def test_one_lane_of_every_warp_may_release(whole: Callable) -> None:
    whole(
        edited("v2", "trigger ke.at(order);", "inthreads (t % 32 == 0) trigger ke.at(order);")
    ).clean()


def test_a_tile_is_handed_back_right_after_it_was_loaded_into_registers(whole: Callable) -> None:
    whole((CANDIDATES / "v5_q_registers.co").read_text()).clean()


def test_an_event_that_only_orders_warpgroups_is_no_hand_off(whole: Callable) -> None:
    whole((CANDIDATES / "v2_staggered.co").read_text()).clean()


def test_a_ready_event_says_nothing_of_a_load(whole: Callable) -> None:
    # kf is triggered after a wait for ke, and that after one for qf: not in the first round.
    analysed = whole(edited("v2", "wait qf;", ""))
    assert set(analysed.codes) == {"never-waited", "unwaited-load"}


READER = consumer("""\
  foreach {i} in [n] {
    BODY
    order++;
  }""")


def test_one_thread_may_wait_and_tell_the_others(threads: Callable) -> None:
    body = """\
    inthreads (p == 1 && t == 0) { wait full.at(order); trigger done; }
    wait done;
    tma.copy.swiz<128> ring[order % 2] => o.subspan(128, 128).at(tile, 0);
    trigger empty.at(order);
"""
    threads(READER.replace("BODY", body)).clean()


def test_who_met_after_a_copy_may_let_one_release(threads: Callable) -> None:
    body = """\
    wait full.at(order);
    tma.copy.swiz<128> ring[order % 2] => o.subspan(128, 128).at(tile, 0);
    inthreads (p == 1 && t == 0) { trigger empty.at(order); }
"""
    threads(READER.replace("BODY", body)).clean()


def test_a_copy_by_threads_that_did_not_wait(threads: Callable) -> None:
    body = """\
    inthreads (p == 1) { wait full.at(order); }
    tma.copy.swiz<128> ring[order % 2] => o.subspan(128, 128).at(tile, 0);
    trigger empty.at(order);
"""
    assert threads(READER.replace("BODY", body)).codes == ["narrowed-wait"]


def test_the_future_of_a_load_is_waited_for_by_all(threads: Callable) -> None:
    body = """\
inthreads.async (p > 0) {
  f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;
  inthreads (p == 1) { wait f; }
  tma.copy q_tile => o.subspan(128, 128).at(tile, 0);
}
"""
    assert "narrowed-wait" in threads(body).codes


def test_two_tiles_of_an_array_are_released_by_two_roles(threads: Callable) -> None:
    body = """\
inthreads.async (p == 0 && t < 32) {
  foreach {i} in [n] {
    wait taken;
    f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[0];
    trigger loaded after f;
  }
  foreach {i} in [n] {
    wait empty.at(i);
    g = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[1];
    trigger full.at(i) after g;
  }
}
inthreads.async (p == 1) {
  foreach {i} in [n] {
    wait loaded;
    tma.copy.swiz<128> ring[0] => o.subspan(128, 128).at(tile, 0);
    trigger taken;
  }
}
inthreads.async (p == 2) {
  foreach {i} in [n] {
    wait full.at(i);
    tma.copy.swiz<128> ring[1] => o.subspan(128, 128).at(tile, 0);
    trigger empty.at(i);
  }
}
"""
    threads(body).clean()
