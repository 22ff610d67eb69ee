"""Events: kinds, counts, named barriers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

ROLES = "inthreads.async (p == 0) {{\n{producer}\n}}\ninthreads.async (p > 0) {{\n{consumer}\n}}"
LOAD = "f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;\n"


def roles(producer: str, consumer: str) -> str:
    return ROLES.format(producer=producer, consumer=consumer)


def test_arrivals_are_threads_where_the_triggers_are_not_whole_warps(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 0 && t < 40) {\n  trigger done;\n}\ninthreads (p > 0) {\n  wait done;\n}"
    ).clean()
    plan = analysed.event("done")
    assert (plan.kind, plan.arrivals, plan.per_warp) == ("arrivals", 40, False)
    assert plan.waiting.bit_count() == 256


def test_one_lane_is_one_arrival(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 0 && t == 0) {\n  trigger done;\n}\ninthreads (p > 0) {\n  wait done;\n}"
    ).clean()
    assert (analysed.event("done").arrivals, analysed.event("done").per_warp) == (1, False)


def test_roles_that_both_trigger_are_counted_together(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 1) {\n  trigger done;\n}\ninthreads (p == 2) {\n  trigger done;\n}\n"
        "inthreads (p == 0) {\n  wait done;\n}"
    ).clean()
    assert (analysed.event("done").arrivals, analysed.event("done").per_warp) == (8, True)


def test_everybody_takes_part_outside_of_roles(threads: Callable) -> None:
    analysed = threads("trigger done;\nwait done;").clean()
    assert analysed.event("done").arrivals == 12
    assert analysed.event("done").waiting == (1 << 384) - 1


def test_an_explicit_count_overrides_and_is_compared(threads: Callable) -> None:
    body = (
        "shared event<{}> counted;\ninthreads (p == 0) {{\n  trigger counted;\n}}\n"
        "inthreads (p > 0) {{\n  wait counted;\n}}"
    )
    right = threads(body.format(128)).clean()
    assert (right.event("counted").arrivals, right.event("counted").per_warp) == (128, False)
    wrong = threads(body.format(64))
    assert wrong.codes == ["count-differs"]
    assert wrong.event("counted").arrivals == 64


HAND_OFF = (
    f"foreach {{i}} in [n] {{\nwait taken;\n{LOAD}trigger loaded after f;\n}}",
    "foreach {i} in [n] {\nwait loaded;\ntrigger taken;\n}",
)


def test_a_hand_off_is_a_named_barrier(threads: Callable) -> None:
    plan = threads(roles(*HAND_OFF)).clean().event("taken")
    assert (plan.kind, plan.barrier, plan.per_warp) == ("named", 14, False)
    assert plan.triggering & plan.waiting == 0


@pytest.mark.parametrize(
    ("producer", "consumer", "why"),
    [
        (HAND_OFF[0], "foreach {i} in [n] {\nwait loaded;\n}\ntrigger taken;", "another block"),
        (
            HAND_OFF[0],
            "foreach {i} in [n] {\nwait loaded;\nif (n > 3) {\ncontinue;\n}\ntrigger taken;\n}",
            "a pass without its trigger",
        ),
        (
            HAND_OFF[0].replace("trigger loaded", "wait taken;\ntrigger loaded"),
            HAND_OFF[1],
            "two waits",
        ),
        (f"inthreads (t < 40) {{\n{HAND_OFF[0]}\n}}", HAND_OFF[1], "no whole warps"),
    ],
)
def test_without_alternation_it_is_an_mbarrier(
    threads: Callable, producer: str, consumer: str, why: str
) -> None:
    plan = threads(roles(producer, consumer)).clean().event("taken")
    assert plan.kind == "arrivals", why
    assert plan.barrier is None


def test_rings_and_pending_events_are_never_named(threads: Callable) -> None:
    ring = threads(
        roles(
            "mutable u32 k = 0;\nforeach {i} in [n]\n  wait empty.at(k++);",
            "mutable u32 k = 0;\nwait done;\nforeach {i} in [n]\n  trigger empty.at(k++);",
        ).replace("inthreads.async (p > 0)", "trigger done;\ninthreads.async (p > 0)")
    )
    assert ring.event("empty").kind == "arrivals"
    pending = threads(roles("wait done;", "trigger done;")).clean()
    assert pending.event("done").kind == "arrivals"


def test_ids_that_the_program_names_are_not_given_out(threads: Callable) -> None:
    producer, consumer = HAND_OFF
    plan = threads(f"call __bar_sync(14, 384);\n{roles(producer, consumer)}").clean().event("taken")
    assert plan.barrier == 13
    unknown = threads(f"call __bar_sync(n, 384);\n{roles(producer, consumer)}").clean()
    assert unknown.event("taken").kind == "arrivals"


def test_when_ids_run_out_events_are_mbarriers(threads: Callable) -> None:
    names = [f"e{i}" for i in range(9)]
    fills = [f"l{i}" for i in range(9)]
    declared = "".join(
        f"shared event {e} = ready;\nshared event {f};\n" for e, f in zip(names, fills, strict=True)
    )
    producer = "".join(
        f"wait {e};\ng{e} = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;\n"
        f"trigger {f} after g{e};\n"
        for e, f in zip(names, fills, strict=True)
    )
    consumer = "".join(f"wait {f};\ntrigger {e};\n" for e, f in zip(names, fills, strict=True))
    analysed = threads(declared + roles(producer, consumer)).clean()
    plans = [analysed.event(e) for e in names]
    assert [p.barrier for p in plans] == [14, 13, 12, 11, 10, 9, 8, None, None]
    assert [p.kind for p in plans[-2:]] == ["arrivals", "arrivals"]


def test_several_loads_of_one_generation_are_joined(threads: Callable) -> None:
    analysed = threads(
        roles(
            f"{LOAD}g = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[0];\n"
            "trigger loaded after f, g;",
            "wait loaded;",
        )
    ).clean()
    assert analysed.event("loaded").arrivals == 1
    first, second = analysed.transfers()
    assert first.event is second.event is analysed.symbol("loaded")
    assert first.slot is second.slot


def test_an_event_that_nobody_uses_still_counts_one(threads: Callable) -> None:
    assert threads("x = 1;").clean().event("done").arrivals == 1
