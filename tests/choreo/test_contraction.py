"""Products and copies that nvcc sees behind what it drops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.choreo.test_halving import EXPONENTIALS, accepted, loop, step

Make = Callable[..., Any]


def halves(made: Any) -> bool:
    """Whether the loop's matrix is worked on by halves: nothing hands on a product to it."""
    assert accepted(made)
    return any("subspan(_" in line for line in loop(made))


@pytest.mark.parametrize(
    "value",
    [
        "__to<f32>(acc.at(i, j) * 0.7f)",
        "acc.at(i, j) * 0.7f - 0.0f",
        "0.0f + acc.at(i, j) * 0.7f",
        "__to<f32>(__to<f64>(acc.at(i, j) * 0.7f))",
        "__to<f32>(__to<f64>(acc.at(i, j)) * __to<f64>(0.7f))",
        "__fabs(acc.at(i, j) * acc.at(i, j))",
        "__max(acc.at(i, j) * top.at(i), top.at(i) * acc.at(i, j))",
    ],
)
def test_a_product_is_one_also_where_nothing_is_emitted_around_it(
    consumer: Make, value: str
) -> None:
    scaled = f"  apply {{i, j}} in acc.span\n    acc.at(i, j) = {value};\n"
    made = consumer(step((EXPONENTIALS, f"{EXPONENTIALS}{scaled}")))
    assert not halves(made)


OTHER = ("frag f32 [64] top;", "frag f32 [64] top;\nfrag f32 [64, 128] other {0.0f};")


@pytest.mark.parametrize(
    "value",
    [
        "{}",
        "__to<f32>({})",
        "__to<f32>(__to<f64>({}))",
        "__fabs({})",
        "__max({0}, {0})",
    ],
)
def test_a_copy_is_one_also_where_nothing_is_emitted_around_it(consumer: Make, value: str) -> None:
    """What is copied is no product of the copy's own: it depends on where it comes from."""

    def copied(target: str, source: str) -> str:
        copy = value.format(f"{source}.at(i, j)")
        return f"  apply {{i, j}} in acc.span\n    {target}.at(i, j) = {copy};\n"

    before = "  // before\n"
    assert halves(consumer(step((before, copied("acc", "acc")))))
    there_and_back = copied("other", "acc") + copied("acc", "other")
    assert halves(consumer(step(OTHER, (before, there_and_back))))
    doubled = "  apply {i, j} in acc.span\n    other.at(i, j) = acc.at(i, j) * 2.0f;\n"
    assert not halves(consumer(step(OTHER, (before, doubled + copied("acc", "other")))))
