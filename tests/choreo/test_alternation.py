"""Turns: pairs of events that are named barriers, and roles that meet there as one instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from artifact.choreo.compiler import compile_text
from artifact.choreo.interpret import InterpreterError

Make = Callable[..., Any]

DECLARED = "shared event first = ready, second;\n"
WAIT = "inthreads (p == 1) {\n  wait first;\n}\ninthreads (p == 2) {\n  wait second;\n}\n"
PASS = "inthreads (p == 1) {\n  trigger second;\n}\ninthreads (p == 2) {\n  trigger first;\n}\n"
STEP = WAIT + "x = x + 1;\n" + PASS


def role(body: str, declared: str = DECLARED) -> str:
    return f"{declared}inthreads.async (p > 0) {{\nmutable u32 x = 0;\n{body}}}\n"


@pytest.mark.parametrize(
    "body",
    [
        STEP,
        STEP + STEP,
        f"foreach {{i}} in [n] {{\n{STEP}}}\n",
        f"while (x < N) {{\n{STEP}}}\n{STEP}",
        f"if (n > 3) {{\n{STEP}}} else {{\n{STEP}{STEP}}}\n",
        f"if (n > 3) {{\n{STEP}}}\n{{\n{STEP}}}\n",
        f"{WAIT}if (n > 3) {{\n{PASS}{WAIT}}}\n{PASS}",
        f"{STEP}foreach {{i}} in [n] {{\nif (i > 2) {{\n{STEP}}}\n}}\n{WAIT}",
    ],
    ids=["once", "twice", "loop", "while", "both arms", "one arm", "within", "waits last"],
)
def test_strict_turns_are_named_barriers(threads: Make, body: str) -> None:
    found = threads(role(body)).clean()
    first, second = found.event("first"), found.event("second")
    assert (first.kind, first.barrier, first.ready) == ("named", 14, True)
    assert (second.kind, second.barrier, second.ready) == ("named", 13, False)
    assert first.triggering == second.waiting == ((1 << 128) - 1) << 256
    assert first.participants == second.participants == 256


@pytest.mark.parametrize(
    "body",
    [
        PASS.replace("first", "none").replace("inthreads (p == 2) {\n  trigger none;\n}\n", "")
        + STEP,
        f"{WAIT}foreach {{i}} in [n] {{\n{PASS}}}\n",
        f"{WAIT}if (n > 3) {{\n{PASS}}}\n{WAIT}",
        f"foreach {{i}} in [n] {{\n{WAIT}if (i > 3)\n  break;\n{PASS}}}\n",
        WAIT + PASS.replace("(p == 2) {\n  trigger first", "(p == 2 && t < 64) {\n  trigger first"),
    ],
    ids=["triggered before", "triggered again", "one arm alone", "a jump", "half of a warpgroup"],
)
def test_what_may_run_ahead_needs_a_barrier_with_generations(threads: Make, body: str) -> None:
    found = threads(role(body))
    assert {found.event(name).kind for name in ("first", "second")} == {"arrivals"}


@pytest.mark.parametrize(
    "declared",
    [
        "shared event first = ready, second = ready;\n",
        "shared event<4> first = ready, second;\n",
        DECLARED + "inthreads (p == 0) {\n  wait second;\n}\n",
    ],
    ids=["both are ready", "a count", "a third waits too"],
)
def test_other_pairs_are_no_turns(threads: Make, declared: str) -> None:
    found = threads(role(STEP + STEP, declared))
    assert found.event("second").kind == "arrivals"


def test_events_of_two_pairs_do_not_mix(threads: Make) -> None:
    other = STEP.replace("first", "third").replace("second", "fourth")
    found = threads(role(STEP + other, DECLARED + "shared event third = ready, fourth;\n")).clean()
    barriers = {name: found.event(name).barrier for name in ("first", "second", "third", "fourth")}
    assert barriers == {"first": 14, "second": 13, "third": 12, "fourth": 11}


# What it becomes -------------------------------------------------------------------------------

PROGRAM = """\
__co__ void f(global u32 [N] x, int n) {
  parallel {b} by [1] : block {
    shared event first = ready, second;
    parallel p by 3 : group-4, t by 128 : thread {
      inthreads (p > 0) {
        foreach {i} in [n] {
          BODY
        }
      }
    }
  }
}
"""


def emitted(body: str) -> list[str]:
    cuda = compile_text(PROGRAM.replace("BODY", body), "t.co").cuda
    lines = [line.strip() for line in cuda[cuda.index("i < n") :].splitlines()]
    return [line for line in lines if "named_barrier" in line or line.startswith("if (p")]


def test_warpgroups_meet_at_a_barrier_each_without_a_branch() -> None:
    assert emitted(WAIT + PASS) == [
        "cu::named_barrier_sync(p == 1 ? 14 : 13, 256);",
        "cu::named_barrier_arrive(p == 1 ? 13 : 14, 256);",
    ]
    cuda = compile_text(PROGRAM.replace("BODY", WAIT + PASS), "t.co").cuda
    assert cuda.index("inthreads (p == 1) { wait first; }") < cuda.index("named_barrier_sync(")


def test_other_statements_between_them_keep_the_roles_apart() -> None:
    one, two = WAIT.split("}\n")[:2]
    apart = f"{one}}}\nif (n > 1) {{\n}}\n{two}}}\n"
    assert emitted(apart + PASS) == [
        "if (p == 1) {",
        "cu::named_barrier_sync(14, 256);",
        "if (p == 2) {",
        "cu::named_barrier_sync(13, 256);",
        "cu::named_barrier_arrive(p == 1 ? 13 : 14, 256);",
    ]
    more = WAIT.replace("wait first;", "wait first;\n  if (n > 1) {\n  }")
    assert emitted(more + PASS)[0] == "if (p == 1) {"


# What it does ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_turns_come_to_an_end(program: Make, seed: int) -> None:
    import numpy as np

    made = program(PROGRAM.replace("BODY", WAIT + PASS))
    assert made.codes == ()
    made.run({"x": np.zeros(1, np.uint32)}, {"n": 5}, seed=seed)


def test_nobody_begins_where_no_event_is_ready(program: Make) -> None:
    import numpy as np

    made = program(PROGRAM.replace(" = ready", "").replace("BODY", WAIT + PASS))
    assert made.codes == ("deadlock",)
    with pytest.raises(InterpreterError) as caught:
        made.run({"x": np.zeros(1, np.uint32)}, {"n": 5})
    assert caught.value.fault == "deadlock"
