"""TMA stores: fence, barrier, one issuer, and where the wait for the read stands."""

from __future__ import annotations

from artifact.choreo.compiler import compile_text

PROGRAM = """
__co__ void f(global bf16 [M, 64] X, global bf16 [M, 64] O, u32 n) {{
  parallel.async {{b}} by [M / 64] : block {{
    shared bf16 [64, 64] o_s;
    x_s = dma.copy.swiz<128> X.subspan(64, 64).at(b, 0) => shared;
    parallel w by [1] : group-4, t by 128 : thread {{
      {body}
    }}
  }}
}}
"""
MULTIPLY = "acc = mma.fill.f32 0.0f; mma.row.row acc, x_s, x_s;"
STORE = "mma.store acc, o_s; tma.copy o_s => O.subspan(64, 64).at(b, 0);"
WAIT = "cu::tma_store_wait_read<0>();"


def emitted(body: str) -> str:
    return compile_text(PROGRAM.format(body=body), "s.co").cuda


def test_all_writers_show_and_meet_before_one_thread_stores() -> None:
    cuda = emitted(MULTIPLY + STORE)
    begin = cuda.index("cu::store_fragment<128>")
    lines = [line.strip() for line in cuda[begin:].splitlines()]
    code = [line for line in lines if line and not line.startswith("//")]
    assert code[1].startswith("cu::fence_async_proxy();")
    assert code[2].startswith("cu::named_barrier_sync(") and code[2].endswith(", 128);")
    assert code[3] == "if (threadIdx.x == 0) {"
    assert code[4].startswith("cu::tma_store(")
    assert code[5:7] == ["cu::tma_store_commit();", WAIT]


def test_in_a_loop_the_wait_stands_before_the_next_write_and_after_the_loop() -> None:
    cuda = emitted(f"foreach {{k}} in [n] {{ {MULTIPLY} {STORE} }}")
    loop = cuda[cuda.index("for (unsigned k = 0") :]
    store, wait = loop.index("cu::tma_store_commit"), loop.index(WAIT)
    assert wait < loop.index("cu::store_fragment<128>") < store
    assert loop[wait : loop.index("cu::store_fragment")].count("cu::named_barrier_sync(") == 1
    # Nothing waits within the trip once the store is issued; the last one is waited for.
    assert loop.count(WAIT) == 2
    assert loop.rindex(WAIT) > loop.index("\n  }\n")


def test_a_buffer_that_another_block_writes_is_waited_for_at_once() -> None:
    body = f"foreach {{k}} in [n] {{ {MULTIPLY} if (n > 1) {{ mma.store acc, o_s; }} {STORE} }}"
    loop = emitted(body)
    loop = loop[loop.index("for (unsigned k = 0") :]
    after = loop[loop.index("cu::tma_store_commit") :]
    # The reader's wait, and then a barrier for everybody.
    assert after.index(WAIT) < after.index("cu::named_barrier_sync(")
    assert loop.count(WAIT) == 1


def test_a_helper_may_write_the_buffer_too() -> None:
    loop = emitted(f"foreach {{k}} in [n] {{ call fill(o_s); {MULTIPLY} {STORE} }}")
    loop = loop[loop.index("for (unsigned k = 0") :]
    after = loop[loop.index("cu::tma_store_commit") :]
    assert after.index(WAIT) < after.index("cu::named_barrier_sync(")
    once = emitted(f"{MULTIPLY} {STORE} call fill(o_s);")
    after = once[once.index("cu::tma_store_commit") :]
    assert after.index(WAIT) < after.index("cu::named_barrier_sync(") < after.index("fill(")
