"""Why bytes differ from what was pinned, where that can be told from the pin alone.

Nothing is known of the pinned bytes but their size and digests. So each explanation is a
guess that is *proved*: the guess is undone, and what comes out has the pinned digest. What
cannot be proved is said as what it is, a difference in size.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping

from blake3 import blake3

from artifact.integrity.pin import Digests, Pin
from artifact.integrity.source import Source

#: Larger files are compared in size and by their beginning only.
_WHOLE_BYTES = 16 << 20

_LFS_HEAD = b"version https://git-lfs"

_Undo = Callable[[bytes], "bytes | None"]


def explain(source: Source, pin: Pin, found: Digests, owners: Mapping[str, str]) -> str:
    """Why the file at ``pin.path`` is not what was pinned.

    Args:
        source: Where the file is read again.
        pin: What was pinned.
        found: What was found instead.
        owners: The path of a pinned file by its BLAKE3 digest.
    """
    if found.size == 0:
        return "the file is empty"
    other = owners.get(found.blake3)
    if other is not None and other != pin.path:
        return f"it holds the contents of {other}"
    if found.size > pin.size and _head_digest(source.chunks(pin.path), pin.size) == pin.blake3:
        return f"{_bytes(found.size - pin.size)} appended after byte {pin.size}"
    data = b""
    if found.size <= _WHOLE_BYTES:
        data = b"".join(source.chunks(pin.path))
        if reason := _undone(data, pin):
            return reason
        if data.startswith(_LFS_HEAD) and f"sha256:{pin.sha256}".encode() in data:
            return "it is a Git LFS pointer to the pinned file: git lfs pull"
    return _size_difference(data, pin, found)


def _undone(data: bytes, pin: Pin) -> str | None:
    for reason, undo in _GUESSES:
        original = undo(data)
        if (
            original is not None
            and len(original) == pin.size
            and blake3(original).hexdigest() == pin.blake3
        ):
            return reason
    return None


def _crlf_to_lf(data: bytes) -> bytes | None:
    return data.replace(b"\r\n", b"\n") if b"\r\n" in data else None


def _lf_to_crlf(data: bytes) -> bytes | None:
    return data.replace(b"\n", b"\r\n") if b"\r" not in data else None


def _without_bom(data: bytes) -> bytes | None:
    return data[3:] if data.startswith(codecs.BOM_UTF8) else None


def _with_bom(data: bytes) -> bytes | None:
    return codecs.BOM_UTF8 + data


def _chain(first: _Undo, second: _Undo) -> _Undo:
    def undo(data: bytes) -> bytes | None:
        between = first(data)
        return None if between is None else second(between)

    return undo


def _recoded(found: str, pinned: str = "utf-8") -> _Undo:
    def undo(data: bytes) -> bytes | None:
        try:
            return data.decode(found).encode(pinned)
        except (UnicodeError, ValueError):
            return None

    return undo


_GUESSES: tuple[tuple[str, _Undo], ...] = (
    ("line endings: LF became CRLF (the same after CRLF to LF)", _crlf_to_lf),
    ("line endings: CRLF became LF (the same after LF to CRLF)", _lf_to_crlf),
    (
        "line endings: LF became CR",
        lambda data: data.replace(b"\r", b"\n") if b"\n" not in data else None,
    ),
    ("a byte order mark was added at the start", _without_bom),
    ("the byte order mark at the start is gone", _with_bom),
    (
        "a byte order mark was added and LF became CRLF",
        _chain(_without_bom, _crlf_to_lf),
    ),
    ("the last line ending is gone", lambda data: data + b"\n"),
    (
        "the last line ending is gone and LF became CRLF",
        lambda data: data.replace(b"\r\n", b"\n") + b"\n" if b"\r\n" in data else None,
    ),
    ("re-encoded from UTF-8 to UTF-16", _recoded("utf-16")),
    ("re-encoded from UTF-8 to Latin-1", _recoded("latin-1")),
    ("re-encoded to UTF-8 twice, by way of Latin-1", _recoded("utf-8", "latin-1")),
)


def _size_difference(data: bytes, pin: Pin, found: Digests) -> str:
    if found.size == pin.size:
        return "the size is the same, the contents are not"
    if found.size > pin.size:
        return f"{_bytes(found.size - pin.size)} longer"
    missing = _bytes(pin.size - found.size)
    # A text file that ends within a line was cut; whether that is all cannot be proved.
    cut = bool(data) and not data.endswith(b"\n")
    likely = "probably truncated" if cut else "truncated or edited"
    return f"{missing} shorter: {likely} at byte {found.size} of {pin.size}"


def first_bytes(chunks: Iterable[bytes], size: int) -> bytes:
    """The first ``size`` bytes of a file that comes in ``chunks``."""
    return b"".join(_first(chunks, size))


def _head_digest(chunks: Iterable[bytes], size: int) -> str:
    hasher = blake3()
    for chunk in _first(chunks, size):
        hasher.update(chunk)
    return hasher.hexdigest()


def _first(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    for chunk in chunks:
        if size <= 0:
            return
        yield chunk[:size]
        size -= len(chunk)


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"
