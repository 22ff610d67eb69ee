"""The lock: what every byte of an artifact was when it was pinned (manifests/lock.json).

The content id is not in the lock: it covers the lock itself, so that a lock which was
edited together with a file still gives another id.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, model_validator

from artifact.model.base import GeneratedFrom, Hex64, Model, Name, RelPath, Text


class FilePin(Model):
    """One pinned file."""

    path: RelPath
    size: NonNegativeInt
    executable: bool
    blake3: Hex64
    sha256: Hex64


class BuildPin(Model):
    """What was compiled of a generated file, as ``artifact lock`` found its build."""

    nvcc: Text
    """The version of nvcc, such as ``13.0.88``."""
    nvcc_flags: tuple[str, ...]
    headers: tuple[RelPath, ...]
    """Every header of the tree that nvcc opened; their digests are those of ``files``."""
    libraries: dict[Name, Hex64]
    """Digests of the headers from outside of the tree that can reach the machine code, by
    where they come from: ``toolkit``, ``cutlass``, ``compiler``."""
    cubin_sha256: Hex64
    """Of the machine code: a build with the same tools that has it is bit-identical."""


class ChainPin(GeneratedFrom):
    """One link of the chain: which source and compiler a generated file was made of."""

    flags: tuple[str, ...]
    build: BuildPin | None = None
    """Null where no build of these very files was there to pin."""


class DeflatePin(Model):
    """The compressor whose bytes are canonical."""

    implementation: Literal["zlib", "zlib-ng"]
    package_version: Text | None
    runtime_version: Text
    """What the loaded library says of itself."""
    level: Annotated[int, Field(ge=1, le=9)]
    block_bytes: Annotated[int, Field(ge=65536, le=1 << 26)]


class Lock(Model):
    """manifests/lock.json as a whole."""

    lock_version: Literal[1]
    artifact: Name
    version: Text
    deflate: DeflatePin
    chain: tuple[ChainPin, ...]
    files: tuple[FilePin, ...]
    """Every pinned file but the lock itself, by the bytes of its path."""
    seal: Hex64 = "0" * 64
    """BLAKE3 of the bytes of the lock with zeros in this place."""

    @model_validator(mode="after")
    def _sorted_once(self) -> Lock:
        previous = b""
        for i, pin in enumerate(self.files):
            path = pin.path.encode("utf-8")
            if i and path <= previous:
                raise ValueError(
                    f"files[{i}].path: {pin.path!r} does not stand after "
                    f"{previous.decode('utf-8')!r}: paths are sorted by their bytes, each once"
                )
            previous = path
        return self

    def pins(self) -> dict[str, FilePin]:
        """The pins by path."""
        return {pin.path: pin for pin in self.files}
