"""The content id: one digest for a tree, its tar.gz and its zip.

BLAKE3 over, for every file in the order of its path's bytes: the path (NFC, UTF-8), one
byte for the executable bit, the size, and the BLAKE3 digest of the contents. Every field
stands behind its length as eight little-endian bytes, so no two lists give one stream. It
covers manifests/lock.json like any other file, and never any compressed byte.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from blake3 import blake3

_CONTEXT = "artifact content id, version 1"


def content_id(entries: Iterable[tuple[str, bool, int, str]]) -> str:
    """The content id of ``entries``: (path, executable, size, BLAKE3 in hex) of each file.

    Returns:
        64 hexadecimal digits.

    Raises:
        ValueError: where two entries have one path after normalisation.
    """
    rows = sorted(
        (unicodedata.normalize("NFC", path).encode("utf-8"), executable, size, digest)
        for path, executable, size, digest in entries
    )
    hasher = blake3(derive_key_context=_CONTEXT)
    previous: bytes | None = None
    for path, executable, size, digest in rows:
        if path == previous:
            raise ValueError(f"two entries have the path {path.decode('utf-8')!r}")
        previous = path
        flag = b"\x01" if executable else b"\x00"
        fields = (path, flag, size.to_bytes(8, "little"), bytes.fromhex(digest))
        hasher.update(b"".join(map(_with_length, fields)))
    return hasher.hexdigest()


def _with_length(field: bytes) -> bytes:
    return len(field).to_bytes(8, "little") + field
