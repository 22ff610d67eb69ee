"""Local buffers: where they stand, which elements exist, and when they have a value."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def test_a_buffer_and_an_array_of_buffers(threads: Callable) -> None:
    analysed = threads(
        "local f32 [8] a {0.0f}, b;\nlocal u32 [2, 4] c[3] {0};\nlocal bool [3] flags;\n"
        "foreach {i} in [8] {\n  a.at(i) = 1.0f;\n  b.at(7 - i) = a.at(i);\n}\n"
        "c[n % 3].at(1, n % 4) += 1;\nflags.at(0) = a.at(n) > b.at(0);\n"
        "rows = a.span(0) + c.span(1) + |c|;"
    ).clean()
    plans = {symbol.name: plan for symbol, plan in analysed.tables.locals.items()}
    assert [(p.type, p.shape, p.tiles) for p in plans.values()] == [
        ("f32", (8,), 1),
        ("f32", (8,), 1),
        ("u32", (2, 4), 3),
        ("bool", (3,), 1),
    ]
    assert plans["c"].elements == 8
    (rows,) = [s for s in analysed.tables.symbols if s.name == "rows"]
    assert analysed.tables.constants[rows.node.value] == 8 + 4 + 8  # type: ignore[attr-defined]  # of an Assign


def test_it_belongs_to_its_block(threads: Callable) -> None:
    body = "if (n > 0) {\n  local f32 [4] a {0.0f};\n}\nx = a.at(0);"
    assert threads(body).codes == ["undeclared"]


@pytest.mark.parametrize("levels", ["p by 3 : group-4, t by 128 : thread", "t by 128"])
def test_a_level_of_threads_is_around_it(whole: Callable, levels: str) -> None:
    text = "__co__ void f(global f32 [N] x) {\n  parallel b by N : block {\n    BODY  }\n}\n"
    inside = f"parallel {levels} {{ local f32 [4] a {{0.0f}}; }}\n"
    whole(text.replace("BODY", inside)).clean()
    outside = f"local f32 [4] a {{0.0f}};\nparallel {levels} {{ x.at(b) = 0.0f; }}\n"
    assert whole(text.replace("BODY", outside)).codes == ["local-place"]
    groups = "parallel p by 3 : group-4 { local f32 [4] a {0.0f}; }\n"
    assert whole(text.replace("BODY", groups)).codes == ["local-place"]


@pytest.mark.parametrize(
    ("body", "code", "place"),
    [
        ("x = a.at(4);", "index-range", "4"),
        ("x = a.at(-1);", "index-range", "-1"),
        ("a.at(3 + 1) = 0.0f;", "index-range", "3 + 1"),
        ("x = a.at(p + 2);", "index-range", "p + 2"),
        ("foreach {i} in [5]\n  a.at(i) = 0.0f;", "index-range", "i"),
        ("foreach {i} in [4]\n  a.at(i - 1) = 0.0f;", "index-range", "i - 1"),
        ("foreach {i} in [3]\n  a.at(2 * i) = 0.0f;", "index-range", "2 * i"),
        ("x = c[2].at(0, 0);", "index-range", "2"),
        ("x = c[0].at(0, 3);", "index-range", "3"),
        ("call helper(c[2]);", "index-range", "2"),
        ("x = c.at(0, 0);", "tile-missing", "c.at(0, 0)"),
        ("x = a[0].at(0);", "not-an-array", "a[0].at(0)"),
        ("call helper(a[0]);", "not-an-array", "a[0]"),
        ("x = Q[0].at(0, 0, 0, 0);", "not-an-array", "Q[0].at(0, 0, 0, 0)"),
        ("x = a.at(0, 0);", "view-rank", "a.at(0, 0)"),
        ("x = c[1].at(0);", "view-rank", "c[1].at(0)"),
        ("x = a.at(1.5f);", "not-an-integer", "1.5f"),
        ("x = a[0];", "wrong-kind", "a"),
        ("x = a;", "wrong-kind", "a"),
        ("a = 1.0f;", "not-assignable", "a"),
        ("copy(a, a);", "wrong-kind", None),
        ("reduce_sum(a, a, 1);", "wrong-kind", None),
        ("v = a.subspan(2).at(0);", "wrong-kind", "a"),
        ("tma.copy a => o.subspan(128, 128).at(tile, 0);", "wrong-kind", "a"),
        ("f = tma.load.async q.subspan(128, 128).at(tile, 0) => a;", "wrong-kind", "a"),
        ("acc = mma.fill.f32 0.0f;\nmma.row.row acc, a, q_tile;", "wrong-kind", "a"),
        ("acc = mma.fill.f32 0.0f;\nmma.row.row acc, q_tile, a;", "wrong-kind", "a"),
        ("mma.store a, o.subspan(128, 128).at(tile, 0);", "wrong-kind", "a"),
        ("wait a;", "wrong-kind", "a"),
        ("trigger a;", "wrong-kind", "a"),
        ("local f8_e4m3 [4] d;", "unknown-type", "local f8_e4m3 [4] d;"),
        ("local f32 [n] d;", "not-constant", "n"),
        ("local f32 [4] d[n];", "not-constant", "n"),
        ("local f32 [0] d;", "not-positive", "0"),
        ("local f64 [1024, 65] d;", "local-memory", "local f64 [1024, 65] d;"),
    ],
)
def test_a_misuse_is_said_at_its_place(
    threads: Callable, body: str, code: str, place: str | None
) -> None:
    analysed = threads(f"local f32 [4] a {{0.0f}};\nlocal s32 [2, 3] c[2] {{0}};\n{body}")
    assert set(analysed.codes) == {code}
    if place is not None:
        assert analysed.place(code) == place


@pytest.mark.parametrize(
    "body",
    [
        "foreach {i} in [8] {\n  if (i < 4)\n    a.at(i) = 0.0f;\n}",
        "foreach {i} in [8]\n  x = i < 4 ? a.at(i) : 0.0f;",
        "foreach {i} in [8] {\n  ok = i < 4 && a.at(i) > 0.0f;\n}",
        "foreach {i} in [8] {\n  if (i == 4)\n    break;\n  a.at(i) = 0.0f;\n}",
        "foreach {i} in [n]\n  a.at(i) = 0.0f;",
        "if (t < 4)\n  a.at(t) = 0.0f;",
        "inthreads (t < 4) {\n  a.at(t) = 0.0f;\n}",
        "a.at(ids.at(0)) = 0.0f;",
    ],
)
def test_what_a_condition_may_keep_away_is_no_error(threads: Callable, body: str) -> None:
    threads(f"local f32 [4] a {{0.0f}};\n{body}").clean()


def test_a_coordinate_of_apply_counts_too(consumer: Callable) -> None:
    qk = "acc = mma.fill.f32 0.0f;\nmma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
    wide = "local f32 [64] a {0.0f};\napply {i, j} in acc.span\n  acc.at(i, j) = a.at(INDEX);"
    consumer(qk + wide.replace("INDEX", "i")).clean()
    consumer(qk + wide.replace("INDEX", "j % 64")).clean()
    assert consumer(qk + wide.replace("INDEX", "j")).codes == ["index-range"]


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("x = a.at(0);", ["local-undefined"]),
        ("a.at(0) += 1.0f;", ["local-undefined"]),
        ("a.at(0) = a.at(1);", ["local-undefined"]),
        ("if (a.at(0) > 0.0f) {\n}", ["local-undefined"]),
        ("k.at(__to<u32>(a.at(0)) % 2) = 1;", ["local-undefined"]),
        ("foreach {i} in [n] {\n  x = a.at(0);\n  a.at(0) = 1.0f;\n}", ["local-undefined"]),
        ("a.at(0) = 1.0f;\nx = a.at(1);", []),
        ("call helper(a);\nx = a.at(0);", []),
        ("foreach {i} in [n]\n  a.at(0) = 1.0f;\nx = a.at(0);", []),
        ("if (n > 0)\n  a.at(0) = 1.0f;\nx = a.at(0);", []),
    ],
)
def test_what_is_read_was_written(threads: Callable, body: str, codes: list[str]) -> None:
    assert threads(f"local f32 [4] a;\nlocal u32 [2] k {{0}};\n{body}").codes == codes


def test_what_is_read_in_apply_was_written(consumer: Callable) -> None:
    qk = "acc = mma.fill.f32 0.0f;\nmma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
    start = f"{qk}local f32 [4] a;\napply {{i, j}} in acc.span {{\n"
    read, write = "acc.at(i, j) = a.at(0);\n", "a.at(0) = acc.at(i, j);\n"
    assert consumer(f"{start}{read}}}").codes == ["local-undefined"]
    assert consumer(f"{start}a.at(0) += 1.0f;\n}}").codes == ["local-undefined"]
    consumer(f"{start}{write}{read}}}").clean()


def test_what_follows_a_written_buffer_runs_for_every_element(consumer: Callable) -> None:
    qk = "acc = mma.fill.f32 0.0f;\nmma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
    start = (
        f"{qk}local f32 [4] a {{0.0f}};\nfrag f32 [64] r {{0.0f}};\napply {{i, j}} in acc.span {{\n"
    )
    consumer(f"{start}r.at(i) = a.at(0);\nacc.at(i, j) = r.at(i);\n}}").clean()
    # In each trip r is what the buffer holds then.
    consumer(f"{start}a.at(0) += 1.0f;\nr.at(i) = a.at(0);\n}}").clean()
    late = f"{start}a.at(0) += 1.0f;\nr.at(i) = 2.0f;\n}}"
    assert consumer(late).codes == ["apply-order"]


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        ("a.at(0) = n;", []),
        ("a.at(n % 2) = ids.at(0) > 3 ? 1 : 2;", []),
        ("a.at(0) = t;", ["divergent"]),
        ("a.at(t % 2) = 1;", ["divergent"]),
        ("if (t < 3)\n  a.at(0) = 1;", ["divergent"]),
        ("call helper(a);", ["divergent"]),
    ],
)
def test_threads_that_have_different_elements_part(
    threads: Callable, given: str, codes: list[str]
) -> None:
    analysed = threads(
        f"local s32 [2] a {{0}};\n{given}\ninthreads (p == 0) {{\n  if (a.at(0) > 0)\n"
        "    trigger done;\n}\ninthreads (p == 1) {\n  wait done;\n}"
    )
    assert analysed.codes == codes


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("global f32 [4] a;", "unsupported"),
        ("local event e;", "unsupported"),
        ("global event e;", "unsupported"),
        ("shared f32 [4, 4] a {0.0f};", "syntax"),
    ],
)
def test_other_storage_is_refused_by_name(text: str, code: str) -> None:
    from artifact.choreo.diagnostics import Diagnostics
    from artifact.choreo.parse import parse_file

    program = (
        f"__co__ void f(global f32 [N] x) {{\n  parallel b by N : block {{\n    {text}\n  }}\n}}\n"
    )
    diagnostics = Diagnostics("t.co", program)
    parse_file(program, "t.co", {}, diagnostics)
    assert [d.code for d in diagnostics.found] == [code]
    assert diagnostics.found[0].repair and diagnostics.found[0].rule


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            "inthreads (p == 0) {\n  f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0)"
            " => ring[a.at(0)];\n  a.at(0) = 1;\n  wait f;\n  tma.copy f => "
            "o.subspan(128, 128).at(tile, 0);\n}",
            "future-view",
        ),
        (
            "inthreads (p == 0) {\n  f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0)"
            " => ring[0];\n  a.at(0) += 1;\n  trigger full.at(a.at(0)) after f;\n}\n"
            "inthreads (p == 1) {\n  wait full.at(0);\n}",
            "order-changes",
        ),
        (
            "inthreads (p == 0) {\n  trigger full.at(a.at(0));\n  trigger full.at(a.at(0));\n}\n"
            "inthreads (p == 1) {\n  wait full.at(0);\n}",
            "double-trigger",
        ),
        (
            "a.at(0) = __to<u32>(t);\ninthreads (p == 0) {\n  trigger full.at(a.at(0));\n}\n"
            "inthreads (p == 1) {\n  wait full.at(0);\n}",
            "order-differs",
        ),
        (
            "inthreads (p == 0) {\n  trigger full.at(0);\n}\n"
            "inthreads (p == 1 && t < 64) {\n  a.at(0) += 1;\n}\n"
            "inthreads (p == 1) {\n  wait full.at(a.at(0));\n}",
            "order-differs",
        ),
    ],
)
def test_an_element_counts_as_a_mutable_does(threads: Callable, body: str, code: str) -> None:
    assert threads(f"local u32 [2] a {{0}};\n{body}").codes == [code]


def test_an_order_may_be_an_element(threads: Callable) -> None:
    body = (
        "local u32 [2] a {0};\nforeach {i} in [n] {\n  inthreads (p == 0) {\n"
        "    trigger full.at(a.at(0));\n    a.at(0) += 1;\n    trigger full.at(a.at(0));\n"
        "    a.at(0) += 1;\n  }\n  inthreads (p == 1) {\n    wait full.at(a.at(1));\n"
        "    a.at(1) += 1;\n  }\n}"
    )
    threads(body).clean()
