"""Identifiers: the source's names wherever C++ allows them, never one that is visible twice."""

from __future__ import annotations

import pytest

from artifact.choreo.emit_names import Names
from artifact.choreo.syntax import Span, Wildcard
from artifact.choreo.tables import Symbol


def symbol(name: str) -> Symbol:
    return Symbol(name, "scalar", Wildcard(Span(1, 1, 1, 2)))


def test_a_name_stays_what_it_is() -> None:
    names, bm = Names(), symbol("bm")
    assert names.declare(bm) == "bm"
    assert names.of(bm) == "bm"
    assert bm in names and bm in names.used


@pytest.mark.parametrize("word", ["new", "template", "threadIdx", "cu", "exp2f", "size_t"])
def test_words_of_cxx_and_of_the_generated_code_get_a_number(word: str) -> None:
    assert Names().declare(symbol(word)) == f"{word}_2"


def test_reserved_identifiers_of_the_implementation_are_not_made() -> None:
    assert Names().declare(symbol("__hidden")) == "hidden_2"


def test_macros_of_host_text_are_not_made() -> None:
    assert Names(frozenset(["TILE"])).declare(symbol("TILE")) == "TILE_2"


def test_a_variable_that_hides_another_gets_a_number() -> None:
    # In C++ its initializer would already mean the new variable.
    names, outer, inner, sibling = Names(), symbol("x"), symbol("x"), symbol("x")
    names.declare(outer)
    with names.scope():
        assert names.declare(inner) == "x_2"
        assert (names.of(outer), names.of(inner)) == ("x", "x_2")
    with names.scope():
        assert names.declare(sibling) == "x_2"


def test_a_name_is_free_again_after_its_scope() -> None:
    names = Names()
    with names.scope():
        assert names.declare(symbol("e")) == "e"
    assert names.fresh("e") == "e"
