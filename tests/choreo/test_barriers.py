"""Which hardware barrier is whose: no id has two uses, with any number of warpgroups."""

from __future__ import annotations

import re

import pytest

from artifact.choreo.compiler import compile_text
from artifact.choreo.diagnostics import CompileError

PROGRAM = """
__co__ void f(global bf16 [M, 64] X, global bf16 [M, 64] O, u32 n) {{
  parallel.async b by M : block {{
    shared bf16 [64, 64] p_s[{groups}], o_s;
    {events}
    x_s = dma.copy.swiz<128> X.subspan(64, 64).at(0, 0) => shared;
    parallel w by [{groups}] : group-4, t by 128 : thread {{
      acc = mma.fill.f32 0.0f; mma.row.row acc, x_s, x_s;
      mma.store acc, p_s[w]; mma.row.row acc, p_s[w], x_s;
      {body}
    }}
  }}
}}
"""
EVENTS = 8


def emitted(groups: int, body: str = "") -> str:
    """Every warpgroup stores an operand; warpgroup 0 hands back more events than ids are left."""
    events, roles = "", ""
    for k in range(EVENTS):
        events += f"shared event given{k}, taken{k} = ready;"
        roles += f"inthreads (w == 0) {{ wait taken{k}; trigger given{k}; }}"
        roles += f"inthreads (w == 1) {{ wait given{k}; trigger taken{k}; }}"
    store = "mma.store acc, o_s; tma.copy o_s => O.subspan(64, 64).at(b, 0);"
    body += f"{roles} inthreads (w == 1) {{ {store} }}"
    text = PROGRAM.format(groups=groups, events=events, body=body)
    return compile_text(text, "b.co").cuda


@pytest.mark.parametrize("groups", range(2, 9))
def test_ids_of_warpgroups_events_and_transfers_are_different(groups: int) -> None:
    cuda = emitted(groups)
    assert "cu::named_barrier_sync(1 + cu::warpgroup_index(), 128);" in cuda
    events = set(re.findall(r"a named barrier, id (\d+)", cuda))
    others = set(re.findall(r"named_barrier_sync\((\d+), 128\)", cuda)) - events
    assert events == {str(n) for n in range(max(8, groups + 1), 15)}
    assert others == {"15"}


def test_the_programs_own_barriers_stay_its_own() -> None:
    cuda = emitted(4, "call __bar_sync(14, 512); call __bar_arrive(9, 512);")
    assert "id 14" not in cuda and "id 9," not in cuda and "id 13" in cuda


@pytest.mark.parametrize("number", ["1", "4", "n"])
def test_the_program_does_not_take_a_warpgroups_barrier(number: str) -> None:
    with pytest.raises(CompileError) as caught:
        emitted(4, f"call __bar_sync({number}, 512);")
    assert {d.code for d in caught.value.diagnostics} == {"barrier-ids"}


def test_a_store_does_not_take_the_programs_barrier() -> None:
    with pytest.raises(CompileError) as caught:
        emitted(4, "call __bar_sync(15, 512);")
    (found,) = caught.value.diagnostics
    assert found.code == "barrier-ids" and "no hardware barrier is left" in found.message
