"""Checks of the machine and of the tool's own Python."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from artifact.bench.exclusive import runtime_folder
from artifact.doctor.base import ADVICE, Check, Subject, Verdict, from_error
from artifact.doctor.contents import some
from artifact.errors import EnvironmentUnmet

TOOL_LOCK = "envs/tool/requirements.lock"
"""Where an artifact that carries the tool keeps the lock of its environment."""

_OLDEST = (3, 10)
_MIB = 1 << 20

_ROOM = {"results": 64 * _MIB, "build": 1024 * _MIB, "temporary files": 2048 * _MIB}
"""Free bytes below which a run or a build may not come to its end. Of one complete run: its
folder is a few MiB, environments are made elsewhere, compile caches and autotuning of the
Python libraries are the most of the temporary files."""

_ROOM_CPU = 64 * _MIB
"""The same for temporary files where nothing is compiled for a GPU."""


def python(subject: Subject) -> Check:
    """The interpreter that runs this tool."""
    found = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    if sys.version_info[:2] >= _OLDEST and sys.implementation.name == "cpython":
        return Check("python", "ok", found)
    oldest = ".".join(map(str, _OLDEST))
    mend = (f"run the tool with CPython {oldest} or newer",)
    return Check("python", "warn", found, f"CPython {oldest} or newer", mend)


def packages(subject: Subject) -> Check:
    """The distributions that this tool runs on, against the lock of its environment."""
    from packaging.markers import default_environment

    from artifact.envs.requirements import applicable, canonical_version, read_lock

    name, lock = "tool packages", subject.root / TOOL_LOCK
    if not lock.is_file():
        return Check(name, "ok", "this artifact carries no lock of the tool's environment")
    environment = {key: str(value) for key, value in default_environment().items()}
    pins = applicable(read_lock(lock), environment, TOOL_LOCK)
    missing, other = [], []
    for pin in pins:
        try:
            version = canonical_version(metadata.version(pin.name))
        except metadata.PackageNotFoundError:
            missing.append(str(pin))
            continue
        if version != pin.version:
            other.append(f"{pin.name} {version} (locked {pin.version})")
    if not missing and not other:
        return Check(name, "ok", f"{len(pins)} distributions as in {TOOL_LOCK}")
    parts = []
    if missing:
        parts.append(f"missing: {some(missing)}")
    if other:
        parts.append(f"other versions: {some(other)}")
    mend: tuple[str, ...] = (f"{sys.executable} -m pip install --require-hashes -r {lock}",)
    if (subject.root / "run.sh").is_file():
        mend = ("bash run.sh --help   (makes and uses the locked environment)", *mend)
    verdict: Verdict = "bad" if missing else "warn"
    return Check(name, verdict, "; ".join(parts), f"exactly {TOOL_LOCK}", mend)


def disk(subject: Subject) -> Check:
    """Room for run folders, builds, and the caches and temporary files of a run."""
    places = {
        "results": subject.results,
        "build": subject.root / "build",
        "temporary files": Path(tempfile.gettempdir()),
    }
    found, short = [], []
    for name, place in places.items():
        free = shutil.disk_usage(_existing(place)).free
        wanted = _ROOM[name] if subject.workload.device == "gpu" else _ROOM_CPU
        found.append(f"{name} {_size(free)}")
        if free < wanted:
            short.append(f"{name}: {_size(wanted)} in {place}")
    line = f"free: {', '.join(found)}"
    if not short:
        return Check("disk", "ok", line)
    mend = (
        "df -h   (then make room)",
        "or put results elsewhere: --results-dir DIR; temporary files: export TMPDIR=DIR",
    )
    return Check("disk", "bad", line, f"at least {'; '.join(short)}", mend)


def permissions(subject: Subject) -> Check:
    """Whether what a run writes can be written: results, temporary files, device locks."""
    name = "permissions"
    problems, mend = [], []
    for place, way in (
        (subject.results, "artifact run --results-dir DIR"),
        (Path(tempfile.gettempdir()), "export TMPDIR=DIR"),
    ):
        if not os.access(_existing(place), os.W_OK | os.X_OK):
            problems.append(f"{place} cannot be written")
            mend.append(way)
    try:
        locks = runtime_folder()
    except EnvironmentUnmet as error:
        return from_error(name, error, "bad")
    if problems:
        return Check(name, "bad", "; ".join(problems), "folders of yours", tuple(mend))
    return Check(name, "ok", f"results can be written; device locks are in {locks}")


def cache(subject: Subject) -> Check:
    """Whether validated documents can be remembered; without it every start is slower."""
    base = subject.environ.get("XDG_CACHE_HOME") or ""
    if not Path(base).is_absolute():
        home = subject.environ.get("HOME") or ""
        base = f"{home}/.cache" if Path(home).is_absolute() else ""
    if base and os.access(_existing(Path(base)), os.W_OK | os.X_OK):
        return Check("user cache", "ok", base, scope=ADVICE)
    found = f"{base} cannot be written" if base else "neither XDG_CACHE_HOME nor HOME names one"
    mend = ("export XDG_CACHE_HOME=DIR, a folder of yours",)
    return Check("user cache", "warn", found, "a folder that can be written", mend, ADVICE)


def encoding(subject: Subject) -> Check:
    """Whether names and messages outside of ASCII come through."""
    files, output = sys.getfilesystemencoding(), getattr(sys.stdout, "encoding", None) or "none"
    found = f"file names {files}, output {output}"
    if files.lower() in ("utf-8", "utf8") and output.lower() in ("utf-8", "utf8"):
        return Check("encoding", "ok", found)
    mend = ("export LC_ALL=C.UTF-8; unset PYTHONIOENCODING",)
    return Check("encoding", "warn", found, "UTF-8 for both", mend)


def _existing(path: Path) -> Path:
    """``path``, or its nearest parent that exists."""
    return next(place for place in (path, *path.parents) if place.exists())


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else f"{count / 2**20:.0f} MiB"
