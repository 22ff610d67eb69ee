"""Every misuse that the worklog warns about, made in the repository's own kernels.

Each edit of a right kernel is one mistake; it gives one error, at the place of the mistake.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.choreo.conftest import KERNELS


def edited(kernel: str, *edits: tuple[str, str]) -> str:
    """A kernel's text with the first occurrence of each piece replaced."""
    (path,) = KERNELS.glob(f"{kernel}_*.co")
    text = path.read_text()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


SEEDS = "foreach {s} in [K_STAGES] { trigger ke.at(s); }\n        "
PROLOGUE = "acc_s = mma.fill.f32 0.0f;\n        wait qf;"
OVERWRITE = (
    "          apply {i, j} in acc_s_cast.span\n"
    "            acc_s_cast.at(i, j) = __to<bf16>(acc_s.at(i, j));\n"
)
RELEASE_V = "          wait pv;\n          trigger ve.at(v_pipe_order++);\n"
FIRST_P = (
    "        apply {i, j} in acc_s_cast.span\n"
    "          acc_s_cast.at(i, j) = __to<bf16>(acc_s.at(i, j));\n\n"
)

MISTAKES = [
    pytest.param(
        [("wait ke.at(k_pipe_order)", "wait ke.at(k_slot)")],
        "slot-as-order",
        "k_slot",
        id="an event indexed with the slot",
    ),
    pytest.param(
        [("wait ke.at(k_pipe_order)", "wait ke[k_slot]")],
        "physical-index",
        "ke[k_slot]",
        id="a wait for a slot",
    ),
    pytest.param(
        [(PROLOGUE, SEEDS + PROLOGUE)],
        "seeded-twice",
        "ke.at(s)",
        id="a ready event seeded by hand",
    ),
    pytest.param(
        [("trigger kf.at(k_pipe_order++) after k_load;", "trigger kf.at(k_pipe_order++);")],
        "trigger-before-completion",
        "trigger kf.at(k_pipe_order++);",
        id="a plain trigger right after a load",
    ),
    pytest.param(
        [(f"{RELEASE_V}\n{OVERWRITE}", f"{OVERWRITE}\n{RELEASE_V}")],
        "operand-in-flight",
        "acc_s_cast.at(i, j)",
        id="the probabilities overwritten while PV is in flight",
    ),
    pytest.param(
        [
            ("          wait qk;\n          trigger ke.at(k_pipe_order++);\n\n", ""),
            (
                RELEASE_V,
                f"          wait qk;\n          trigger ke.at(k_pipe_order++);\n{RELEASE_V}",
            ),
        ],
        "accumulator-in-flight",
        "acc_s",
        id="an accumulator read before its future is waited for",
    ),
    pytest.param(
        [("#define V_STAGES 2", "#define V_STAGES 4")],
        "shared-memory",
        "shared bf16 [BLOCK_M, DIM] o_buf;",
        id="shared memory over 227 KiB",
    ),
    pytest.param(
        [(FIRST_P, ""), ("[WG_M, BLOCK_N] acc_s_cast;", "[WG_M, BLOCK_N] acc_s_cast {0.0f};")],
        "dummy-pv",
        "pv = mma.row.col.async acc_o, acc_s_cast, v_buf[prev_v_slot];",
        id="a dummy PV in the first iteration",
    ),
    pytest.param(
        [
            ("          trigger ve.at(v_pipe_order++);\n", ""),
            ("        trigger ve.at(v_pipe_order++);\n", ""),
        ],
        "never-triggered",
        "ve.at(v_pipe_order)",
        id="an event that nobody triggers",
    ),
    pytest.param(
        [("trigger ke.at(k_pipe_order++);\n\n          copy", "copy")],
        None,
        None,
        id="a release that is forgotten in the loop",
    ),
    pytest.param(
        [
            (
                "          wait qk;\n          trigger ke.at(k_pipe_order++);",
                "          trigger ke.at(k_pipe_order++);\n          wait qk;",
            )
        ],
        "released-in-flight",
        "ke.at(k_pipe_order++)",
        id="a tile released while QK reads it",
    ),
    pytest.param(
        [("call croq::cuda::setreg_inc(232)", "call croq::cuda::setreg_inc(240)")],
        "register-budget",
        "call croq::cuda::setreg_inc(240);",
        id="more registers than the block has",
    ),
]


@pytest.mark.parametrize(("edits", "code", "place"), MISTAKES)
def test_one_mistake_is_one_error_at_its_place(
    whole: Callable, edits: list[tuple[str, str]], code: str | None, place: str | None
) -> None:
    analysed = whole(edited("v4", *edits))
    if code is None:
        # No rule is broken in the text; the interpreter sees the generation that is missing.
        assert analysed.codes == []
        return
    assert analysed.codes == [code]
    assert analysed.place(code) == place
    said = analysed.said(code)
    assert said.severity == "error" and said.rule and said.repair


QF = "wait qf;\n"
BEGINS = "inthreads (p == 2) {\n          wait second_begins;\n        }\n"
K_LOADED = "trigger kf.at(k_pipe_order++) after k_load;\n"
Q_LOADED = "trigger qf after q_load;\n"
FILL_O = "acc_o = mma.fill.f32 0.0f;\n"
GUARDED = "if (kv_bound > 3) { trigger ke.at(1); }"
V_SLOTS = "foreach {s} in [V_STAGES] { trigger ve.at(s); }"


@pytest.mark.parametrize(
    ("kernel", "behind", "seed", "fill"),
    [
        pytest.param("v2", QF, "trigger ke.at(0);", "kf", id="v2, behind the wait for Q"),
        pytest.param("v2", BEGINS, "trigger ke.at(0);", "kf", id="v2, right before the loop"),
        pytest.param("v4", QF, "trigger ke.at(0);", "kf", id="v4, K behind the wait for Q"),
        pytest.param("v4", QF, "trigger ve.at(0);", "vf", id="v4, V behind the wait for Q"),
        pytest.param("v4", QF, "trigger ke.at(k_pipe_order);", "kf", id="the order, not counted"),
        pytest.param("v4", FILL_O, "trigger ke.at(1);", "kf", id="behind the prologue's release"),
        pytest.param("v4", FILL_O, V_SLOTS, "vf", id="slot by slot before the loop"),
        pytest.param("v4", QF, GUARDED, "kf", id="inside an if"),
        pytest.param("v4", K_LOADED, "trigger ve.at(0);", "vf", id="in the producer"),
        pytest.param(
            "v3", Q_LOADED, "inthreads (t < 32) { trigger ke.at(0); }", "kf", id="in a loader"
        ),
        pytest.param("v5", QF, "trigger ke.at(0);", "kf", id="v5, behind the wait for Q"),
    ],
)
def test_a_seed_behind_any_wait_but_that_for_its_tile(
    whole: Callable, kernel: str, behind: str, seed: str, fill: str
) -> None:
    analysed = whole(edited(kernel, (behind, f"{behind}{seed}\n")))
    assert analysed.codes == ["seeded-twice"]
    (line,) = [n for n, text in enumerate(analysed.text.split("\n"), 1) if text == seed]
    said = analysed.said("seeded-twice")
    assert said.span.line == line
    assert f"no wait for {fill}" in said.message and f"waits for {fill}" in said.repair


def test_two_triggers_behind_one_wait_for_the_tile(whole: Callable) -> None:
    seed = ("wait first_qk;\n", "wait first_qk;\ntrigger ke.at(0);\n")
    analysed = whole(edited("v4", seed))
    # Order 0 by a constant, and by the scalar that begins there: one generation.
    assert analysed.codes == ["double-trigger"]
    assert analysed.place("double-trigger") == "ke.at(k_pipe_order++)"
    # The two stand far apart, and the second has no wait of its own left.
    analysed = whole(edited("v3", (QF, QF + "trigger qe;\n")))
    assert analysed.codes == ["seeded-twice"]
    assert analysed.said("seeded-twice").span.line == 1 + next(
        n for n, text in enumerate(analysed.text.split("\n"), 1) if "may load the next Q" in text
    )


def test_tiles_that_do_not_divide(whole: Callable) -> None:
    analysed = whole(edited("v4", ("#define WG_M 64", "#define WG_M 48")))
    assert set(analysed.codes) == {"tile-divides"}


def test_a_swizzle_that_does_not_match_the_box(whole: Callable) -> None:
    analysed = whole(edited("v4", ("#define DIM 128", "#define DIM 96")))
    assert set(analysed.codes) == {"swizzle-box"}
    assert analysed.diagnostics.found[0].repair == "write .swiz<64>"


def test_a_ring_that_is_not_ready_waits_for_itself_unless_it_is_seeded(whole: Callable) -> None:
    pending = ("ke[K_STAGES] = ready", "ke[K_STAGES]")
    assert whole(edited("v4", pending)).codes == ["deadlock"]
    # As the published v2 does it.
    whole(edited("v4", pending, (PROLOGUE, SEEDS + PROLOGUE))).clean()


def test_orders_that_are_reset_for_each_task(whole: Callable) -> None:
    reset = "\n        mutable u32 k_pipe_order = 0;\n        mutable u32 v_pipe_order = 0;\n"
    loop = "\n        while (position < end) {\n"
    text = edited("v3", (reset, "\n"), (loop, loop + reset))
    assert set(whole(text).codes) == {"order-restarts"}


def test_the_old_spelling_of_loads_is_accepted(whole: Callable) -> None:
    text = edited("v2").replace("tma.load.async.evict_last", "tma.copy.async")
    whole(text.replace("tma.load.async.evict_first", "tma.copy.async")).clean()
