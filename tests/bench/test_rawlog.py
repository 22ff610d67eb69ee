"""The raw log of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from artifact.bench.rawlog import RawLog
from artifact.bench.scrub import Scrubber
from artifact.errors import EnvironmentUnmet


@pytest.fixture
def log(tmp_path: Path) -> RawLog:
    return RawLog(tmp_path / "alpha.log", Scrubber([("$ROOT", tmp_path)]))


def test_lines_are_kept_as_they_came(log: RawLog, tmp_path: Path) -> None:
    log.stderr(b"one\ntw")
    log.request('{"op":"hello"}')
    log.stderr(f"o {tmp_path}/x\n".encode() + b"\xff\xfe\r\n\nlast")
    log.close()
    lines = log.path.read_bytes().decode("utf-8").split("\n")
    assert lines[0] == "one"
    assert lines[1].endswith('] > {"op":"hello"}')
    assert lines[2:] == ["two $ROOT/x", "\\xff\\xfe\r", "", "last", ""]


def test_a_place_that_is_cut_by_a_read_is_seen_whole(log: RawLog, tmp_path: Path) -> None:
    text = f"in {tmp_path}/x\n".encode()
    for i in range(len(text)):
        log.stderr(text[i : i + 1])
    log.close()
    assert log.path.read_text() == "in $ROOT/x\n"


def test_the_tail_is_short_and_without_empty_lines(log: RawLog) -> None:
    log.stderr("".join(f"line {i}\n\n" for i in range(100)).encode())
    log.stderr(b"cut off")
    log.note("not the worker's")
    tail = log.tail()
    assert len(tail) == 20
    assert tail[-2:] == ("line 99", "cut off")
    log.close()


def test_an_endless_line_does_not_fill_the_memory(log: RawLog) -> None:
    for _ in range(100):
        log.stderr(b"x" * 10_000)
    assert len(log._partial) <= 65536 + 10_000
    log.close()
    assert log.path.read_bytes().replace(b"\n", b"") == b"x" * 1_000_000


def test_another_runs_log_is_never_overwritten(log: RawLog) -> None:
    log.close()
    with pytest.raises(EnvironmentUnmet, match="raw log"):
        RawLog(log.path, Scrubber())
