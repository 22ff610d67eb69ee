"""Making an environment from its locks, and checking what was made.

The interpreter comes from the machine (a virtual environment) or from the conda layer's
lock. The wheels come from requirements.lock through pip: every file must have a digest of
the lock, nothing is built from source, and pip's own resolver must agree that nothing is
missing. Where pip looks for wheels is its user's configuration (``PIP_*`` variables).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from artifact.envs.check import differences
from artifact.envs.condabase import install_base
from artifact.envs.condalock import locked_layer, read_conda_lock
from artifact.envs.inspect import inspect_interpreter
from artifact.envs.requirements import read_lock
from artifact.errors import EnvironmentUnmet, UsageError
from artifact.model.backend import Environment

#: Stands in a directory until what is in it is whole and checked.
UNFINISHED = ".artifact-env-unfinished"

_VERSION_S = 60.0
"""How long an interpreter may take to say its version: a cold disk is slow."""

Note = Callable[[str], None]
"""Takes a line about progress."""


def create_environment(
    environment: Environment,
    root: Path,
    into: Path,
    *,
    python: Path | None = None,
    channel_url: str | None = None,
    note: Note = lambda line: None,
) -> Path:
    """Make ``environment`` in the directory ``into`` and check it.

    Args:
        environment: The environment as the manifest declares it.
        root: The artifact's root.
        into: A directory that does not exist or is empty, or that an earlier call left
            unfinished.
        python: The interpreter to start from; None for one of the locked version on PATH.
        channel_url: Where the conda layer's channel is; its interpreter is installed then,
            instead of starting from one that is here.
        note: Takes each line of what the tools print.

    Returns:
        The interpreter of the new environment.

    Raises:
        UsageError: where ``into`` holds something else.
        VerificationError: where a lock is not valid.
        EnvironmentUnmet: where the environment cannot be made or is not what its lock says.
            What was made is removed; an environment that differs stays, marked unfinished.
    """
    lock = root / environment.requirements
    pins = read_lock(lock)
    if channel_url is None:
        base = python or _find_python(environment)
        _of_version(base, environment)
    else:
        base = None
    existed = into.is_dir()
    _take(into)
    try:
        if base is not None:
            _venv(base, into, environment, note)
        else:
            assert channel_url is not None
            _conda(environment, root, into, channel_url, note)
        made = into / "bin" / "python"
        if pins:
            _install(made, lock, environment, note)
    except BaseException:
        _clear(into, existed)
        raise
    found = differences(environment, made, root)[1]
    if found:
        raise EnvironmentUnmet(
            f"the environment {environment.name!r} was made, but it is not what its lock says",
            where=str(into),
            expected=f"exactly {environment.requirements}",
            found=f"{len(found)} difference{'s' if len(found) > 1 else ''}",
            cause="pip's configuration adds or redirects something",
            next="pip config list; then the same command again: it starts anew",
            details=tuple(str(item) for item in found),
        )
    (into / UNFINISHED).unlink()
    return made


def _find_python(environment: Environment) -> Path:
    """An interpreter of the locked version: the one we run in, or one on PATH."""
    if "{}.{}".format(*sys.version_info[:2]) == environment.python:
        return Path(sys.executable)
    name = f"python{environment.python}"
    dead = []
    for folder in filter(None, os.get_exec_path()):
        found = shutil.which(name, path=folder)
        if found is None:
            continue
        why = _unfit(found, environment.python)
        if why is None:
            return Path(found)
        dead.append(f"{found}: {why}")
    raise EnvironmentUnmet(
        f"there is no Python {environment.python} to make an environment of",
        expected=f"{name} on PATH",
        found="none that works" if dead else "none",
        cause="a version manager's stand-in for a version that is not installed" if dead else None,
        next=f"install it, or name one: artifact env create {environment.name} --python PATH\n"
        "or take it from the conda layer: --channel-url URL",
        details=tuple(dead),
    )


def _unfit(python: str, version: str) -> str | None:
    """Why a program of the right name is no Python of ``version``; None where it is one."""
    try:
        done = subprocess.run(
            [python, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_S,
            check=False,
        )
    except OSError as error:
        return error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return f"it does not answer within {_VERSION_S:g} s"
    said = (done.stdout.strip() or done.stderr.strip()).partition("\n")[0]
    if done.returncode != 0:
        return f"exit status {done.returncode}: {said}"
    return None if said.startswith(f"Python {version}.") else f"it says {said!r}"


def _of_version(python: Path, environment: Environment) -> None:
    version = inspect_interpreter(python).python
    if ".".join(version.split(".")[:2]) != environment.python:
        raise EnvironmentUnmet(
            "an interpreter is not of the locked version",
            where=str(python),
            expected=f"Python {environment.python}",
            found=f"Python {version}",
            next=f"name a Python {environment.python} with --python",
        )


def _take(into: Path) -> None:
    """Make ``into`` an empty directory that is marked as unfinished."""
    if into.is_dir():
        if (into / UNFINISHED).exists():
            _clear(into, existed=True)
        elif any(into.iterdir()):
            raise _occupied(into, "a directory that is not empty")
    elif into.exists() or into.is_symlink():
        raise _occupied(into, "something that is no directory")
    try:
        into.mkdir(parents=True, exist_ok=True)
        (into / UNFINISHED).touch()
    except OSError as error:
        raise EnvironmentUnmet(
            "a directory cannot be made",
            where=str(into),
            found=error.strerror or str(error),
            next="name another one: --into DIR",
        ) from error


def _occupied(into: Path, found: str) -> UsageError:
    return UsageError(
        "there is something where the environment is to be",
        where=str(into),
        expected="a name that is free, or an empty directory",
        found=found,
        next="name another directory, or remove this one",
    )


def _clear(into: Path, existed: bool) -> None:
    """Remove what we made. The mark goes last, so that a cut leaves nothing unmarked."""
    for entry in into.iterdir():
        if entry.name == UNFINISHED:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (into / UNFINISHED).unlink(missing_ok=True)
    if not existed:
        into.rmdir()


def _venv(base: Path, into: Path, environment: Environment, note: Note) -> None:
    _run(
        [str(Path.cwd() / base), "-I", "-m", "venv", str(into)],
        f"a virtual environment of {base} could not be made",
        environment,
        cause="this Python comes without the modules venv or ensurepip",
        next=f"install them (Debian: python{environment.python}-venv), or name another --python",
        note=note,
    )


def _conda(environment: Environment, root: Path, into: Path, channel_url: str, note: Note) -> None:
    instead = f"artifact env create {environment.name} --python PATH"
    lock = read_conda_lock(root / locked_layer(environment, instead))
    note(f"installing {len(lock.packages)} conda packages")
    install_base(lock, channel_url, into)


def _install(python: Path, lock: Path, environment: Environment, note: Note) -> None:
    command = [str(python), "-I", "-m", "pip", "install", "--require-hashes"]
    command += ["--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    _run(
        [*command, "--requirement", str(lock)],
        f"pip could not install the lock of {environment.name!r}, and nothing was kept",
        environment,
        cause="an index cannot be reached, the disk is full, or a file is not the locked one",
        next="read what pip said; PIP_INDEX_URL and PIP_FIND_LINKS say where it looks",
        note=note,
    )


def _run(
    command: Sequence[str],
    what: str,
    environment: Environment,
    *,
    cause: str,
    next: str,
    note: Note,
) -> None:
    """Run a tool, passing on what it prints; its last lines are the details of an error."""
    last: deque[str] = deque(maxlen=15)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PIP_PROGRESS_BAR": "off"},
        text=True,
        errors="replace",
    )
    with process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                last.append(line.rstrip())
                note(line.rstrip())
            status = process.wait()
        except BaseException:
            process.kill()
            raise
    if status != 0:
        raise EnvironmentUnmet(
            what,
            where=environment.requirements,
            found=f"exit status {status}",
            cause=cause,
            next=next,
            details=tuple(line for line in last if line.strip()),
        )
