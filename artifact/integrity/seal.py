"""The seal of a lock: a digest of its own bytes, so that no byte of it changes unseen.

It guards against accidents, a stray editor or a bad disk, and names the file. Against
somebody who edits on purpose it is no guard, since anybody can seal anew: that is what the
content id is for, which covers the lock like every other file.
"""

from __future__ import annotations

import re

from blake3 import blake3

_SEAL = re.compile(rb'"seal": "([0-9a-f]{64})"\n\}\n\Z')
_BLANK = b"0" * 64


def sealed(data: bytes) -> bytes:
    """``data``, the bytes of a lock whose last field is ``seal``, with the seal of its bytes.

    Raises:
        ValueError: where the last field is another one.
    """
    found = _SEAL.search(data)
    if found is None:
        raise ValueError("the last field of a lock is its seal")
    blank = data[: found.start(1)] + _BLANK + data[found.end(1) :]
    seal = blake3(blank).hexdigest().encode("ascii")
    return data[: found.start(1)] + seal + data[found.end(1) :]


def seal_of(data: bytes) -> str | None:
    """The seal that stands in the bytes of a lock; None where there is none."""
    found = _SEAL.search(data)
    return None if found is None else found.group(1).decode("ascii")


def is_sealed(data: bytes) -> bool:
    """Whether these are the bytes that were sealed."""
    found = _SEAL.search(data)
    return found is not None and sealed(data) == data
