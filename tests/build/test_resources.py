"""The assembler's report: what it says of each entry, and what of that fails a build."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifact.build import resources
from artifact.build.failures import BuildFailed
from artifact.build.resources import parse

# As ptxas 13.0 prints it, with a device function that is no entry among the properties.
REPORT = """\
ptxas info    : 4 bytes gmem
ptxas info    : Compiling entry function '_Z6oraclePf' for 'sm_90a'
ptxas info    : Function properties for _Z4deepf
    96 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Function properties for _Z6oraclePf
    32 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 32 bytes cumulative stack size
ptxas info    : Compile time = 12.627 ms
ptxas info    : Compiling entry function '_Z4kernPf' for 'sm_90a'
ptxas info    : Function properties for _Z4kernPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers, 1152 bytes smem
"""
SERIALIZED = (
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
    "serialized due to insufficient register resources for the wgmma pipeline in the function "
    "'{}'\n"
)
IGNORED = (
    "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to maintain "
    "minimum register requirements.\n"
)


def test_every_entry_has_its_figures() -> None:
    oracle, kernel = parse(REPORT, "_Z4kern.*")
    assert (oracle.symbol, oracle.measured, oracle.registers) == ("_Z6oraclePf", False, 255)
    assert (oracle.stack_bytes, oracle.spill_store_bytes, oracle.spill_load_bytes) == (32, 8, 12)
    assert (kernel.symbol, kernel.measured, kernel.registers) == ("_Z4kernPf", True, 168)
    assert (kernel.static_shared_bytes, kernel.spill_store_bytes, kernel.warnings) == (1152, 0, ())
    # The whole symbol must match, as in a witness.
    assert not any(entry.measured for entry in parse(REPORT, "_Z4kern"))
    assert all(entry.measured for entry in parse(REPORT, None))


def test_spills_of_the_measured_kernel_fail_the_build() -> None:
    resources.judge("b", parse(REPORT, "_Z4kern.*"), "_Z4kern.*")
    with pytest.raises(BuildFailed, match="not fit to be measured") as caught:
        resources.judge("b", parse(REPORT, "_Z6oracle.*"), "_Z6oracle.*")
    assert caught.value.found == "_Z6oraclePf: 8 bytes of spill stores, 12 of spill loads"


def test_a_loss_counts_where_it_is() -> None:
    named = parse(REPORT + SERIALIZED.format("_Z4kernPf"), "_Z4kern.*")
    with pytest.raises(BuildFailed) as caught:
        resources.judge("b", named, "_Z4kern.*")
    assert "C7510" in str(caught.value.found)
    other = parse(REPORT + SERIALIZED.format("_Z6oraclePf"), "_Z4kern.*")
    resources.judge("b", other, "_Z4kern.*")
    assert [len(entry.warnings) for entry in other] == [1, 0]


@pytest.mark.parametrize("text", [IGNORED, SERIALIZED.format("_Z4deepf")])
def test_a_loss_of_nobody_counts_against_every_measured_kernel(text: str) -> None:
    found = parse(REPORT + text, "_Z4kern.*")
    assert [len(entry.warnings) for entry in found] == [0, 1]
    with pytest.raises(BuildFailed):
        resources.judge("b", found, "_Z4kern.*")


def test_a_kernel_that_is_not_there() -> None:
    with pytest.raises(BuildFailed, match="no kernel of the build") as caught:
        resources.judge("b", parse(REPORT, "v9"), "v9")
    assert caught.value.found == "_Z6oraclePf, _Z4kernPf"
    with pytest.raises(BuildFailed, match="no kernel of the build"):
        resources.judge("b", parse("nothing", None), None)


@pytest.mark.parametrize("lost", ["Used 168", "0 bytes stack"])
def test_a_report_that_lacks_figures(lost: str) -> None:
    text = "\n".join(line for line in REPORT.splitlines() if lost not in line)
    with pytest.raises(BuildFailed, match="lacks the figures") as caught:
        parse(text, None)
    assert caught.value.where == "_Z4kernPf"


@given(st.lists(st.sampled_from([*REPORT.splitlines(), "", IGNORED.strip(), "x 'y'"]), max_size=20))
def test_any_lines_are_a_report_or_a_failed_build(lines: list[str]) -> None:
    try:
        entries = parse("\n".join(lines), "_Z4kern.*")
    except BuildFailed:
        return
    assert len({entry.symbol for entry in entries}) == len(entries)
