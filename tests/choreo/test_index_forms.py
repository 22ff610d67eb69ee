"""Indices as sums that can be compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from artifact.choreo import syntax
from artifact.choreo.index_forms import Form, IndexForms
from artifact.choreo.threads import ThreadValues
from artifact.choreo.traverse import Places


def forms(analysed: Any, *names: str) -> list[Form | None]:
    """The forms of the values of scalars."""
    tables = analysed.tables
    made = IndexForms(tables, ThreadValues(tables, Places(tables.function)))
    out = []
    for name in names:
        node = analysed.symbol(name).node
        assert isinstance(node, syntax.ScalarDecl | syntax.Assign)
        out.append(made.of(node.value))
    return out


@pytest.mark.parametrize(
    ("one", "two", "apart"),
    [
        ("tile * 128", "128 * tile", 0),
        ("tile * 128 + 5", "tile * 128", 5),
        ("(tile + 1) * 128", "tile * 128", 128),
        ("n - tile + tile", "n", 0),
        ("2 * (n + 3) - n", "n", 6),
        ("row + 1", "tile * 2", 1),
        ("tile / 2 + 3", "tile / 2", 3),
        ("cdiv(S, 128) - 1", "cdiv(S, 128)", -1),
        ("tile # p", "tile * 3", 0),
    ],
)
def test_what_two_indices_have_in_common_falls_out(
    threads: Callable, one: str, two: str, apart: int
) -> None:
    left, right = forms(threads(f"row = tile * 2;\na = {one};\nb = {two};"), "a", "b")
    assert left is not None and right is not None
    between = left.plus(right, -1)
    assert not between.atoms
    assert between.constants[0] == apart


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("tile", "head"),
        ("tile * 2", "tile"),
        ("tile / 2", "tile / 3"),
        ("tile * n", "tile"),
        ("k", "k2"),
    ],
)
def test_what_differs_stays(threads: Callable, one: str, two: str) -> None:
    body = f"mutable k = n;\nmutable k2 = n;\na = {one};\nb = {two};"
    left, right = forms(threads(body), "a", "b")
    assert left is not None and right is not None
    assert left.plus(right, -1).atoms


def test_threads_have_constants_of_their_own(threads: Callable) -> None:
    (form,) = forms(threads("a = tile * 384 + p * 128 + t;"), "a")
    assert form is not None
    assert form.constants == tuple(range(384))
    assert list(form.atoms.values()) == [384]


def test_memory_may_hold_another_value_each_time(threads: Callable) -> None:
    body = "local u32 [2] m {0};\na = m.at(0) + 1;\nb = Q.span(1) + 1;"
    assert forms(threads(body), "a")[0] is None
    assert forms(threads(body), "b")[0] is not None
