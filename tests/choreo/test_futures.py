"""Futures: wait depths, and exactly one consumption."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def filled(body: str) -> str:
    """A body after the fills of the accumulators that it uses."""
    fills = [f"{name} = mma.fill.f32 0.0f;\n" for name in "abc" if f" {name}, q_tile" in body]
    return "".join(fills) + body


def issue(name: str) -> str:
    """An asynchronous MMA on an accumulator of its own, future ``f<name>``."""
    return f"f{name} = mma.row.row.async {name}, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"


A, B, C = map(issue, "abc")


def depths(analysed, *names: str) -> list[object]:
    """Kind or depth of each wait."""
    plans = [plan for name in names for plan in analysed.waits(name)]
    return [plan.depth if plan.kind == "mma" else plan.kind for plan in plans]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"{A}wait fa;\n{B}wait fb;\n{C}wait fc;", [0, 0, 0]),
        (f"{A}{B}{C}wait fa;\nwait fb;\nwait fc;", [2, 1, 0]),
        (f"{A}{B}{C}wait fc;\nwait fa, fb;", ["done", "done", 0]),
        (f"{A}{B}wait fb;\n{C}wait fc;\nwait fa;", ["done", 0, 0]),
        (f"{A}{B}wait fa;\n{C}wait fb;\nwait fc;", [1, 1, 0]),
        (f"{A}{{\n{B}wait fb;\n}}\n{C}wait fa;\nwait fc;", ["done", 0, 0]),
        (f"{A}foreach {{i}} in [n] {{\n{B}wait fb;\n}}\nwait fa;\n{C}wait fc;", [0, 0, 0]),
        (f"{A}foreach {{i}} in [n] {{\n{B}{C}wait fb;\nwait fc;\n}}\nwait fa;", [0, 1, 0]),
        (
            f"{A}if (n > 0) {{\nwait fa;\n}} else {{\nwait fa;\n}}\n{B}{C}wait fb;\nwait fc;",
            [0, 0, 1, 0],
        ),
    ],
)
def test_depths(consumer: Callable, body: str, expected: list[object]) -> None:
    analysed = consumer(filled(body)).clean()
    assert depths(analysed, "fa", "fb", "fc") == expected


def test_a_synchronous_mma_completes_everything_before_it(consumer: Callable) -> None:
    body = f"{A}mma.row.row b, q_tile.subspan(64, 128).at(cid, 0), ring[0];\nwait fa;"
    analysed = consumer(filled(body)).clean()
    assert depths(analysed, "fa") == ["done"]


def test_what_a_wait_completes(consumer: Callable) -> None:
    analysed = consumer(filled(f"{A}{B}{C}wait fb;\nwait fc;\nwait fa;")).clean()
    (fb,), (fc,) = analysed.waits("fb"), analysed.waits("fc")
    assert [m.result for m in fb.completes] == ["fa", "fb"]
    assert [m.result for m in fc.completes] == ["fc"]


@pytest.mark.parametrize(
    ("body", "code", "line"),
    [
        (A, "future-unconsumed", 0),
        (f"foreach {{i}} in [n] {{\n{A}}}", "future-unconsumed", 1),
        (f"{A}wait fa;\nwait fa;", "consumed-twice", 2),
        (f"{A}foreach {{i}} in [n] {{\nwait fa;\n}}", "consumed-in-loop", 2),
        (f"{A}if (n > 0) {{\nwait fa;\n}}", "consumed-in-one-arm", 1),
        (f"while (n > 0) {{\n{A}if (n > 3) {{\nbreak;\n}}\nwait fa;\n}}", "future-unconsumed", 3),
        (f"{A}inthreads (cid == 0) {{\nwait fa;\n}}", "consumed-in-one-arm", 1),
    ],
)
def test_exactly_one_consumption(consumer: Callable, body: str, code: str, line: int) -> None:
    analysed = consumer(filled(body))
    assert analysed.codes == [code]
    lines = analysed.text.splitlines()
    (fill,) = [number for number, text in enumerate(lines, 1) if text.startswith("a = ")]
    assert analysed.said(code).span.line == fill + 1 + line


def test_a_wait_on_both_arms_counts_once(consumer: Callable) -> None:
    body = f"{A}if (n > 0) {{\nwait fa;\n}} else {{\nwait fa;\n}}\nwait fa;"
    assert consumer(filled(body)).codes == ["consumed-twice"]


def test_what_is_in_flight_is_known_at_every_statement(consumer: Callable) -> None:
    analysed = consumer(filled(f"{A}x = 1;\n{B}wait fa;\ny = 2;\nwait fb;\nz = 3;")).clean()
    flight = {
        stmt.target.id: [m.result for m in mmas]
        for stmt, mmas in analysed.tables.in_flight.items()
        if hasattr(stmt, "target") and stmt.target.id in "xyz"
    }
    assert flight == {"x": ["fa"], "y": ["fb"], "z": []}


def test_a_load_that_is_waited_for_has_a_hidden_event(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 0) {\n"
        "  f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;\n  wait f;\n}"
    ).clean()
    (plan,) = analysed.transfers()
    assert plan.event is not None and plan.event.name == "f_done"
    event = analysed.tables.events[plan.event]
    assert (event.kind, event.slots, event.ready, event.arrivals) == ("transaction", 1, False, 1)
    assert event.waiting == (1 << 128) - 1
    assert [w.kind for w in analysed.waits("f")] == ["event"]


def test_a_plain_trigger_after_a_load_that_another_event_takes_is_right(threads: Callable) -> None:
    threads(
        "inthreads (p == 0) {\n"
        "  f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;\n"
        "  trigger done;\n  trigger loaded after f;\n}\n"
        "inthreads (p > 0) {\n  wait loaded, done;\n}"
    ).clean()


def test_a_load_published_early_is_one_error_at_the_trigger(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 0) {\n"
        "  f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;\n"
        "  trigger loaded;\n  wait f;\n}\ninthreads (p > 0) {\n  wait loaded;\n}"
    )
    assert analysed.codes == ["trigger-before-completion"]
    assert analysed.place("trigger-before-completion") == "trigger loaded;"
    assert analysed.said("trigger-before-completion").repair == "trigger loaded after f;"
