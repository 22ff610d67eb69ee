"""What checksum files say about an archive or a tree, and whether it is so.

``<archive>.sha256`` is read by ``sha256sum -c``, which ignores comment lines; one of them
carries the content id. ``<archive>.b3`` is read by ``b3sum -c``, which takes no comments.
They are the only tie between a lock and what its authors published: a lock that was edited
together with a file agrees with that file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from artifact.errors import VerificationError
from artifact.integrity.digest import hash_file
from artifact.integrity.pin import Digests, Finding
from artifact.integrity.verify import Report, expecting
from artifact.model.load import decode, read_bytes

_LINE = re.compile(r"(\\?)([0-9a-fA-F]{64}) [ *](.+)")
_CONTENT_ID = re.compile(r"#\s*content-id:\s*blake3:([0-9a-f]{64})\s*")
_ESCAPES = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}


@dataclass(frozen=True, slots=True)
class Checksums:
    """One checksum file."""

    path: Path
    algorithm: Literal["sha256", "blake3"]
    digests: dict[str, str]
    """By file name."""
    content_id: str | None


def read_checksums(path: Path) -> Checksums:
    """A file in the format of sha256sum, or of b3sum where its name ends in ``.b3``.

    Raises:
        VerificationError: where it is missing, is no such file, or contradicts itself.
        EnvironmentUnmet: where it cannot be read.
    """
    digests: dict[str, str] = {}
    ids: set[str] = set()
    lines = decode(read_bytes(path), str(path)).split("\n")
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix("\r")
        if match := _CONTENT_ID.fullmatch(line):
            ids.add(match[1])
        elif match := _LINE.fullmatch(line):
            escaped, digest, name = match.groups()
            if escaped:
                name = re.sub(r"\\[\\nr]", lambda found: _ESCAPES[found[0]], name)
            if digests.setdefault(name, digest.lower()) != digest.lower():
                raise _malformed(path, number, f"two digests for {name!r}")
        elif line.strip() and not line.startswith("#"):
            raise _malformed(path, number, repr(line[:80]))
    if len(ids) > 1:
        raise _malformed(path, None, "two content ids")
    if not digests and not ids:
        raise _malformed(path, None, "neither a digest nor a content id")
    algorithm: Literal["sha256", "blake3"] = "blake3" if path.suffix == ".b3" else "sha256"
    return Checksums(path, algorithm, digests, next(iter(ids), None))


def neighbours(archive: Path) -> list[Path]:
    """The checksum files that stand beside ``archive``."""
    named = (archive.with_name(archive.name + suffix) for suffix in (".sha256", ".b3"))
    return [path for path in named if path.is_file()]


def check_published(
    report: Report,
    target: Path,
    checksums: list[Checksums],
    digests: Callable[[], Digests] | None = None,
) -> Report:
    """``report`` with a finding for every checksum file that says otherwise.

    Args:
        report: The verification of ``target``.
        target: The archive, or a tree, of which only the content id is compared.
        checksums: What was published.
        digests: Gives those of the archive, which are asked for where they are needed; None
            reads it here.

    Raises:
        VerificationError: where a checksum file says nothing about ``target``.
    """
    found: Digests | None = None
    for sums in checksums:
        expected = sums.digests.get(target.name) if target.is_file() else None
        if expected is None and sums.content_id is None:
            raise VerificationError(
                "a checksum file says nothing about this",
                where=str(sums.path),
                expected=f"a line for {target.name}, or: # content-id: blake3:<64 hex digits>",
                found=", ".join(sums.digests),
                next="give the checksum file that was published with it",
            )
        if expected is not None:
            found = found or (digests() if digests is not None else hash_file(target.resolve()))
            actual = found.sha256 if sums.algorithm == "sha256" else found.blake3
            if actual != expected:
                report = _with(report, target, sums, expected, str(actual))
        if sums.content_id is not None:
            report = expecting(report, sums.content_id, f"the one in {sums.path}")
    return report


def _with(report: Report, target: Path, sums: Checksums, expected: str, actual: str) -> Report:
    reason = None
    if report.ok:
        reason = "the contents are as their own lock pins them; the archive is another one"
    finding = Finding(
        "checksum",
        target.name,
        f"the archive is not what {sums.path.name} says",
        expected=f"{sums.algorithm}:{expected}",
        found=f"{sums.algorithm}:{actual}",
        reason=reason,
    )
    return replace(report, findings=(*report.findings, finding))


def _malformed(path: Path, line: int | None, found: str) -> VerificationError:
    return VerificationError(
        "a checksum file cannot be read",
        where=f"{path}:{line}" if line else str(path),
        expected="<64 hex digits>  <file name>, or a comment line that begins with #",
        found=found,
        next="take it again from where it was published, or name another one: --checksums FILE",
    )
