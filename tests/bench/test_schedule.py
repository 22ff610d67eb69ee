from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import permutations

import pytest

from artifact.bench.schedule import Window, block_order, schedule, suite_order
from artifact.model.protocol import Protocol

SHAPES = ("S=4096", "S=8192", "S=16384")
#: Suite order of the published run, by its suite_position column.
PUBLISHED = ("fa3", "v1", "v2", "v4", "v3", "tilelang", "triton", "triton-ws", "fa3")
GOLDEN = (("b", "c", "d", "a"), ("d", "b", "c", "a"), ("c", "a", "b", "d"))
MANIFEST_ORDER = ("v1", "v2", "v4", "v3", "fa3", "tilelang", "triton", "triton-ws")


def protocol(order: str, rounds: int = 3, seed: int = 0) -> Protocol:
    return Protocol(
        name="p", clock="host-monotonic", order=order, warmup=1, repeat=2, rounds=rounds, seed=seed
    )


def test_paper_order_is_that_of_the_published_run() -> None:
    windows = schedule(protocol("paper"), MANIFEST_ORDER, SHAPES, "fa3")
    # Row by row what the published samples have: suite_position, backend, sequence, round.
    assert windows == tuple(
        Window(position, round_, backend, shape)
        for position, backend in enumerate(PUBLISHED)
        for shape in SHAPES
        for round_ in range(3)
    )
    assert len(windows) == 81
    assert Counter(w.backend for w in windows)["fa3"] == 18
    assert suite_order(windows) == PUBLISHED


def test_paper_order_without_an_anchor_keeps_the_order_of_the_manifest() -> None:
    windows = schedule(protocol("paper", rounds=1), ("b", "a"), ("x", "y"), None)
    assert [(w.position, w.backend, w.shape) for w in windows] == [
        (0, "b", "x"), (0, "b", "y"), (1, "a", "x"), (1, "a", "y"),
    ]  # fmt: skip
    assert suite_order(windows) == ("b", "a")


def test_an_anchor_alone_is_measured_once() -> None:
    windows = schedule(protocol("paper"), ("fa3",), SHAPES, "fa3")
    assert {w.position for w in windows} == {0}
    assert suite_order(windows) == ("fa3",)


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("shapes", [("x",), ("x", "y"), ("x", "y", "z")])
@pytest.mark.parametrize("backends", [("a",), ("a", "b"), ("a", "b", "c"), tuple("abcdef")])
def test_suite_order_tells_the_two_orders_apart(
    backends: tuple[str, ...], shapes: tuple[str, ...], rounds: int
) -> None:
    paper = schedule(protocol("paper", rounds), backends, shapes, "a")
    assert suite_order(paper) == (*backends, "a") if len(backends) > 1 else ("a",)
    mixed = schedule(protocol("interleaved", rounds), backends, shapes, "a")
    assert suite_order(mixed) == block_order(0, shapes[0], 0, backends)


def test_interleaved_blocks_hold_every_backend_once() -> None:
    windows = schedule(protocol("interleaved", rounds=9, seed=42), MANIFEST_ORDER, SHAPES, "fa3")
    assert [w.position for w in windows] == list(range(3 * 9 * 8))
    blocks = [windows[i : i + 8] for i in range(0, len(windows), 8)]
    for number, block in enumerate(blocks):
        assert {w.shape for w in block} == {SHAPES[number // 9]}
        assert {w.round for w in block} == {number % 9}
        assert sorted(w.backend for w in block) == sorted(MANIFEST_ORDER)
    assert len({tuple(w.backend for w in block) for block in blocks}) > 20


def test_block_order_is_fixed_for_ever() -> None:
    # Results of earlier runs are checked against this order: it may never change.
    assert block_order(42, "S=4096", 0, ("a", "b", "c", "d")) == GOLDEN[0]
    assert block_order(42, "S=4096", 1, ("a", "b", "c", "d")) == GOLDEN[1]
    assert block_order(43, "S=4096", 0, ("a", "b", "c", "d")) == GOLDEN[2]


def test_block_order_depends_on_no_hash_seed() -> None:
    code = (
        "import json; from artifact.bench.schedule import block_order;"
        "print(json.dumps(block_order(7, 'x', 3, tuple('abcdefgh'))))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert [json.loads(text) for text in outputs] == [
        list(block_order(7, "x", 3, tuple("abcdefgh")))
    ]


def test_leaving_one_backend_out_does_not_reorder_the_others() -> None:
    for round_ in range(50):
        full = block_order(1, "x", round_, tuple("abcde"))
        assert block_order(1, "x", round_, tuple("edba")) == tuple(b for b in full if b != "c")


def test_every_order_is_about_as_frequent() -> None:
    counts = Counter(block_order(5, "x", round_, tuple("abc")) for round_ in range(6000))
    assert set(counts) == set(permutations("abc"))
    # Chi-square with 5 degrees of freedom; 20.5 is its 0.999 quantile.
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 20.5


@pytest.mark.parametrize(
    ("backends", "shapes", "anchor", "message"),
    [
        ((), ("x",), None, "no backend"),
        (("a",), (), None, "no shape"),
        (("a", "a"), ("x",), None, "a backend stands twice"),
        (("a",), ("x", "x"), None, "a shape stands twice"),
        (("a",), ("x",), "b", "'b' is not among"),
    ],
)
@pytest.mark.parametrize("order", ["paper", "interleaved"])
def test_what_cannot_be_scheduled_is_refused(
    order: str, backends: tuple[str, ...], shapes: tuple[str, ...], anchor: str | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        schedule(protocol(order), backends, shapes, anchor)
