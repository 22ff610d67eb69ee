"""The conversation with a worker in its own process: when the profiler looks."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from artifact.bench import profiledriver

REQUESTS = [{"op": "hello", "protocol": 1}, {"op": "prepare"}, {"op": "time", "repeat": 1}]


def hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replies: dict[str, Any]
) -> tuple[list[str], list[bytes]]:
    """What happened in which order, and the answers that were kept."""
    happened: list[str] = []

    class Profiler:
        def start(self) -> None:
            happened.append("start")

        def stop(self) -> None:
            happened.append("stop")

    monkeypatch.setattr(profiledriver, "Profiler", Profiler)
    worker_in, ask = os.pipe()
    hear, worker_out = os.pipe()

    def work() -> None:
        with os.fdopen(worker_in, "rb") as asked, os.fdopen(worker_out, "wb", 0) as answers:
            for line in asked:
                request = json.loads(line)
                happened.append(request["op"])
                reply = replies.get(request["op"], request)
                answers.write(json.dumps(reply).encode() + b"\n")

    thread = threading.Thread(target=work)
    thread.start()
    profiledriver.converse(REQUESTS, str(tmp_path / "answers"), ask, hear)
    thread.join(10)
    assert not thread.is_alive()
    return happened, (tmp_path / "answers").read_bytes().splitlines()


def test_it_looks_at_the_timed_launch_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened, answers = hold(tmp_path, monkeypatch, {})
    assert happened == ["hello", "prepare", "start", "time", "stop", "quit"]
    assert [json.loads(line)["id"] for line in answers] == [1, 2, 3]


def test_an_error_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened, answers = hold(tmp_path, monkeypatch, {"prepare": {"op": "error", "kind": "failed"}})
    assert happened == ["hello", "prepare", "quit"]
    assert json.loads(answers[-1])["op"] == "error"


def test_the_drivers_answers_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    class Cuda:
        def __init__(self, status: int) -> None:
            self.status = status

        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any) -> int:
                called.append(name)
                return self.status if name == "cuProfilerStart" else 0

            return call

    monkeypatch.setattr(profiledriver.ctypes, "CDLL", lambda name: Cuda(201))
    profiler = profiledriver.Profiler()
    assert called == ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"]
    with pytest.raises(RuntimeError, match="cuProfilerStart answers with status 201"):
        profiler.start()
    profiler.stop()
    assert called[-2:] == ["cuCtxSynchronize", "cuProfilerStop"]
