"""The headers that nvcc really opens, from ``-M``, and where each of them belongs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from artifact.build.failures import BuildFailed
from artifact.model.build import LibraryHeaders

TOOLKIT, CUTLASS, COMPILER, SYSTEM = "toolkit", "cutlass", "compiler", "system"
"""Where a header from outside of the tree comes from. What the system has of its own (the C
and C++ libraries) differs from one machine to the next and does not reach the machine code."""

_NAME = re.compile(r"(?:[^\s\\]|\\.)+")


@dataclass(frozen=True, slots=True)
class Closure:
    """What a translation unit includes."""

    tree: dict[str, bytes]
    """Contents of the unit itself and of every header of the tree, by path below the root."""
    libraries: tuple[LibraryHeaders, ...]

    def has(self, name: str) -> bool:
        """Whether a header of the library ``name`` is included."""
        return any(library.name == name for library in self.libraries)


@dataclass(frozen=True, slots=True)
class Library:
    """A folder of headers outside of the tree."""

    name: str
    folder: Path
    version: str | None


def parse_rule(text: str) -> tuple[str, ...]:
    """The prerequisites of the one rule that ``-M`` prints, in its order, each once.

    Raises:
        ValueError: where it is no rule.
    """
    joined = text.replace("\\\n", " ")
    _, colon, rest = joined.partition(": ")
    if not colon or not rest.strip():
        raise ValueError(f"not a rule of make: {text[:80]!r}")
    names = (re.sub(r"\\(.)", r"\1", name).replace("$$", "$") for name in _NAME.findall(rest))
    return tuple(dict.fromkeys(names))


def read_closure(
    root: Path, unit: str, rule: str, libraries: Sequence[Library], build: str
) -> Closure:
    """Read every file of a rule, and tell where it belongs.

    Args:
        root: The artifact's root, in which nvcc ran.
        unit: The path of the translation unit below it.
        rule: What ``nvcc -M`` printed.
        libraries: The folders that nvcc was told of or has of its own.
        build: The folder below the root that is no part of the artifact.

    Raises:
        BuildFailed: where a header is one of build/, which nobody pins, or cannot be read.
    """
    top = root.resolve()
    places = [(library, library.folder.resolve()) for library in libraries]
    tree: dict[str, bytes] = {}
    outside: dict[str, list[tuple[str, str]]] = {}
    versions = {library.name: library.version for library in libraries}
    try:
        names = parse_rule(rule)
    except ValueError as error:
        raise BuildFailed(
            "nvcc -M names no headers",
            where=unit,
            found=str(error),
            next=f"read the log of {unit} in build/",
        ) from error
    for name in names:
        path = Path(os.path.normpath(root / name))
        real = path.resolve()
        data = _read(real, unit)
        inside = real.is_relative_to(top)
        owner = next(
            (
                (lib, at)
                for lib, at in places
                # A compiler's headers may be the artifact's own, and are then pinned files.
                if real.is_relative_to(at) and not (inside and lib.name == COMPILER)
            ),
            None,
        )
        if owner is not None:
            below = real.relative_to(owner[1]).as_posix()
            outside.setdefault(owner[0].name, []).append((below, blake3(data).hexdigest()))
        elif inside:
            below = real.relative_to(top).as_posix()
            if below.split("/")[0] == build:
                raise BuildFailed(
                    "a header that belongs to no artifact is included",
                    where=unit,
                    expected="headers that the lock pins",
                    found=below,
                    next="move it out of build/, then: artifact lock",
                )
            tree[below] = data
        else:
            outside.setdefault(SYSTEM, []).append((str(real), blake3(data).hexdigest()))
    return Closure(
        tree,
        tuple(_together(name, versions.get(name), rows) for name, rows in sorted(outside.items())),
    )


def _read(path: Path, unit: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BuildFailed(
            "a header that nvcc names cannot be read",
            where=f"{unit}: {path}",
            found=error.strerror or str(error),
            next=f"ls -l {shlex.quote(str(path))}",
        ) from error


def _together(name: str, version: str | None, rows: list[tuple[str, str]]) -> LibraryHeaders:
    hasher = blake3(derive_key_context="artifact header list, version 1")
    for path, digest in sorted(rows):
        field = path.encode("utf-8", "surrogateescape")
        hasher.update(len(field).to_bytes(8, "little") + field + bytes.fromhex(digest))
    return LibraryHeaders(name=name, version=version, files=len(rows), blake3=hasher.hexdigest())
