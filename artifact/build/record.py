"""Build records: written last, believed only as far as the files agree with them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from blake3 import blake3

from artifact.build.closure import Closure
from artifact.build.plan import Unit
from artifact.errors import VerificationError
from artifact.integrity.built import read_record
from artifact.model.build import BuildRecord, KernelBuild


def key_of(unit: Unit, closure: Closure, nvcc: str, link_flags: tuple[str, ...]) -> str:
    """The digest of everything that a build of ``unit`` depends on.

    The compiler of the kernel language and its flags stand in the generated file's stamp.
    """
    hasher = blake3(derive_key_context="artifact build key, version 1")

    def add(*fields: str | bytes) -> None:
        for field in fields:
            data = field.encode("utf-8") if isinstance(field, str) else field
            hasher.update(len(data).to_bytes(8, "little"))
            hasher.update(data)

    add(unit.backend, unit.kernel.name, unit.symbol or "", nvcc)
    for group in (unit.nvcc_flags, link_flags, unit.kernel.expect.sass):
        add(str(len(group)), *group)
    for path in sorted(closure.tree):
        add(path, closure.tree[path])
    for library in closure.libraries:
        add(library.name, library.blake3)
    return hasher.hexdigest()


def find(root: Path, unit: Unit) -> BuildRecord | None:
    """The record of ``unit``; None where there is none, or none that can be read."""
    try:
        return read_record(root, unit.backend)
    except VerificationError:
        return None


def sha256_of(path: Path) -> str | None:
    """The SHA-256 of a file; None where it is not there."""
    try:
        with path.open("rb") as file:
            hasher = hashlib.sha256()
            while block := file.read(1 << 20):
                hasher.update(block)
            return hasher.hexdigest()
    except OSError:
        return None


def made_differences(root: Path, unit: Unit, made: BuildRecord) -> Iterator[str]:
    """How what stands in build/ differs from what ``made`` says was made."""
    for path, wanted in (
        (unit.file(root), made.build.executable_sha256),
        (unit.cubin(root), made.build.cubin_sha256),
        (unit.log(root), made.log_sha256),
    ):
        found = sha256_of(path)
        name = path.relative_to(root).as_posix()
        if found is None:
            yield f"{name} is missing"
        elif found != wanted:
            yield f"{name} was changed after it was built"
    if not os.access(unit.file(root), os.X_OK):
        yield f"{unit.file(root).relative_to(root).as_posix()} cannot be executed"


def input_differences(
    unit: Unit, build: KernelBuild, digests: Mapping[str, str | None]
) -> Iterator[str]:
    """How the files and flags of now differ from those that ``build`` was made of.

    Args:
        unit: The unit as the manifest has it now.
        build: What its record says.
        digests: BLAKE3 by path of every file that the record names, as it is now; None for
            one that is not there.
    """
    kernel = unit.kernel
    if (build.kernel, build.source, build.generated) != (
        kernel.name,
        kernel.source,
        kernel.generated,
    ):
        yield f"it is a build of {build.source} as {build.kernel}"
        return
    named = {
        kernel.source: build.source_blake3,
        kernel.generated: build.generated_blake3,
        **build.headers,
    }
    for path, wanted in named.items():
        found = digests.get(path)
        if found != wanted:
            yield f"{path} {'is missing' if found is None else 'was changed since'}"
    if build.compiler_flags != unit.compiler_flags:
        yield "the manifest's flags of the kernel compiler are others"
    if build.nvcc_flags != unit.nvcc_flags:
        yield "the manifest's flags of nvcc are others"
    if set(build.sass or ()) != set(kernel.expect.sass):
        yield "the manifest expects other instructions in the machine code"
