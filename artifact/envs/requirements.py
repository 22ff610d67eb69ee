"""requirements.lock: the wheels of an environment, name==version with their SHA-256 digests.

The file is what pip reads with ``--require-hashes``, kept to the part of its syntax that
pins: one ``name==version`` a requirement, an optional marker, ``--hash=sha256:`` digests,
comments. Options, URLs, extras, ranges and other digests are refused, because each of them
would let something in that the lock does not name. It holds no host: where a wheel comes
from is the reader's choice, what it is made of is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from artifact.errors import VerificationError
from artifact.model.load import decode, read_bytes

_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*(?P<version>[^\s;,=<>!~*]+)\Z")
_HASH = re.compile(r"--hash[= ]sha256:(?P<digest>[0-9a-f]{64})\Z")
_RELOCK = "artifact env lock NAME"


@dataclass(frozen=True)
class Pinned:
    """One requirement of a lock."""

    name: str
    """The canonical name: lower case, ``-`` between its words."""
    version: str
    """In the canonical form of the version scheme, local part included."""
    hashes: tuple[str, ...]
    """SHA-256 of every file that may be installed for it, sorted, at least one."""
    marker: str | None = None
    """The condition under which it belongs to the environment, as the lock spells it."""
    line: int = 0
    """Where it stands in its lock, counted from 1; 0 where it was not read from a file."""

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def canonical_version(version: str) -> str:
    """``version`` in its canonical form, or as it is where it is not a version at all."""
    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def read_lock(path: Path) -> tuple[Pinned, ...]:
    """The requirements of the lock at ``path``, in its order.

    Raises:
        VerificationError: with file and line, where it is missing or not such a lock.
        EnvironmentUnmet: where it cannot be read.
    """
    return parse_lock(read_bytes(path, next=_RELOCK), str(path))


def parse_lock(data: bytes, where: str) -> tuple[Pinned, ...]:
    """The requirements of a lock, in its order. ``where`` names it in errors.

    A lock of comments alone holds nothing; a file without a last line end is cut off.

    Raises:
        VerificationError: naming the first line that is not a pinned requirement.
    """
    pins: list[Pinned] = []
    for number, text in _logical_lines(decode(data, where), where):
        pin = _pinned(text, f"{where}:{number}", number)
        for other in pins:
            if other.name == pin.name and (
                None in (other.marker, pin.marker) or other.marker == pin.marker
            ):
                raise _bad(
                    f"{where}:{number}",
                    f"{pin.name} once, or under markers that exclude each other",
                    f"{pin}, after {other} on line {other.line}",
                )
        pins.append(pin)
    return tuple(pins)


def applicable(
    pins: Iterable[Pinned], environment: Mapping[str, str], where: str
) -> tuple[Pinned, ...]:
    """The requirements whose markers hold in ``environment`` (PEP 508 variables).

    Raises:
        VerificationError: where two requirements of one distribution hold at once, or a
            marker asks for a variable that the environment lacks.
    """
    chosen: dict[str, Pinned] = {}
    for pin in pins:
        try:
            if pin.marker is not None and not Marker(pin.marker).evaluate(dict(environment)):
                continue
        except UndefinedEnvironmentName as error:
            raise _bad(
                f"{where}:{pin.line}", "a marker over PEP 508 variables", str(error)
            ) from error
        if pin.name in chosen:
            raise _bad(
                f"{where}:{pin.line}",
                f"one version of {pin.name}",
                f"{pin.version}, and {chosen[pin.name].version} on line {chosen[pin.name].line}",
            )
        chosen[pin.name] = pin
    return tuple(chosen.values())


def render_lock(
    pins: Iterable[Pinned], *, header: Iterable[str] = (), notes: Mapping[str, str] | None = None
) -> bytes:
    """A lock as the bytes of its file: sorted by name, one digest a line.

    Args:
        pins: The requirements.
        header: Lines that stand at its top, as comments.
        notes: Why a distribution is at its version, by canonical name; it stands above it.
    """
    notes = notes or {}
    lines = [f"# {line}".rstrip() for line in header]
    for pin in sorted(pins, key=lambda pin: (pin.name, pin.marker or "")):
        if reason := notes.get(pin.name):
            lines.append(f"# {reason}")
        marker = f" ; {pin.marker}" if pin.marker else ""
        lines.append(f"{pin}{marker} \\")
        hashes = sorted(pin.hashes)
        lines.extend(f"    --hash=sha256:{digest} \\" for digest in hashes[:-1])
        lines.append(f"    --hash=sha256:{hashes[-1]}")
    return ("\n".join(lines) + "\n").encode("utf-8")


def _logical_lines(text: str, where: str) -> Iterator[tuple[int, str]]:
    """Each requirement with the number of its first line: continued lines put together.

    pip ends a continued requirement at a comment, and hides behind one what a continued
    line goes on with. Both are refused, so that pip and we cannot read two different locks.
    """
    parts: list[str] = []
    start = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s+)#.*$", "", raw).strip()
        commented = line != raw.strip()
        if parts and (commented or not line):
            raise _bad(f"{where}:{number}", f"the rest of line {start}", raw.strip() or "nothing")
        if commented and raw.rstrip().endswith("\\"):
            raise _bad(f"{where}:{number}", "no comment before a backslash", raw.strip())
        if not line:
            continue
        start = start or number
        parts.append(line.removesuffix("\\").strip())
        if not line.endswith("\\"):
            yield start, " ".join(parts)
            parts, start = [], 0
    if parts or not text.endswith("\n"):
        raise VerificationError(
            "a requirements lock ends in the middle of a line",
            where=f"{where}:{start or len(text.splitlines())}",
            expected="a line end at the end of the file",
            found=text.splitlines()[-1][-100:],
            cause="the file is truncated",
            next=_RELOCK,
        )


def _pinned(text: str, where: str, line: int) -> Pinned:
    requirement, *options = re.split(r"\s+(?=--)", text)
    if requirement.startswith("-"):
        raise _bad(where, "name==version", f"the option {requirement.split()[0]!r}")
    if "://" in text or " @ " in requirement or "${" in text:
        raise _bad(where, "name==version, without a URL or a variable", text)
    head, semicolon, marker_text = requirement.partition(";")
    match = _PIN.match(head.strip())
    if match is None:
        raise _bad(where, "name==version, one exact version", head.strip())
    try:
        name = canonicalize_name(match["name"], validate=True)
        version = str(Version(match["version"]))
        marker = str(Marker(marker_text.strip())) if semicolon else None
    except (InvalidName, InvalidVersion, InvalidMarker) as error:
        raise _bad(where, "a name, a version and a marker of PEP 508", str(error)) from error
    hashes = tuple(sorted({_digest(option, where) for option in options}))
    if not hashes:
        raise _bad(where, f"--hash=sha256:... for {name}", "no digest")
    return Pinned(name, version, hashes, marker, line)


def _digest(option: str, where: str) -> str:
    match = _HASH.match(option.strip())
    if match is None:
        raise _bad(where, "--hash=sha256:<64 hexadecimal digits>", option.strip())
    return match["digest"]


def _bad(where: str, expected: str, found: str) -> VerificationError:
    return VerificationError(
        "a requirements lock is not valid",
        where=where,
        expected=expected,
        found=found if len(found) <= 120 else found[:117] + "...",
        next=_RELOCK,
    )
