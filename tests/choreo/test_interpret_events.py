"""Events, futures and transfers in small programs on the CPU, and the parts that keep them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artifact.choreo import interpret, interpret_statements, syntax
from artifact.choreo.interpret import InterpreterError
from artifact.choreo.interpret_agents import Agent, Operation, learn
from artifact.choreo.interpret_error import Report
from artifact.choreo.interpret_events import Meeting, Slot
from artifact.choreo.interpret_memory import Tile, round_bf16
from artifact.choreo.interpret_transfers import Load
from artifact.choreo.tables import EventPlan, Symbol

Make = Callable[..., Any]
ASSETS = Path(__file__).resolve().parents[1] / "assets" / "choreo"
GOLDEN = ASSETS / "golden"

# Two warpgroups p of 128 threads t, a tile of X and one of Y to load and store.
TWO = """\
__co__ void example(global bf16 [64, 64] X, global bf16 [64, 64] Y) {
  parallel.async {b} by [1] : block {
    shared bf16 [64, 64] tile;
    shared event EVENTS;
    parallel p by 2 : group-4, t by 128 : thread {
BODY
    }
  }
}
"""


@pytest.fixture
def two(program: Make) -> Make:
    """A program of two warpgroups."""
    return lambda events, body: program(TWO.replace("EVENTS", events).replace("BODY", body))


def normal(*shape: int) -> np.ndarray:
    return round_bf16(np.random.default_rng(4).standard_normal(shape, np.float32))


def tensors() -> dict[str, np.ndarray]:
    return {"X": normal(64, 64), "Y": np.full((64, 64), np.nan, np.float32)}


def faults(made: Any, seeds: int, given: dict[str, np.ndarray]) -> dict[str, InterpreterError]:
    """The faults of some seeds, each with its last error; ``none`` of a run to the end."""
    found = {}
    for seed in range(seeds):
        try:
            made.run(given, seed=seed)
            found["none"] = None
        except InterpreterError as error:
            found[error.fault] = error
    return found


# Generations -----------------------------------------------------------------------------------


def test_nobody_answers_a_producer_that_runs_ahead(two: Make) -> None:
    # Right as the language counts, but a barrier has only the parity of its phase.
    made = two(
        "full",
        """
        inthreads.async (p == 0 && t < 32) { foreach {i} in [4] { trigger full; } }
        inthreads.async (p == 1) { foreach {i} in [4] { wait full; } }
        """,
    )
    found = faults(made, 12, tensors())
    assert set(found) == {"missed-generation"}
    error = found["missed-generation"]
    assert error.line == made.line("wait full;")
    assert "too late" in error.what
    assert "a barrier has but the parity of its phase" in error.what


def test_one_of_two_who_wait_answers(two: Make) -> None:
    # The other one may be overtaken, whether it is in this run or not.
    made = two(
        "full[1], empty[1] = ready",
        """
        inthreads.async (p == 0 && t < 32) {
          foreach {i} in [9] { wait empty.at(i); trigger full.at(i); }
        }
        inthreads.async (p == 1 && t < 64) {
          foreach {i} in [9] { wait full.at(i); inthreads (t < 32) { trigger empty.at(i); } }
        }
        """,
    )
    (error,) = faults(made, 6, tensors()).values()
    assert error.fault == "missed-generation"
    assert error.line == made.line("wait full.at(i);")


def test_who_answers_is_not_overtaken(two: Make) -> None:
    made = two(
        "full[2], empty[2] = ready",
        """
        inthreads.async (p == 0 && t < 32) {
          mutable u32 n = 0;
          foreach {i} in [9] { wait empty.at(n); trigger full.at(n++); }
        }
        inthreads.async (p == 1) {
          foreach {i} in [9] { wait full.at(i); trigger empty.at(i); }
        }
        """,
    )
    assert set(faults(made, 6, tensors())) == {"none"}


def test_one_lane_may_trigger_for_its_warp(two: Make) -> None:
    made = two(
        "full[1], empty[1] = ready",
        """
        inthreads.async (p == 0) {
          acc = mma.fill.f32 0.0f;
          inthreads (t < 32) {
            foreach {i} in [3] {
              wait empty.at(i);
              inthreads (t == 5) { trigger full.at(i); }
            }
          }
          mma.row.row acc, tile, tile;
        }
        inthreads.async (p == 1 && t < 32) {
          foreach {i} in [3] { wait full.at(i); inthreads (t < 1) { trigger empty.at(i); } }
        }
        """,
    )
    (full,) = [plan for s, plan in made.tables.events.items() if s.name == "full"]
    assert full.arrivals == 1
    # Everything goes through but the MMA of a tile that nobody has filled.
    with pytest.raises(InterpreterError, match="tile is read before anything was written") as error:
        made.run(tensors())
    assert error.value.line == made.line("mma.row.row acc")


def test_lanes_that_go_apart(two: Make) -> None:
    # A warp with fragments is one group, so that its lanes have one value of a scalar.
    made = two(
        "e",
        """
        mutable k = 0;
        inthreads (t % 32 < 3) { mutable own = 1; own = 2; k = own; }
        acc = mma.fill.f32 0.0f;
        mma.row.row acc, tile, tile;
        """,
    )
    with pytest.raises(InterpreterError, match="k is assigned by some threads of a warp") as error:
        made.run(tensors())
    assert error.value.fault == "unsupported"
    assert error.value.line == made.line("k = own;")


def test_a_load_that_nobody_waits_for(two: Make) -> None:
    made = two(
        "full",
        """
        inthreads.async (p == 0) {
          load = tma.load.async.swiz<128> X.subspan(64, 64).at(0, 0) => tile;
          trigger full after load;
        }
        """,
    )
    (error,) = faults(made, 3, tensors()).values()
    assert error.fault == "in-flight"
    assert error.line == made.line("load = tma")
    assert "before the block ends" in error.what


ROUND_TRIP = """
  inthreads.async (p == 0) {
    LOAD
    tma.copy tile => Y.subspan(64, 64).at(0, 0);
  }
"""


@pytest.mark.parametrize(
    "load",
    [
        "x = tma.load.async.swiz<128> X.subspan(64, 64).at(0, 0) => tile; wait x;",
        "x = tma.load.swiz<128> X.subspan(64, 64).at(0, 0) => tile;",
        "x = dma.copy.async.swiz<128> X.subspan(64, 64).at(0, 0) => tile; wait x;",
        "x = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => tile;",
        "x = tma.load.async.swiz<128> X.subspan(64, 64).at(0, 0) => tile; "
        "trigger full after x; wait full;",
    ],
)
def test_every_way_to_load_a_tile(two: Make, load: str) -> None:
    given = tensors()
    made = two("full", ROUND_TRIP.replace("LOAD", load))
    for seed in range(3):
        np.testing.assert_array_equal(made.run(given, seed=seed).tensors["Y"], given["X"])


def test_a_store_before_the_load_has_arrived(two: Make) -> None:
    load = "x = tma.load.async.swiz<128> X.subspan(64, 64).at(0, 0) => tile; trigger full after x;"
    made = two("full", ROUND_TRIP.replace("LOAD", load))
    (error,) = faults(made, 4, tensors()).values()
    assert error.fault == "early-read"
    assert error.line == made.line("tma.copy tile")


def test_a_load_in_flight_and_one_that_has_landed(two: Make) -> None:
    # The one is as wrong as the other, and the order of the run decides which it is.
    load = "x = tma.load.async.swiz<128> X.subspan(64, 64).at(0, 0) => tile; trigger full after x;"
    made = two("full", ROUND_TRIP.replace("LOAD", load))
    messages = set()
    for seed in range(12):
        with pytest.raises(InterpreterError) as error:
            made.run(tensors(), seed=seed)
        messages.add(error.value.what.replace(str(made.line("x = tma")), "N"))
    assert messages == {
        "tile is read while the load of line N (generation 0 of full) is in flight",
        "tile is read without waiting for the load of line N (generation 0 of full)",
    }


def test_a_load_that_does_not_land_completes_nothing(
    two: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Load, "ready", property(lambda _: False))
    load = (
        "x = tma.load.async.swiz<128> X.subspan(64, 64).at(0, 0) => tile;\n"
        "trigger full after x; wait full;"
    )
    made = two("full", ROUND_TRIP.replace("LOAD", load))
    with pytest.raises(InterpreterError) as error:
        made.run(tensors())
    assert error.value.fault == "deadlock"
    assert error.value.details == (
        f"threads 0-127, role (p == 0): line {made.line('wait full;')} waits for full, "
        "generation 0 (1 of 1 arrivals, 8192 bytes to come)",
    )


SCORES = """
  inthreads.async (p == 0) {
    frag f32 [64] top;
    x = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => tile;
    acc = mma.fill.f32 0.0f;
    product = mma.row.row.async acc, tile, tile;
    EARLY
    wait product;
    reduce_max(top, acc, 1);
  }
"""


@pytest.mark.parametrize(
    ("early", "message"),
    [
        ("reduce_sum(top, acc, 1);", "acc is read while the MMA of line"),
        ("apply {i, j} in acc.span { top.at(i) = acc.at(i, j); }", "acc is read while the MMA"),
        ("mma.store acc, Y.subspan(64, 64).at(0, 0);", "acc is read while the MMA of line"),
        ("acc = mma.fill.f32 1.0f;", "acc is written while the MMA of line"),
        ("mma.store acc, tile;", "acc is read while the MMA of line"),
    ],
)
def test_an_accumulator_is_left_alone_until_it_is_there(
    two: Make, early: str, message: str
) -> None:
    two("e", SCORES.replace("EARLY", "")).run(tensors())
    made = two("e", SCORES.replace("EARLY", early))
    for seed in range(2):
        with pytest.raises(InterpreterError, match=message) as error:
            made.run(tensors(), seed=seed)
        assert error.value.fault == "in-flight"
        assert error.value.line == made.line(early)


def test_readers_meet_before_the_next_copy(two: Make) -> None:
    made = two(
        "e",
        """
        inthreads.async (p == 0) {
          acc = mma.fill.f32 0.0f;
          foreach {i} in [3] {
            x = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => tile;
            mma.row.row acc, tile, tile;
          }
          mma.store acc, Y.subspan(64, 64).at(0, 0);
        }
        """,
    )
    given = tensors()
    expected = 3 * (given["X"] @ given["X"].T)
    found = made.run(given, seed=1).tensors["Y"]
    np.testing.assert_allclose(found, expected, rtol=2**-7, atol=1e-3)
    ((node, plan),) = made.tables.transfers.items()
    assert plan.meets_before
    unmet = replace(made.tables, transfers={node: replace(plan, meets_before=False)})
    # Whether the one who is ahead or the one who is late is told.
    found = faults(replace(made, tables=unmet), 8, given)
    lines = {fault: error.line for fault, error in found.items()}
    assert lines["overwrite"] == made.line("x = dma")
    assert lines.get("early-read", made.line("mma.row.row")) == made.line("mma.row.row")
    assert set(lines) <= {"overwrite", "early-read"}


def test_a_copy_overwrites_what_the_other_warpgroup_reads(two: Make) -> None:
    # The second copy's threads meet, the readers are others.
    made = two(
        "full, done",
        """
        inthreads.async (p == 0) {
          x = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => tile;
          trigger full;
          y = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => tile; // again
        }
        inthreads.async (p == 1) {
          wait full;
          tma.copy tile => Y.subspan(64, 64).at(0, 0);
        }
        """,
    )
    found = faults(made, 8, tensors())
    assert set(found) <= {"overwrite", "early-read"}
    for error in found.values():
        place = "// again" if error.fault == "overwrite" else "tma.copy tile"
        assert error.line == made.line(place)


# Whole programs --------------------------------------------------------------------------------


def bf16(values: np.ndarray) -> np.ndarray:
    return round_bf16(values.astype(np.float32))


def test_pipeline(program: Make) -> None:
    made = program((GOLDEN / "pipeline.co").read_text())
    a, b = normal(384, 128), normal(128, 128)
    given = {"A": a, "B": b, "C": normal(64, 128), "D": np.zeros((384, 128), np.float32)}
    for seed in range(2):
        found = made.run(given, {"tasks": 2}, seed=seed).tensors["D"]
        np.testing.assert_allclose(found, a @ b, rtol=2**-7, atol=1e-3)


def test_cooperative(program: Make) -> None:
    made = program((GOLDEN / "cooperative.co").read_text())
    a, b = normal(256, 128), normal(128, 128)
    given = {"A": a, "B": b, "C": np.zeros((256, 128), np.float32)}
    found = made.run(given).tensors["C"]
    np.testing.assert_allclose(found, a @ b.T, rtol=2**-7, atol=1e-3)


def test_matmul(program: Make) -> None:
    made = program((ASSETS / "matmul.co").read_text())
    a, b = normal(256, 192), normal(128, 192)
    found = made.run({"A": a, "B": b, "C": np.zeros((256, 128), np.float32)}).tensors["C"]
    np.testing.assert_allclose(found, a @ b.T, rtol=2**-7, atol=1e-3)


def test_a_ring_without_products(program: Make) -> None:
    made = program((ASSETS / "pipeline.co").read_text())
    given = {"In": normal(2048, 64), "Out": np.zeros((2048, 64), np.float32)}
    for seed in range(3):
        np.testing.assert_array_equal(made.run(given, seed=seed).tensors["Out"], given["In"])


def test_an_order_counts_where_a_named_barrier_stands_for_the_event(program: Make) -> None:
    text = (ASSETS / "pipeline.co").read_text().replace("#define STAGES 3", "#define STAGES 1")
    made = program(text)
    assert {p.kind for s, p in made.tables.events.items() if s.name == "empty"} == {"named"}
    given = {"In": normal(2048, 64), "Out": np.zeros((2048, 64), np.float32)}
    for seed in range(2):
        np.testing.assert_array_equal(made.run(given, seed=seed).tensors["Out"], given["In"])
    # The one who waits may be the one who counts.
    given = {"In": normal(1024, 64), "Out": np.zeros((1024, 64), np.float32)}
    counting = text.replace("wait empty.at(order);", "wait empty.at(order++);").replace(
        "trigger full.at(order++)", "trigger full.at(order - 1)"
    )
    assert counting != text
    np.testing.assert_array_equal(program(counting).run(given).tensors["Out"], given["In"])


def test_tensors_of_one_dimension(program: Make) -> None:
    made = program((GOLDEN / "vectors.co").read_text())
    x, y = np.arange(256, dtype=np.float32), np.ones((32, 64), np.float32)
    np.testing.assert_array_equal(made.run({"X": x, "Y": y, "O": 0 * x}).tensors["O"], x)


def test_rows_past_the_end(program: Make) -> None:
    made = program((GOLDEN / "cooperative.co").read_text())
    a, b = normal(256, 128), normal(64, 128)
    # A store leaves them out, a copy has no way to.
    short = made.run({"A": a, "B": b, "C": np.zeros((150, 64), np.float32)}).tensors["C"]
    np.testing.assert_allclose(short, (a @ b.T)[:150], rtol=2**-7, atol=1e-3)
    with pytest.raises(
        InterpreterError, match="128 elements from 128 in dimension 0 of A"
    ) as error:
        made.run({"A": a[:200], "B": b, "C": np.zeros((256, 64), np.float32)})
    assert error.value.fault == "out-of-range"
    assert error.value.line == made.line("a_s = dma.copy")


def test_overlap(program: Make) -> None:
    made = program((GOLDEN / "overlap.co").read_text())
    q, k = normal(2, 64, 128), normal(2, 64, 128)
    given = {"Q": q, "K": k, "O": np.zeros((2, 64, 128), np.float32)}
    scores = q @ k.transpose(0, 2, 1)
    p = bf16(np.exp2(scores - scores.max(-1, keepdims=True)))
    expected = np.float32(0.5) * k.sum(1, keepdims=True) + p @ k
    for seed in range(2):
        found = made.run(given, seed=seed).tensors["O"]
        np.testing.assert_allclose(found, expected, rtol=2**-6, atol=2e-2)


# Ends ------------------------------------------------------------------------------------------


def test_loops_without_an_end(two: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made = two("e", "mutable u32 n = 0; while (n < 1) { n = n * 2; }")
    monkeypatch.setattr(interpret_statements, "_TRIPS", 50)
    with pytest.raises(InterpreterError, match="no end after 50 passes") as error:
        made.run(tensors())
    assert error.value.fault == "endless"
    assert error.value.line == made.line("while (n < 1)")
    monkeypatch.setattr(interpret, "TURNS", 3)
    with pytest.raises(InterpreterError, match="no end after 3 turns"):
        two("e", "inthreads.async (p == 0) { trigger e; wait e; }").run(tensors())


# Parts -----------------------------------------------------------------------------------------

NODE = syntax.Return(syntax.Span(7, 1, 7, 2))
REPORT = Report("t.co", "block b 0", 0)


def plan(arrivals: int, *, ready: bool = False) -> EventPlan:
    return EventPlan("arrivals", 1, ready, arrivals, False, 0, 0, None)


def slot(arrivals: int, *, ready: bool = False) -> Slot:
    return Slot(Symbol("e", "event", NODE), plan(arrivals, ready=ready), 0, REPORT)


def test_a_generation_needs_all_arrivals_and_all_bytes() -> None:
    made, first, second = slot(2), Agent(), Agent()
    load = Operation(first, NODE, "the load")
    made.expect(16)
    made.arrive(first, 1, 1, 0, NODE)
    made.arrive(second, 2, 1, None, NODE)
    assert not made.over(Agent(), 0, NODE)
    assert made.state() == "2 of 2 arrivals, 16 bytes to come"
    made.land(load, 16)
    assert made.over(Agent(), 0, NODE)
    # Who waits for it knows what the arrivals and the load knew, and no more.
    assert made.clock[load] == 1
    assert made.clock[first] == 2 < first.now


def test_a_ready_slot_begins_with_its_first_generation_complete() -> None:
    made, waiter = slot(1, ready=True), Agent()
    assert made.over(waiter, 0, NODE)
    assert not made.over(waiter, 1, NODE)
    made.arrive(waiter, 1, 1, 1, NODE)
    assert made.over(waiter, 1, NODE)
    with pytest.raises(InterpreterError, match="generation 0 of e comes too late") as error:
        made.over(waiter, 0, NODE)
    assert (error.value.fault, error.value.line) == ("missed-generation", 7)
    with pytest.raises(InterpreterError, match="generation 3 of e comes too early"):
        made.over(waiter, 3, NODE)


def test_the_next_generation_comes_after_the_waits_for_the_last() -> None:
    made, waiter, other = slot(1), Agent(), Agent()
    made.arrive(other, 1, 1, 0, NODE)
    assert made.over(waiter, 0, NODE)
    with pytest.raises(InterpreterError, match="generation 0 of e may come too late"):
        made.arrive(other, 1, 1, 1, NODE)
    made, other = slot(1), Agent()
    made.arrive(other, 1, 1, 0, NODE)
    assert made.over(waiter, 0, NODE)
    learn(other.clock, waiter.publish())
    made.arrive(other, 1, 1, 1, NODE)


@pytest.mark.parametrize("generation", [0, 2])
def test_an_arrival_for_another_generation(generation: int) -> None:
    made = slot(1)
    made.arrive(Agent(), 1, 1, 0, NODE)
    with pytest.raises(InterpreterError, match=f"for generation {generation}, and generation 1"):
        made.arrive(Agent(), 1, 1, generation, NODE)


def test_an_arrival_too_many() -> None:
    made, agent = slot(2), Agent()
    made.arrive(agent, 0b11, 1, None, NODE)
    with pytest.raises(InterpreterError, match="by the same threads again"):
        made.arrive(agent, 0b10, 1, None, NODE)
    with pytest.raises(InterpreterError, match="once too often"):
        made.arrive(Agent(), 0b1100, 2, None, NODE)


def test_a_hardware_barrier_counts_threads() -> None:
    made, first, second = Meeting("barrier 1", 3, REPORT), Agent(), Agent()
    made.arrive(first, 0b11, NODE)
    assert (made.passed, made.state()) == (0, "2 of 3 threads")
    with pytest.raises(InterpreterError, match="by the same threads again before it is complete"):
        made.arrive(first, 0b01, NODE)
    made.arrive(second, 0b100, NODE)
    assert made.passed == 1
    assert made.clock[first] == made.clock[second] == 1


def test_a_tile_knows_what_is_in_order() -> None:
    tile, writer, reader = Tile("k", "bf16", 8, 8, REPORT), Agent(), Agent()
    top, bottom = (0, 4, 0, 8), (4, 8, 0, 8)
    tile.write(writer, top, NODE)
    with pytest.raises(InterpreterError, match="k is read before anything was written to it"):
        tile.read(writer, (0, 8, 0, 8), NODE)
    tile.write(writer, bottom, NODE)
    with pytest.raises(InterpreterError, match="k is read without waiting for line 7"):
        tile.read(reader, top, NODE)
    learn(reader.clock, writer.publish())
    tile.read(reader, top, NODE)
    # The lower half is free, the upper one is not.
    tile.write(writer, bottom, NODE)
    with pytest.raises(InterpreterError, match="overwritten without waiting for line 7 to have re"):
        tile.write(writer, top, NODE)
    with pytest.raises(InterpreterError, match=r"rows 6 to 9 and columns 0 to 8 of k"):
        tile.read(reader, (6, 9, 0, 8), NODE)
