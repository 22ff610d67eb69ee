"""Locking an environment anew: drive uv for the wheels and conda-lock for the conda layer.

Both resolve for the locked platform, not for this machine, and both go where their user's
configuration sends them; what comes back is written without a host. uv starts from the
present lock, so that nothing moves that need not. conda-lock needs a solver, and py-rattler
is one that is a package (:mod:`artifact.envs.condasolver`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from artifact.envs.condalock import (
    CondaLock,
    from_records,
    locked_layer,
    parse_conda_lock,
    read_conda_lock,
    render_conda_lock,
    yaml,
)
from artifact.envs.requirements import parse_lock, read_lock, render_lock
from artifact.envs.specification import Specification, read_specification
from artifact.errors import EnvironmentUnmet, UsageError, VerificationError
from artifact.integrity.atomic import write_atomic
from artifact.model.backend import Environment
from artifact.model.load import parse_json, read_bytes

#: conda's and uv's names of the one platform that environments are locked for. CUDA 13
#: wheels of the libraries ask for glibc 2.28.
CONDA_PLATFORM, WHEEL_PLATFORM = "linux-64", "x86_64-manylinux_2_28"

#: Seconds that a resolver may take.
TIMEOUT = 1800.0

_SOLVER = Path(__file__).with_name("condasolver.py")


@dataclass(frozen=True)
class Change:
    """One package whose lock moved."""

    layer: str
    """``wheels`` or ``conda``."""
    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.layer}: + {self.name} {self.after}"
        if self.after is None:
            return f"{self.layer}: - {self.name} {self.before}"
        if self.before == self.after:
            return f"{self.layer}: ~ {self.name} {self.after}, other files"
        return f"{self.layer}: ~ {self.name} {self.before} -> {self.after}"


def lock_wheels(
    environment: Environment, root: Path, *, upgrade: bool = False
) -> tuple[Change, ...]:
    """Resolve the wheel layer with uv and write requirements.lock.

    Args:
        environment: The environment as the manifest declares it.
        root: The artifact's root.
        upgrade: Whether versions that the specification leaves open may move.

    Returns:
        What changed. The file is written whole or not at all.

    Raises:
        VerificationError: where the specification is not valid.
        EnvironmentUnmet: where uv is missing, or cannot reach or resolve the packages.
    """
    specification = _specification(environment, root)
    target = root / environment.requirements
    old = read_lock(target) if target.exists() else ()
    with tempfile.TemporaryDirectory(prefix="artifact-lock-") as scratch:
        source, output = Path(scratch, "requirements.in"), Path(scratch, "requirements.txt")
        source.write_text("\n".join(specification.wheels) + "\n", encoding="utf-8")
        if old and not upgrade:
            output.write_bytes(render_lock(old))
        # The target is named below; an interpreter is only needed to run, and ours is at hand.
        command = [_uv(), "pip", "compile", str(source), "--output-file", str(output)]
        command += ["--python", sys.executable]
        command += ["--python-version", environment.python, "--python-platform", WHEEL_PLATFORM]
        command += ["--generate-hashes", "--only-binary", ":all:", "--no-header", "--no-annotate"]
        command += ["--no-emit-index-url", "--no-emit-find-links", "--quiet"]
        _drive(command, "uv", environment)
        new = parse_lock(output.read_bytes(), "the answer of uv")
    header = (
        f"Made by `artifact env lock {environment.name}` from {environment.specification}:",
        f"Python {environment.python}, {WHEEL_PLATFORM}.",
    )
    write_atomic(target, render_lock(new, header=header, notes=specification.notes))
    return _changes(
        "wheels",
        {pin.name: (pin.version, pin.hashes) for pin in old},
        {pin.name: (pin.version, pin.hashes) for pin in new},
    )


def lock_conda(
    environment: Environment,
    root: Path,
    *,
    channel_url: str | None = None,
    records: Path | None = None,
) -> tuple[Change, ...]:
    """Resolve the conda layer with conda-lock and write conda-lock.yml.

    Args:
        environment: The environment as the manifest declares it.
        root: The artifact's root.
        channel_url: Where the specification's channel is; None for where py-rattler finds a
            channel of that name.
        records: A JSON file with the records of an environment that was solved elsewhere (a
            list, or an object with the list ``packages``); it is taken instead of solving.

    Returns:
        What changed. The file is written whole or not at all.

    Raises:
        VerificationError: where the specification or the records are not valid.
        EnvironmentUnmet: where a tool is missing, or cannot reach or solve the channel.
        UsageError: where the environment has no conda layer.
    """
    layer = locked_layer(environment, f"artifact env lock {environment.name} --only wheels")
    specification = _specification(environment, root)
    for module, package in (("conda_lock", "conda-lock"), ("rattler", "py-rattler")):
        if importlib.util.find_spec(module) is None:
            raise _missing(package)
    target = root / layer
    old = read_conda_lock(target) if target.exists() else None
    if records is None:
        new = _solve(environment, specification, channel_url)
        how = f"Made by `artifact env lock {environment.name}` from {environment.specification}."
    else:
        new = _from_file(environment, specification, records)
        how = f"Made by `artifact env lock {environment.name} --records` from a solved environment."
    header = (how, "URLs are without a host: docs/environments.md says how it is put back.")
    write_atomic(target, render_conda_lock(new, header=header))
    return _changes(
        "conda",
        {p.name: (p.version, p.sha256) for p in old.packages} if old else {},
        {p.name: (p.version, p.sha256) for p in new.packages},
    )


def _solve(
    environment: Environment, specification: Specification, channel_url: str | None
) -> CondaLock:
    with tempfile.TemporaryDirectory(prefix="artifact-lock-") as scratch:
        # Only the conda layer: the wheels are uv's, and conda-lock would solve them again.
        source, output = Path(scratch, "environment.yml"), Path(scratch, "conda-lock.yml")
        source.write_text(conda_layer(specification), encoding="utf-8")
        conda = Path(scratch, "conda")
        conda.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I {shlex.quote(str(_SOLVER))} "$@"\n',
            encoding="utf-8",
        )
        conda.chmod(0o755)
        command = [sys.executable, "-I", "-m", "conda_lock", "lock", "--conda", str(conda)]
        command += ["--file", str(source), "--platform", CONDA_PLATFORM, "--lockfile", str(output)]
        urls = {} if channel_url is None else {specification.channel: channel_url}
        # conda-lock buries what a solver said under its own traceback.
        said = Path(scratch, "said")
        variables = {"ARTIFACT_CHANNEL_URLS": json.dumps(urls), "ARTIFACT_SOLVER_SAID": str(said)}
        _drive(command, "conda-lock", environment, variables, said)
        return parse_conda_lock(output.read_bytes(), "the answer of conda-lock")


def _from_file(environment: Environment, specification: Specification, records: Path) -> CondaLock:
    value = parse_json(read_bytes(records), str(records))
    if isinstance(value, dict):
        value = value.get("packages")
    if not isinstance(value, list):
        raise VerificationError(
            "a file holds no records of conda packages",
            where=str(records),
            expected="a list of records, or an object with the list 'packages'",
            found=type(value).__name__,
            next="name a file of records: --records FILE, or leave the option out",
        )
    lock = from_records(
        value,
        channel=specification.channel,
        platform=CONDA_PLATFORM,
        content_hash=content_hash(specification),
        where=f"{records}: packages",
    )
    versions = {package.name: package.version for package in lock.packages}
    for name in (re.split(r"[\s=<>!~]", spec)[0] for spec in specification.conda):
        wanted = environment.python if name == "python" else None
        found = versions.get(name)
        if found is None or (wanted is not None and not found.startswith(f"{wanted}.")):
            raise VerificationError(
                "the records are not those of the specified environment",
                where=str(records),
                expected=f"{name} {wanted or ''}".strip(),
                found=found or "none",
                next="solve the specification again, or leave --records out",
            )
    return lock


def content_hash(specification: Specification) -> str:
    """conda-lock's digest of a conda layer, with its default virtual packages.

    Raises:
        EnvironmentUnmet: where conda-lock is not installed.
    """
    try:
        from conda_lock.content_hash import compute_content_hashes
        from conda_lock.lookup import DEFAULT_MAPPING_URL
        from conda_lock.src_parser import make_lock_spec
        from conda_lock.virtual_package import default_virtual_package_repodata
    except ImportError as error:
        raise _missing("conda-lock") from error
    with tempfile.TemporaryDirectory(prefix="artifact-lock-") as scratch:
        source = Path(scratch, "environment.yml")
        source.write_text(conda_layer(specification), encoding="utf-8")
        # The mapping is for packages of both layers; a conda layer alone never looks into it.
        asked = make_lock_spec(src_files=[source], mapping_url=DEFAULT_MAPPING_URL)
        virtual = default_virtual_package_repodata()
        with virtual:
            return str(compute_content_hashes(asked, virtual)[CONDA_PLATFORM])


def conda_layer(specification: Specification) -> str:
    """The conda layer of a specification as an environment file of its own."""
    text: str = yaml().safe_dump(
        {
            "channels": [specification.channel],
            "platforms": [CONDA_PLATFORM],
            "dependencies": list(specification.conda),
        },
        sort_keys=False,
    )
    return text


def _specification(environment: Environment, root: Path) -> Specification:
    if environment.specification is None:
        raise UsageError(
            "an environment has no specification to lock",
            where=environment.name,
            expected="specification in the manifest, such as envs/NAME/environment.yml",
            found="none",
            next=f"write envs/{environment.name}/environment.yml and name it in the manifest",
        )
    return read_specification(root / environment.specification)


def _uv() -> str:
    try:
        from uv import find_uv_bin
    except ImportError as error:
        raise _missing("uv") from error
    try:
        return os.fsdecode(find_uv_bin())
    except FileNotFoundError as error:
        raise _missing("uv") from error


def _missing(package: str) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        "a tool is missing", expected=package, found="not installed", next="pip install '.[env]'"
    )


def _drive(
    command: Sequence[str],
    tool: str,
    environment: Environment,
    variables: Mapping[str, str] | None = None,
    said: Path | None = None,
) -> None:
    """Run a resolver; its user's configuration of indexes and channels is passed on.

    ``said`` is where it may leave a reason that is better than all that it prints.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, **(variables or {})},
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentUnmet(
            f"{tool} did not come to an end",
            where=environment.name,
            expected=f"an answer within {TIMEOUT:g} seconds",
            found="none; it was killed, and no lock was changed",
            next="the same command again, with a channel that answers: --channel-url URL",
        ) from error
    if done.returncode != 0:
        printed = (done.stderr + done.stdout).decode("utf-8", "replace")
        reason = said.read_text("utf-8") if said is not None and said.exists() else printed
        raise EnvironmentUnmet(
            f"{tool} could not lock the environment, and no lock was changed",
            where=f"{environment.name} ({environment.specification})",
            found=f"exit status {done.returncode}",
            cause="an index or channel cannot be reached, or the requirements exclude each other",
            next="read what it said; --channel-url URL names a channel that can be reached",
            details=tuple(line.strip() for line in reason.splitlines() if line.strip())[-20:],
        )


def _changes(
    layer: str, old: Mapping[str, tuple[str, object]], new: Mapping[str, tuple[str, object]]
) -> tuple[Change, ...]:
    changes = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before != after:
            changes.append(
                Change(layer, name, before[0] if before else None, after[0] if after else None)
            )
    return tuple(changes)
