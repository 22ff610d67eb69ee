"""What an archive may not exceed, whoever made it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that hold while an archive is read; beyond them reading stops at once."""

    members: int = 250_000
    """Members, directories included."""
    file_bytes: int = 64 << 30
    """Bytes of one file."""
    total_bytes: int = 64 << 30
    """Bytes of all that comes out, container headers included."""
    ratio: int = 200
    """Bytes that may come out of each byte of the archive. Deflate itself ends at 1032;
    source code and measurements stay below 20."""
    free_bytes: int = 64 << 20
    """Bytes that may come out whatever the ratio: a small archive of little is no bomb."""
    path_bytes: int = 2048
    """Bytes of one name."""
    header_bytes: int = 1 << 20
    """Bytes of one extended header, or of one central directory entry's extra fields."""
    directory_bytes: int = 256 << 20
    """Bytes of a central directory, which is held in memory."""

    def allowance(self, archive_bytes: int) -> int:
        """How many bytes may come out of an archive of ``archive_bytes``."""
        return min(self.total_bytes, max(self.free_bytes, self.ratio * archive_bytes))


DEFAULT = Limits()
