"""ncu's command line, its failures and its reports, with a script in its place."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.build import toolchain
from artifact.build.profile import Look, capture, command_line, find_ncu, parse_raw, read_report
from artifact.build.toolchain import Tool
from artifact.errors import EnvironmentUnmet, MeasurementInvalid

FAKE = Path(__file__).parents[1] / "assets/profile/ncu.py"


@pytest.fixture
def ncu(tmp_path: Path) -> Tool:
    folder = tmp_path / "ncu"
    folder.mkdir()
    path = folder / "ncu"
    path.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
    path.chmod(0o755)
    (folder / "LAUNCHES").write_text("[]")
    return Tool("ncu", path, "PATH")


def run(ncu: Tool, folder: Path, program: list[str], **more: Any) -> Path:
    output, log = folder / "v4-s8192.ncu-rep", folder / "log"
    command = command_line(ncu, program, output=output, log=log)
    values = {
        "environment": {"PATH": os.environ["PATH"]},
        "cwd": folder,
        "printed": folder / "printed",
        "timeout": 60.0,
        **more,
    }
    capture(command, log=log, output=output, **values)
    return output


def test_the_command_is_the_published_one(ncu: Tool) -> None:
    program = ["build/v4"]
    command = command_line(ncu, program, output=Path("build/v4-s8192.ncu-rep"), log=Path("l"))
    assert command == [
        str(ncu.path), "--set", "full", "--launch-count", "1",
        "--log-file", "l", "-o", "build/v4-s8192", "build/v4",
    ]  # fmt: skip
    window = command_line(
        ncu, program, output=Path("r.ncu-rep"), log=Path("l"), look=Look("basic", True), window=True
    )
    assert window[1:7] == [
        "--set", "basic", "--clock-control", "none", "--profile-from-start", "off",
    ]  # fmt: skip
    assert "--launch-count" not in window


def test_a_report_and_its_launches(ncu: Tool, tmp_path: Path) -> None:
    launches = [
        ["_Z1kv", "k()", [32, 4, 1], [384, 1, 1],
         {"gpu__time_duration.sum": 1234567, "launch__registers_per_thread": 168}],
        ["other", "other", [1, 1, 1], [32, 2, 2], {}],
    ]  # fmt: skip
    (ncu.path.parent / "LAUNCHES").write_text(json.dumps(launches))
    report = run(ncu, tmp_path, ["sh", "-c", "echo said"])
    assert (tmp_path / "printed").read_text() == "said\n"
    first, second = read_report(ncu, report)
    assert (first.names, first.grid, first.block) == (("_Z1kv", "k()"), (32, 4, 1), (384, 1, 1))
    assert first.duration == 1234567.0
    assert first.metrics["launch__registers_per_thread"] == 168.0
    assert (second.names, second.threads, second.metrics) == (("other",), 128, {})


def test_without_rights_it_says_what_to_do(ncu: Tool, tmp_path: Path) -> None:
    (ncu.path.parent / "FAIL").write_text(
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n"
    )
    with pytest.raises(EnvironmentUnmet, match="may not read the GPU's performance") as caught:
        run(ncu, tmp_path, ["true"])
    assert "NVreg_RestrictProfilingToAdminUsers=0" in str(caught.value.next)


def test_a_program_that_fails_shows_its_last_words(ncu: Tool, tmp_path: Path) -> None:
    with pytest.raises(MeasurementInvalid) as caught:
        run(ncu, tmp_path, ["sh", "-c", "echo broken; exit 3"])
    assert caught.value.found == "status 3"
    assert caught.value.details[-1] == "broken"
    (ncu.path.parent / "LAUNCHES").write_text("none")
    with pytest.raises(MeasurementInvalid) as caught:
        run(ncu, tmp_path, ["true"])
    assert caught.value.found == "no report"


def test_what_hangs_is_killed_with_all_it_started(
    ncu: Tool, tmp_path: Path, wait_until: Any
) -> None:
    mark = tmp_path / "pid"
    for timeout in (2, 20, 200):
        with pytest.raises(MeasurementInvalid, match="did not capture") as caught:
            command = ["sh", "-c", f"echo $$ > {mark}; exec sleep 3600"]
            run(ncu, tmp_path, command, timeout=float(timeout))
        assert f"no end within {timeout} s" in str(caught.value.found)
        if mark.exists() and mark.read_text():  # else the machine is too busy to start a shell
            break
    pid = mark.read_text().strip()

    def ended() -> bool:
        # Killed; who collects its status is the system's business.
        try:
            return ") Z " in Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return True

    wait_until(ended)


def test_one_that_cannot_be_started(tmp_path: Path) -> None:
    broken = tmp_path / "ncu"
    broken.write_text("no program")
    broken.chmod(0o755)
    with pytest.raises(EnvironmentUnmet, match="cannot be started"):
        run(Tool("ncu", broken, "PATH"), tmp_path, ["true"])


def test_finding_it(ncu: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_NSIGHT", tmp_path / "none")
    # The pinned wheels of the toolkit may be installed here, or not.
    monkeypatch.setattr(toolchain, "packaged", lambda *_: None)
    found = find_ncu(None, {"PATH": str(ncu.path.parent)})
    assert (found.path, found.origin) == (ncu.path, "PATH")
    assert found.passed_over == ()
    astray = find_ncu(None, {"PATH": str(ncu.path.parent), "CUDA_HOME": "/nowhere"})
    assert (astray.path, astray.origin) == (ncu.path, "PATH")
    assert astray.passed_over == ("CUDA_HOME=/nowhere has no bin/ncu",)
    assert find_ncu(ncu.path, {}).origin == "--ncu"
    with pytest.raises(EnvironmentUnmet) as caught:
        find_ncu(None, {"PATH": "/nowhere"})
    assert "install Nsight Compute" in str(caught.value.next)
    with pytest.raises(EnvironmentUnmet, match="no profiler"):
        find_ncu(tmp_path, {"PATH": str(ncu.path.parent)})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "nothing"),
        ("==ERROR== cannot open\n", "==ERROR== cannot open"),
        ('"ID","Kernel Name"\n"0","k"\n', '"ID","Kernel Name"'),
        ('"Kernel Name","Grid Size","Block Size"\n"k","x","(1)"\n', "invalid literal"),
        ('"Kernel Name","Grid Size","Block Size"\n"k","(1, 1, 1)"\n', "Block Size"),
    ],
)
def test_a_table_that_is_none(text: str, found: str) -> None:
    with pytest.raises(MeasurementInvalid) as caught:
        parse_raw(text, "x")
    assert found in str(caught.value.found)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet='"k,()1 \n=', max_size=60))
def test_any_table_is_read_or_refused(text: str) -> None:
    head = '"Kernel Name","Grid Size","Block Size"\n'
    try:
        for launch in parse_raw(head + text, "x"):
            assert launch.names[0] and launch.grid and launch.block
    except MeasurementInvalid:
        pass
