"""What a verification reads from: a tree or an archive behind one interface.

``integrity/tree.py`` has the tree; ``archive/source.py`` the two archive formats, without
extracting them.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from artifact.integrity.digest import Outcome
from artifact.integrity.pin import Finding
from artifact.integrity.rules import Rules

Kind = Literal["file", "symlink", "special", "directory", "unreadable"]


class Entry(NamedTuple):
    """One name in a source.

    A directory holds nothing to check and is no entry, but for one of a tree that the
    inventory rules set outside, which stands for all that is in it, and one that cannot be
    read, which stands for all that is not known of it.
    """

    path: str
    """Below the artifact's root, as the source spells it."""
    kind: Kind
    size: int
    executable: bool
    target: str | None = None
    """Where a symlink points; why a directory cannot be read."""


class Source(ABC):
    """A tree or an archive."""

    label: str
    """How messages name it."""

    closed: bool = True
    """Whether all that it holds must be pinned. A tree is not closed: the inventory rules
    set things outside; an archive is."""

    def prune(self, rules: Rules) -> None:  # noqa: B027 - an archive has nothing to leave out
        """Learn which directories :meth:`entries` need not look into."""

    def reading(
        self, sizes: Mapping[str, int], *, fast: bool = False
    ) -> contextlib.AbstractContextManager[object]:
        """A time in which :meth:`digests` will be asked for, of these paths most likely.

        A tree begins to read the files at once, while it is still being walked; an archive
        does nothing. What is being read when the block ends is given up.

        Args:
            sizes: The expected paths, and their sizes in bytes as far as is known.
            fast: What :meth:`digests` will be asked for.
        """
        return contextlib.nullcontext()

    @abstractmethod
    def entries(self) -> Sequence[Entry]:
        """Every file, symlink and special file, sorted by the bytes of its path."""

    @abstractmethod
    def problems(self) -> Sequence[Finding]:
        """Findings about the container itself; a tree has none."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The bytes of one small file (documents).

        Raises:
            VerificationError: where it is not there or larger than a document may be.
        """

    @abstractmethod
    def digests(self, paths: Sequence[str], *, fast: bool = False) -> Iterator[Outcome]:
        """Both digests of each of ``paths``, each file read once; BLAKE3 alone if ``fast``.

        The pairs come in any order. A file that cannot be read has its error in the place of
        its digests: an :class:`~artifact.errors.EnvironmentUnmet`, or a
        :class:`~artifact.errors.VerificationError` where it changed while it was read.
        """

    @abstractmethod
    def chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of one file in order, for explaining a mismatch."""
