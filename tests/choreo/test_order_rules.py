"""How a mutable order counts: by ones, and on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.choreo.conftest import KERNELS


def ring(count: str, *, type_: str = "u32", wait: str = "full.at(order)", slots: int = 2) -> str:
    """A ring whose consumers count as told."""
    return f"""\
shared event full_{slots}[{slots}];
inthreads.async (p == 0) {{
  mutable u32 order = 0;
  foreach {{i}} in [n] {{
    trigger full_{slots}.at(order++);
  }}
}}
inthreads.async (p > 0) {{
  mutable {type_} order = 0;
  foreach {{i}} in [n] {{
    wait {wait.replace("full", f"full_{slots}")};
    {count}
  }}
}}
"""


@pytest.mark.parametrize(
    ("count", "code"),
    [
        ("order = (order + 1) % 2;", "slot-as-order"),
        ("order = order + 1; order = order % 2;", "slot-as-order"),
        ("order++; order %= 2;", "slot-as-order"),
        ("order++; order &= 1;", "slot-as-order"),
        ("next = order + 1; order = next - next / 2 * 2;", "slot-as-order"),
        ("order++; if (order == 2) order = 0;", "slot-as-order"),
        ("order++; if (order >= 6) { order = 0; }", "slot-as-order"),
        ("if (order == 1) order = 0; else order++;", "slot-as-order"),
        ("if (order < 1) order++; else order = 0;", "slot-as-order"),
        ("order = order == 1 ? 0 : order + 1;", "slot-as-order"),
        ("order = order + 1 < 2 ? order + 1 : 0;", "slot-as-order"),
        ("order++; if (i > 5) order = 0;", "order-restarts"),
        ("order = 0;", "order-restarts"),
        ("order--;", "order-step"),
        ("order -= 1;", "order-step"),
        ("order += 2;", "order-step"),
        ("order = order + 3;", "order-step"),
        ("order = i;", "order-step"),
        ("order += n;", "order-step"),
    ],
)
def test_an_order_that_does_not_count_on(threads: Callable, count: str, code: str) -> None:
    analysed = threads(ring(count))
    # An 's32' of the loop, or of a parameter, is a change of sign beside it.
    assert [c for c in analysed.codes if c != "sign-change"] == [code]
    said = analysed.said(code)
    assert said.severity == "error" and said.rule and said.repair
    assert "order" in analysed.place(code)


@pytest.mark.parametrize(
    "count",
    [
        "order++;",
        "++order;",
        "order += 1;",
        "order = order + 1;",
        "order = 1 + order;",
        "next = order + 1; order = next;",
        "order = (order + 1) % 4;",
        "order = (order + 1) & 7;",
        "order++; order %= 12;",
        "order++; if (order == 4) order = 0;",
        "order++; if (order > 7) { order = 0; }",
        "if (order == 3) order = 0; else order++;",
        "if (order < 3) order++; else order = 0;",
        "order = order == 3 ? 0 : order + 1;",
        "order = order + 1 < 4 ? order + 1 : 0;",
        "wait full_2.at(order + 1); order += 2;",
    ],
)
def test_an_order_that_counts_on(threads: Callable, count: str) -> None:
    threads(ring(count)).clean()


def test_the_slot_by_division_is_a_slot(threads: Callable) -> None:
    analysed = threads(ring("order++;", wait="full.at(order - order / 2 * 2)"))
    assert analysed.codes == ["slot-as-order"]
    analysed = threads(ring("order++;", wait="full.at(order % 2 + 0)"))
    assert analysed.codes == ["slot-as-order"]


def test_an_order_may_be_given_its_first_value(threads: Callable) -> None:
    body = ring("order++;").replace("u32 order = 0;", "u32 order = 9; order = 0;")
    threads(body).clean()


@pytest.mark.parametrize(
    ("type_", "slots", "codes"),
    [
        ("u8", 2, []),
        ("u8", 3, ["order-wraps"]),
        ("u16", 3, ["order-wraps"]),
        ("u16", 4, []),
        ("s8", 2, ["order-wraps"]),
        ("u32", 3, []),
    ],
)
def test_a_narrow_order(threads: Callable, type_: str, slots: int, codes: list[str]) -> None:
    assert threads(ring("order++;", type_=type_, slots=slots)).codes == codes


def test_a_narrow_order_that_is_reduced_does_not_wrap(threads: Callable) -> None:
    body = ring("order = __to<u8>((order + 1) % 6);", type_="u8", slots=3)
    assert "order-wraps" not in threads(body).codes


@pytest.mark.parametrize(
    ("count", "code"),
    [
        ("trigger ve.at(order); order = (order + 1) % V_STAGES;", "slot-as-order"),
        ("trigger ve.at(order); order++; if (order == V_STAGES) order = 0;", "slot-as-order"),
        ("trigger ve.at(order); order -= 1;", "order-step"),
        ("trigger ve.at(order); order += 2;", "order-step"),
    ],
)
def test_the_kernel_with_a_counter_of_slots(whole: Callable, count: str, code: str) -> None:
    (path,) = KERNELS.glob("v2_*.co")
    text = path.read_text()
    assert text.count("trigger ve.at(order++);") == 1
    assert whole(text.replace("trigger ve.at(order++);", count)).codes == [code]
