"""The members of an archive, and the rules that a list of them must keep.

Every rule is judged over the whole list before anything is read for use or written, so
that a member cannot undo what an earlier one was judged by.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from artifact.archive.limits import Limits
from artifact.errors import VerificationError
from artifact.integrity.pin import Finding
from artifact.model.portable import path_problem, shown

MemberKind = Literal[
    "file",
    "directory",
    "symlink",
    "hard link",
    "device",
    "fifo",
    "socket",
    "sparse file",
    "unknown",
]

_SHOWN_CHARACTERS = 300

_DRIVE = re.compile(r"^[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class Member:
    """One member as the container describes it."""

    name: str
    """With the top directory; a directory's stands without its last ``/``. Bytes that are
    not UTF-8 are escaped as surrogates."""
    kind: MemberKind
    size: int
    executable: bool
    target: str | None = None
    """Where a link points."""


def brief(name: str) -> str:
    """``name`` for a message, cut where it is longer than anybody reads."""
    text = shown(name)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def damaged(label: str, found: str, *, expected: str | None = None) -> VerificationError:
    """An archive that ends early, does not match its checksums or breaks its format."""
    return VerificationError(
        "an archive is damaged",
        where=label,
        expected=expected,
        found=found,
        cause="it was cut off or changed on its way here, or was not made by a sound tool",
        next="fetch the archive again and compare it with its published checksum",
    )


def refused(
    label: str, member: str | None, rule: str, *, details: tuple[str, ...] = ()
) -> VerificationError:
    """An archive that is readable but not safe to unpack.

    Args:
        label: The archive.
        member: The member that breaks a rule, or None where it is the archive as a whole.
        rule: What the member is or does that is not allowed.
        details: All findings, where there are several.
    """
    return VerificationError(
        "an archive is refused before anything of it is written",
        where=label if member is None else f"{label}: {brief(member)}",
        expected="regular files below one top directory, under portable names, each once",
        found=rule,
        cause="it was not made by `artifact pack`, or somebody changed it",
        next="fetch the archive again and compare it with its published checksum",
        details=details,
    )


def raise_problems(label: str, problems: Sequence[Finding]) -> None:
    """Raise the first of ``problems``, with all of them as details; none: return.

    Raises:
        VerificationError: see :func:`refused`.
    """
    if not problems:
        return
    first = problems[0]
    lines = tuple(f"{p.path}: {p.message}" if p.path else p.message for p in problems[:20])
    if len(problems) > len(lines):
        lines = (*lines, f"and {len(problems) - len(lines)} more")
    details = lines if len(problems) > 1 else ()
    raise refused(label, first.path or None, first.message, details=details)


def judge(members: Iterable[Member], limits: Limits) -> tuple[Finding, ...]:
    """Every rule that the list of ``members`` breaks, in the order of the list.

    Counts and sizes are not judged here: they bound the reading itself.
    """
    problems: list[Finding] = []
    spelled: dict[str, str] = {}
    files: set[str] = set()
    directories: set[str] = set()
    seen: set[str] = set()
    first_top: str | None = None
    for member in members:
        name = member.name
        found = _judge_alone(member, limits)
        if found is None and name in seen:
            found = Finding("duplicate", name, "stands in the archive twice")
        top, slash, _ = name.partition("/")
        if found is None and not slash and member.kind != "directory":
            found = Finding("container", name, "stands outside of the top directory")
        if found is None and first_top is not None and top != first_top:
            message = f"stands below a second top directory, beside {first_top}/"
            found = Finding("container", name, message)
        if found is None:
            first_top = first_top or top
            found = _collision(name, spelled)
        if found is None:
            seen.add(name)
            parents = _parents(name)
            above = next((p for p in parents if p in files), None)
            if above is not None:
                found = Finding("duplicate", name, f"needs {above} as a directory, which is a file")
            elif member.kind != "directory" and name in directories:
                found = Finding("duplicate", name, "is a file and the directory of other members")
            directories.update(parents)
            (directories if member.kind == "directory" else files).add(name)
        if found is not None:
            problems.append(
                Finding(found.kind, brief(found.path), found.message, found.expected, found.found)
            )
    return tuple(problems)


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:i]) for i in range(1, len(parts))]


def _judge_alone(member: Member, limits: Limits) -> Finding | None:
    """What is wrong with one member, whatever the others are."""
    name = member.name
    if rule := name_problem(name, limits):
        kind = "normalisation" if "normal form" in rule else "name"
        return Finding(kind, name, rule)
    if member.kind in ("file", "directory"):
        return None
    kind = "symlink" if member.kind == "symlink" else "special"
    if member.kind == "unknown":
        return Finding(kind, name, "is of a type that is not known")
    to = f" to {brief(member.target)}" if member.target is not None else ""
    return Finding(kind, name, f"is a {member.kind}{to}")


def name_problem(name: str, limits: Limits) -> str | None:
    """Why no member may be called ``name``, or None where one may.

    The ways out of a directory are named for what they are; every other rule is that of
    pinned paths (:func:`artifact.model.portable.path_problem`).
    """
    if "\0" in name:
        return "has a NUL character in its name"
    if name.startswith(("\\\\", "//")):
        return "is a UNC path, which leaves the directory"
    if name.startswith("/"):
        return "is an absolute path"
    if _DRIVE.match(name):
        return "starts with a drive letter"
    parts = name.replace("\\", "/").split("/")
    if ".." in parts:
        return "leaves its directory through '..'"
    if "\\" in name:
        return "has a backslash, which separates directories on Windows"
    if len(name.encode("utf-8", "surrogateescape")) > limits.path_bytes:
        return f"is longer than {limits.path_bytes} bytes"
    return path_problem(name)


def _collision(name: str, spelled: dict[str, str]) -> Finding | None:
    """Whether ``name`` or a directory above it is another spelling of an earlier one.

    Where case or normalisation do not count, one of the two would be lost.
    """
    for path in (*_parents(name), name):
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        other = spelled.setdefault(key, path)
        if other != path:
            message = f"collides with {shown(other)} where case or Unicode form does not count"
            return Finding("case", name, message)
    return None
