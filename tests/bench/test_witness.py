from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.bench import witness
from artifact.errors import ExitCode, FallbackRefused
from artifact.model.backend import Witness

EXPECTED = Witness(
    implementation="fa3",
    symbol=r"_Z.*flash_fwd.*hdim128.*",
    grid=("114", "1", "1"),
    threads=384,
    cluster=1,
    registers_max=168,
    spills=0,
    dynamic_shared_bytes=196608,
    cubin_sha256="a" * 64,
    distribution="flash-attn-3==3.0.0",
    module_sha256="b" * 64,
)
FACTS = {
    "implementation": "fa3",
    "symbol": "_ZN5flash_fwd_hdim128_sm90",
    "threads": 384,
    "cluster": 1,
    "registers": 168,
    "spills": 0,
    "dynamic_shared_bytes": 196608,
    "cubin_sha256": "a" * 64,
    "distribution": "flash-attn-3==3.0.0",
    "module_sha256": "b" * 64,
    "grid": "114x1x1",
}


def test_the_expected_kernel_is_accepted_and_recorded() -> None:
    record = witness.require("fa3", "S=4096", EXPECTED, FACTS)
    assert record.facts == FACTS
    assert record.expected == {**EXPECTED.model_dump(), "grid": "114x1x1"}
    assert witness.recorded(record.expected) == EXPECTED
    assert witness.compare(EXPECTED, FACTS) == ()


def test_the_example_covers_every_field_that_a_manifest_can_state() -> None:
    assert witness.expectations(EXPECTED).keys() == Witness.model_fields.keys()


@pytest.mark.parametrize(
    ("fact", "wrong"),
    [
        ("implementation", "fa2"),
        ("symbol", "_ZN5flash_fwd_hdim64"),
        ("symbol", "x_ZN5flash_fwd_hdim128_sm90"),  # a full match, not a search
        ("symbol", 7),
        ("grid", "132x1x1"),
        ("grid", "114"),
        ("grid", 114),
        ("threads", 128),
        ("threads", 384.0),
        ("threads", "384"),
        ("cluster", True),  # True == 1 in Python
        ("registers", 169),
        ("registers", -1),
        ("registers", 100.0),
        ("registers", True),
        ("spills", 8),
        ("spills", False),
        ("dynamic_shared_bytes", 0),
        ("cubin_sha256", "A" * 64),
        ("distribution", "flash-attn-3==3.0.1"),
        ("module_sha256", "c" * 64),
    ],
)
def test_each_fact_that_differs_is_a_refused_fallback(fact: str, wrong: object) -> None:
    facts = {**FACTS, fact: wrong}
    (difference,) = witness.compare(EXPECTED, facts)
    assert difference.startswith(f"{fact}: expected ")
    assert difference.endswith(f"found {wrong!r}")
    with pytest.raises(FallbackRefused) as caught:
        witness.require("fa3", "S=4096", EXPECTED, facts)
    assert caught.value.exit_code == ExitCode.FALLBACK == 6
    assert caught.value.where == "backend fa3, shape S=4096, witness"
    assert caught.value.found == difference
    assert caught.value.details == ()


@pytest.mark.parametrize("missing", sorted(FACTS.keys()))
@pytest.mark.parametrize("how", ["absent", "null"])
def test_a_fact_that_is_not_reported_is_a_difference(missing: str, how: str) -> None:
    facts = {k: v for k, v in FACTS.items() if k != missing}
    if how == "null":
        facts[missing] = None
    (difference,) = witness.compare(EXPECTED, facts)
    assert difference.startswith(f"{missing}: ")
    assert difference.endswith("not reported")


def test_what_was_wanted_is_said_in_words() -> None:
    differences = dict(line.split(": expected ", 1) for line in witness.compare(EXPECTED, {}))
    assert differences["symbol"].startswith("a symbol that matches '_Z.*flash_fwd.*hdim128.*',")
    assert differences["registers"].startswith("at most 168,")
    assert differences["threads"].startswith("384,")


def test_every_difference_is_listed() -> None:
    with pytest.raises(FallbackRefused) as caught:
        witness.require("fa3", "S=4096", EXPECTED, {})
    assert len(caught.value.details) == len(Witness.model_fields)
    assert caught.value.found == f"{len(Witness.model_fields)} differences"


def test_what_the_manifest_leaves_open_is_recorded_only() -> None:
    record = witness.require("x", "s", Witness(), {"threads": 1, "anything": None})
    assert record.expected == {}
    assert record.facts == {"threads": 1, "anything": None}


def test_a_grid_follows_from_the_shape_and_the_target() -> None:
    tiles = Witness(grid=("S/128", "H", "B"))
    ctas = Witness(grid=("persistent_ctas",))
    for rows, blocks in ((4096, 32), (8192, 64)):
        dims, parameters = {"B": 4, "H": 32, "S": rows}, {"persistent-ctas": 114}
        assert witness.expectations(tiles.at(dims, parameters)) == {"grid": f"{blocks}x32x4"}
        assert witness.expectations(ctas.at(dims, parameters)) == {"grid": "114x1x1"}
    assert Witness().at({}, {}) == Witness()
    launched = {"grid": "32x32x4"}
    assert witness.compare(tiles.at({"B": 4, "H": 32, "S": 4096}, {}), launched) == ()
    assert len(witness.compare(tiles.at({"B": 4, "H": 32, "S": 8192}, {}), launched)) == 1


@pytest.mark.parametrize(
    ("grid", "problem"),
    [
        (("S/128",), "is 25/32, not a whole number"),
        (("S-100",), "is 0, not a whole number"),
        (("1", "ctas",), "unknown dimension"),
        (("a_b",), "stands for two things"),
    ],
)  # fmt: skip
def test_a_grid_that_is_no_number_of_blocks(grid: tuple[str, ...], problem: str) -> None:
    parameters = {"a-b": 1, "a.b": 2} if "a_b" in grid else {}
    with pytest.raises(ValueError, match=problem):
        Witness(grid=grid).at({"S": 100}, parameters)


@pytest.mark.parametrize("stated", ["4x4x4x4", "x", "4 x 4 y", 7])
def test_a_recorded_grid_that_is_none(stated: object) -> None:
    with pytest.raises(ValueError, match="grid"):
        witness.recorded({"grid": stated})


def test_a_pattern_that_is_none_is_refused_in_the_manifest() -> None:
    with pytest.raises(ValueError, match="not a regular expression"):
        Witness(symbol="flash(")


@settings(max_examples=50)
@given(st.integers(1, 255), st.integers(0, 300))
def test_registers_up_to_the_limit_are_accepted(limit: int, used: int) -> None:
    differences = witness.compare(Witness(registers_max=limit), {"registers": used})
    assert (differences == ()) == (used <= limit)
