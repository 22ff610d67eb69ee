"""Plain records of the hot path.

``artifact verify`` has to start at once, so what it works on are plain records and not
Pydantic models, whose import alone takes longer than hashing a source tree. Of those that
every file has, there are many: they are tuples, which are made fastest. The documents were
validated before (see :mod:`artifact.integrity.documents`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Digests(NamedTuple):
    """Both digests of some bytes, and how many bytes they were."""

    size: int
    blake3: str
    sha256: str | None
    """None where only BLAKE3 was asked for (``verify --fast``)."""


class Pin(NamedTuple):
    """One pinned file: what :class:`artifact.model.lock.FilePin` holds."""

    path: str
    size: int
    executable: bool
    blake3: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the kernel chain: what :class:`artifact.model.lock.ChainPin` holds.

    Of its build only the headers are here: what was compiled is compared where it is compiled
    (:mod:`artifact.build`), from the model itself.
    """

    kernel: str
    source: str
    source_blake3: str
    generated: str
    generated_blake3: str
    compiler: str
    flags: tuple[str, ...]
    headers: tuple[str, ...] = ()
    """Headers of the tree that its pinned build opened; none where no build is pinned."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as pinned. All of them are collected in one pass.

    ``kind`` is one of: missing, extra, renamed, changed, mode, case, normalisation, symlink,
    name, special, unreadable, duplicate, chain, checksum, content-id, results, container.
    """

    kind: str
    path: str
    message: str
    """What is wrong, in a few words."""
    expected: str | None = None
    found: str | None = None
    reason: str | None = None
    """Why the bytes differ, where that can be told (CRLF, truncated at N, ...)."""
