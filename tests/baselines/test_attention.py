"""Online softmax against FP64, and the properties that must not depend on how it is computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# FP32 sums and BF16 rounding of P: an output is at most about 1 and P's relative error 2**-9,
# so two right implementations differ by a few thousandths at the very most.
ROUNDING = 4e-3


def fp64_attention(q, k, v, row):
    """One row of causal attention in plain Python floats, from its definition."""
    scores = [
        math.fsum(float(a) * float(b) for a, b in zip(q[row], k[j], strict=True))
        for j in range(row + 1)
    ]
    scores = [score / math.sqrt(q.shape[1]) for score in scores]
    weights = [math.exp(score - max(scores)) for score in scores]
    total = math.fsum(weights)
    return [
        math.fsum(w * float(v[j, d]) for j, w in enumerate(weights)) / total
        for d in range(q.shape[1])
    ]


def tensors(cpu, length, dim=16, seed=42):
    inputs = cpu.Inputs(cpu.Shape(1, length, 1, dim), seed)
    _, _, q, k, v = next(inputs.each_head())
    return q, k, v


def run(cpu, attend, q, k, v, **more):
    return attend(q, k, v, cpu.softmax_scale(q.shape[1]), **more)


def test_scale_is_the_kernels_constant(cpu):
    assert np.float32(cpu.softmax_scale(128)) == np.float32(0.12751743)


@pytest.mark.parametrize("row", [0, 1, 31, 32, 95])
def test_the_oracle_agrees_with_the_definition(cpu, row):
    q, k, v = tensors(cpu, 96)
    expected = fp64_attention(q, k, v, row)
    np.testing.assert_allclose(cpu.oracle(q, k, v)[row], expected, rtol=1e-12, atol=1e-14)


def test_the_oracle_does_not_depend_on_its_blocks(cpu):
    q, k, v = tensors(cpu, 96)
    np.testing.assert_allclose(
        cpu.oracle(q, k, v, block=7), cpu.oracle(q, k, v), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("dim", [8, 64, 128])
@pytest.mark.parametrize("name", ["direct", "forward", "reverse", "deferred"])
def test_each_implementation_agrees_with_fp64(cpu, dim, name):
    attend = {
        "direct": cpu.direct,
        "forward": cpu.Online(64, 64),
        "reverse": cpu.Online(64, 64, reverse=True),
        "deferred": cpu.Online(64, 64, reverse=True, deferred=True),
    }[name]
    q, k, v = tensors(cpu, 256, dim)
    assert np.abs(run(cpu, attend, q, k, v) - cpu.oracle(q, k, v)).max() < ROUNDING


def test_without_bf16_it_is_the_same_function(cpu, monkeypatch):
    """With P unrounded, every form agrees with FP64 to FP32's accuracy: no hidden error."""
    monkeypatch.setattr(cpu, "round_bf16", lambda values: values)
    q, k, v = tensors(cpu, 256)
    ref = cpu.oracle(q, k, v)
    forms = [cpu.direct]
    forms += [cpu.Online(*t, r, d) for t in ((32, 64), (64, 32)) for r in (0, 1) for d in (0, 1)]
    for attend in forms:
        assert np.abs(run(cpu, attend, q, k, v) - ref).max() < 3e-6


@pytest.mark.parametrize("deferred", [False, True])
def test_p_is_rounded_before_v_and_the_row_sum_is_not(cpu, monkeypatch, deferred):
    """With rounding replaced by halving, O halves and l does not: so does the output."""
    q, k, v = tensors(cpu, 128)
    ref = cpu.oracle(q, k, v)
    monkeypatch.setattr(cpu, "round_bf16", lambda values: values * np.float32(0.5))
    for attend in (cpu.direct, cpu.Online(32, 32, deferred=deferred)):
        assert np.abs(run(cpu, attend, q, k, v) - ref / 2).max() < 3e-6


tiles = st.sampled_from([16, 32, 48, 64, 96, 128])


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    tile_q=tiles,
    tile_kv=tiles,
    reverse=st.booleans(),
    deferred=st.booleans(),
)
def test_neither_tile_nor_order_nor_row_sum_change_the_answer(
    cpu, seed, tile_q, tile_kv, reverse, deferred
):
    q, k, v = tensors(cpu, 384, 16, seed)
    one_tile = run(cpu, cpu.Online(384, 384), q, k, v)
    tiled = run(cpu, cpu.Online(tile_q, tile_kv, reverse, deferred), q, k, v)
    assert np.isfinite(tiled).all()
    assert np.abs(tiled - one_tile).max() < ROUNDING


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    scale=st.sampled_from([1.0, 100.0, 1e18]),
    tile_q=tiles,
    tile_kv=tiles,
    reverse=st.booleans(),
)
def test_row_maxima_survive_masked_tiles_and_large_scores(
    cpu, seed, scale, tile_q, tile_kv, reverse
):
    """Whole rows of a tile may be masked before a row has seen anything, and nothing overflows."""
    q, k, v = tensors(cpu, 384, 16, seed)
    q = q * np.float32(scale)
    with np.errstate(invalid="raise", over="raise", divide="raise"):
        out = run(cpu, cpu.Online(tile_q, tile_kv, reverse), q, k, v)
    assert np.isfinite(out).all()
    # Row 0 sees itself alone: its output is its value, whatever its score.
    np.testing.assert_array_equal(out[0], v[0])


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    row=st.integers(0, 254),
    form=st.sampled_from(["direct", "forward", "reverse"]),
)
def test_the_future_does_not_change_a_row(cpu, seed, row, form):
    """Causality, exactly: other keys and values after a row leave its bits alone."""
    attend = {
        "direct": cpu.direct,
        "forward": cpu.Online(64, 64),
        "reverse": cpu.Online(64, 64, reverse=True),
    }[form]
    q, k, v = tensors(cpu, 256, 16, seed)
    before = run(cpu, attend, q, k, v)
    k2, v2 = k.copy(), v.copy()
    k2[row + 1 :] = 2 - k2[row + 1 :]
    v2[row + 1 :] = 1 - v2[row + 1 :]
    after = run(cpu, attend, q, k2, v2)
    np.testing.assert_array_equal(cpu.to_bf16(after[: row + 1]), cpu.to_bf16(before[: row + 1]))
    assert not np.array_equal(after[row + 1 :], before[row + 1 :])


def test_batches_and_heads_are_independent(cpu):
    shape = cpu.Shape(2, 128, 3, 16)
    inputs = cpu.Inputs(shape, 42)
    out = np.empty(shape, dtype=np.uint16)
    cpu.launch(cpu.Online(64, 64), inputs, out)
    batches, heads = [1, 0], [2, 0, 1]
    inputs.heads = tuple(x[np.ix_(batches, heads)] for x in inputs.heads)
    permuted = np.empty(shape, dtype=np.uint16)
    cpu.launch(cpu.Online(64, 64), inputs, permuted)
    np.testing.assert_array_equal(permuted, out[batches][:, :, heads])


def test_equal_keys_average_the_values(cpu):
    q, k, v = tensors(cpu, 128)
    k[:] = k[0]
    averages = np.cumsum(v.astype(np.float64), axis=0) / np.arange(1, 129)[:, None]
    for attend in (cpu.direct, cpu.Online(32, 16), cpu.Online(32, 64, reverse=True)):
        assert np.abs(run(cpu, attend, q, k, v) - averages).max() < ROUNDING


def test_a_row_that_sees_nothing_is_zero(cpu):
    q, k, v = tensors(cpu, 256)
    seen = cpu.Seen(dropped=range(128))
    for attend in (cpu.direct, cpu.Online(64, 64), cpu.Online(64, 32, reverse=True, deferred=True)):
        out = run(cpu, attend, q, k, v, seen=seen)
        assert not out[:128].any()
        assert np.isfinite(out).all() and out[128:].any(axis=1).all()
    assert not run(cpu, cpu.direct, q, k, v, seen=cpu.Seen(dropped=range(256))).any()


@settings(max_examples=60, deadline=None)
@given(
    rows=st.tuples(st.integers(0, 200), st.integers(1, 80)),
    keys=st.tuples(st.integers(0, 200), st.integers(1, 80)),
    dropped=st.tuples(st.integers(0, 200), st.integers(0, 60)),
    leak=st.tuples(
        st.integers(0, 200), st.integers(0, 60), st.integers(0, 200), st.integers(0, 60)
    ),
)
def test_a_tiles_mask_is_what_each_pair_says(cpu, rows, keys, dropped, leak):
    def span(start, size):
        return range(start, start + size)

    seen = cpu.Seen(span(*dropped), span(*leak[:2]), span(*leak[2:]))
    expected = np.array(
        [
            [
                (j <= i or (i in seen.leak_rows and j in seen.leak_keys)) and j not in seen.dropped
                for j in span(*keys)
            ]
            for i in span(*rows)
        ]
    )
    mask = seen.tile(span(*rows), span(*keys))
    if isinstance(mask, bool):
        assert expected.all() if mask else not expected.any()
    else:
        np.testing.assert_array_equal(mask, expected)
        assert expected.any() and not expected.all()


def test_only_the_diagonal_tile_is_masked(cpu):
    tiles = [
        (q, kv, cpu.CAUSAL.tile(range(q, q + 64), range(kv, kv + 64)))
        for q in range(0, 256, 64)
        for kv in range(0, 256, 64)
    ]
    for q, kv, mask in tiles:
        if q == kv:
            np.testing.assert_array_equal(mask, np.tri(64, dtype=bool))
        else:
            assert mask is (kv < q)


def test_the_traversal_is_the_order_of_the_tiles(cpu):
    def order(reverse):
        online = cpu.Online(64, 32, reverse=reverse)
        return [keys.start for keys, _ in online._tiles(range(64, 128), 256, cpu.CAUSAL)]

    assert order(False) == [0, 32, 64, 96]
    assert order(True) == [96, 64, 32, 0]


def test_deferred_lanes_hold_the_columns_of_an_accumulator(cpu):
    p = np.zeros((1, 16), dtype=np.float32)
    p[0] = 2.0 ** np.arange(16)
    lanes = cpu.Online(deferred=True)._row_sum(p)[0].astype(int)
    assert [f"{lane:016b}"[::-1] for lane in lanes] == [
        "1100000011000000",
        "0011000000110000",
        "0000110000001100",
        "0000001100000011",
    ]
