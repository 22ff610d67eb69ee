"""Views: roots, origins, extents and ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from artifact.choreo import syntax
from artifact.choreo.print_expressions import print_expression


def spelled(value: int | syntax.Expr) -> Any:
    return value if isinstance(value, int) else print_expression(value)


def plan(analysed: Any, name: str = "v") -> dict[str, Any]:
    """The plan of a named view, with expressions as they are spelled."""
    (decl,) = [d for d in analysed.all(syntax.ViewDecl) if d.name == name]
    found = analysed.tables.views[decl.view]
    return {
        "root": found.root.name,
        "base": found.base.name,
        "tile": None if found.tile is None else spelled(found.tile),
        "added": [[(spelled(t.index), spelled(t.scale)) for t in terms] for terms in found.added],
        "extents": [spelled(e) for e in found.extents],
        "dims": list(found.dims),
    }


def test_a_head_of_a_tensor_and_a_tile_of_it(threads: Callable) -> None:
    analysed = threads("v = q.subspan(128, 128).at(tile, 0);").clean()
    assert plan(analysed, "q") == {
        "root": "Q",
        "base": "Q",
        "tile": None,
        "added": [[("batch", 1)], [], [("head", 1)], []],
        "extents": ["S", 128],
        "dims": [1, 3],
    }
    assert plan(analysed) == {
        "root": "Q",
        "base": "q",
        "tile": None,
        "added": [[], [("tile", 128)], [], []],
        "extents": [128, 128],
        "dims": [1, 3],
    }


@pytest.mark.parametrize(
    ("view", "added", "extents"),
    [
        ("q.subspan(128, _).at(tile, 0)", [[], [("tile", 128)], [], []], [128, 128]),
        ("q.subspan(64, 64).at(tile, 1)", [[], [("tile", 64)], [], [("1", 64)]], [64, 64]),
        ("q.subspan(64, 64)", [[], [], [], []], [64, 64]),
        (
            "q.subspan(64, 64).step(32, 64).at(tile, 1)",
            [[], [("tile", 32)], [], [("1", 64)]],
            [64, 64],
        ),
        ("q.view(64, 64).from(n, 8)", [[], [("n", 1)], [], [("8", 1)]], [64, 64]),
        (
            "q.subspan(128, 128).at(tile, 0).subspan(64, 128).at(1, 0)",
            [[], [("tile", 128), ("1", 64)], [], []],
            [64, 128],
        ),
    ],
)
def test_origins(threads: Callable, view: str, added: object, extents: object) -> None:
    found = plan(threads(f"v = {view};").clean())
    assert (found["added"], found["extents"]) == (added, extents)


def test_parts_by_the_bound_of_a_variable(whole: Callable) -> None:
    analysed = whole(
        "__co__ void f(global bf16 [N, 64] x) {\n  parallel b by N : block {\n"
        "    shared bf16 [128, 64] tile_s;\n    parallel p by 2 : group-4 {\n"
        "      v = tile_s.chunkat(p, _);\n      w = tile_s.chunkat(p # p, _);\n"
        "      y = x.chunkat(p, _);\n    }\n  }\n}\n"
    ).clean()
    assert plan(analysed)["added"] == [[("p", 64)], []]
    assert plan(analysed)["extents"] == [64, 64]
    assert plan(analysed, "w")["extents"] == [32, 64]
    # A dimension that the host knows is divided there.
    assert plan(analysed, "y")["extents"] == ["N / 2", 64]


def test_a_tile_of_an_array(threads: Callable) -> None:
    analysed = threads("mutable k = 0;\nv = ring[k % 2].subspan(64, 128).at(1, 0);").clean()
    found = plan(analysed)
    assert (found["root"], found["tile"], found["added"]) == ("ring", "k % 2", [[("1", 64)], []])


def test_a_future_stands_for_the_tile_that_its_load_fills(threads: Callable) -> None:
    analysed = threads(
        "inthreads (p == 0) {\n  slot = tile % 2;\n"
        "  f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[slot];\n"
        "  wait f;\n  v = f.subspan(64, 128).at(1, 0);\n}"
    ).clean()
    found = plan(analysed)
    assert (found["root"], found["tile"]) == ("ring", "slot")


def test_squeezing_keeps_which_dimension_is_which(threads: Callable) -> None:
    found = plan(threads("v = Q.subspan(1, 128, 1, 64).at(batch, tile, head, 1).sqz();").clean())
    assert (found["extents"], found["dims"]) == ([128, 64], [1, 3])
    whole = plan(threads("v = Q.subspan(1, 128, 1, 64).at(batch, tile, head, 1);").clean())
    assert (whole["extents"], whole["dims"]) == ([1, 128, 1, 64], [0, 1, 2, 3])


def test_an_index_is_checked_for_the_threads_that_get_there(threads: Callable) -> None:
    program = "inthreads (p > 0) {{\n  v = q_tile.subspan(64, 128).at({index}, 0);\n}}"
    assert threads(program.format(index="p - 1")).codes == []
    wrong = threads(program.format(index="p"))
    assert wrong.codes == ["index-range"]
    assert wrong.place("index-range") == "p"
    assert "index 2 lies outside: 2 * 64 + 64 of 128" in wrong.said("index-range").message


def test_a_tile_of_an_array_is_within_it(threads: Callable) -> None:
    assert threads("v = ring[2].subspan(64, 128).at(0, 0);").codes == ["index-range"]


def test_sizes_that_the_host_knows_are_not_judged(threads: Callable) -> None:
    assert threads("v = q.subspan(96, 128).at(tile, 0);").codes == []
    assert threads("v = q.subspan(128, 96).at(tile, 0);").codes == ["tile-divides"]
