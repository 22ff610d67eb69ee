"""The compile caches of a run: its own, seeded from a known folder, or kept for a later run.

Libraries compile and tune kernels into their caches. Each run begins with empty ones, or
with a copy of a folder whose content id the command names: no kernel of unknown origin is
ever run. Triton notes absolute paths in its cache; in a kept folder ``$SCRATCH`` stands for
the place where the caches were, and is replaced by the place where they are.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from artifact.bench.childenv import CACHE
from artifact.errors import EnvironmentUnmet, UsageError, VerificationError
from artifact.model.results import SeededCache

_PREFIX = "blake3:"
_TOKEN = b"$SCRATCH"


def describe(folder: Path) -> SeededCache:
    """Content id, number and size of the files below ``folder``.

    Raises:
        UsageError: where it is no folder, or holds anything but files and folders.
        EnvironmentUnmet: where it cannot be read.
    """
    from artifact.integrity.contentid import content_id
    from artifact.integrity.digest import hash_files

    if not folder.is_dir():
        raise UsageError(
            "there is no folder of caches",
            where=str(folder),
            next="let a run keep its caches: artifact run --keep-cache DIR",
        )
    names = []
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            names.append(path.relative_to(folder).as_posix())
        elif not stat.S_ISDIR(mode):
            raise UsageError(
                "a folder of caches holds something else than files and folders",
                where=str(path),
                next="make another one with --keep-cache",
            )
    rows, size = [], 0
    for name, digests in hash_files(folder, names):
        executable = bool((folder / name).stat().st_mode & stat.S_IXUSR)
        rows.append((name, executable, digests.size, digests.blake3))
        size += digests.size
    return SeededCache(blake3=content_id(rows), files=len(rows), bytes=size)


def check_options(seed: Path | None, digest: str | None, keep: Path | None) -> None:
    """Hold the three options against each other, before anything runs.

    Raises:
        UsageError: where a folder comes without its digest or the digest without a folder,
            or the folder to keep exists already.
    """
    if seed is not None and digest is None:
        found = f"{_PREFIX}{describe(seed).blake3}"
        raise UsageError(
            "compiled kernels are taken from a folder only together with its digest",
            where=f"--cache-from {seed}",
            expected="--cache-digest, as --keep-cache printed it",
            found=f"no digest; the folder's is {found}",
            next=f"if that is the folder you mean: --cache-digest {found}",
        )
    if digest is not None and seed is None:
        raise UsageError(
            "a digest of caches says nothing without their folder",
            where=f"--cache-digest {digest}",
            expected="--cache-from DIR",
            next="add --cache-from DIR, or leave --cache-digest out",
        )
    if keep is not None and keep.exists():
        raise UsageError(
            "the folder for the caches exists already, and nothing was overwritten",
            where=f"--keep-cache {keep}",
            expected="a name that is free",
            next="name a folder that is not there yet, or remove this one",
        )


def seed(scratch: Path, source: Path, digest: str) -> SeededCache:
    """Copy ``source`` to the caches of a run whose scratch folder is ``scratch``.

    What is checked is the copy, so that nothing can change between the two.

    Raises:
        VerificationError: where it has another content id than ``digest``.
        UsageError: where it holds anything but files and folders.
        EnvironmentUnmet: where it cannot be copied.
    """
    place = scratch / CACHE
    with _copying(source):
        shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
    # Empty folders, which the caches of a new run are, do not count.
    found = describe(place)
    if f"{_PREFIX}{found.blake3}" != digest and found.blake3 != digest:
        raise VerificationError(
            "the folder of caches has another content than its digest says",
            where=f"--cache-from {source}",
            expected=digest if digest.startswith(_PREFIX) else f"{_PREFIX}{digest}",
            found=f"{_PREFIX}{found.blake3}",
            cause="another folder, or something was compiled into it since",
            next="leave --cache-from out: the kernels are then compiled anew",
        )
    _rewrite(place, _TOKEN, os.fsencode(scratch))
    return found


def keep(scratch: Path, target: Path) -> SeededCache:
    """Copy the caches of a run to the new folder ``target``, whole or not at all.

    Raises:
        UsageError: where ``target`` has appeared meanwhile.
        EnvironmentUnmet: where it cannot be written.
    """
    partial = target.with_name(f".{target.name}.partial")
    try:
        with _copying(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(scratch / CACHE, partial, ignore=_others, symlinks=True)
            _rewrite(partial, os.fsencode(scratch), _TOKEN)
            kept = describe(partial)
            if target.exists():
                check_options(None, None, target)
            partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return kept


def _others(folder: str, names: list[str]) -> list[str]:
    """Links, sockets and locks: no later run needs them, and none may follow them."""

    def wanted(name: str) -> bool:
        mode = Path(folder, name).lstat().st_mode
        return (stat.S_ISREG(mode) and not name.endswith(".lock")) or stat.S_ISDIR(mode)

    return [name for name in names if not wanted(name)]


def _rewrite(folder: Path, old: bytes, new: bytes) -> None:
    for path in folder.rglob("*.json"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if old in data:
                path.write_bytes(data.replace(old, new))


@contextlib.contextmanager
def _copying(place: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, shutil.Error) as error:
        raise EnvironmentUnmet(
            "the compile caches cannot be copied",
            where=str(place),
            found=getattr(error, "strerror", None) or str(error),
            next=f"ls -ld {place}; df -h",
        ) from error
