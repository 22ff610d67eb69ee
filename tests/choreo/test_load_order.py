"""A launch does not load by TMA what it has written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.choreo.conftest import CANDIDATES

LOAD = "f = tma.load.async.swiz<128> PART => ring[0];\nwait f;"
STORE = "tma.copy q_tile => PART;"
TILE = "o.subspan(128, 128).at(tile, 0)"
WHERE = "o.subspan(128, 128).at"
FIRST = "tma.load.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;"


def one_role(*statements: str) -> str:
    """Statements of one role, with a tile at hand."""
    return "\n".join(["inthreads (p == 1) {", FIRST, *statements, "}"])


def stored(part: str = TILE) -> str:
    return STORE.replace("PART", part)


def loaded(part: str = TILE) -> str:
    return LOAD.replace("PART", part)


def codes(analysed: object) -> list[str]:
    return [c for c in analysed.codes if c != "never-waited"]  # type: ignore[attr-defined]  # an Analysed


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(one_role(stored(), loaded()), id="a store by TMA"),
        pytest.param(
            one_role(
                "acc = mma.fill.f32 0.0f;\n"
                "mma.row.row acc, q_tile.subspan(64, 128).at(0, 0), q_tile;",
                "mma.store acc, o.subspan(64, 128).at(tile * 2 + 1, 0);",
                loaded(),
            ),
            id="a store of an accumulator in the tile's second half",
        ),
        pytest.param(
            one_role("O.at(batch, tile * 128 + t, head, 5) = __to<bf16>(0.0f);", loaded()),
            id="an element of each thread",
        ),
        pytest.param(
            one_role("O.at(batch, 128 * tile + 127, head, 0) = __to<bf16>(0.0f);", loaded()),
            id="the last row",
        ),
        pytest.param(
            one_role(
                "next = tile + 1;", stored(f"{WHERE}(next, 0)"), loaded(f"{WHERE}(1 + tile, 0)")
            ),
            id="an immutable and its value",
        ),
        pytest.param(
            one_role(stored("o.view(128, 128).from(tile * 128 + 64, 0)"), loaded()),
            id="tiles that overlap",
        ),
        pytest.param(
            one_role(stored("O.subspan(1, 128, 1, 128).at(batch, tile, head, 0).sqz()"), loaded()),
            id="a view of the tensor and a named one",
        ),
        pytest.param(
            one_role(
                "foreach {i} in [n] {", stored(f"{WHERE}(i, 0)"), loaded(f"{WHERE}(i, 0)"), "}"
            ),
            id="within a trip",
        ),
        pytest.param(
            one_role("foreach {i} in [n] {", loaded(), stored(), "}"),
            id="in the next trip",
        ),
        pytest.param(
            one_role("mutable k = 0;", "while (k < n) {", loaded(), stored(), "k++;", "}"),
            id="in the next trip of a while",
        ),
        pytest.param(
            one_role("if (n > 0) {", stored(), "}", loaded()),
            id="on one of two ways",
        ),
        pytest.param(
            one_role("foreach {i} in [n] {", "if (n > 4) {", loaded(), "}", stored(), "}"),
            id="in the next trip, on one way through all trips",
        ),
        pytest.param(
            one_role("foreach {i} in [n] {", "if (i > 4) {", stored(), "}", loaded(), "}"),
            id="within some trips",
        ),
        pytest.param(
            one_role(
                "foreach {i} in [n] {",
                "if (i > 4) {",
                "foreach {k} in [n] {",
                loaded(),
                stored(),
                "}",
                "}",
                "}",
            ),
            id="in the next trip of an inner loop",
        ),
        pytest.param(
            "inthreads.async (p == 1) {\n" + FIRST + "\n" + stored() + "\ntrigger done;\n}\n"
            "inthreads.async (p == 2) {\nwait done;\n" + loaded() + "\n}",
            id="an event between two roles",
        ),
        pytest.param(
            "inthreads.async (p == 1) {\n" + FIRST + "\n" + stored() + "\ntrigger done;\n}\n"
            "inthreads.async (p == 2) {\nwait done;\ntrigger loaded;\n}\n"
            "inthreads.async (p == 0) {\nwait loaded;\n" + loaded() + "\n}",
            id="an event behind an event",
        ),
        pytest.param(
            "inthreads.async (p == 1) {\nforeach {i} in [n] {\nwait done;\n"
            + FIRST
            + "\n"
            + stored()
            + "\ntrigger taken;\n}\n}\n"
            "inthreads.async (p == 2) {\nforeach {i} in [n] {\nwait taken;\n"
            + loaded()
            + "\ntrigger done;\n}\n}",
            id="a ready event, and a loop that comes back",
        ),
    ],
)
def test_a_part_that_was_written_is_not_loaded(threads: Callable, body: str) -> None:
    analysed = threads(body)
    assert codes(analysed) == ["load-after-write"]
    assert analysed.said("load-after-write").span.line == max(
        n for n, line in enumerate(analysed.text.splitlines(), 1) if "=> ring[0]" in line
    )


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(one_role(loaded(), stored()), id="an update in place"),
        pytest.param(
            one_role(
                "foreach {i} in [n] {", loaded(f"{WHERE}(i, 0)"), stored(f"{WHERE}(i, 0)"), "}"
            ),
            id="an update in place of one tile after the other",
        ),
        pytest.param(
            one_role(
                "mutable k = 0;",
                "while (k < n) {",
                loaded(f"{WHERE}(k, 0)"),
                stored(f"{WHERE}(k, 0)"),
                "k = k + 1;",
                "}",
            ),
            id="the same with a counter",
        ),
        pytest.param(
            "inthreads.async (p == 1) {\nwait loaded;\n" + FIRST + "\n" + stored() + "\n}\n"
            "inthreads.async (p == 2) {\n" + loaded() + "\ntrigger loaded;\n}",
            id="an update in place by two roles",
        ),
        pytest.param(
            "inthreads.async (p == 1) {\nforeach {i} in [n] {\nwait done;\n"
            + FIRST
            + "\n"
            + stored(f"{WHERE}(i, 0)")
            + "\ntrigger taken;\n}\n}\n"
            "inthreads.async (p == 2) {\nforeach {i} in [n] {\nwait taken;\n"
            + loaded(f"{WHERE}(i, 0)")
            + "\ntrigger done;\n}\n}",
            id="the same, tile after tile",
        ),
        pytest.param(one_role(stored(), loaded(TILE.replace("o.", "q."))), id="another tensor"),
        pytest.param(one_role(stored(), loaded(f"{WHERE}(tile + 1, 0)")), id="the next tile"),
        pytest.param(
            one_role("O.at(batch, tile * 128 + 128, head, 0) = __to<bf16>(0.0f);", loaded()),
            id="the row behind it",
        ),
        pytest.param(one_role(stored(), loaded(f"{WHERE}(n, 0)")), id="a tile that may be any"),
        pytest.param(
            one_role("mutable k = 0;", stored(f"{WHERE}(k, 0)"), "k++;", loaded(f"{WHERE}(k, 0)")),
            id="a counter that goes on",
        ),
        pytest.param(
            one_role(
                "mutable k = 0;",
                "v = o.subspan(128, 128).at(k, 0);",
                "k++;",
                stored(f"{WHERE}(k, 0)"),
                loaded("v"),
            ),
            id="a view that was named before",
        ),
        pytest.param(one_role("if (n > 0) {", stored(), "} else {", loaded(), "}"), id="two arms"),
        pytest.param(
            one_role("foreach {i} in [n] {", "if (i == 0) {", loaded(), "}", stored(), "}"),
            id="a load of the first trip",
        ),
        pytest.param(
            one_role("foreach {i} in [n] {", loaded(), "if (i == n - 1) {", stored(), "}", "}"),
            id="a store of the last trip",
        ),
        pytest.param(
            one_role(
                "mutable k = 0;",
                "while (k < 4) {",
                loaded(),
                "k++;",
                "if (k == 4) {",
                stored(),
                "}",
                "}",
            ),
            id="a store of the last trip of a while",
        ),
        pytest.param(
            one_role(
                "mutable bool first = true;",
                "foreach {i} in [n] {",
                "if (first) {",
                loaded(),
                "first = false;",
                "}",
                stored(),
                "}",
            ),
            id="a load of the first trip by a flag",
        ),
        pytest.param(
            one_role(
                "foreach {i} in [n] {",
                "foreach {k} in [i == 0 ? 1 : 0] {",
                loaded(),
                "}",
                stored(),
                "}",
            ),
            id="a load of the first trip in a loop",
        ),
        pytest.param(
            "inthreads.async (p == 1) {\nforeach {i} in [n] {\nwait done;\nif (i == n - 1) {\n"
            + FIRST
            + "\n"
            + stored()
            + "\n}\ntrigger taken;\n}\n}\n"
            "inthreads.async (p == 2) {\nforeach {i} in [n] {\nwait taken;\n"
            + loaded()
            + "\ntrigger done;\n}\n}",
            id="a ready event, and a store of the last trip",
        ),
        pytest.param(
            one_role("if (n == 1) {", stored(), "}", "if (n == 2) {", loaded(), "}"),
            id="two conditions",
        ),
        pytest.param(
            one_role(
                "foreach {i} in [n] {", "if (i > 2) {", stored(), "break;", "}", loaded(), "}"
            ),
            id="a jump behind the store",
        ),
        pytest.param(
            one_role("foreach {i} in [1] {", loaded(), stored(), "}"), id="a loop of one trip"
        ),
        pytest.param(one_role(stored(), "call order_them();", loaded()), id="a helper in between"),
        pytest.param(
            one_role(
                "if (t > 100) {",
                "O.at(batch, tile * 128 + 100 + t, head, 0) = __to<bf16>(0.0f);",
                "}",
                loaded(),
            ),
            id="threads that a condition keeps away",
        ),
    ],
)
def test_what_cannot_be_shown_or_is_right_is_no_error(threads: Callable, body: str) -> None:
    assert codes(threads(body)) == []


@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4", "v5"])
def test_the_kernels_load_what_they_do_not_write(kernel: Callable, name: str) -> None:
    kernel(name).clean()


@pytest.mark.parametrize("path", sorted(CANDIDATES.glob("*.co")), ids=lambda path: path.stem)
def test_the_candidates_too(whole: Callable, path: Path) -> None:
    whole(path.read_text(encoding="utf-8")).clean()
