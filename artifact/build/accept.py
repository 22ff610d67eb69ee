"""What may be used of a tree that is not as it is locked, and of a build that is there.

A changed kernel is accepted in two ways only: ``--regenerate`` names it, or ``--skip-build``
finds the record of a build of exactly these bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blake3 import blake3

from artifact.build import record
from artifact.build.building import bit_identical
from artifact.build.failures import NotBuilt, StaleBuild
from artifact.build.plan import Unit
from artifact.build.tools import require_pinned
from artifact.errors import VerificationError
from artifact.integrity.verify import Report
from artifact.model.build import BuildFacts, BuiltKernel
from artifact.model.lock import Lock
from artifact.model.root import BUILD

_KINDS = frozenset({"changed", "chain"})


@dataclass(frozen=True, slots=True)
class Accepted:
    """Files of the chosen kernels that differ from the lock and are used nevertheless."""

    digests: dict[str, str]
    """Their BLAKE3 as they are now, by path."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Their paths, sorted."""
        return tuple(sorted(self.digests))


NOTHING = Accepted({})


def digest_of(root: Path, path: str) -> str | None:
    """The BLAKE3 of a file of the tree as it is now; None where there is no regular file."""
    file = root / path
    if file.is_symlink() or not file.is_file():
        return None
    return blake3(file.read_bytes()).hexdigest()


def except_for(report: Report, paths: Iterable[str]) -> Report:
    """``report`` without what it found of the contents of ``paths``.

    Their names, kinds and modes are held to the lock like those of any file.
    """
    let = set(paths)
    kept = tuple(f for f in report.findings if f.path not in let or f.kind not in _KINDS)
    return replace(report, findings=kept)


def changed_files(root: Path, lock: Lock, paths: Iterable[str]) -> Accepted:
    """Which of ``paths`` differ from their pins, and how they are now."""
    pins = lock.pins()
    found = {path: digest_of(root, path) for path in paths}
    return Accepted(
        {
            path: digest
            for path, digest in found.items()
            if digest is not None and (path not in pins or pins[path].blake3 != digest)
        }
    )


def recorded(
    root: Path, units: Sequence[Unit], lock: Lock, *, unlocked: bool
) -> tuple[BuildFacts, Accepted]:
    """The builds that are there, for ``--skip-build``.

    Args:
        root: The artifact's root.
        units: What is to be run.
        lock: The artifact's lock.
        unlocked: Whether tools other than the pinned ones were accepted.

    Returns:
        The builds, and the kernels' files that differ from the lock and are those of the
        builds.

    Raises:
        NotBuilt: where one is missing.
        StaleBuild: where a record does not describe the present files and flags, or what
            was built has been changed.
        ToolchainDiffers: where one was built with other tools than the pinned ones.
    """
    names = ",".join(unit.backend for unit in units)
    again = f"artifact build {names.replace(',', ' ')}"
    kernels = []
    pins = lock.pins()
    links = {link.kernel: link for link in lock.chain}
    for unit in units:
        known = record.find(root, unit)
        if known is None or not unit.file(root).is_file():
            raise NotBuilt(
                f"{unit.backend} has not been built here",
                where=f"{BUILD}/{unit.backend}",
                expected="an executable and its record",
                found="no record that can be read" if known is None else "no executable",
                next=again,
            )
        build = known.build
        kernel = unit.kernel
        named = (kernel.source, kernel.generated, *build.headers)
        digests = {path: digest_of(root, path) for path in named}
        problems = [
            *record.input_differences(unit, build, digests),
            *(
                f"{path} is not the one that the lock pins"
                for path, digest in build.headers.items()
                if digests[path] == digest and (path not in pins or pins[path].blake3 != digest)
            ),
            *record.made_differences(root, unit, known),
        ]
        if problems:
            raise StaleBuild(
                f"the build of {unit.backend} is not one of the files that are here",
                where=f"{BUILD}/{unit.backend}",
                expected="the sources, headers and flags that it was built from",
                found=problems[0] if len(problems) == 1 else f"{len(problems)} differences",
                next=f"{again}\nor, after an edit of the kernel: artifact run --build-only "
                f"--regenerate --backends {unit.backend}",
                details=tuple(problems) if len(problems) > 1 else (),
            )
        require_pinned(build.differences, unlocked)
        identical = bit_identical(build, links.get(kernel.name))
        kernels.append(BuiltKernel(build=build, how="as recorded", bit_identical=identical))
    paths = [p for unit in units for p in (unit.kernel.source, unit.kernel.generated)]
    facts = BuildFacts(toolkit=None, kernels=tuple(kernels))
    return facts, changed_files(root, lock, paths)


def require_executable(root: Path, unit: Unit, sha256: str) -> None:
    """Do nothing where the executable is, at this moment, the one that was built.

    Raises:
        StaleBuild: where it is another one.
    """
    found = record.sha256_of(unit.file(root))
    if found != sha256:
        raise StaleBuild(
            f"the executable of {unit.backend} is not the one that was built",
            where=f"{BUILD}/{unit.backend}",
            expected=f"sha256:{sha256}",
            found="nothing" if found is None else f"sha256:{found}",
            next=f"artifact build {unit.backend}",
        )


def require_unchanged(root: Path, accepted: Accepted) -> None:
    """Do nothing where the accepted files are still those that were accepted.

    Raises:
        VerificationError: naming the first that is not.
    """
    for path, digest in accepted.digests.items():
        found = digest_of(root, path)
        if found != digest:
            raise VerificationError(
                "a kernel changed while it was measured",
                where=path,
                expected=f"blake3:{digest}",
                found="nothing" if found is None else f"blake3:{found}",
                cause="somebody edits it, or another command regenerates it",
                next="run the same command again",
            )
