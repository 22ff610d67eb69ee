"""The two-way inventory: every pin against every name that is there, and the other way."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from artifact.integrity.atomic import is_partial
from artifact.integrity.documents import Documents
from artifact.integrity.pin import Digests, Finding, Pin
from artifact.integrity.source import Entry, Source
from artifact.model.portable import path_problem
from artifact.model.root import LOCK


def fold(path: str) -> str:
    """One text for all the spellings of a path that some file system takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


@dataclass(slots=True)
class Inventory:
    """What is there, sorted into what the lock knows and what it does not."""

    documents: Documents
    present: dict[str, Entry] = field(default_factory=dict)
    """Pinned paths that are regular files."""
    lock: Entry | None = None
    """manifests/lock.json, where it is a regular file."""
    missing: dict[str, Pin] = field(default_factory=dict)
    unknown: list[Entry] = field(default_factory=list)
    """What is neither pinned nor outside."""
    misplaced: list[Entry] = field(default_factory=list)
    """Pinned paths that are no regular file."""
    unread: dict[str, str] = field(default_factory=dict)
    """Directories that cannot be read, with the reason: of what is in them nothing is known."""
    directories: set[str] = field(default_factory=set)
    """Paths that are a directory of something; filled only where something is missing."""
    outside: list[str] = field(default_factory=list)
    unlisted_results: list[str] = field(default_factory=list)
    to_hash: list[str] = field(default_factory=list)
    """The present files, and the unknown ones that may be a missing file renamed."""

    def findings(self, digests: Mapping[str, Digests]) -> Iterator[Finding]:
        """Findings about names; those about contents are not here."""
        renamed = dict(self._renamed(digests))
        taken = {entry.path for entry in renamed.values()}
        misplaced = {entry.path for entry in self.misplaced}
        for path, pin in self.missing.items():
            if path in renamed:
                yield _renamed_finding(pin, renamed[path], digests)
            elif path not in misplaced and not self._hidden(path):
                yield self._missing_finding(path)
        for path, why in self.unread.items():
            hidden = sum(pin.startswith(path + "/") for pin in self.missing)
            yield Finding(
                "unreadable",
                path,
                f"the directory cannot be read, nor can {hidden} pinned files in it be compared",
                found=why,
            )
        if self.lock is None and LOCK not in misplaced:
            yield Finding("missing", LOCK, "the lock is not there", reason="artifact lock")
        for entry in self.misplaced:
            yield _kind_finding(entry, pinned=True)
        rest = [entry for entry in self.unknown if entry.path not in taken]
        pinned = (*self.documents.pins, LOCK) if rest else ()
        spellings = {fold(path): path for path in pinned}
        for entry in rest:
            yield _unknown_finding(entry, spellings.get(fold(entry.path)))

    def _renamed(self, digests: Mapping[str, Digests]) -> Iterator[tuple[str, Entry]]:
        """Missing paths with the unknown file that stands for each."""
        free = {entry.path: entry for entry in self.unknown if entry.kind == "file"}
        by_spelling: dict[str, list[Entry]] = {}
        by_digest: dict[str, list[Entry]] = {}
        for entry in free.values():
            by_spelling.setdefault(fold(entry.path), []).append(entry)
            if entry.path in digests and entry.size:
                by_digest.setdefault(digests[entry.path].blake3, []).append(entry)
        rest = []
        for path in self.missing:
            candidates = [e for e in by_spelling.get(fold(path), ()) if e.path in free]
            if candidates:
                yield path, free.pop(candidates[0].path)
            else:
                rest.append(path)
        for path in rest:
            same = by_digest.get(self.missing[path].blake3, ())
            candidates = [e for e in same if e.path in free]
            if candidates:
                yield path, free.pop(candidates[0].path)

    def _hidden(self, path: str) -> bool:
        """Whether a path lies in a directory that cannot be read."""
        return any(path.startswith(directory + "/") for directory in self.unread)

    def _missing_finding(self, path: str) -> Finding:
        reason = None
        links = {entry.path for entry in self.unknown if entry.kind == "symlink"}
        parts = path.split("/")
        above = ["/".join(parts[:i]) for i in range(1, len(parts))]
        if link := next((p for p in above if p in links), None):
            reason = f"{link} is a symlink, which is not followed"
        elif path in self.directories:
            reason = "a directory stands in its place"
        elif self.documents.rules.place(path) != "pinned":
            reason = "the inventory rules of the manifest set it outside: artifact lock"
        return Finding("missing", path, "a pinned file is not there", reason=reason)


def take_inventory(source: Source, documents: Documents) -> Inventory:
    """Sort every name in ``source``; nothing is read but names, kinds and sizes."""
    inventory = Inventory(documents)
    entries = source.entries()
    pins, rules = documents.pins, documents.rules
    runs: dict[str, None] = {}
    for entry in entries:
        path = entry.path
        if entry.kind == "unreadable":
            inventory.unread[path] = entry.target or "unknown"
            continue
        if path in pins or path == LOCK:
            if entry.kind != "file":
                inventory.misplaced.append(entry)
            elif path == LOCK:
                inventory.lock = entry
            else:
                inventory.present[path] = entry
            continue
        place = rules.place(path, entry.kind == "directory")
        if place == "pinned" or source.closed:
            inventory.unknown.append(entry)
        elif place == "outside":
            inventory.outside.append(path + "/" if entry.kind == "directory" else path)
        else:
            below = path[len(rules.results) + 1 :]
            runs[f"{rules.results}/{below.partition('/')[0]}/"] = None
    inventory.unlisted_results.extend(runs)
    inventory.missing = {p: pin for p, pin in pins.items() if p not in inventory.present}
    inventory.to_hash.extend(inventory.present)
    if inventory.missing:
        for entry in entries:
            parent = entry.path.rpartition("/")[0]
            while parent and parent not in inventory.directories:
                inventory.directories.add(parent)
                parent = parent.rpartition("/")[0]
        sizes = {pin.size for pin in inventory.missing.values()}
        spellings = {fold(path) for path in inventory.missing}
        inventory.to_hash.extend(
            entry.path
            for entry in inventory.unknown
            if entry.kind == "file" and (entry.size in sizes or fold(entry.path) in spellings)
        )
    return inventory


def _renamed_finding(pin: Pin, entry: Entry, digests: Mapping[str, Digests]) -> Finding:
    same = entry.path in digests and digests[entry.path].blake3 == pin.blake3
    contents = None if same else "its contents differ too"
    if unicodedata.normalize("NFC", entry.path) == pin.path:
        message = "its name is not in Unicode normal form C"
        return Finding(
            "normalisation",
            pin.path,
            message,
            expected=_escaped(pin.path),
            found=_escaped(entry.path),
            reason=contents or "a file system or archive tool rewrote the name",
        )
    if fold(entry.path) == fold(pin.path):
        return Finding(
            "case",
            pin.path,
            "its name differs in upper and lower case",
            expected=pin.path,
            found=entry.path,
            reason=contents or "the file was renamed, or unpacked where case is not kept",
        )
    return Finding(
        "renamed",
        pin.path,
        "it stands under another name",
        expected=pin.path,
        found=entry.path,
        reason=f"the contents are the same: mv {entry.path} {pin.path}",
    )


def _kind_finding(entry: Entry, *, pinned: bool) -> Finding:
    wanted = "a regular file" if pinned else "nothing"
    if entry.kind == "symlink":
        return Finding(
            "symlink",
            entry.path,
            "a symlink stands in place of a pinned file" if pinned else "a symlink is not pinned",
            expected=wanted,
            found=f"a symlink to {entry.target}",
            reason="a symlink is never followed: put the file itself there",
        )
    if entry.kind == "directory":
        return Finding(
            "missing", entry.path, "a directory stands in place of a pinned file", expected=wanted
        )
    return Finding(
        "special",
        entry.path,
        "it is no regular file (a pipe, a socket or a device)",
        expected=wanted,
    )


def _unknown_finding(entry: Entry, twin: str | None) -> Finding:
    if entry.kind != "file" and entry.kind != "directory":
        return _kind_finding(entry, pinned=False)
    if twin is not None:
        kind = "normalisation" if unicodedata.normalize("NFC", entry.path) == twin else "case"
        return Finding(
            kind,
            entry.path,
            f"it is another spelling of the pinned {twin}",
            expected=_escaped(twin),
            found=_escaped(entry.path),
            reason="on other file systems the two are one file",
        )
    if problem := path_problem(entry.path):
        return Finding(
            "name", entry.path, f"it is not pinned, and its name {problem}", expected="nothing"
        )
    reason = None
    if is_partial(entry.path.rpartition("/")[2]):
        reason = "a command that was killed left it behind: delete it"
    return Finding("extra", entry.path, "it is not pinned", expected="nothing", reason=reason)


def _escaped(path: str) -> str:
    """``path`` with everything but ASCII escaped: two spellings may look the same."""
    return path.encode("ascii", "backslashreplace").decode("ascii")
