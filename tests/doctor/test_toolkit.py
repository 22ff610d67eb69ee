"""Checks of the toolkit: verdicts over what artifact/build finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from artifact.build.headers import Headers
from artifact.build.toolchain import Tool
from artifact.doctor import toolkit
from artifact.doctor.base import Subject
from artifact.errors import EnvironmentUnmet
from artifact.model.backend import Dependency

Make = Callable[..., Subject]

NVCC = Tool("nvcc", Path("/t/bin/nvcc"), "PATH", "13.0.88")
HEADERS = Headers(Path("/c/include"), "CUTE_HOME", "4.2.1", None, False)


@pytest.fixture
def pinned(subject: Make) -> Make:
    """Makes a subject whose manifest pins a toolkit and headers."""

    def make(**options: Any) -> Subject:
        found = subject(**options)
        pins = (
            Dependency(name="CUDA Toolkit", version="13.0.88", role="compiles"),
            Dependency(name="CUTLASS", version="4.2.1", role="headers"),
        )
        return replace(found, manifest=found.manifest.model_copy(update={"dependencies": pins}))

    return make


def answer(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    def call(*arguments: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    monkeypatch.setattr(toolkit, name, call)


@pytest.mark.parametrize(
    ("nvcc", "options", "verdict"),
    [
        (NVCC, {}, "ok"),
        (replace(NVCC, version="13.1.0"), {}, "bad"),
        (replace(NVCC, version="13.1.0"), {"unlocked_env": True}, "warn"),
        (replace(NVCC, passed_over=("CUDA_HOME=/x has no bin/nvcc",)), {}, "warn"),
        (EnvironmentUnmet("there is no CUDA compiler", next="install it"), {}, "absent"),
    ],
)
def test_nvcc(
    pinned: Make, monkeypatch: pytest.MonkeyPatch, nvcc: Any, options: Any, verdict: str
) -> None:
    answer(monkeypatch, "find_nvcc", nvcc)
    check, tool = toolkit.compiler(pinned(**options))
    assert check.verdict == verdict
    assert bool(check.mend) == (verdict != "ok")
    assert (tool is None) == (verdict == "absent")


@pytest.mark.parametrize(
    ("version", "verdict", "found"),
    [
        ("13.0.88", "ok", "an empty kernel compiles"),
        ("13.5.37", "bad", "nvcc 13.0.88 starts the front end of 13.5.37"),
        (EnvironmentUnmet("a program of the toolkit fails"), "bad", "fails"),
    ],
)
def test_compilation(
    pinned: Make, monkeypatch: pytest.MonkeyPatch, version: Any, verdict: str, found: str
) -> None:
    answer(monkeypatch, "front_end_version", version)
    check = toolkit.compilation(pinned(), NVCC)
    assert check.verdict == verdict and found in check.found
    assert toolkit.compilation(pinned(), None).verdict == "absent"


@pytest.mark.parametrize(
    ("headers", "options", "verdict"),
    [
        (HEADERS, {}, "ok"),
        (replace(HEADERS, version="4.0.0"), {}, "bad"),
        (replace(HEADERS, version="4.0.0"), {"unlocked_env": True}, "warn"),
        (replace(HEADERS, passed_over=("CUTE_HOME=/x does not hold them",)), {}, "warn"),
        (EnvironmentUnmet("there are no CUTLASS headers", next="get them"), {}, "absent"),
    ],
)
def test_headers(
    pinned: Make, monkeypatch: pytest.MonkeyPatch, headers: Any, options: Any, verdict: str
) -> None:
    answer(monkeypatch, "find_headers", headers)
    check = toolkit.headers(pinned(**options))
    assert check.verdict == verdict
    assert bool(check.mend) == (verdict != "ok")


def test_disassemblers_and_profiler(pinned: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "find_companion", None)
    check = toolkit.disassemblers(pinned(), NVCC)
    assert (check.verdict, check.found) == ("absent", "no cuobjdump, no nvdisasm")
    assert "pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm" in check.mend[0]
    assert toolkit.profiler(pinned(), NVCC).verdict == "absent"
    answer(monkeypatch, "find_companion", Tool("x", Path("/t/bin/x"), "PATH"))
    assert toolkit.disassemblers(pinned(), NVCC).verdict == "ok"
    monkeypatch.setattr(toolkit.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(toolkit, "_counters_are_roots", lambda: True)
    assert toolkit.profiler(pinned(), NVCC).verdict == "warn"
    monkeypatch.setattr(toolkit.os, "geteuid", lambda: 0)
    assert toolkit.profiler(pinned(), NVCC).verdict == "ok"


def test_who_may_read_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = tmp_path / "params"
    monkeypatch.setattr(toolkit, "_DRIVER_PARAMETERS", parameters)
    assert not toolkit._counters_are_roots()
    parameters.write_text("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n")
    assert toolkit._counters_are_roots()
    parameters.write_text("RmProfilingAdminOnly: 0\n")
    assert not toolkit._counters_are_roots()
