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

# The fields of fixed length, or the lengths that stand before them.
_EIGHT = (8).to_bytes(8, "little")
_THIRTY_TWO = (32).to_bytes(8, "little")
_PLAIN = (1).to_bytes(8, "little") + b"\x00"
_EXECUTABLE = (1).to_bytes(8, "little") + b"\x01"


def content_id(entries: Iterable[tuple[str, bool, int, str]]) -> str:
    """The content id of ``entries``: (path, executable, size, BLAKE3 in hex) of each file.

    Returns:
        64 hexadecimal digits.

    Raises:
        ValueError: where two entries have one path after normalisation.
    """
    rows = sorted(
        (
            (path if path.isascii() else unicodedata.normalize("NFC", path)).encode("utf-8"),
            executable,
            size,
            digest,
        )
        for path, executable, size, digest in entries
    )
    hasher = blake3(derive_key_context=_CONTEXT)
    previous: bytes | None = None
    for path, executable, size, digest in rows:
        if path == previous:
            raise ValueError(f"two entries have the path {path.decode('utf-8')!r}")
        previous = path
        hasher.update(
            len(path).to_bytes(8, "little")
            + path
            + (_EXECUTABLE if executable else _PLAIN)
            + _EIGHT
            + size.to_bytes(8, "little")
            + _THIRTY_TWO
            + bytes.fromhex(digest)
        )
    return hasher.hexdigest()
