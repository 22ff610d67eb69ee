from __future__ import annotations

import random
import zlib
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.archive.deflate import (
    BlockPool,
    Compressor,
    DeflateStream,
    default_threads,
    installed_package,
    select,
)
from artifact.errors import EnvironmentUnmet
from artifact.integrity.compressor import runtime_version
from artifact.integrity.documents import Deflate

IMPLEMENTATIONS = ("zlib", "zlib-ng")


def pin(implementation: str = "zlib-ng", **changes: object) -> Deflate:
    values: dict[str, object] = {
        "implementation": implementation,
        "package_version": installed_package(implementation),
        "runtime_version": runtime_version(implementation),
        "level": 6,
        "block_bytes": 65536,
        **changes,
    }
    return Deflate(**values)


def compressed(data: bytes, compressor: Compressor, threads: int, cuts: int = 10_000) -> bytes:
    out: list[bytes] = []
    with BlockPool(compressor, threads) as pool:
        stream = DeflateStream(pool, lambda block, packed: out.append(packed))
        for at in range(0, len(data), cuts):
            stream.write(data[at : at + cuts])
        stream.finish()
        pool.drain()
    assert (stream.size, stream.crc) == (len(data), zlib.crc32(data))
    return b"".join(out)


def text(size: int) -> bytes:
    made = random.Random(7)
    words = [bytes(made.choices(range(97, 123), k=made.randint(2, 9))) for _ in range(500)]
    return b" ".join(made.choices(words, k=size // 5))[:size]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 131072, 700_001])
def test_one_deflate_stream_for_any_number_of_threads(implementation: str, size: int) -> None:
    compressor = select(pin(implementation))
    data = text(size)
    once = compressed(data, compressor, 1)
    reader = zlib.decompressobj(-15)
    assert reader.decompress(once) == data
    assert reader.eof and not reader.unused_data
    for threads, cuts in ((2, 999), (3, 65536), (8, 1 << 20)):
        assert compressed(data, compressor, threads, cuts) == once


@settings(max_examples=25, deadline=None)
@given(st.lists(st.binary(max_size=90_000), max_size=6), st.sampled_from(IMPLEMENTATIONS))
def test_how_input_is_cut_into_writes_does_not_matter(
    parts: list[bytes], implementation: str
) -> None:
    compressor = select(pin(implementation))
    data = b"".join(parts)
    out: list[bytes] = []
    with BlockPool(compressor, 2) as pool:
        stream = DeflateStream(pool, lambda block, packed: out.append(packed))
        for part in parts:
            stream.write(part)
        stream.finish()
        pool.drain()
    assert b"".join(out) == compressed(data, compressor, 1)


def test_the_dictionary_of_the_block_before_is_used() -> None:
    noise = random.Random(3).randbytes(30_000)
    data = noise * 8
    # The noise repeats across every block border: without a dictionary each block has its own copy.
    assert len(compressed(data, select(pin(block_bytes=65536)), 1)) < 45_000


def test_what_is_handed_on_keeps_its_order() -> None:
    seen: list[object] = []
    with BlockPool(select(pin()), 4) as pool:
        for i in range(40):
            pool.submit(
                text(50_000 if i % 7 == 0 else 10), b"", True, lambda _, i=i: seen.append(i)
            )
            pool.then(lambda i=i: seen.append((i,)))
        pool.drain()
    assert seen == [x for i in range(40) for x in (i, (i,))]


def test_few_blocks_wait_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = BlockPool(select(pin()), 2)
    waiting: Future[bytes] = Future()
    submitted = 0

    def submit(*args: object) -> Future[bytes]:
        nonlocal submitted
        submitted += 1
        # The oldest future is only done once the queue is full and it is waited for.
        future: Future[bytes] = Future()
        if submitted > 4:
            future.set_result(b"")
        return waiting if submitted == 1 else future

    monkeypatch.setattr(pool._executor, "submit", submit)
    with pool:
        for _ in range(4):
            pool.submit(b"x", b"", False, lambda _: None)
        assert len(pool._queue) == 4
        waiting.set_result(b"")
        pool.submit(b"x", b"", False, lambda _: None)
        assert len(pool._queue) <= 4


def test_a_failing_block_fails_the_stream() -> None:
    class Broken:
        DEFLATED = Z_DEFAULT_STRATEGY = 0

        @staticmethod
        def compressobj(*_: object) -> object:
            raise MemoryError("no room")

    compressor = Compressor("zlib", None, "1", 6, 65536, True, Broken)
    with pytest.raises(MemoryError), BlockPool(compressor, 2) as pool:
        pool.submit(b"x", b"", True, lambda _: None)
        pool.drain()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_what_is_pinned_is_canonical(implementation: str) -> None:
    chosen = select(pin(implementation))
    assert chosen.canonical and chosen.implementation == implementation
    assert select(pin(implementation), allow_other=True).canonical


@pytest.mark.parametrize(
    "change",
    [{"runtime_version": "0.0.1"}, {"package_version": "0.0.1"}],
    ids=["library", "package"],
)
def test_another_version_is_refused_unless_allowed(change: dict[str, str]) -> None:
    wanted = pin("zlib-ng", **change)
    with pytest.raises(EnvironmentUnmet) as caught:
        select(wanted)
    error = caught.value
    assert int(error.exit_code) == 3
    assert "0.0.1" in (error.expected or "") and "0.0.1" not in (error.found or "")
    assert "--non-canonical" in (error.next or "")
    assert "zlib-ng==" in (error.next or "")
    assert not select(wanted, allow_other=True).canonical


def test_another_stdlib_zlib_is_refused() -> None:
    with pytest.raises(EnvironmentUnmet, match="not the one that the lock pins"):
        select(pin("zlib", runtime_version="1.2.3"))


def test_a_compressor_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import artifact.archive.deflate as deflate

    wanted = pin("zlib-ng")

    def missing(implementation: str) -> str:
        if implementation == "zlib-ng":
            raise EnvironmentUnmet("the pinned compressor is not installed")
        return zlib.ZLIB_RUNTIME_VERSION

    monkeypatch.setattr(deflate, "runtime_version", missing)
    with pytest.raises(EnvironmentUnmet) as caught:
        select(wanted)
    assert "not installed" in (caught.value.found or "")
    other = select(wanted, allow_other=True)
    assert (other.implementation, other.canonical) == ("zlib", False)


def test_threads_follow_the_processors_that_may_be_used() -> None:
    assert 1 <= default_threads() <= 8
