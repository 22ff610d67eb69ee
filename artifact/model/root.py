"""Where an artifact's root is, and the fixed places below it."""

from __future__ import annotations

import shlex
from pathlib import Path

from artifact.errors import UsageError

MANIFEST = "manifests/artifact.toml"
LOCK = "manifests/lock.json"
PROVENANCE = "manifests/provenance.json"
SCHEMAS = "manifests/schema"
BUILD = "build"
"""Where builds are: outside of what is pinned."""


def find_root(start: Path, explicit: Path | None = None) -> Path:
    """The root of the artifact: ``explicit``, or ``start`` or its nearest parent with a manifest.

    Raises:
        UsageError: where there is no manifest.
    """
    if explicit is not None:
        if not (explicit / MANIFEST).is_file():
            raise UsageError(
                "there is no artifact here",
                where=str(explicit),
                expected=f"a directory that holds {MANIFEST}",
                found="a directory without it" if explicit.is_dir() else "no directory",
                next="artifact --help",
            )
        return explicit.resolve()
    here = start.resolve()
    for directory in (here, *here.parents):
        if (directory / MANIFEST).is_file():
            return directory
    raise UsageError(
        "there is no artifact here",
        where=str(here),
        expected=f"{MANIFEST} in this directory or one above it",
        found="none",
        next="change into an artifact's tree, or name it: --root DIR",
    )


def at_root(command: str, root: Path) -> str:
    """``command`` as it must be typed here to mean the artifact at ``root``."""
    try:
        if find_root(Path.cwd()) == root.resolve():
            return command
    except (UsageError, OSError):
        pass
    return f"{command} --root {shlex.quote(str(root))}"
