"""A directory tree as a :class:`~artifact.integrity.source.Source`."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from artifact.errors import EnvironmentUnmet
from artifact.integrity.digest import (
    BLOCK_BYTES,
    Hashing,
    Outcome,
    hash_outcomes,
    processors,
    unreadable,
    worth_threads,
)
from artifact.integrity.pin import Finding
from artifact.integrity.rules import Rules
from artifact.integrity.source import Entry, Source
from artifact.model.load import read_bytes


class Tree(Source):
    """The files below a directory.

    No symlink is followed. Once rules are known, a directory that they set outside is one
    entry and is not looked into.
    """

    closed = False

    def __init__(self, root: Path) -> None:
        self.root = root
        self.label = str(root)
        self._rules: Rules | None = None
        self._sizes: dict[str, int] = {}
        self._hashing: Hashing | None = None

    def prune(self, rules: Rules) -> None:
        """Learn which directories need no visit."""
        self._rules = rules

    @contextlib.contextmanager
    def reading(self, sizes: Mapping[str, int], *, fast: bool = False) -> Iterator[None]:
        """Hash the expected files while the tree is walked, where threads are worth it."""
        if processors() == 1 or not worth_threads(sizes):
            yield
            return
        with Hashing(self.root, sizes, fast=fast, jobs=processors()) as self._hashing:
            try:
                yield
            finally:
                self._hashing = None

    def entries(self) -> Sequence[Entry]:
        """Every name below the root, sorted by the bytes of its path."""
        found: list[Entry] = []
        pending = [""]
        while pending:
            prefix = pending.pop()
            try:
                with os.scandir(self.root / prefix) as listing:
                    for item in listing:
                        self._classify(item, prefix + item.name, found, pending)
            except OSError as error:
                if not prefix:
                    raise EnvironmentUnmet(
                        "a directory cannot be read",
                        where=str(self.root),
                        found=error.strerror or str(error),
                        next=f"ls -ld {self.root}",
                    ) from error
                reason = error.strerror or str(error)
                found.append(Entry(prefix.removesuffix("/"), "unreadable", 0, False, reason))
        self._sizes = {entry.path: entry.size for entry in found}
        found.sort(key=lambda entry: os.fsencode(entry.path))
        return found

    def _classify(
        self, item: os.DirEntry[str], path: str, found: list[Entry], pending: list[str]
    ) -> None:
        status = item.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            executable = bool(status.st_mode & stat.S_IXUSR)
            found.append(Entry(path, "file", status.st_size, executable))
        elif stat.S_ISDIR(status.st_mode):
            if self._rules is not None and self._rules.place(path, True) != "pinned":
                found.append(Entry(path, "directory", 0, False))
            else:
                pending.append(path + "/")
        elif stat.S_ISLNK(status.st_mode):
            found.append(Entry(path, "symlink", 0, False, str(Path(item).readlink())))
        else:
            found.append(Entry(path, "special", 0, False))

    def problems(self) -> Sequence[Finding]:
        """None: a tree has no container."""
        return ()

    def read(self, path: str) -> bytes:
        """The bytes of one document."""
        return read_bytes(self.root / path)

    def digests(self, paths: Sequence[str], *, fast: bool = False) -> Iterator[Outcome]:
        """The digests of ``paths``, in any order."""
        started, self._hashing = self._hashing, None
        rest = paths
        if started is not None and started.fast == fast:
            asked = set(paths)
            rest = [path for path in paths if path not in started.paths]
            for path, outcome in started.results():
                # Of an expected path that is no file here, nothing was asked.
                if path in asked:
                    yield path, outcome
        yield from hash_outcomes(self.root, rest, fast=fast, sizes=self._sizes)

    def chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of one file in order."""
        try:
            descriptor = os.open(
                self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
            with os.fdopen(descriptor, "rb") as file:
                while block := file.read(BLOCK_BYTES):
                    yield block
        except OSError as error:
            raise unreadable(str(self.root / path), error) from error
