"""Where the CUTLASS headers are, and which version they have.

As with the toolkit (:mod:`artifact.build.toolchain`) the first place that has them is taken:
the command line, CUTE_HOME, the package ``nvidia-cutlass`` of this interpreter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from artifact.build.toolchain import WHEELS, ask, dependency, packaged
from artifact.errors import EnvironmentUnmet
from artifact.model.build import HEADERS
from artifact.model.manifest import Manifest

_PACKAGE = "nvidia-cutlass"
_FILES = ("cutlass/version.h", "cute/tensor.hpp")
_MACRO = re.compile(r"^\s*#\s*define\s+CUTLASS_(MAJOR|MINOR|PATCH)\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Headers:
    """The CUTLASS and CuTe headers."""

    include: Path
    """The directory that holds ``cutlass/`` and ``cute/``."""
    origin: str
    """Where they were found: ``--cutlass``, ``CUTE_HOME`` or ``PyPI``."""
    version: str | None
    """Such as ``4.2.0``, from ``cutlass/version.h``; null where it does not say."""
    revision: str | None
    """The commit, where they stand in a git checkout."""
    modified: bool
    """Whether that checkout differs from its commit below ``include``."""
    passed_over: tuple[str, ...] = ()
    """Places that come earlier in the order and are set, but have no such headers."""


def find_headers(named: Path | None = None, environ: Mapping[str, str] | None = None) -> Headers:
    """The CUTLASS headers: ``named``, else CUTE_HOME, else the package ``nvidia-cutlass``.

    A directory is taken where it holds ``include/cutlass``, or ``cutlass`` itself.

    Args:
        named: What ``--cutlass`` says.
        environ: The caller's environment; None for this process's.

    Raises:
        EnvironmentUnmet: where there are none.
    """
    environ = os.environ if environ is None else environ
    passed: list[str] = []
    if named is not None:
        include = _include(Path.cwd() / named)
        if include is None:
            raise _no_headers(f"{named} does not hold them", ("--cutlass",))
        return _headers(include, "--cutlass", ())
    if home := environ.get("CUTE_HOME"):
        if include := _include(Path.cwd() / home):
            return _headers(include, "CUTE_HOME", ())
        passed.append(f"CUTE_HOME={home} does not hold them")
    if file := packaged(_PACKAGE, f"include/{_FILES[0]}"):
        if include := _include(file.parents[1]):
            return _headers(include, "PyPI", tuple(passed))
        passed.append(f"{_PACKAGE} is installed here without them")
    else:
        passed.append(f"{_PACKAGE} is not installed here")
    raise _no_headers("they were found nowhere", tuple(passed))


def _include(directory: Path) -> Path | None:
    for candidate in (directory / "include", directory):
        if all((candidate / file).is_file() for file in _FILES):
            return candidate
    return None


def _no_headers(found: str, looked: tuple[str, ...]) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        "there are no CUTLASS headers",
        expected="include/cutlass and include/cute through --cutlass, CUTE_HOME or the "
        f"package {_PACKAGE}",
        found=found,
        next="name a checkout of CUTLASS: --cutlass DIR or CUTE_HOME, or install the pinned "
        f"package: {WHEELS}",
        details=looked,
    )


def _headers(include: Path, origin: str, passed: tuple[str, ...]) -> Headers:
    text = (include / _FILES[0]).read_text(encoding="utf-8", errors="replace")
    macros = dict(_MACRO.findall(text))
    parts = [macros.get(name) for name in ("MAJOR", "MINOR", "PATCH")]
    version = ".".join(part for part in parts if part) if all(parts) else None
    revision, modified = _checkout(include)
    return Headers(include, origin, version, revision, modified, passed)


def _checkout(include: Path) -> tuple[str | None, bool]:
    """The commit that ``include`` stands in, and whether its files differ from it."""
    git = ("git", "-C", str(include))
    try:
        top = ask([*git, "rev-parse", "--show-toplevel"]).strip()
        # A copy inside somebody else's checkout has that one's commit, not CUTLASS's.
        place = include.resolve()
        if Path(top).resolve() not in (place, place.parent):
            return None, False
        revision = ask([*git, "rev-parse", "HEAD"]).strip()
        return revision, bool(ask([*git, "status", "--porcelain", "--", "."]).strip())
    except EnvironmentUnmet:
        return None, False


def headers_difference(headers: Headers, manifest: Manifest) -> str | None:
    """How ``headers`` differ from those that the manifest pins; None where they do not.

    A pinned commit is what a checkout is compared with, a pinned version what the package is.
    Headers in neither can show a version alone: they are not the pinned ones where there is
    a pinned commit.
    """
    pin = dependency(manifest, HEADERS)
    if pin is None:
        return None
    packaged = headers.origin == "PyPI" and pin.version is not None
    if pin.version != headers.version and (packaged or (pin.revision is None and pin.version)):
        return f"the headers are {headers.version or 'of no version'}, pinned are {pin.version}"
    if pin.revision is None or packaged:
        return None
    if headers.revision is None:
        return f"the headers are in no git checkout, pinned is the commit {pin.revision[:12]}"
    if not headers.revision.startswith(pin.revision):
        return f"the headers are of {headers.revision[:12]}, pinned is {pin.revision[:12]}"
    return "files of the headers' checkout were changed" if headers.modified else None
