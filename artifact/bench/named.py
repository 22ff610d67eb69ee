"""Interpreters that a command line names, and how it spells them.

An environment of the manifest may take its interpreter from an option of its own. The command
line has some such options; ``--interpreter ENVIRONMENT=PATH`` names that of any environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from artifact.errors import UsageError
from artifact.model.backend import Environment

OWN_OPTIONS = ("--python", "--ws-python")
"""The options of the command line that environments may ask for by name."""


def spelled(environment: Environment, path: str | Path = "PATH") -> str:
    """How a command line names ``path`` as the interpreter of ``environment``."""
    if environment.option in OWN_OPTIONS:
        return f"{environment.option} {path}"
    return f"--interpreter {environment.name}={path}"


def resolve(
    by_option: Mapping[str, Path], texts: Sequence[str], environments: Sequence[Environment]
) -> dict[str, Path]:
    """The interpreters that were named, by the name of their environment.

    Args:
        by_option: ``{"--python": Path(...)}``: for every environment that asks for it.
        texts: What ``--interpreter`` was given: ``ENVIRONMENT=PATH``.
        environments: The environments of the manifest.

    Raises:
        UsageError: for an option or a name that no environment has, a text of another form,
            and a second interpreter for one environment.
    """
    named: dict[str, Path] = {}
    for option, path in by_option.items():
        users = [environment.name for environment in environments if environment.option == option]
        if not users:
            ways = sorted({spelled(each).removesuffix(" PATH") for each in environments})
            raise UsageError(
                "no environment of this artifact takes its interpreter from this option",
                where=option,
                expected=f"one of: {', '.join(ways)}" if ways else "no such option",
            )
        named.update(dict.fromkeys(users, path))
    names = [environment.name for environment in environments]
    allowed = ", ".join(names)
    for text in texts:
        name, separator, place = text.partition("=")
        if name not in names or not place:
            whole = bool(separator and name and place)
            raise UsageError(
                "the manifest has no such environment"
                if whole
                else "this does not name an environment and its interpreter",
                where=f"--interpreter {text}",
                expected=f"ENVIRONMENT=PATH, where ENVIRONMENT is one of: {allowed}"
                if names
                else "no such option: this artifact has no environments",
                found=name if whole else text,
            )
        if name in named:
            raise UsageError(
                f"two interpreters were named for the environment {name!r}",
                where=f"--interpreter {text}",
                expected=f"one interpreter for each of: {allowed}",
                found=f"{named[name]} and {place}",
                next="leave one of them out",
            )
        named[name] = Path(place)
    return named
