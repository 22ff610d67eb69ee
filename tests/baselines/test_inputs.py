"""The input generator and BF16 rounding, bit for bit, against docs/numerics.md."""

from __future__ import annotations

import hashlib
import math
import re
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

WORDS = re.compile(r"^[0-9a-f]{8}( [0-9a-f]{8})*$")


def table_rows(text: str, columns: int) -> list[list[str]]:
    """The cells of every table row of ``text`` that has so many columns."""
    rows = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if len(row) == columns]


def scalar_philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 with plain integers, from the text of docs/numerics.md."""
    c, k = list(counter), list(key)
    for _ in range(10):
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            (right >> 32) ^ c[1] ^ k[0],
            right & 0xFFFFFFFF,
            (left >> 32) ^ c[3] ^ k[1],
            left & 0xFFFFFFFF,
        ]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def scalar_bf16(value: float) -> int:
    """Round a float32 to BF16 by looking at both neighbours."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    low, rest = bits >> 16, bits & 0xFFFF
    if rest > 0x8000 or (rest == 0x8000 and low & 1):
        return low + 1
    return low


def scalar_element(seed: int, stream: int, index: int, half_width: int) -> int:
    block = index // 4
    counter = [block % 2**32, block // 2**32, stream, 0]
    word = scalar_philox(counter, [seed % 2**32, seed // 2**32])[index % 4]
    return scalar_bf16((2 * (word // 256) + 1 - 2**24) * half_width / 2**24)


def test_philox_gives_random123s_known_answers(cpu, numerics):
    rows = [row for row in table_rows(numerics, 3) if all(WORDS.match(cell) for cell in row)]
    assert len(rows) == 3
    for row in rows:
        counter, key, expected = ([int(word, 16) for word in cell.split()] for cell in row)
        assert [int(word) for word in cpu.philox4x32_10(counter, tuple(key))] == expected
        assert scalar_philox(counter, key) == expected


def test_words_of_the_specification(cpu, numerics):
    rows = [row for row in table_rows(numerics, 4) if WORDS.match(row[3])]
    assert len(rows) == 7
    for seed_text, stream, block_text, words in rows:
        seed, block = int(seed_text, 0), 2**32 if block_text == "2^32" else int(block_text)
        counter = (block % 2**32, block // 2**32, int(stream), 0)
        found = cpu.philox4x32_10(counter, (seed % 2**32, seed // 2**32))
        assert " ".join(f"{int(word):08x}" for word in found) == words


def test_first_values_of_the_specification(cpu, numerics):
    rows = [row for row in table_rows(numerics, 3) if re.match(r"^[0-9a-f]{4} ", row[1])]
    assert [row[0] for row in rows] == ["Q", "K", "V"]
    for (name, stream, width), (_, bits, numbers) in zip(cpu.TENSORS, rows, strict=True):
        found = cpu.generate(42, stream, 8, width)
        assert " ".join(f"{value:04x}" for value in found.tolist()) == bits, name
        assert cpu.from_bf16(found[:4]).tolist() == [float(n) for n in numbers.split(", ")]


def test_digests_of_the_specification(cpu, numerics):
    rows = [row for row in table_rows(numerics, 4) if re.fullmatch(r"[0-9a-f]{64}", row[3])]
    assert len(rows) == 27
    tensors = {name.upper(): (stream, width) for name, stream, width in cpu.TENSORS}
    small = 0
    for seed, shape, tensor, expected in rows:
        count = math.prod(int(n) for n in shape.split(", "))
        if count > 1 << 20:
            continue  # The published shapes take minutes; they are prefix-free repeats of this.
        small += 1
        stream, width = tensors[tensor]
        assert cpu.digest(cpu.generate(int(seed, 0), stream, count, width)) == expected
    assert small == 18


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    stream=st.integers(0, 5),
    index=st.integers(0, 3000),
    log2=st.sampled_from([0, 1]),
)
def test_every_element_depends_on_seed_stream_and_index_alone(cpu, seed, stream, index, log2):
    values = cpu.generate(seed, stream, index + 1, log2)
    assert int(values[index]) == scalar_element(seed, stream, index, 2**log2)


def test_a_chunk_boundary_is_not_seen(cpu, monkeypatch):
    whole = cpu.generate(7, 2, 4 * 37 + 3, 0)
    monkeypatch.setattr(cpu, "_CHUNK", 5)
    assert np.array_equal(cpu.generate(7, 2, 4 * 37 + 3, 0), whole)


def test_values_are_uniform_in_their_interval(cpu):
    for _, stream, width in cpu.TENSORS:
        values = cpu.from_bf16(cpu.generate(42, stream, 1 << 18, width)).astype(np.float64)
        half = 2.0**width
        assert np.abs(values).max() == half  # BF16 rounds the last 2**-9 of it up to the end
        # The mean of n uniform values has the standard deviation half / sqrt(3 n).
        assert abs(values.mean()) < 5 * half / math.sqrt(3 * values.size)
        assert values.std() == pytest.approx(half / math.sqrt(3), rel=5e-3)
        counts, _ = np.histogram(values, bins=16, range=(-half, half))
        assert np.all(np.abs(counts / (values.size / 16) - 1) < 0.05)


def test_input_sets_and_tensors_differ(cpu):
    shape = cpu.Shape(1, 128, 1, 16)
    first, second = cpu.Inputs(shape, 42), cpu.Inputs(shape, 42, input_set=1)
    digests = [cpu.digest(bits) for inputs in (first, second) for bits in inputs.bits.values()]
    assert len(set(digests)) == 6


def test_heads_are_the_layout_that_is_promised(cpu):
    shape = cpu.Shape(2, 128, 3, 8)
    inputs = cpu.Inputs(shape, 42)
    flat = inputs.bits["v"]
    for b, h, _, _, v in inputs.each_head():
        for s, d in ((0, 0), (5, 7), (127, 3)):
            index = ((b * shape.sequence + s) * shape.heads + h) * shape.dim + d
            assert v[s, d] == cpu.from_bf16(flat[index : index + 1])[0]


def test_digest_is_of_little_endian_bytes(cpu):
    bits = np.array([0x3F80, 0xBF01], dtype=np.uint16)
    assert cpu.digest(bits) == hashlib.sha256(b"\x80\x3f\x01\xbf").hexdigest()
    assert cpu.digest(bits.astype(">u2")) == cpu.digest(bits)


def bf16(cpu, value: float) -> int:
    return int(cpu.to_bf16(np.array([value], dtype=np.float32))[0])


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1.0, 0x3F80),
        (1 + 2**-8, 0x3F80),  # a tie, to even
        (1 + 3 * 2**-8, 0x3F82),  # a tie, to even
        (1 + 2**-8 + 2**-23, 0x3F81),
        (-0.0, 0x8000),
        (math.inf, 0x7F80),
        (-math.inf, 0xFF80),
        (3.3895313892515355e38, 0x7F7F),  # the largest BF16
        (3.4028234663852886e38, 0x7F80),  # the largest FP32 is too large
        (-3.4028234663852886e38, 0xFF80),
        (math.nan, 0x7FFF),
        (2.0**-149, 0x0000),
        (2.0**-133, 0x0001),  # the smallest subnormal BF16
        (1.5 * 2.0**-133, 0x0002),
    ],
)
def test_rounding_to_bf16(cpu, value, bits):
    assert bf16(cpu, value) == bits


@pytest.mark.parametrize("pattern", [0x7F800001, 0xFFFFFFFF, 0xFF800001, 0x7FC00000])
def test_every_nan_stays_one(cpu, pattern):
    value = np.array([pattern], dtype=np.uint32).view(np.float32)
    assert cpu.to_bf16(value).tolist() == [0x7FFF]


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_rounding_agrees_with_both_neighbours(cpu, value):
    assert bf16(cpu, value) == scalar_bf16(value)


def test_every_bf16_value_survives_the_round_trip(cpu):
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    number = (bits & 0x7F80) != 0x7F80
    infinite = (bits & 0x7FFF) == 0x7F80
    keep = number | infinite
    assert np.array_equal(cpu.to_bf16(cpu.from_bf16(bits[keep])), bits[keep])
    assert set(cpu.to_bf16(cpu.from_bf16(bits[~keep])).tolist()) == {0x7FFF}
