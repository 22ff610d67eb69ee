"""Levels, launches and the threads of roles."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from artifact.choreo import syntax


def launch(levels: str, body: str = "", attribute: str = "") -> str:
    return (
        f"__co__ void f(global f32 [N] x, int n) {{\n{attribute}\n"
        f"parallel b by N : block {{\n{levels} {{\n{body}\n}}\n}}\n}}\n"
    )


@pytest.mark.parametrize(
    ("levels", "threads", "units"),
    [
        ("parallel p by 3 : group-4, t by 128 : thread", 384, {"p": (128, 3), "t": (1, 128)}),
        ("parallel p by 2 : group-4", 256, {"p": (128, 2)}),
        ("parallel w by 4 : group", 128, {"w": (32, 4)}),
        ("parallel t by 96 : thread", 96, {"t": (1, 96)}),
        (
            "parallel p by 2 : group-4, w by 4 : group, t by 32 : thread",
            256,
            {"p": (128, 2), "w": (32, 4), "t": (1, 32)},
        ),
        ("parallel {a, b2} by [2, 3] : group-4", 768, {"a": (384, 2), "b2": (128, 3)}),
    ],
)
def test_units_and_bounds(
    whole: Callable, levels: str, threads: int, units: dict[str, tuple[int, int]]
) -> None:
    analysed = whole(launch(levels)).clean()
    assert analysed.tables.launch.threads == threads
    found = {s.name: (p.unit, p.bound) for s, p in analysed.tables.levels.items()}
    assert found == units


def test_nested_statements_are_nested_levels(whole: Callable) -> None:
    analysed = whole(launch("parallel p by 2 : group-4", "parallel t by 128 : thread {\n}")).clean()
    assert analysed.tables.launch.threads == 256
    assert {s.name: p.unit for s, p in analysed.tables.levels.items()} == {"p": 128, "t": 1}


def test_launch_bounds_are_computed_or_checked(whole: Callable) -> None:
    levels = "parallel p by 2 : group-4"
    assert whole(launch(levels)).clean().tables.launch.max_threads == 256
    analysed = whole(launch(levels, attribute="[[launch_bounds(_, 2)]]")).clean()
    assert (analysed.tables.launch.max_threads, analysed.tables.launch.min_blocks) == (256, 2)
    analysed = whole(launch(levels, attribute="[[launch_bounds(512, 1)]]")).clean()
    assert analysed.tables.launch.max_threads == 512
    too_few = whole(launch(levels, attribute="[[launch_bounds(128, 1)]]"))
    assert too_few.codes == ["launch-bounds"]


def test_the_grid_maps_left_to_right(threads: Callable) -> None:
    grid = threads("").clean().tables.launch.grid
    assert [symbol.name for symbol, _ in grid] == ["tile", "head", "batch"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("p == 0", range(128)),
        ("p > 0", range(128, 384)),
        ("p == 1 && t < 32", range(128, 160)),
        ("p == 0 || p == 2", [*range(128), *range(256, 384)]),
        ("t % 64 == 3", [t for t in range(384) if t % 64 == 3]),
        ("!(p < 2)", range(256, 384)),
        ("p * 128 + t < 40", range(40)),
    ],
)
def test_masks(threads: Callable, condition: str, expected: object) -> None:
    analysed = threads(f"inthreads ({condition}) {{\n  x = 1;\n}}").clean()
    (inner,) = [s for s in analysed.all(syntax.Assign) if s.target.id == "x"]
    assert analysed.tables.threads[inner] == sum(1 << t for t in expected)


def test_a_scalar_computed_from_levels_selects_too(threads: Callable) -> None:
    analysed = threads("cid = p - 1;\ninthreads (cid == 1) {\n  x = 1;\n}").clean()
    (inner,) = [s for s in analysed.all(syntax.Assign) if s.target.id == "x"]
    assert analysed.tables.threads[inner] == ((1 << 128) - 1) << 256


def test_masks_of_nested_roles_are_joined_and_flow_does_not_change_them(threads: Callable) -> None:
    analysed = threads(
        "inthreads.async (p == 1) {\n  foreach {i} in [n] {\n    if (n > 1) {\n"
        "      inthreads (t == 7) {\n        x = 1;\n      }\n    }\n  }\n}"
    ).clean()
    (inner,) = [s for s in analysed.all(syntax.Assign) if s.target.id == "x"]
    assert analysed.tables.threads[inner] == 1 << (128 + 7)


def test_an_unknown_predicate_is_told_and_its_threads_are_unknown(threads: Callable) -> None:
    analysed = threads("inthreads (p == n) {\n  x = 1;\n}")
    assert analysed.codes == []
    assert analysed.place("unknown-threads") == "p == n"
    (inner,) = [s for s in analysed.all(syntax.Assign) if s.target.id == "x"]
    assert analysed.tables.threads[inner] is None


@pytest.mark.parametrize(("condition", "how"), [("p < 3", "every"), ("p > 5", "no")])
def test_a_role_selects_some_threads_but_not_all(
    threads: Callable, condition: str, how: str
) -> None:
    analysed = threads(f"inthreads ({condition}) {{\n}}")
    assert analysed.codes == ["uniform-role"]
    assert how in analysed.said("uniform-role").message


def test_a_divergent_condition_is_found_through_scalars_and_mutables(threads: Callable) -> None:
    program = (
        "inthreads (p > 0) {{\n  wait done;\n}}\ninthreads (p == 0) {{\n{before}\n"
        "  if ({condition}) {{\n    trigger done;\n  }}\n}}"
    )
    for before, condition in [
        ("lane = t % 32;", "lane == 0"),
        ("mutable k = 0;\nk = t;", "k == 0"),
        ("mutable k = 0;\nif (t == 0) {\n k = 1;\n}", "k == 0"),
    ]:
        assert threads(program.format(before=before, condition=condition)).codes == ["divergent"]
    # The same for all threads of the role, though not for all of the block.
    for before, condition in [("", "p == 0"), ("", "n > 1"), ("m = tile % 2;", "m == 0")]:
        assert threads(program.format(before=before, condition=condition)).codes == []


@pytest.mark.parametrize(
    ("statement", "codes"),
    [
        ("int past = 4;", []),
        ('assert(N > 0, "something to do");', []),
        ("call helper(n);", ["host-statement"]),
        ("x2 = x.at(0);", ["host-statement"]),
    ],
)
def test_the_host_declares_scalars_and_asserts(
    whole: Callable, statement: str, codes: list[str]
) -> None:
    text = launch("parallel p by 2 : group-4").replace(
        "\n\nparallel b", f"\n{statement}\nparallel b"
    )
    assert statement in text
    assert whole(text).codes == codes
