"""environment.yml: what a person asks of an environment, before anything is solved.

It is a conda environment file, so that conda can read it as it is. ``artifact env lock``
makes both locks from it: conda-lock.yml from the conda packages, requirements.lock from the
``pip`` list. A comment behind an entry of that list says why the version is what it is; it
is carried into the lock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from artifact.envs.condalock import yaml
from artifact.errors import VerificationError
from artifact.model.load import decode, read_bytes

_NOTE = re.compile(r"\s*-\s+[\"']?(?P<name>[A-Za-z0-9._-]+)==[^\s#]+\s+#\s*(?P<note>.+?)\s*$")


@dataclass(frozen=True)
class Specification:
    """environment.yml, checked."""

    channel: str
    """The name of the conda channel, without a host."""
    conda: tuple[str, ...]
    """Conda match specs, such as ``python=3.12``."""
    wheels: tuple[str, ...]
    """Requirements of the wheel layer, each ``name==version``."""
    notes: dict[str, str]
    """Why a wheel is at its version, by canonical name."""


def read_specification(path: Path) -> Specification:
    """The specification at ``path``.

    Raises:
        VerificationError: with the place, where it is not such a file.
        EnvironmentUnmet: where it cannot be read, or PyYAML is missing.
    """
    where = str(path)
    text = decode(read_bytes(path), where)
    try:
        value = yaml().safe_load(text)
    except yaml().YAMLError as error:
        raise _bad(where, "YAML", " ".join(str(error).split())) from error
    if not isinstance(value, dict):
        raise _bad(where, "channels and dependencies", type(value).__name__)
    channels = value.get("channels")
    if not isinstance(channels, list) or len(channels) != 1 or not _is_name(channels[0]):
        raise _bad(f"{where}: channels", "the name of one channel, without a host", str(channels))
    dependencies = value.get("dependencies")
    if not isinstance(dependencies, list):
        raise _bad(f"{where}: dependencies", "a list", type(dependencies).__name__)
    conda: list[str] = []
    wheels: list[str] = []
    for index, item in enumerate(dependencies):
        place = f"{where}: dependencies[{index}]"
        if isinstance(item, str):
            conda.append(item)
        elif isinstance(item, dict) and list(item) == ["pip"] and isinstance(item["pip"], list):
            for number, entry in enumerate(item["pip"]):
                wheels.append(_wheel(entry, f"{place}.pip[{number}]"))
        else:
            raise _bad(place, "a conda package, or the list 'pip'", str(item))
    notes = (match for line in text.splitlines() if (match := _NOTE.match(line)))
    return Specification(
        channel=channels[0],
        conda=tuple(conda),
        wheels=tuple(wheels),
        notes={canonicalize_name(match["name"]): match["note"] for match in notes},
    )


def _wheel(entry: Any, place: str) -> str:
    """One entry of the pip list: one exact version, nothing that points elsewhere."""
    try:
        requirement = Requirement(entry) if isinstance(entry, str) else None
    except InvalidRequirement as error:
        raise _bad(place, "name==version", str(error).splitlines()[0]) from error
    exact = [s.operator for s in requirement.specifier] == ["=="] if requirement else False
    if requirement is None or not exact or requirement.url or "*" in str(requirement.specifier):
        raise _bad(place, "name==version, one exact version", str(entry))
    return str(requirement)


def _is_name(channel: Any) -> bool:
    return isinstance(channel, str) and re.fullmatch(r"[A-Za-z0-9._-]+", channel) is not None


def _bad(where: str, expected: str, found: str) -> VerificationError:
    return VerificationError(
        "an environment specification is not valid",
        where=where,
        expected=expected,
        found=found[:200],
        next="docs/environments.md says what it may hold",
    )
