"""Warpgroups that store their own rows store what the tile had, where it was to go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from artifact.choreo import analysis, splitting, syntax
from artifact.choreo.interpret import InterpreterError
from artifact.choreo.interpret_memory import round_bf16
from artifact.choreo.traverse import Places
from tests.choreo.conftest import TOGETHER
from tests.choreo.test_sinking import bits
from tests.choreo.test_splitting import THREE, tile

Make = Callable[..., Any]

# The small program -----------------------------------------------------------------------------


def stored(made: Any, seed: int = 0) -> np.ndarray:
    """What the small program leaves in Y, as bits: two batches of two tiles."""
    assert made.codes == ()
    x = round_bf16(np.random.default_rng(7).standard_normal((2, 256, 128), np.float32))
    tensors = {
        "X": x,
        "Y": np.full((2, 256, 128), np.nan, np.float32),
        "Z": np.zeros((128, 128), np.float32),
        "ids": np.zeros(1, np.uint32),
    }
    out = made.run(tensors, {"n": 2}, seed=seed).tensors["Y"]
    rows = x.reshape(4, 128, 128).astype(np.float64)
    expected = (rows @ rows.swapaxes(1, 2)).reshape(2, 256, 128)
    np.testing.assert_allclose(out, expected, rtol=2.0**-8, atol=1e-4)
    return out.view(np.uint32)


LOOP = (("        // before\n", "        foreach {i} in [n] {\n"),
        ("        // behind\n", "        }\n"))  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("edits", [(), LOOP], ids=["once", "in a loop"])
def test_the_same_rows_are_stored_at_the_same_places(
    program: Make, edits: tuple[tuple[str, str], ...], seed: int
) -> None:
    made, source = program(tile(*edits)), program(tile(*edits), move=False)
    assert (len(made.tables.moved), len(source.tables.moved)) == (3, 0)
    np.testing.assert_array_equal(stored(made, seed), stored(source, seed + 1))


def test_a_third_warpgroup_stores_its_rows_too(program: Make) -> None:
    text = tile(*THREE)
    made, source = program(text), program(text, move=False)
    assert (len(made.tables.moved), len(source.tables.moved)) == (3, 0)
    tensors = {
        "X": round_bf16(np.random.default_rng(8).standard_normal((1, 384, 128), np.float32)),
        "Y": np.full((1, 384, 128), np.nan, np.float32),
        "Z": np.zeros((128, 128), np.float32),
        "ids": np.zeros(1, np.uint32),
    }
    one, other = (p.run(tensors, {"n": 0}).tensors["Y"] for p in (made, source))
    assert np.isfinite(other).all()
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


Edits = Iterator[tuple[syntax.Stmt, syntax.Stmt]]
REPLACEMENTS = splitting._replacements


def other(tile: splitting._Tile) -> splitting._Tile:
    """The same with the number of the other of two warpgroups."""
    span = tile.owner.span
    one = syntax.int_literal(span, 1)
    return replace(tile, owner=syntax.Binary(span, "-", one, tile.owner))


def stored_with(tile: splitting._Tile, end: str) -> Edits:
    """One end of the store is that of the other warpgroup."""
    decl, fill, (store, right) = REPLACEMENTS(tile)
    _, _, (_, wrong) = REPLACEMENTS(other(tile))
    assert isinstance(right, syntax.Transfer)
    assert isinstance(wrong, syntax.Transfer)
    yield from (decl, fill, (store, replace(right, **{end: getattr(wrong, end)})))


def to_the_other_rows(tile: splitting._Tile) -> Edits:
    return stored_with(tile, "destination")


def from_the_other_tile(tile: splitting._Tile) -> Edits:
    return stored_with(tile, "source")


def into_the_other_tile(tile: splitting._Tile) -> Edits:
    decl, _, store = REPLACEMENTS(tile)
    _, wrong, _ = REPLACEMENTS(other(tile))
    yield from (decl, wrong, store)


@pytest.fixture
def broken(program: Make, monkeypatch: pytest.MonkeyPatch) -> Make:
    """The small program with a wrong pass; a text of its own, so that nothing is cached."""

    def made(wrong: Callable[[splitting._Tile], Edits]) -> Any:
        monkeypatch.setattr(splitting, "_replacements", wrong)
        found = program(tile(("// before", f"// {wrong.__name__}")))
        assert len(found.tables.moved) == 3
        return found

    return made


def test_rows_of_another_owner_would_show(program: Make, broken: Make) -> None:
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        stored(broken(to_the_other_rows))
    stored(broken(REPLACEMENTS))


@pytest.mark.parametrize("wrong", [from_the_other_tile, into_the_other_tile])
def test_a_tile_of_another_owner_would_show(broken: Make, wrong: Callable[..., Edits]) -> None:
    # Nothing says that the other warpgroup has written it.
    with pytest.raises(InterpreterError, match="is read without waiting for line") as error:
        stored(broken(wrong))
    assert error.value.fault == "early-read"


# The kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "moved"), [("v1", 0), ("v2", 3), ("v4", 3), ("v3", 0), ("v5", 0)])
def test_which_kernels_it_is_for(edited: Make, name: str, moved: int) -> None:
    tables = edited(name, move=False).tables
    made = splitting.split_stores(tables, Places(tables.function))
    assert len(made.notes if made else ()) == moved


# v3 has an event between its consumers at each task, for which they have to meet.
@pytest.mark.parametrize("seq", [128, 384])
@pytest.mark.parametrize(("name", "edits"), [("v2", ()), ("v4", ()), ("v3", TOGETHER)])
def test_results_are_the_same_bit_for_bit(
    edited: Make,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    edits: tuple[tuple[str, str], ...],
    seq: int,
) -> None:
    for pass_ in ("sink_scalings", "halve_conversions"):
        monkeypatch.setattr(analysis, pass_, lambda *_: None)
    # A text of its own, so that nothing is cached.
    made = edited(name, (f"// {name}: ", f"// {name}, split: "), *edits)
    source = edited(name, *edits, move=False)
    assert made.codes == source.codes == ()
    assert (len(made.tables.moved), len(source.tables.moved)) == (3, 0)
    np.testing.assert_array_equal(bits(made, seq), bits(source, seq, seed=1))
