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


_TAIL = 128
"""The seal stands in the last bytes, and a lock may be of many megabytes."""


def sealed(data: bytes) -> bytes:
    """``data``, the bytes of a lock whose last field is ``seal``, with the seal of its bytes.

    Raises:
        ValueError: where the last field is another one.
    """
    start = _place(data)
    if start is None:
        raise ValueError("the last field of a lock is its seal")
    return data[:start] + _seal(data, start) + data[start + 64 :]


def _place(data: bytes) -> int | None:
    """Where the 64 digits of the seal begin."""
    first = max(len(data) - _TAIL, 0)
    found = _SEAL.search(data[first:])
    return None if found is None else first + found.start(1)


def _seal(data: bytes, start: int) -> bytes:
    view = memoryview(data)
    hasher = blake3(view[:start])
    hasher.update(_BLANK)
    hasher.update(view[start + 64 :])
    return hasher.hexdigest().encode("ascii")


def seal_of(data: bytes) -> str | None:
    """The seal that stands in the bytes of a lock; None where there is none."""
    start = _place(data)
    return None if start is None else data[start : start + 64].decode("ascii")


def is_sealed(data: bytes) -> bool:
    """Whether these are the bytes that were sealed."""
    start = _place(data)
    return start is not None and _seal(data, start) == data[start : start + 64]
