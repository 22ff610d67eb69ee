"""Libraries of one backend in two runs: the same, intendedly another, or another.

A run records the versions that its worker reported, by the names of distributions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_version
from packaging.version import InvalidVersion, Version


@dataclass(frozen=True, slots=True)
class Difference:
    """One library whose versions are not certainly the same."""

    library: str
    run: str | None
    """Its version in the run; None where the run does not name it."""
    published: str | None
    departure: str | None = None
    """The manifest's sentence that names this very difference."""
    build: bool = False
    """Only one of the two names a build (``+...``) of the same version."""

    @property
    def is_other(self) -> bool:
        """Whether both versions are known, differ, and no departure was declared."""
        known = self.run is not None and self.published is not None
        return known and self.departure is None and not self.build


def differences(
    run: Mapping[str, str], published: Mapping[str, str], departures: Sequence[str]
) -> Iterator[Difference]:
    """Every library that is not certainly the same in both, by name.

    Args:
        run: Library -> version in the run.
        published: The same in the published run.
        departures: Sentences of the manifest about the environment of this backend.
    """
    for library in sorted(run.keys() | published.keys()):
        ours, theirs = run.get(library), published.get(library)
        if ours == theirs:
            continue
        if ours is None or theirs is None:
            yield Difference(library, ours, theirs)
            continue
        public, local = _parts(ours)
        other_public, other_local = _parts(theirs)
        if public == other_public and (not local or not other_local):
            yield Difference(library, ours, theirs, build=True)
        elif (public, local) != (other_public, other_local):
            yield Difference(library, ours, theirs, _declared(library, ours, theirs, departures))


def _parts(version: str) -> tuple[str, str]:
    """The public version and the local one (``cu130`` of ``2.11.0+cu130``), each normalised."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return version, ""
    return canonicalize_version(parsed.public), parsed.local or ""


def _declared(library: str, run: str, published: str, departures: Sequence[str]) -> str | None:
    ours, theirs = _parts(run), _parts(published)
    for sentence in departures:
        if not re.search(rf"(?i)\b{re.escape(library)}\b", sentence):
            continue
        named = {_parts(version) for version in re.findall(r"\d[\w.+!-]*\w", sentence)}
        # A lock names no build; which one was installed does not matter.
        if theirs in named and named & {ours, (ours[0], "")}:
            return sentence
    return None
