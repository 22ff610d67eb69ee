"""The lock of a device."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from artifact.bench.exclusive import exclusive, runtime_folder
from artifact.errors import EnvironmentUnmet, ExitCode

HOLDER = """
    import sys
    from artifact.bench.exclusive import exclusive
    with exclusive(sys.argv[1], {"workload": "tiny", "since": "now"}):
        print("held", flush=True)
        sys.stdin.readline()
"""


def hold(device: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), device],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_is_told_who_has_the_device() -> None:
    with hold("GPU-1") as process:
        with pytest.raises(EnvironmentUnmet) as caught, exclusive("GPU-1", {}):
            pass
        assert caught.value.exit_code == ExitCode.ENVIRONMENT
        assert caught.value.found == f"pid {process.pid}, workload tiny, since now"
        with exclusive("cpu", {}):
            pass
        process.kill()
    # However the holder ended, the lock went with it.
    with exclusive("GPU-1", {}):
        pass


def test_a_worker_does_not_inherit_the_lock() -> None:
    with exclusive("cpu", {}):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with exclusive("cpu", {}):
            pass
    finally:
        child.kill()
        child.wait()


def test_without_a_runtime_folder_there_is_one_of_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *args: False)
    folder = runtime_folder()
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    assert runtime_folder() == folder
    folder.chmod(0o777)
    with pytest.raises(EnvironmentUnmet, match="not this user's alone"):
        runtime_folder()


def test_a_folder_that_somebody_else_laid_out_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *args: False)
    (tmp_path / "theirs").mkdir()
    (tmp_path / f"artifact-{os.getuid()}").symlink_to("theirs")
    with pytest.raises(EnvironmentUnmet):
        runtime_folder()
