"""Where an artifact's root is, and the fixed places below it."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path

from artifact.errors import UsageError

MANIFEST = "manifests/artifact.toml"
LOCK = "manifests/lock.json"
PROVENANCE = "manifests/provenance.json"
SCHEMAS = "manifests/schema"
BUILD = "build"
"""Where builds are: outside of what is pinned."""


def find_root(
    start: Path, explicit: Path | None = None, command: str = "add to the command: --root"
) -> Path:
    """The root of the artifact: ``explicit``, or ``start`` or its nearest parent with a manifest.

    Args:
        start: Where to look first.
        explicit: The root as it was named: nothing else is looked at.
        command: What to type before the name of a tree, for an error that knows one: an archive
            unpacks into a folder of its own, and the folder around it is easily taken for it.

    Raises:
        UsageError: where there is no manifest.
    """
    if explicit is not None:
        if not (explicit / MANIFEST).is_file():
            below = _trees_below(explicit)
            raise UsageError(
                "there is no artifact here",
                where=str(explicit),
                expected=f"a directory that holds {MANIFEST}",
                found=("a directory without it" if explicit.is_dir() else "no directory")
                + _and_below(below),
                next=_with_one(command, below) or "artifact --help",
            )
        return explicit.resolve()
    here = start.resolve()
    for directory in (here, *here.parents):
        if (directory / MANIFEST).is_file():
            return directory
    below = _trees_below(Path() if here == Path.cwd() else here)
    raise UsageError(
        "there is no artifact here",
        where=str(here),
        expected=f"{MANIFEST} in this directory or one above it",
        found="none" + _and_below(below),
        next=_with_one(command, below) or "change into an artifact's tree, or name it: --root DIR",
    )


def _trees_below(folder: Path) -> list[Path]:
    """The first three folders of ``folder`` that hold a manifest; none where it is unreadable.

    Three say where to look, and make no page of it.
    """
    found = []
    with suppress(OSError):
        for child in sorted(folder.iterdir()):
            with suppress(OSError):
                if (child / MANIFEST).is_file():
                    found.append(child)
    return found[:3]


def _and_below(trees: list[Path]) -> str:
    if not trees:
        return ""
    there = "there is one" if len(trees) == 1 else "there are some"
    return f"; {there} in {', '.join(shlex.quote(tree.name) for tree in trees)}"


def _with_one(command: str, trees: list[Path]) -> str | None:
    """``command`` with each of ``trees``, a line each; none of them reads like an option."""
    names = (f"./{tree}" if str(tree).startswith("-") else str(tree) for tree in trees)
    return "\n".join(f"{command} {shlex.quote(name)}" for name in names) or None


def at_root(command: str, root: Path) -> str:
    """``command`` as it must be typed here to mean the artifact at ``root``."""
    try:
        if find_root(Path.cwd()) == root.resolve():
            return command
    except (UsageError, OSError):
        pass
    return f"{command} --root {shlex.quote(str(root))}"
