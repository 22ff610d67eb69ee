"""Checksum files beside an archive, as ``sha256sum -c`` and ``b3sum -c`` read them.

``<archive>.sha256`` also carries the content id, in a comment: it is what ties the lock
inside the archive to something outside of it. GNU sha256sum skips lines that begin with
``#``; b3sum does not, so ``<archive>.b3`` has none. They are read by
:mod:`artifact.integrity.published`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from artifact.integrity.pin import Digests

_CHUNK_BYTES = 256 * 1024


def digests_of(
    chunks: Iterable[bytes], *, fast: bool = False, keep: list[bytes] | None = None
) -> Digests:
    """The digests of bytes that come in pieces.

    Args:
        chunks: The pieces.
        fast: Whether to leave SHA-256 out.
        keep: Where to put the pieces, for a caller that wants them too.
    """
    b3 = blake3()
    sha = None if fast else hashlib.sha256()
    size = 0
    for chunk in chunks:
        b3.update(chunk)
        if sha is not None:
            sha.update(chunk)
        if keep is not None:
            keep.append(chunk)
        size += len(chunk)
    return Digests(size, b3.hexdigest(), None if sha is None else sha.hexdigest())


def file_chunks(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of an open file from its start."""
    file.seek(0)
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk


def sha256_path(archive: Path) -> Path:
    """Where the SHA-256 of ``archive`` stands."""
    return archive.with_name(archive.name + ".sha256")


def b3_path(archive: Path) -> Path:
    """Where the BLAKE3 of ``archive`` stands."""
    return archive.with_name(archive.name + ".b3")


def sha256_text(name: str, digests: Digests, content_id: str | None = None) -> bytes:
    """The contents of a ``.sha256`` file."""
    comment = f"# content-id: blake3:{content_id}\n" if content_id else ""
    return f"{comment}{digests.sha256}  {name}\n".encode()


def b3_text(name: str, digests: Digests) -> bytes:
    """The contents of a ``.b3`` file."""
    return f"{digests.blake3}  {name}\n".encode()
