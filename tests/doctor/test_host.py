"""Checks of the machine and of the tool's own Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from artifact.doctor import host
from artifact.doctor.base import Subject

Make = Callable[..., Subject]


def test_the_interpreter(subject: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.python(subject()).verdict == "ok"
    monkeypatch.setattr(host, "_OLDEST", (3, 99))
    old = host.python(subject())
    assert (old.verdict, old.expected) == ("warn", "CPython 3.99 or newer")


def lock(root: Path, *lines: str) -> None:
    path = root / host.TOOL_LOCK
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{line} --hash=sha256:{'0' * 64}\n" for line in lines))


def test_the_tools_packages_against_their_lock(subject: Make) -> None:
    here = metadata.version("pydantic")
    looked = subject()
    assert "carries no lock" in host.packages(looked).found
    lock(looked.root, f"pydantic=={here}", "absent-here==1 ; python_version < '3'")
    assert host.packages(looked).found == f"1 distributions as in {host.TOOL_LOCK}"


def test_another_version_is_a_warning_and_a_missing_one_is_bad(subject: Make) -> None:
    looked = subject()
    lock(looked.root, "pydantic==0.1")
    other = host.packages(looked)
    assert other.verdict == "warn" and "(locked 0.1)" in other.found
    assert other.mend == (
        f"{sys.executable} -m pip install --require-hashes -r {looked.root / host.TOOL_LOCK}",
    )
    (looked.root / host.TOOL_LOCK).unlink()
    (looked.root / host.TOOL_LOCK).parent.rmdir()
    (looked.root / "run.sh").touch()
    lock(looked.root, "absent-here==1")
    missing = host.packages(looked)
    assert (missing.verdict, missing.found) == ("bad", "missing: absent-here==1")
    assert missing.mend[0].startswith("bash run.sh")


def test_room(subject: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 1 << 30
    monkeypatch.setattr(host.shutil, "disk_usage", lambda place: SimpleNamespace(free=free))
    assert host.disk(subject("tiny")).verdict == "ok"
    # Temporary files of a run on a GPU need more.
    short = host.disk(subject("big"))
    assert short.verdict == "bad"
    assert str(short.expected).startswith("at least temporary files: 2.0 GiB in ")


def test_a_folder_that_cannot_be_written(
    subject: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host.permissions(subject()).verdict == "ok"
    closed = tmp_path / "closed"
    real = os.access
    # Root may write everywhere, so that a mode would not do.
    monkeypatch.setattr(
        host.os, "access", lambda path, mode: Path(path) != tmp_path and real(path, mode)
    )
    found = host.permissions(subject(results_dir=closed))
    assert (found.verdict, found.found) == ("bad", f"{closed} cannot be written")
    assert found.mend == ("artifact run --results-dir DIR",)


def test_a_folder_of_locks_that_is_not_ones_own(
    subject: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from artifact.errors import EnvironmentUnmet

    def shared() -> Path:
        raise EnvironmentUnmet("the folder for device locks is not this user's alone", next="x")

    monkeypatch.setattr(host, "runtime_folder", shared)
    assert host.permissions(subject()).verdict == "bad"


def test_the_cache(subject: Make, tmp_path: Path) -> None:
    there = host.cache(subject(environ={"XDG_CACHE_HOME": str(tmp_path / "new")}))
    assert (there.verdict, there.found) == ("ok", str(tmp_path / "new"))
    assert host.cache(subject(environ={"HOME": str(tmp_path)})).found == f"{tmp_path}/.cache"
    assert host.cache(subject(environ={"XDG_CACHE_HOME": "relative"})).verdict == "warn"


def test_the_encoding(subject: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.sys, "stdout", SimpleNamespace(encoding="utf-8"))
    assert host.encoding(subject()).verdict == "ok"
    monkeypatch.setattr(host.sys, "stdout", SimpleNamespace(encoding="ascii"))
    found = host.encoding(subject())
    assert found.verdict == "warn" and "LC_ALL" in found.mend[0]
