"""Tiles of a ring that are numbered by an order, or by another order than was waited for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.choreo.conftest import KERNELS

READ = "tma.copy.swiz<128> {} => o.subspan(128, 128).at(tile, 0);"


def ring(body: str, *, load: str = "ring[order % 2]", trips: str = "n", before: str = "") -> str:
    """A ring of two slots that a warp fills and two warpgroups read as told."""
    return f"""\
inthreads.async (p == 0 && t < 32) {{
  mutable u32 order = 0;
  foreach {{i}} in [{trips}] {{
    wait empty.at(order);
    f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => {load};
    trigger full.at(order++) after f;
  }}
}}
inthreads.async (p > 0) {{
  mutable u32 order = 0;
  {before}
  foreach {{i}} in [{trips}] {{
    {body}
  }}
}}
"""


def reads(tile: str, wait: str = "wait full.at(order);", count: str = "order++;") -> str:
    return f"{wait} {READ.format(tile)} trigger empty.at(order); {count}"


@pytest.mark.parametrize(("trips", "codes"), [("n", ["order-as-slot"]), ("3", ["order-as-slot"])])
def test_an_order_is_no_slot(threads: Callable, trips: str, codes: list[str]) -> None:
    analysed = threads(ring(reads("ring[order]"), trips=trips))
    assert analysed.codes == codes
    assert analysed.place("order-as-slot") == "order"
    assert analysed.said("order-as-slot").repair == "ring[order % 2]"
    assert threads(ring(reads("ring[order % 2]"), load="ring[order]", trips=trips)).codes == codes


def test_a_loop_as_long_as_the_ring_may_count_its_tiles(threads: Callable) -> None:
    threads(ring(reads("ring[order]"), load="ring[order]", trips="2")).clean()


def test_the_order_behind_a_name_is_no_slot(threads: Callable) -> None:
    body = ring(f"slot = order; {reads('ring[slot]')}")
    assert threads(body).codes == ["order-as-slot"]


@pytest.mark.parametrize(
    "body",
    [
        reads("ring[(order + 1) % 2]"),
        f"slot = (order + 1) % 2; {reads('ring[slot]')}",
        reads("ring[order & 1]", wait="wait full.at(order); next = order + 1;").replace(
            "ring[order & 1]", "ring[next & 1]"
        ),
        f"wait full.at(order++); {READ.format('ring[order % 2]')} trigger empty.at(order - 1);",
        f"wait full.at(order); trigger empty.at(order++); {READ.format('ring[order % 2]')}",
    ],
)
def test_another_tile_than_was_waited_for(threads: Callable, body: str) -> None:
    analysed = threads(ring(body))
    assert analysed.codes == ["tile-not-waited"]
    assert analysed.place("tile-not-waited").startswith("ring[")


@pytest.mark.parametrize(
    "body",
    [
        reads("ring[order % 2]"),
        reads("ring[(order + 2) % 2]"),
        f"slot = order % 2; {reads('ring[slot]')}",
        f"wait full.at(order++); {READ.format('ring[(order - 1) % 2]')}"
        " trigger empty.at(order - 1);",
        # Nothing is known of a parameter.
        reads("ring[(order + n) % 2]"),
    ],
)
def test_the_tile_that_was_waited_for(threads: Callable, body: str) -> None:
    assert [c for c in threads(ring(body)).codes if c != "sign-change"] == []


def test_another_role_may_have_told_of_the_tile(threads: Callable) -> None:
    # Warpgroup 1 has waited for the next tile too, and says so.
    body = (
        "inthreads (p == 1) { wait full.at(order + 1); trigger done; }\n"
        "inthreads (p == 2) { wait full.at(order); wait done; "
        + READ.format("ring[(order + 1) % 2]")
        + " }\n trigger empty.at(order++);"
    )
    assert "tile-not-waited" not in threads(ring(body)).codes


def test_the_tile_before_was_waited_for_in_the_trip_before(threads: Callable) -> None:
    body = f"wait full.at(order + 1); {READ.format('ring[order % 2]')} trigger empty.at(order++);"
    threads(ring(body, before="wait full.at(0);")).clean()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("k_buf[order % K_STAGES];\n          wait qk", "k_buf[order];\n          wait qk", 0),
        ("=> k_buf[order % K_STAGES]", "=> k_buf[order]", 0),
        (
            "k_buf[order % K_STAGES];\n          wait qk",
            "k_buf[(order + 1) % K_STAGES];\n          wait qk",
            1,
        ),
    ],
)
def test_the_kernel_with_another_tile(whole: Callable, old: str, new: str, code: int) -> None:
    (path,) = KERNELS.glob("v2_*.co")
    text = path.read_text()
    assert text.count(old) == 1
    assert whole(text.replace(old, new)).codes == [("order-as-slot", "tile-not-waited")[code]]
