"""``mma.load``: a register operand from a shared tile, by every pass, in CUDA, and on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artifact.choreo.compiler import compile_text
from artifact.choreo.diagnostics import CompileError, render
from artifact.choreo.interpret import InterpreterError
from artifact.choreo.interpret_memory import round_bf16

GOLDEN = Path(__file__).resolve().parents[1] / "assets" / "choreo" / "golden" / "operand_loads.co"

Make = Callable[..., Any]
FILL = "acc = mma.fill.f32 0.0f;\n"
Q = "q_tile.subspan(64, 128).at(cid, 0)"
QK = "qk = mma.row.row.async acc, a, ring[0];\n"


# Analysis --------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", ["", "frag bf16 [64, 128] a;\n"])
def test_the_load_says_shape_and_layout(consumer: Make, declared: str) -> None:
    analysed = consumer(f"{FILL}{declared}a = mma.load {Q};\nmma.row.row acc, a, ring[0];").clean()
    (plan,) = analysed.tables.mmas.values()
    assert plan.a is analysed.symbol("a")
    found = analysed.fragment("a")
    assert (found.layout, found.type, found.rows, found.columns) == ("operand", "bf16", 64, 128)


def test_no_mma_has_to_use_it(consumer: Make) -> None:
    consumer(
        f"a = mma.load {Q};\napply {{i, j}} in a.span\n  a.at(i, j) = __to<bf16>(1.0f);"
    ).clean()


def test_it_is_loaded_again_in_an_inner_scope(consumer: Make) -> None:
    analysed = consumer(f"a = mma.load {Q};\nforeach {{k}} in [n]\n  a = mma.load {Q};").clean()
    assert [s.name for s in analysed.tables.symbols if s.kind == "fragment"] == ["a"]


WRONG = [
    ("a = mma.load q_tile;", "mma-load-shape", "a = mma.load q_tile;", r"\[128, 128\]"),
    ("a = mma.load q_tile.subspan(64, 8).at(0, 0);", "mma-load-shape", None, r"\[64, 8\]"),
    (
        "frag bf16 [64, 64] a;\na = mma.load q_tile.subspan(64, 128).at(0, 0);",
        "fragment-shape", None, r"used as \[64, 128\] operand here, but it is \[64, 64\]",
    ),
    ("acc = mma.fill.f32 0.0f;\nmma.row.row acc, ring[0].subspan(64, 128).at(0, 0), ring[0];\n"
     "acc = mma.load q_tile.subspan(64, 128).at(0, 0);",
     "fragment-shape", None, "it is .* accumulator"),
    (f"frag f32 [64, 128] a;\na = mma.load {Q};", "fragment-type", None, "f32, as operand"),
    (f"cid = mma.load {Q};", "wrong-kind", None, "but a register operand is needed"),
    ("a = mma.load loaded;", "wrong-kind", "loaded", ""),
    (
        "a = mma.load q.subspan(64, 128).at(tile, 0);",
        "mma-operand", "q.subspan(64, 128).at(tile, 0)", "a view of Q, bf16 in global memory",
    ),
    ("shared bf16 [64, 64] plain;\na = mma.load plain;", "mma-swizzle", "plain", "no swizzle"),
    (
        "a = mma.load q_tile.view(64, 128).from(4, 0);",
        "mma-alignment", "q_tile.view(64, 128).from(4, 0)", "multiples of 8 rows",
    ),
    (
        "a = mma.load q_tile.view(64, 64).from(0, 32);",
        "mma-alignment", "q_tile.view(64, 64).from(0, 32)", "multiples of 64 columns",
    ),
    (
        f"frag bf16 [64, 128] a;\ninthreads (t < 64) {{\n  a = mma.load {Q};\n}}",
        "mma-threads", f"a = mma.load {Q};", "not all 128 threads",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "code", "place", "message"), WRONG)
def test_what_is_wrong(
    consumer: Make, body: str, code: str, place: str | None, message: str
) -> None:
    analysed = consumer(body)
    assert analysed.codes == [code]
    found = analysed.said(code)
    assert re.search(message, found.message)
    assert found.rule and found.repair
    if place is not None:
        assert analysed.place(code) == place


def test_an_error_names_its_place_and_a_repair() -> None:
    text = GOLDEN.read_text().replace("a_s.subspan(64, 128).at(w, 0);", "a_s;", 1)
    with pytest.raises(CompileError) as refused:
        compile_text(text, "t.co")
    line = next(n for n, s in enumerate(text.splitlines(), 1) if "rows = mma.load" in s)
    (found,) = refused.value.diagnostics
    said = render(found, "t.co", text)
    assert f"t.co:{line}:11: error: mma.load of [128, 128] [mma-load-shape]" in said
    assert "repair: take it with .subspan(64, K).at(..)" in said


def test_it_is_not_read_before_any_load(consumer: Make) -> None:
    analysed = consumer(
        f"{FILL}frag bf16 [64, 128] a;\nmma.row.row acc, a, ring[0];\na = mma.load {Q};"
    )
    assert analysed.codes == ["fragment-undefined"]


def test_it_is_not_loaded_again_while_an_mma_reads_it(consumer: Make) -> None:
    again = f"a = mma.load {Q};"
    analysed = consumer(f"{FILL}a = mma.load {Q};\n{QK}{again}\nwait qk;")
    assert analysed.codes == ["operand-in-flight"]
    assert analysed.place("operand-in-flight") == again
    assert "a is overwritten while qk" in analysed.said("operand-in-flight").message
    consumer(f"{FILL}a = mma.load {Q};\n{QK}wait qk;\n{again}").clean()


READER = """\
inthreads.async (p == 0 && t < 32) {
  foreach {i} in [n] {
    wait taken;
    f = tma.load.async.swiz<128> q.subspan(128, 128).at(tile, 0) => q_tile;
    trigger loaded after f;
  }
}
inthreads.async (p > 0) {
  frag bf16 [64, 128] a;
  acc = mma.fill.f32 0.0f;
  foreach {i} in [n] {
    WAIT
    a = mma.load q_tile.subspan(64, 128).at(p - 1, 0);
    RELEASE
    qk = mma.row.row.async acc, a, ring[0];
    wait qk;
  }
}
"""


@pytest.mark.parametrize(
    ("wait", "release", "codes"),
    [
        # The read is complete: it needs no wait of its own.
        ("wait loaded;", "trigger taken;", []),
        ("", "wait loaded; trigger taken;", ["unwaited-load"]),
        ("inthreads (p == 1) { wait loaded; }", "trigger taken;", ["narrowed-wait"]),
        ("wait loaded;", "inthreads (p == 1) { trigger taken; }", ["narrowed-release"]),
    ],
)
def test_a_tile_is_waited_for_and_may_be_handed_back_at_once(
    threads: Make, wait: str, release: str, codes: list[str]
) -> None:
    body = READER.replace("WAIT", wait).replace("RELEASE", release)
    # Who multiplies by what does not matter here.
    fill = "dma.copy.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[0];\n"
    assert threads(fill + body).codes == codes


def test_without_a_read_in_registers_the_tile_is_released_too_early(threads: Make) -> None:
    body = (
        READER.replace("WAIT", "wait loaded;")
        .replace("RELEASE", "")
        .replace(
            "acc, a, ring[0];\n",
            "acc, q_tile.subspan(64, 128).at(p - 1, 0), ring[0]; trigger taken;\n",
        )
    )
    fill = "dma.copy.swiz<128> q.subspan(128, 128).at(tile, 0) => ring[0];\n"
    assert "released-in-flight" in threads(fill + body).codes


# CUDA ------------------------------------------------------------------------------------------

PROGRAM = """
__co__ void f(global bf16 [M, 128] X, global bf16 [M, 128] O, u32 n) {{
  parallel.async {{b}} by [cdiv(M, 128)] : block {{
    x_s = dma.copy.swiz<{swizzle}> X.subspan(128, 128).at(b, 0) => shared;
    parallel w by [2] : group-4, t by 128 : thread {{
      {body}
    }}
  }}
}}
"""


def emitted(body: str, swizzle: int = 128) -> str:
    cuda = compile_text(PROGRAM.format(body=body, swizzle=swizzle), "m.co").cuda
    return cuda[cuda.index(": parallel w by") :]


@pytest.mark.parametrize("swizzle", [128, 64, 32])
def test_a_load_names_the_panel_the_row_and_the_rows_of_a_panel(swizzle: int) -> None:
    whole = emitted("a = mma.load x_s.chunkat(w, _);", swizzle)
    assert "unsigned a[32];" in whole
    assert f"cu::load_fragment<{swizzle}>(a, x_s, w * 64, 128);" in whole
    right = emitted("a = mma.load x_s.subspan(64, 64).at(w, 1);", swizzle)
    assert "unsigned a[16];" in right
    assert f"cu::load_fragment<{swizzle}>(a, x_s + 16384, w * 64, 128);" in right


def test_a_fragment_that_is_declared_before_is_declared_once() -> None:
    cuda = emitted("frag bf16 [64, 128] a;\na = mma.load x_s.chunkat(w, _);")
    assert cuda.count("unsigned a[32];") == 1
    assert cuda.index("unsigned a[32];") < cuda.index("cu::load_fragment<128>(a, ")


@pytest.mark.parametrize(
    ("operation", "step"),
    [
        ("mma.row.row", "cu::wgmma_nk<128>(acc, a + 4 * k, b_2.at(k / 4 * 16384 + k % 4 * 32)"),
        ("mma.row.col", "cu::wgmma_kn<128>(acc, a + 4 * k, b_2.at(k * 2048)"),
    ],
)  # fmt: skip
def test_it_is_the_a_of_both_orders_behind_its_fence(operation: str, step: str) -> None:
    cuda = emitted(f"a = mma.load x_s.chunkat(w, _);\n{FILL}{operation} acc, a, x_s;")
    fence, begin = "cu::wgmma_fence_registers(a);", "cu::wgmma_begin(acc);"
    assert cuda.index(fence) < cuda.index(begin) < cuda.index(step)


def test_a_warpgroup_meets_around_the_store_of_what_it_loads() -> None:
    lines = [line.strip() for line in compile_text(GOLDEN.read_text(), "t.co").cuda.splitlines()]
    lines = [line for line in lines if not line.startswith("//")]
    store = lines.index("cu::store_fragment<128>(half, part, w * 64, 128);")
    own = "cu::named_barrier_sync(1 + cu::warpgroup_index(), 128);"
    # Its warps read it with ldmatrix, not the tensor cores: no fence between the proxies.
    assert lines[store - 1] == lines[store + 1] == own


# The interpreter -------------------------------------------------------------------------------


def given(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    a, b = (round_bf16(rng.standard_normal((n, 128), np.float32)) for n in (rows, 128))
    return {"A": a, "B": b, "C": np.full((rows, 128), np.nan, np.float32)}


@pytest.mark.parametrize("seed", range(3))
def test_it_computes_what_numpy_does(program: Make, seed: int) -> None:
    tensors = given(256)
    a, b = (tensors[name].astype(np.float64) for name in "AB")
    again = round_bf16((a[:, 64:] @ b[:64, :64].T).astype(np.float32)).astype(np.float64)
    trips = 2
    expected = trips * (a @ b.T + again @ b[64:])
    found = program(GOLDEN.read_text()).run(tensors, {"n": trips}, seed=seed).tensors["C"]
    np.testing.assert_allclose(found, expected, rtol=2**-7, atol=1.0)
    # The tolerance is that of the roundings: the parts by themselves are far from it.
    for part in (a @ b.T, again @ b[64:]):
        assert np.abs(found - trips * part).max() > 20


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("old", "new", "fault", "place", "message"),
    [
        ("          wait full;\n", "", "early-read", "rows = mma.load", "a_s is read"),
        (
            "          trigger taken;\n", "", "deadlock", "wait taken;", "nobody can go on",
        ),
        (
            "          wait taken;\n", "", "overwrite", "a_load = tma", "a_s is overwritten",
        ),
        (
            "          wait product;\n          wait square;\n",
            "          rows = mma.load a_s.subspan(64, 128).at(w, 0); // again\n"
            "          wait product;\n          wait square;\n",
            "in-flight", "// again", "rows is overwritten while the MMA",
        ),
        (
            # The tile is handed back before it is read.
            "          rows = mma.load a_s.subspan(64, 128).at(w, 0);\n"
            "          right = mma.load a_s.subspan(64, 64).at(w, 1);\n          trigger taken;\n",
            "          trigger taken;\n          rows = mma.load a_s.subspan(64, 128).at(w, 0);\n"
            "          right = mma.load a_s.subspan(64, 64).at(w, 1);\n",
            None, None, "a_s is (read|overwritten)",
        ),
    ],
    ids=["no wait", "no release", "no wait for a free tile", "loaded again", "released early"],
)  # fmt: skip
def test_a_broken_program_is_caught(
    program: Make, old: str, new: str, fault: str | None, place: str | None, message: str, seed: int
) -> None:
    text = GOLDEN.read_text()
    assert text.count(old) == 1
    broken = program(text.replace(old, new))
    with pytest.raises(InterpreterError, match=message) as caught:
        broken.run(given(128), {"n": 3}, seed=seed)
    # Of a tile that is released early either side may come first.
    assert caught.value.fault in ([fault] if fault else ["early-read", "overwrite"])
    if place is not None:
        assert caught.value.line == broken.line(place)
