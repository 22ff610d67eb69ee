"""What an MMA in flight owns: accumulator, register operand, tile; and values that are there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

START = (
    "frag bf16 [64, 128] prob {1.0f};\nfrag f32 [64] row {0.0f};\n"
    "acc = mma.fill.f32 0.0f;\nother = mma.fill.f32 0.0f;\n"
    "mma.row.row other, q_tile.subspan(64, 128).at(cid, 0), ring[0];\nreduce_max(row, other, 1);\n"
)
PV = "pv = mma.row.col.async acc, prob, ring[0];\n"


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("apply {i, j} in acc.span\n  acc.at(i, j) = 0.0f;", "acc.at(i, j)"),
        ("apply {i, j} in other.span\n  other.at(i, j) = acc.at(i, j);", "acc.at(i, j)"),
        ("apply {i, j} in acc.span\n  row.at(i) = row.at(i) + acc.at(i, j);", "acc.at(i, j)"),
        ("reduce_sum(row, acc, 1);", "acc"),
        ("copy(other, acc);", "acc"),
        ("copy(acc, other);", "acc"),
        ("mma.store acc, o.subspan(64, 128).at(tile # p, 0);", "acc"),
        ("acc = mma.fill.f32 0.0f;", "acc = mma.fill.f32 0.0f;"),
        ("call helper(acc);", "acc"),
    ],
)
def test_an_accumulator_in_flight_is_not_touched(
    consumer: Callable, statement: str, where: str
) -> None:
    analysed = consumer(f"{START}{PV}{statement}\nwait pv;")
    assert analysed.codes == ["accumulator-in-flight"]
    assert analysed.place("accumulator-in-flight") == where
    # After the wait it is free.
    consumer(f"{START}{PV}wait pv;\n{statement}").clean()


def test_a_register_operand_in_flight_is_not_overwritten(consumer: Callable) -> None:
    write = "apply {i, j} in prob.span\n  prob.at(i, j) = __to<bf16>(other.at(i, j));\n"
    analysed = consumer(f"{START}{PV}{write}wait pv;")
    assert analysed.codes == ["operand-in-flight"]
    assert "overwritten" in analysed.said("operand-in-flight").message
    consumer(f"{START}{PV}wait pv;\n{write}").clean()


def test_work_beside_an_mma_in_flight_is_what_futures_are_for(consumer: Callable) -> None:
    consumer(
        f"{START}{PV}reduce_sum(row, other, 1);\n"
        "apply {i, j} in other.span\n  other.at(i, j) = other.at(i, j) * 2.0f;\nwait pv;"
    ).clean()


def test_a_second_mma_goes_on_in_an_accumulator_in_flight(consumer: Callable) -> None:
    consumer(f"{START}{PV}pw = mma.row.col.async acc, prob, ring[0];\nwait pw;\nwait pv;").clean()


def test_the_wait_for_one_frees_what_was_issued_before_it_alone(consumer: Callable) -> None:
    two = f"{START}{PV}qk = mma.row.row.async other, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
    touch = "apply {{i, j}} in {0}.span\n  {0}.at(i, j) = 0.0f;\n"
    consumer(f"{two}wait pv;\n{touch.format('acc')}wait qk;").clean()
    early = consumer(f"{two}wait pv;\n{touch.format('other')}wait qk;")
    assert early.codes == ["accumulator-in-flight"]


def test_in_a_nested_block_too(consumer: Callable) -> None:
    body = (
        f"{START}{PV}foreach {{i}} in [n] {{\n  if (n > 3) {{\n    reduce_sum(row, acc, 1);\n"
        "  }\n}\nwait pv;"
    )
    assert consumer(body).codes == ["accumulator-in-flight"]


ISSUE = "slot = order % 2;\npv = mma.row.col.async acc, prob, ring[slot];\n"
RELEASE = """\
inthreads.async (p == 0 && t < 32) {{
  mutable u32 order = 0;
  foreach {{i}} in [n] {{
    wait empty.at(order);
    f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[order % 2];
    trigger full.at(order++) after f;
  }}
}}
inthreads.async (p > 0) {{
  frag bf16 [64, 128] prob {{1.0f}};
  acc = mma.fill.f32 0.0f;
  mutable u32 order = 0;
  foreach {{i}} in [n] {{
    {body}
  }}
}}
"""


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (
            f"wait full.at(order);\n{ISSUE}trigger empty.at(order++);\nwait pv;",
            ["released-in-flight"],
        ),
        (
            f"wait full.at(order);\n{ISSUE}wait pv;\ntrigger empty.at(order++);",
            [],
        ),
        # The slot before is another tile.
        (
            f"wait full.at(order);\n{ISSUE}trigger empty.at(order + 1);\norder++;\nwait pv;",
            [],
        ),
        (
            "wait full.at(order);\nslot = order % 2;\norder++;\n"
            "pv = mma.row.col.async acc, prob, ring[slot];\ntrigger empty.at(order);\nwait pv;",
            [],
        ),
    ],
)
def test_a_tile_is_released_when_its_mma_is_complete(
    threads: Callable, body: str, codes: list[str]
) -> None:
    assert threads(RELEASE.format(body=body)).codes == codes


def test_a_tile_is_not_read_before_its_load(threads: Callable) -> None:
    load = (
        "inthreads.async (p == 0) {\n"
        "  f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;\n"
        "  trigger loaded after f;\n}\n"
    )
    read = "tma.copy q_tile => o.subspan(128, 128).at(tile, 0);\n"
    early = threads(f"{load}inthreads.async (p > 0) {{\n{read}wait loaded;\n}}")
    assert early.codes == ["unwaited-load"]
    assert early.place("unwaited-load") == "q_tile"
    threads(f"{load}inthreads.async (p > 0) {{\nwait loaded;\n{read}}}").clean()
    # Through other events of somebody who has waited.
    others = (
        "inthreads.async (p == 1) {\nwait loaded;\ntrigger full.at(0);\n"
        "wait full.at(1);\ntrigger done;\n}\n"
    )
    threads(
        f"{load}{others.replace('wait full.at(1);', '')}"
        f"inthreads.async (p == 2) {{\nwait full.at(0);\nwait done;\n{read}}}"
    ).clean()
    # The wait of another role alone says nothing.
    alone = threads(
        f"{load}inthreads.async (p == 1) {{\nwait loaded;\n}}\n"
        f"inthreads.async (p == 2) {{\n{read}}}"
    )
    assert alone.codes == ["unwaited-load"]


# Values ----------------------------------------------------------------------------------------

VALUES = (
    "frag f32 [64] row {0.0f};\nacc = mma.fill.f32 0.0f;\nother = mma.fill.f32 0.0f;\n"
    "mma.row.row other, q_tile.subspan(64, 128).at(cid, 0), ring[0];\nreduce_max(row, other, 1);\n"
)
LOOP = "foreach {{i}} in [n] {{\n{}\n}}\n"
WRITE = "apply {i, j} in p_tile.span\n  p_tile.at(i, j) = __to<bf16>(other.at(i, j));\n"
MULTIPLY = "pv = mma.row.col.async acc, p_tile, ring[0];\nwait pv;\n"


@pytest.mark.parametrize(
    ("init", "before", "loop", "codes"),
    [
        (" {0.0f}", "", MULTIPLY + WRITE, ["dummy-pv"]),
        (
            "",
            "apply {i, j} in p_tile.span\n  p_tile.at(i, j) = __to<bf16>(0.0f);\n",
            MULTIPLY + WRITE,
            ["dummy-pv"],
        ),
        (
            "",
            "apply {i, j} in p_tile.span\n  p_tile.at(i, j) = 0.0f;\n",
            MULTIPLY + WRITE,
            ["dummy-pv"],
        ),
        (" {0.0f}", WRITE, MULTIPLY + WRITE, []),
        (" {0.0f}", "", WRITE + MULTIPLY, []),
        (" {1.0f}", "", MULTIPLY + WRITE, []),
        ("", "", MULTIPLY + WRITE, ["fragment-undefined"]),
        ("", "", WRITE + MULTIPLY, []),
    ],
)
def test_the_first_pass_multiplies_something(
    consumer: Callable, init: str, before: str, loop: str, codes: list[str]
) -> None:
    analysed = consumer(f"{VALUES}frag bf16 [64, 128] p_tile{init};\n{before}{LOOP.format(loop)}")
    assert analysed.codes == codes


def test_a_fragment_is_written_before_it_is_read(consumer: Callable) -> None:
    values = VALUES.replace("acc = mma.fill.f32 0.0f;\n", "")
    read = "frag f32 [64] late;\napply {i} in row.span\n  row.at(i) = late.at(i);"
    assert consumer(values + read).codes == ["fragment-undefined"]
    maybe = read.replace("apply", "if (n > 0) {\nreduce_max(late, other, 1);\n}\napply", 1)
    consumer(values + maybe).clean()
