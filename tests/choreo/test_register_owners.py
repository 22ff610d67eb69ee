"""Registers are of one thread: who reads a fragment or a local buffer has written it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

QK = "mma.row.row acc, q_tile.subspan(64, 128).at(0, 0), ring[0];"
P = "apply {i, j} in acc.span\n  half_p.at(i, j) = __to<bf16>(acc.at(i, j));"
PV = "out = mma.fill.f32 0.0f;\nmma.row.col out, half_p, ring[0];"
STORE = "mma.store acc, o.subspan(64, 128).at(tile, 0);"


def roles(first: str, second: str, before: str = "") -> str:
    """Statements of two warpgroups, behind declarations of both."""
    parts = [f"inthreads (p == {n}) {{\n{text}\n}}" for n, text in ((1, first), (2, second))]
    return "\n".join([before, *parts])


@pytest.mark.parametrize(
    ("body", "place"),
    [
        pytest.param(
            roles(f"acc = mma.fill.f32 0.0f;\n{QK}\n{P}", PV, "frag bf16 [64, 128] half_p;"),
            "half_p",
            id="a register operand",
        ),
        pytest.param(
            roles("acc = mma.fill.f32 1.0f;", f"{QK}\n{STORE}", "frag f32 [64, 128] acc;"),
            "acc",
            id="a fill",
        ),
        pytest.param(
            roles(
                "copy(m, n_s);",
                f"acc = mma.fill.f32 0.0f;\n{QK}\n"
                "apply {i, j} in acc.span\n  acc.at(i, j) = acc.at(i, j) - m.at(i);",
                "frag f32 [64] m, n_s {0.0f};",
            ),
            "m.at(i)",
            id="a row vector",
        ),
        pytest.param(
            roles("", "m.at(0) = 1.0f;", "local f32 [2] m;") + "\nx = m.at(0);",
            "m.at(0)",
            id="a local buffer that some write and all read",
        ),
        pytest.param(
            roles("call helper(m);", "call print(m.at(1));", "local f32 [2] m;"),
            "m.at(1)",
            id="a local buffer that a helper writes",
        ),
        pytest.param(
            roles(QK, STORE, "acc = mma.fill.f32 0.0f;"),
            "acc",
            id="an accumulator that another role stores",
        ),
        pytest.param(
            roles("c.at(0) += 1;", "x = c.at(0);", "local u32 [1] c {0};"),
            "c.at(0)",
            id="a counter that another role reads",
        ),
    ],
)
def test_what_another_role_writes_is_not_there(consumer: Callable, body: str, place: str) -> None:
    analysed = consumer(body)
    assert analysed.codes == ["written-elsewhere"]
    assert analysed.place("written-elsewhere") == place


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            roles(
                f"acc = mma.fill.f32 0.0f;\n{QK}\n{P}\n{PV}",
                f"acc = mma.fill.f32 0.0f;\n{QK}\n{P}\n{PV}",
                "frag bf16 [64, 128] half_p;",
            ),
            id="each role writes and reads its own",
        ),
        pytest.param(
            roles(f"{QK}\n{STORE}", STORE, "acc = mma.fill.f32 0.0f;"),
            id="both read what both were given",
        ),
        pytest.param(
            roles("a.at(0) += 1;\nx = a.at(0);", "x = a.at(0);", "local s32 [1] a {0};"),
            id="one role goes on with it",
        ),
        pytest.param(
            roles("a.at(0) = 1;", "a.at(0) = 2;", "local s32 [1] a;") + "\nx = a.at(0);",
            id="the roles are all that read it",
        ),
        pytest.param(
            roles("a.at(0) = 1;", "a.at(0) += 2;\nx = a.at(0);", "local s32 [1] a {0};"),
            id="one role writes in vain, the other reads its own",
        ),
        pytest.param(
            "local s32 [1] a;\nif (p == 1)\n  a.at(0) = 1;\nif (p == 2)\n  x = a.at(0);",
            id="a condition of the run is not looked into",
        ),
        pytest.param(
            "local s32 [1] a;\ninthreads (p == n) {\n  a.at(0) = 1;\n}\nx = a.at(0);",
            id="a role that nobody knows",
        ),
        pytest.param(
            roles("call helper(a);", "call helper(a);", "local s32 [1] a;"),
            id="helpers",
        ),
    ],
)
def test_what_the_readers_write_is_there(consumer: Callable, body: str) -> None:
    consumer(body).clean()


def test_the_message_names_both_sides(consumer: Callable) -> None:
    body = roles(f"acc = mma.fill.f32 0.0f;\n{QK}\n{P}", PV, "frag bf16 [64, 128] half_p;")
    analysed = consumer(body)
    line = analysed.text.splitlines().index("  half_p.at(i, j) = __to<bf16>(acc.at(i, j));") + 1
    assert analysed.said("written-elsewhere").message == (
        f"half_p is read by warpgroup 2; what line {line} writes is in the registers of warpgroup 1"
    )


@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4", "v5"])
def test_the_kernels_keep_their_registers(kernel: Callable, name: str) -> None:
    kernel(name).clean()
