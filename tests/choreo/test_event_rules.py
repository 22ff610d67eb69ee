"""Misuse of events: orders, seeds, counts, circles; and what is none of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

PRODUCER = """\
inthreads.async (p == 0 && t < 32) {{
  mutable u32 order = 0;
  {before}
  foreach {{i}} in [n] {{
    wait {wait};
    f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[order % 2];
    trigger {fill} after f;
  }}
}}
"""
CONSUMER = """\
inthreads.async (p > 0) {{
  mutable u32 order = 0;
  {before}
  foreach {{i}} in [n] {{
    wait full.at(order);
    {release}
  }}
}}
"""


def ring(
    wait: str = "empty.at(order)",
    fill: str = "full.at(order++)",
    release: str = "trigger empty.at(order++);",
    before: str = "",
    produce: str = "",
) -> str:
    """A ring of two slots: a producer warp fills, two warpgroups read and release."""
    return PRODUCER.format(wait=wait, fill=fill, before=produce) + CONSUMER.format(
        release=release, before=before
    )


def test_the_ring_of_the_worklog_is_right(threads: Callable) -> None:
    threads(ring()).clean()


@pytest.mark.parametrize(
    "order", ["order % 2", "order & 1", "order % 6", "__to<u32>(order % 2)", "(order + 1) % 3"]
)
def test_a_reduced_order_has_lost_its_generation(threads: Callable, order: str) -> None:
    analysed = threads(ring(wait=f"empty.at({order})"))
    assert analysed.codes == ["slot-as-order"]
    assert analysed.place("slot-as-order") == order


@pytest.mark.parametrize("order", ["order % 4", "order & 3", "order % 8", "order + 0"])
def test_an_order_modulo_twice_the_slots_keeps_it(threads: Callable, order: str) -> None:
    threads(ring(wait=f"empty.at({order})")).clean()


def test_the_slot_is_found_behind_a_name(threads: Callable) -> None:
    body = ring(release="slot = order % 2;\n    trigger empty.at(slot);\n    order++;")
    assert threads(body).codes == ["slot-as-order"]


def test_a_wait_for_a_slot_names_the_order_as_repair(threads: Callable) -> None:
    analysed = threads(ring(wait="empty[order % 2]"))
    assert analysed.codes == ["physical-index"]
    assert analysed.place("physical-index") == "empty[order % 2]"
    assert analysed.said("physical-index").repair == "wait empty.at(order);"


def test_an_order_that_restarts_in_a_task_loop(threads: Callable) -> None:
    body = ring().replace(
        "  mutable u32 order = 0;\n  \n  foreach {i} in [n] {\n    wait full",
        "  foreach {task} in [n] {\n"
        "  mutable u32 order = 0;\n  foreach {i} in [n] {\n    wait full",
    )
    body = body.rstrip()[:-1] + "}\n}"
    analysed = threads(body)
    assert set(analysed.codes) == {"order-restarts"}
    assert "begins again" in analysed.diagnostics.found[0].message


@pytest.mark.parametrize(
    ("bound", "codes"), [("n", ["order-restarts"]), ("4", []), ("2", ["order-restarts"])]
)
def test_a_loop_variable_as_order_of_a_loop_that_repeats(
    threads: Callable, bound: str, codes: list[str]
) -> None:
    analysed = threads(
        f"inthreads (p == 0) {{\n  foreach {{task}} in [n] {{\n    foreach {{s}} in [{bound}]\n"
        "      trigger full.at(s);\n  }\n}\ninthreads (p > 0) {\n  mutable u32 k = 0;\n"
        "  foreach {i} in [n]\n    wait full.at(k++);\n}"
    )
    assert analysed.codes == codes


# Seeds -----------------------------------------------------------------------------------------

SLOTS = "foreach {s} in [2] {\n    trigger empty.at(s);\n  }"


@pytest.mark.parametrize(
    "before",
    [
        SLOTS,
        "trigger empty.at(0);\n  trigger empty.at(1);",
        "trigger empty;",
        f"wait loaded;\n  {SLOTS}",
        "wait loaded;\n  trigger empty;",
    ],
)
def test_a_ready_ring_that_is_seeded_by_hand(threads: Callable, before: str) -> None:
    body = ring(before=before)
    if "loaded" in before:
        body += "inthreads (p == 0) {\n  trigger loaded;\n}"
    assert set(threads(body).codes) == {"seeded-twice"}


def test_a_ready_ring_that_its_producer_seeds(threads: Callable) -> None:
    analysed = threads(ring(produce=SLOTS))
    assert "seeded-twice" in analysed.codes


def test_a_trigger_before_the_first_wait_of_the_loop_is_a_seed(threads: Callable) -> None:
    body = ring(release="x = 1;").replace(
        "    wait full.at(order);", "    trigger empty.at(order);\n    wait full.at(order++);"
    )
    assert threads(body).codes == ["seeded-twice"]


def test_a_ring_that_is_not_ready_may_be_seeded(threads: Callable) -> None:
    body = ring(
        before=SLOTS.replace("empty", "free"),
        release="trigger free.at(order++);",
        wait="free.at(order)",
    )
    threads(f"shared event free[2];\n{body}").clean()


def test_a_ring_that_nobody_seeds_is_a_circle(threads: Callable) -> None:
    body = ring(release="trigger free.at(order++);", wait="free.at(order)")
    analysed = threads(f"shared event free[2];\n{body}")
    assert analysed.codes == ["deadlock"]
    assert "= ready" in analysed.said("deadlock").repair


def test_no_circle_where_one_trigger_comes_first(threads: Callable) -> None:
    threads(
        "inthreads (p == 0) {\n  foreach {i} in [n] {\n    trigger full.at(i);\n"
        "    wait done;\n  }\n}\ninthreads (p > 0) {\n  foreach {i} in [n] {\n"
        "    wait full.at(i);\n    trigger done;\n  }\n}"
    ).clean()


# Counts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("triggers", "codes"),
    [
        ("trigger done;\ntrigger done;", ["double-trigger"]),
        ("trigger done, done;", ["double-trigger"]),
        ("trigger full.at(0);\ntrigger full.at(1);", []),
        ("trigger full.at(0);\ntrigger full.at(0);", ["double-trigger"]),
        ("mutable u32 k = 0;\ntrigger full.at(k++);\ntrigger full.at(k++);", []),
        ("mutable u32 k = 0;\ntrigger full.at(k);\ntrigger full.at(k++);", ["double-trigger"]),
        ("trigger full[0];\ntrigger full[1];", []),
    ],
)
def test_one_arrival_a_generation(threads: Callable, triggers: str, codes: list[str]) -> None:
    event = "full.at(0)" if "full" in triggers else "done"
    analysed = threads(
        f"inthreads (p == 0) {{\n{triggers}\n}}\ninthreads (p > 0) {{\n  wait {event};\n}}"
    )
    assert analysed.codes == codes


def test_two_triggers_with_an_answer_between_them_are_two_generations(threads: Callable) -> None:
    threads(
        "inthreads (p == 0) {\n  trigger done;\n  wait loaded;\n  trigger done;\n}\n"
        "inthreads (p > 0) {\n  wait done;\n  trigger loaded;\n  wait done;\n}"
    ).clean()


def test_two_loads_of_one_order_are_joined_not_triggered_twice(threads: Callable) -> None:
    load = "{} = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[0];\n"
    analysed = threads(
        f"inthreads (p == 0) {{\n{load.format('f')}{load.format('g')}"
        "trigger loaded after f;\ntrigger loaded after g;\n}\n"
        "inthreads (p > 0) {\n  wait loaded;\n}"
    )
    assert analysed.codes == ["double-trigger"]
    assert "after f, g" in analysed.said("double-trigger").repair


@pytest.mark.parametrize("condition", ["p > 1", "p > 0 && t < 32", "p >= 0 && t == 0"])
def test_every_generation_has_the_same_count(threads: Callable, condition: str) -> None:
    body = ring(release="trigger done;") + (
        f"inthreads ({condition}) {{\n  trigger done;\n}}\ninthreads (p == 0) {{\n  wait done;\n}}"
    )
    assert "arrival-mismatch" in threads(body).codes


@pytest.mark.parametrize(
    ("order", "codes"),
    [("p - 1", ["order-differs"]), ("0", []), ("tile", []), ("t", ["order-differs"])],
)
def test_the_threads_of_a_trigger_name_one_generation(
    threads: Callable, order: str, codes: list[str]
) -> None:
    analysed = threads(
        f"inthreads (p > 0) {{\n  trigger full.at({order});\n}}\n"
        "inthreads (p == 0) {\n  wait full.at(0);\n}"
    )
    assert analysed.codes == codes


def test_warpgroups_may_wait_for_slots_of_their_own(threads: Callable) -> None:
    threads(
        "inthreads (p == 0) {\n  trigger full.at(0);\n  trigger full.at(1);\n}\n"
        "inthreads (p > 0) {\n  wait full.at(p - 1);\n}"
    ).clean()


def test_an_order_that_one_lane_counts_is_no_order_of_its_role(threads: Callable) -> None:
    body = ring(release="inthreads (t == 0) {\n      trigger empty.at(order++);\n    }")
    assert threads(body).codes == ["order-differs"]
    counted = ring(
        release="inthreads (t == 0) {\n      trigger empty.at(order);\n    }\n    order++;"
    )
    threads(counted).clean()


def test_a_constant_order_is_not_negative(threads: Callable) -> None:
    analysed = threads("inthreads (p == 0) { trigger full.at(0 - 1); }\ninthreads (p > 0) {\n}")
    assert "slot-range" in analysed.codes
    assert analysed.place("slot-range") == "0 - 1"
