"""Events: barriers, waits and triggers in the CUDA of small pipelines."""

from __future__ import annotations

import re

from artifact.choreo.compiler import compile_text
from artifact.choreo.emit_events import thread_number, threads_condition

PROGRAM = """
__co__ void f(global bf16 [M, 64] X, global bf16 [M, 64] Y, u32 n) {{
  parallel.async {{b}} by [M / 128] : block {{
    shared bf16 [128, 64] x_s[{stages}];
    shared bf16 [128, 64] y_s;
    shared event full[{stages}], empty[{stages}] = ready;
    shared event taken = ready, given;
    parallel p by [3] : group-4, t by 128 : thread {{
      inthreads.async (p == 0) {{
        inthreads (t < 32) {{
          mutable u32 order = 0;
          wait taken;
          once = tma.load.async.swiz<128> Y.subspan(128, 64).at(b, 0) => y_s;
          trigger given after once;
          foreach {{k}} in [n] {{
            wait empty.at(order);
            load = tma.load.async.swiz<128> X.subspan(128, 64).at(b, 0) => x_s[order % {stages}];
            trigger full.at(order++) after load;
          }}
        }}
      }}
      inthreads.async (p > 0) {{
        mutable u32 order = 0;
        wait given;
        trigger taken;
        foreach {{k}} in [n] {{
          wait full.at(order);
          trigger empty.at(order++);
        }}
      }}
    }}
  }}
}}
"""


def emitted(stages: int = 3) -> str:
    return compile_text(PROGRAM.format(stages=stages), "e.co").cuda


def after(cuda: str, comment: str) -> list[str]:
    """The code after a statement's comment, up to the next comment or the enclosing block's end."""
    lines = [line.strip() for line in cuda.splitlines()]
    begin = next(i for i, line in enumerate(lines) if line.endswith(f": {comment}"))
    code: list[str] = []
    depth = 0
    for line in lines[begin + 1 :]:
        depth += line.count("{") - line.count("}")
        if line.startswith("//") or not line or depth < 0:
            break
        code.append(line)
    return code


def test_a_ring_selects_slot_and_generation_of_the_order() -> None:
    cuda = emitted()
    assert after(cuda, "wait full.at(order);") == [
        "cu::mbarrier_wait(&full[order % 3], (order / 3) & 1);"
    ]
    # A barrier that never completed answers "complete" for parity 1.
    assert after(cuda, "wait empty.at(order);") == [
        "cu::mbarrier_wait(&empty[order % 3], ((order / 3) & 1) ^ 1);"
    ]


def test_one_slot_needs_no_division() -> None:
    assert after(emitted(1), "wait full.at(order);") == ["cu::mbarrier_wait(&full[0], order & 1);"]


def test_the_old_order_is_used_and_then_incremented_once() -> None:
    code = after(emitted(), "trigger empty.at(order++);")
    assert code[0].endswith("(&empty[order % 3]);")
    assert code[1] == "order++;"


def test_completion_of_a_load_is_bound_where_it_is_issued() -> None:
    assert after(emitted(), "trigger full.at(order++) after load;") == [
        "if (threadIdx.x == 0) {",
        "cu::mbarrier_arrive_expect(&full[order % 3], 16384);",
        "cu::tma_load(x_s + (order % 3) * 16384, &load_map, &full[order % 3], cu::kEvictNormal, 0, "
        "int(b * 128));",
        "}",
        "order++;",
    ]


def test_a_scalar_event_has_a_parity_in_every_thread() -> None:
    cuda = emitted()
    assert "unsigned given_parity = 0;" in cuda
    assert after(cuda, "wait given;") == [
        "cu::mbarrier_wait(&given[0], given_parity);",
        "given_parity ^= 1;",
    ]


def test_a_hand_back_that_alternates_is_a_named_barrier_whose_first_generation_is_primed() -> None:
    cuda = emitted()
    found = re.search(
        r"cu::named_barrier_sync\((\d+), 288\);", "\n".join(after(cuda, "wait taken;"))
    )
    assert found is not None
    arrive = f"cu::named_barrier_arrive({found[1]}, 288);"
    assert after(cuda, "trigger taken;") == [arrive]
    prologue = cuda[: cuda.index("inthreads.async")]
    assert f"if (threadIdx.x >= 128 && threadIdx.x < 384) {{\n    {arrive}" in prologue
    assert "uint64_t* const taken" not in cuda


def test_barriers_are_initialised_by_one_thread_before_any_role() -> None:
    cuda = emitted()
    prologue = cuda[: cuda.index("const int p =")]
    order = [
        prologue.index(part)
        for part in (
            "if (threadIdx.x == 0) {",
            "cu::tma_prefetch(&once_map);",
            "cu::mbarrier_init(&full[slot], 1);",
            "cu::fence_barrier_init();",
            "cu::wait_for_first_warp<384>();",
        )
    ]
    assert order == sorted(order)


def test_conditions_hold_for_exactly_a_set_of_threads() -> None:
    assert threads_condition(0b1) == "threadIdx.x == 0"
    assert threads_condition((1 << 64) - 1) == "threadIdx.x < 64"
    assert threads_condition(((1 << 64) - 1) << 32) == "threadIdx.x >= 32 && threadIdx.x < 96"
    assert threads_condition(0b1 | 0b11 << 4) == (
        "(threadIdx.x == 0) || (threadIdx.x >= 4 && threadIdx.x < 6)"
    )


def test_threads_of_a_set_are_numbered_without_gaps() -> None:
    warp = (1 << 32) - 1
    assert thread_number(warp) == "int(threadIdx.x)"
    assert thread_number(warp << 128) == "int(threadIdx.x) - 128"
    mask = warp << 32 | warp << 96 | warp << 256
    text = thread_number(mask)
    assert text == "int(threadIdx.x) - (threadIdx.x < 64 ? 32 : threadIdx.x < 128 ? 64 : 192)"
    members = [t for t in range(384) if mask >> t & 1]
    numbers = [t - (32 if t < 64 else 64 if t < 128 else 192) for t in members]
    assert numbers == list(range(96))
