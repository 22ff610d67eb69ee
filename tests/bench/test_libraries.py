from __future__ import annotations

import pytest

from artifact.bench.libraries import Difference, differences

SENTENCE = (
    "torch 2.14.0 with triton 3.8.0 stands for the published torch 2.10.0+cu128 with triton "
    "3.8.0+gita59d32fd: it is the release that itself asks for triton 3.8."
)


def only(run: dict[str, str], published: dict[str, str], *departures: str) -> Difference:
    (found,) = differences(run, published, departures)
    return found


def test_the_same_versions_are_no_difference():
    assert not list(differences({"torch": "2.11.0"}, {"torch": "2.11.0"}, ()))
    # Two ways to write one version.
    assert not list(differences({"torch": "2.11.0+cu130"}, {"torch": "2.11+CU130"}, ()))


def test_another_version_is_another_library():
    found = only({"torch": "2.10.0"}, {"torch": "2.11.0"})
    assert found.is_other and (found.run, found.published) == ("2.10.0", "2.11.0")


@pytest.mark.parametrize("pair", [("2.11.0", "2.11.0+cu130"), ("2.11.0+cu130", "2.11.0")])
def test_a_build_that_only_one_names(pair):
    found = only({"torch": pair[0]}, {"torch": pair[1]})
    assert found.build and not found.is_other


def test_two_builds_are_two_libraries():
    assert only({"torch": "2.11.0+cu128"}, {"torch": "2.11.0+cu130"}).is_other


def test_a_library_that_only_one_names():
    found = list(differences({"cupy": "14"}, {"fa": "3.0.0"}, ()))
    assert found == [Difference("cupy", "14", None), Difference("fa", None, "3.0.0")]
    assert not any(item.is_other for item in found)


@pytest.mark.parametrize("run", ["2.14.0", "2.14.0+cu130"])
def test_a_declared_departure(run):
    found = only({"torch": run}, {"torch": "2.10.0+cu128"}, "Something else.", SENTENCE)
    assert found.departure == SENTENCE and not found.is_other


@pytest.mark.parametrize(
    ("library", "run", "published"),
    [
        ("torch", "2.13.0", "2.10.0+cu128"),  # not the version that was declared
        ("torch", "2.14.0", "2.10.0"),  # not the one that it stands for
        ("jax", "2.14.0", "2.10.0+cu128"),  # not that library
        ("tor", "2.14.0", "2.10.0+cu128"),
    ],
)
def test_a_departure_covers_what_it_names_and_nothing_else(library, run, published):
    assert only({library: run}, {library: published}, SENTENCE).is_other


def test_versions_that_are_none():
    assert only({"x": "main"}, {"x": "nightly"}).is_other
    assert not list(differences({"x": "main"}, {"x": "main"}, ()))
