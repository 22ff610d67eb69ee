"""The single files that the manifest offers for download beside its archives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from artifact.archive.checksums import b3_path, b3_text, sha256_path, sha256_text
from artifact.archive.pinned import pinned_chunks
from artifact.errors import ArtifactError, VerificationError
from artifact.integrity.digest import hash_file
from artifact.integrity.pin import Digests, Pin
from artifact.model.root import MANIFEST


@dataclass(frozen=True, slots=True)
class Download:
    """One pinned file and where it is put."""

    pin: Pin
    target: Path

    @property
    def outputs(self) -> tuple[Path, Path, Path]:
        """The file, its ``.sha256`` and its ``.b3``."""
        return self.target, sha256_path(self.target), b3_path(self.target)

    def write(self, root: Path, file: BinaryIO) -> None:
        """Copy the file into ``file``, which must be empty.

        Raises:
            VerificationError: where it is no longer what was pinned.
        """
        for chunk in pinned_chunks(root, self.pin):
            file.write(chunk)
        os.fchmod(file.fileno(), 0o755 if self.pin.executable else 0o644)

    def is_there(self) -> bool:
        """Whether the file and its checksum files are there already, just as they would be.

        So packing the second format does not stumble over what the first one wrote.
        """
        try:
            if hash_file(self.target).blake3 != self.pin.blake3:
                return False
            beside = zip(self.outputs[1:], self.checksums(), strict=True)
            return all(not p.is_symlink() and p.read_bytes() == data for p, data in beside)
        except (OSError, ArtifactError):
            return False

    def checksums(self) -> tuple[bytes, bytes]:
        """The contents of its two checksum files."""
        digests = Digests(self.pin.size, self.pin.blake3, self.pin.sha256)
        return sha256_text(self.target.name, digests), b3_text(self.target.name, digests)


def plan_downloads(
    downloads: Mapping[str, str], pins: Mapping[str, Pin], directory: Path
) -> list[Download]:
    """Where each of the manifest's ``[downloads]`` goes: ``directory``, under its own name.

    Raises:
        VerificationError: where one is not pinned, or two would have one name.
    """
    planned: list[Download] = []
    taken: dict[Path, str] = {}
    for key, path in downloads.items():
        place = f"{MANIFEST}: downloads.{key}"
        if path not in pins:
            raise VerificationError(
                "a download is not a pinned file",
                where=place,
                expected="the path of a file that the lock pins",
                found=path,
                next="correct the path, then: artifact lock",
            )
        download = Download(pins[path], directory / path.rpartition("/")[2])
        for output in download.outputs:
            if (other := taken.setdefault(output, path)) != path:
                raise VerificationError(
                    "two downloads would be one file",
                    where=place,
                    expected="files whose names differ, without their directories",
                    found=f"{other} and {path} both need {output.name}",
                    next="rename one of them and correct the manifest, then: artifact lock",
                )
        planned.append(download)
    return planned
