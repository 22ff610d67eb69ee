"""``artifact pack``: a verified tree as a deterministic archive, with its checksums."""

from __future__ import annotations

import contextlib
import datetime
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from artifact.archive.checksums import (
    b3_path,
    b3_text,
    digests_of,
    file_chunks,
    sha256_path,
    sha256_text,
)
from artifact.archive.deflate import BlockPool, Compressor, select
from artifact.archive.downloads import Download, plan_downloads
from artifact.archive.limits import DEFAULT, Limits
from artifact.archive.pinned import pinned_chunks
from artifact.archive.reader import Format, open_file
from artifact.archive.source import ArchiveSource
from artifact.archive.statement import dump_statement, make_statement, now, statement_path
from artifact.archive.tar import TarGzWriter
from artifact.archive.zip import ZipWriter
from artifact.errors import UsageError, VerificationError
from artifact.integrity.atomic import beside
from artifact.integrity.digest import hash_file
from artifact.integrity.documents import Documents, load_manifest, read_documents
from artifact.integrity.pin import Digests, Pin
from artifact.integrity.tree import Tree
from artifact.integrity.verify import verify
from artifact.model.portable import path_problem
from artifact.model.root import LOCK, MANIFEST

if TYPE_CHECKING:
    from artifact.model.manifest import Manifest

SUFFIXES: dict[Format, str] = {"tar.gz": ".tar.gz", "zip": ".zip"}

_DEFAULT_DIRECTORY = "dist"

#: Our own archive is read back without a bound on its ratio: what comes out is compared
#: with the pins. Deflate itself cannot go beyond 1032.
_OWN_LIMITS = replace(DEFAULT, ratio=1100)


@dataclass(frozen=True, slots=True)
class Packed:
    """What a pack wrote."""

    archive: Path
    format: Format
    content_id: str
    digests: Digests
    """Of the archive."""
    files: int
    content_bytes: int
    compressor: Compressor
    written: tuple[Path, ...]
    """Every file, the archive first."""
    ratio_beyond: int | None
    """The ratio that readers must allow with ``--max-ratio``, where it is not the default."""


@dataclass(frozen=True, slots=True)
class _Plan:
    root: Path
    output: Path
    format: Format
    documents: Documents
    manifest: Manifest
    mtime: int
    compressor: Compressor
    downloads: Sequence[Download]

    @property
    def outputs(self) -> list[Path]:
        """Every file that will be written."""
        archive = self.output
        return [
            archive,
            sha256_path(archive),
            b3_path(archive),
            statement_path(archive),
            *(path for download in self.downloads for path in download.outputs),
        ]


def pack(
    root: Path,
    format: Format,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    individual: bool = False,
    non_canonical: bool = False,
    threads: int | None = None,
) -> Packed:
    """Verify the tree at ``root`` and write it as an archive.

    The archive takes its name only after it was read back through the safe reader and
    found to have the tree's content id; the files beside it take theirs just before.

    Args:
        root: Root of the artifact.
        format: Which container.
        output: Where to; a directory stands for the default name in it. By default
            ``dist/<artifact>.<format>`` below the root.
        overwrite: Whether files of the same names are replaced.
        individual: Also write the manifest's ``[downloads]`` beside the archive.
        non_canonical: Accept another compressor than the pinned one; recorded.
        threads: Threads that compress; the bytes do not depend on it.

    Raises:
        UsageError: where an output exists, is no regular file, or would itself need to be pinned.
        EnvironmentUnmet: where the compressor is not the pinned one, or the disk is full.
        VerificationError: where the tree is not as pinned, or changes meanwhile.
    """
    started = now()
    plan = _plan(root, format, output, individual, non_canonical)
    _check_outputs(plan, overwrite)
    report = verify(Tree(root))
    report.require()
    assert report.content_id is not None
    pins = _pins(plan)
    made_directory = _make_directory(plan, output)
    taken: list[Path] = []
    try:
        digests = _write(plan, pins, report.content_id, started, overwrite, threads, taken)
    except BaseException:
        # Files beside an archive that is not there must not stay; replaced ones cannot come back.
        for path in [] if overwrite else taken:
            path.unlink(missing_ok=True)
        if made_directory:
            with contextlib.suppress(OSError):
                plan.output.parent.rmdir()
        raise
    total = sum(pin.size for pin in pins)
    return Packed(
        archive=plan.output,
        format=format,
        content_id=report.content_id,
        digests=digests,
        files=len(pins),
        content_bytes=total,
        compressor=plan.compressor,
        written=tuple(plan.outputs),
        ratio_beyond=_ratio_beyond(total, digests.size, DEFAULT),
    )


def _plan(
    root: Path, format: Format, output: Path | None, individual: bool, non_canonical: bool
) -> _Plan:
    documents = read_documents(Tree(root))
    manifest = load_manifest(root)
    name = documents.artifact + SUFFIXES[format]
    if output is None:
        output = root / _DEFAULT_DIRECTORY / name
    elif output.is_dir():
        output = output / name
    downloads: Sequence[Download] = ()
    if individual:
        downloads = plan_downloads(manifest.downloads, documents.pins, output.parent)
    return _Plan(
        root=root,
        output=output,
        format=format,
        documents=documents,
        manifest=manifest,
        mtime=_seconds(documents.mtime),
        compressor=select(documents.deflate, allow_other=non_canonical),
        downloads=[d for d in downloads if not d.is_there()],
    )


def _seconds(moment: str) -> int:
    """The manifest's ``archive.mtime`` in seconds since 1970.

    Raises:
        VerificationError: where ZIP cannot hold it.
    """
    try:
        time = datetime.datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        time = None
    if time is None or time.microsecond or time.second % 2 or not 1980 <= time.year <= 2107:
        raise VerificationError(
            "an archive cannot hold the time of its members",
            where=f"{MANIFEST}: archive.mtime",
            expected="an even second in UTC, from 1980 to 2107",
            found=moment,
            next="correct it, then: artifact lock",
        )
    return int(time.timestamp())


def _check_outputs(plan: _Plan, overwrite: bool) -> None:
    """Refuse before any work what would be refused after it.

    Raises:
        UsageError: see :func:`pack`.
    """
    others = [suffix for other, suffix in SUFFIXES.items() if other != plan.format]
    if plan.output.name.endswith(tuple(others)):
        raise UsageError(
            "the name of the archive says another format than it will have",
            where=str(plan.output),
            expected=f"a name that ends in {SUFFIXES[plan.format]}",
            next=f"artifact pack --format {plan.format} --output NAME{SUFFIXES[plan.format]}",
        )
    if problem := path_problem(plan.output.name):
        raise UsageError(
            "the archive cannot have this name",
            where=str(plan.output),
            found=f"it {problem}",
            next="give it another name: --output PATH",
        )
    outputs = plan.outputs
    if len(set(outputs)) != len(outputs):
        raise UsageError(
            "the archive and a single download would be one file",
            where=str(plan.output),
            next="name the archive: --output NAME",
        )
    root = plan.root.resolve()
    for path in outputs:
        place = path.parent.resolve() / path.name
        if place.is_relative_to(root):
            below = place.relative_to(root).as_posix()
            if plan.documents.rules.place(below) == "pinned":
                raise UsageError(
                    "the archive would become a part of what it packs",
                    where=str(path),
                    expected="a place outside of the tree, or one that the inventory leaves out",
                    next=f"artifact pack --output {_DEFAULT_DIRECTORY}/{path.name}",
                )
        if not os.path.lexists(path):
            continue
        if not stat.S_ISREG(path.lstat().st_mode):
            raise UsageError(
                "something that is no regular file has this name, and is never replaced",
                where=str(path),
                expected="a name that is free, or a file",
                found=_kind(path),
                next="--output NAME writes another one",
            )
        if not overwrite:
            raise UsageError(
                "a file of this name exists already, and nothing was overwritten",
                where=str(path),
                expected="a name that is free",
                next="--overwrite replaces it; --output NAME writes another one",
            )


def _kind(path: Path) -> str:
    if path.is_symlink():
        return "a symlink"
    return "a directory" if path.is_dir() else "a device, a pipe or a socket"


def _make_directory(plan: _Plan, output: Path | None) -> bool:
    """Make the default directory; others are their user's to make."""
    if output is not None or plan.output.parent.is_dir():
        return False
    plan.output.parent.mkdir()
    return True


def _pins(plan: _Plan) -> list[Pin]:
    """Everything that goes into the archive, by the bytes of its path: the pins and the lock.

    Raises:
        VerificationError: where the lock changed, or the whole is larger than readers take.
    """
    documents = plan.documents
    lock = hash_file(plan.root / LOCK)
    if lock.blake3 != documents.lock_blake3 or lock.sha256 is None:
        raise VerificationError(
            "the lock changed while the tree was packed",
            where=str(plan.root / LOCK),
            next="run the same command again",
        )
    pins = [*documents.pins.values(), Pin(LOCK, lock.size, False, lock.blake3, lock.sha256)]
    total = sum(pin.size for pin in pins)
    if len(pins) > DEFAULT.members or total > DEFAULT.total_bytes:
        raise VerificationError(
            "the tree is larger than an archive that is read back may be",
            where=str(plan.root),
            expected=f"at most {DEFAULT.members} files and {DEFAULT.total_bytes} bytes",
            found=f"{len(pins)} files and {total} bytes",
            next="leave files out by the inventory of the manifest, then: artifact lock",
        )
    return sorted(pins, key=lambda pin: pin.path.encode("utf-8"))


def _write(
    plan: _Plan,
    pins: Sequence[Pin],
    content_id: str,
    started: str,
    overwrite: bool,
    threads: int | None,
    taken: list[Path],
) -> Digests:
    """Write everything beside its name; on leaving, all take their names, the archive last."""
    output = plan.output
    with contextlib.ExitStack() as stack:

        def take(path: Path) -> BinaryIO:
            return stack.enter_context(_taking(path, overwrite, taken))

        file = take(output)
        with BlockPool(plan.compressor, threads) as pool:
            _write_members(plan, pins, file, pool)
        file.flush()
        os.fsync(file.fileno())
        digests = _read_back(plan, file, content_id)
        take(sha256_path(output)).write(sha256_text(output.name, digests, content_id))
        take(b3_path(output)).write(b3_text(output.name, digests))
        for download in plan.downloads:
            sha256, b3 = download.checksums()
            download.write(plan.root, take(download.target))
            take(sha256_path(download.target)).write(sha256)
            take(b3_path(download.target)).write(b3)
        statement = make_statement(
            name=output.name,
            digests=digests,
            format=plan.format,
            content_id=content_id,
            manifest=plan.manifest,
            documents=plan.documents,
            compressor=plan.compressor,
            started=started,
        )
        path = statement_path(output)
        take(path).write(dump_statement(statement, str(path)))
    return digests


@contextlib.contextmanager
def _taking(path: Path, overwrite: bool, taken: list[Path]) -> Iterator[BinaryIO]:
    with beside(path, overwrite=overwrite) as file:
        yield file
    taken.append(path)


def _write_members(plan: _Plan, pins: Sequence[Pin], file: BinaryIO, pool: BlockPool) -> None:
    make = TarGzWriter if plan.format == "tar.gz" else ZipWriter
    writer = make(file, pool, mtime=plan.mtime)
    for pin in pins:
        writer.begin(f"{plan.documents.artifact}/{pin.path}", pin.size, pin.executable)
        for chunk in pinned_chunks(plan.root, pin):
            writer.write(chunk)
        writer.end()
    writer.finish()


def _read_back(plan: _Plan, file: BinaryIO, content_id: str) -> Digests:
    """Open what was written a second time and verify it as a stranger would.

    Raises:
        VerificationError: where it is not the tree; that is a fault of this machine or ours.
    """
    again = open_file(Path(f"/proc/self/fd/{file.fileno()}"))
    digests = digests_of(file_chunks(again))
    # SHA-256 was compared with the pins when the bytes went in; the content id is of BLAKE3.
    with ArchiveSource(again, str(plan.output), _OWN_LIMITS, fast=True) as source:
        report = verify(source, fast=True, expect_content_id=content_id)
    report.require("test this machine's memory and disk, then run the same command again")
    return digests


def _ratio_beyond(content: int, archive: int, limits: Limits) -> int | None:
    if content <= limits.allowance(archive):
        return None
    # Rounded up, with room for the container's own headers.
    return content // archive + 2
