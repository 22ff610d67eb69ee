"""The chain of one kernel: source -> compiler and flags -> generated file.

A generated file says in comment lines what it was made of. Whatever its comment syntax,
the stamp is read from the first 4096 bytes (docs/architecture.md).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from artifact.integrity.documents import KernelFiles
from artifact.integrity.pin import Finding, Link

#: The stamp stands within this many bytes from the start of a generated file.
STAMP_BYTES = 4096

_KEYS = ("artifact-source", "artifact-compiler", "artifact-flags")

#: What a person does about a stale link.
REMEDY = "regenerate it from its source, then run: artifact lock"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a generated file says of itself."""

    source: str
    source_blake3: str
    compiler: str
    flags: tuple[str, ...]


def read_stamp(head: bytes) -> Stamp:
    """The stamp in the first bytes of a generated file.

    Raises:
        ValueError: saying what is missing or malformed.
    """
    found: dict[str, str] = {}
    for line in head[:STAMP_BYTES].decode("utf-8", "replace").splitlines():
        for key in _KEYS:
            mark = key + ":"
            if mark in line:
                if key in found:
                    raise ValueError(f"the line {mark} stands twice")
                found[key] = line.partition(mark)[2].strip()
    for key in _KEYS:
        if key not in found:
            raise ValueError(f"the line {key}: is missing in the first {STAMP_BYTES} bytes")
    source, _, digest = found["artifact-source"].rpartition(" ")
    scheme, _, digits = digest.partition(":")
    good = scheme == "blake3" and len(digits) == 64 and not digits.strip("0123456789abcdef")
    if not good or not source:
        raise ValueError("artifact-source: is not <path> blake3:<64 hex digits>")
    if not found["artifact-compiler"]:
        raise ValueError("artifact-compiler: is empty")
    try:
        flags = tuple(shlex.split(found["artifact-flags"]))
    except ValueError as error:
        raise ValueError(f"artifact-flags: {error}") from error
    return Stamp(source.strip(), digits, found["artifact-compiler"], flags)


def shared_generated(kernels: Sequence[KernelFiles]) -> Iterator[Finding]:
    """Findings for generated files that more than one kernel claims."""
    for path, count in Counter(kernel.generated for kernel in kernels).items():
        if count > 1:
            names = ", ".join(k.name for k in kernels if k.generated == path)
            yield Finding(
                "chain",
                path,
                f"{count} kernels of the manifest share this generated file: {names}",
                reason="give each kernel a generated file of its own",
            )


def chain_findings(
    kernels: Sequence[KernelFiles],
    links: Sequence[Link],
    digests: Mapping[str, str],
    heads: Mapping[str, bytes],
    pinned: Collection[str],
) -> Iterator[Finding]:
    """Where manifest, lock, stamps and files disagree about what was made of what.

    Args:
        kernels: The manifest's kernels.
        links: The lock's chain.
        digests: BLAKE3 of the files as found, by path; a file that is not there is left out
            (the inventory reports it).
        heads: The first :data:`STAMP_BYTES` bytes of each generated file that is there.
        pinned: Every path that the lock pins.
    """
    yield from shared_generated(kernels)
    by_kernel = {link.kernel: link for link in links}
    for name, count in Counter(link.kernel for link in links).items():
        if count > 1:
            yield Finding("chain", name, f"the lock has {count} links for one kernel")
    known = {kernel.name for kernel in kernels}
    for link in links:
        for header in link.headers:
            if header not in pinned:
                yield Finding(
                    "chain",
                    header,
                    f"the kernel {link.kernel} was compiled with it, and the lock does not pin it",
                    reason="artifact lock",
                )
        if link.kernel not in known:
            yield Finding(
                "chain",
                link.generated,
                f"the lock links a kernel that the manifest does not name: {link.kernel}",
                reason="artifact lock",
            )
    for kernel in kernels:
        known_link = by_kernel.get(kernel.name)
        if known_link is None:
            yield Finding(
                "chain",
                kernel.generated,
                f"the lock has no link for the kernel {kernel.name}",
                reason="artifact lock",
            )
            continue
        yield from _link_findings(kernel, known_link, digests)
        if kernel.generated in heads:
            yield from _stamp_findings(kernel, known_link, digests, heads[kernel.generated])


def _link_findings(
    kernel: KernelFiles, link: Link, digests: Mapping[str, str]
) -> Iterator[Finding]:
    if (link.source, link.generated) != (kernel.source, kernel.generated):
        yield Finding(
            "chain",
            kernel.generated,
            f"the lock links other files for the kernel {kernel.name}",
            expected=f"{kernel.source} -> {kernel.generated}",
            found=f"{link.source} -> {link.generated}",
            reason="artifact lock",
        )
        return
    pinned_pairs = (
        (link.source, link.source_blake3),
        (link.generated, link.generated_blake3),
    )
    for path, pinned in pinned_pairs:
        if path in digests and digests[path] != pinned:
            yield Finding(
                "chain",
                path,
                f"the chain of the kernel {kernel.name} pins another {path}",
                expected=f"blake3:{pinned}",
                found=f"blake3:{digests[path]}",
                reason=REMEDY if path == link.source else None,
            )


def _stamp_findings(
    kernel: KernelFiles, link: Link, digests: Mapping[str, str], head: bytes
) -> Iterator[Finding]:
    try:
        stamp = read_stamp(head)
    except ValueError as error:
        yield Finding(
            "chain", kernel.generated, f"its stamp cannot be read: {error}", reason=REMEDY
        )
        return
    yield from stale(kernel, stamp, digests.get(kernel.source))
    for what, expected, found in (
        ("compiler", link.compiler, stamp.compiler),
        ("flags", shlex.join(link.flags), shlex.join(stamp.flags)),
    ):
        if expected != found:
            yield Finding(
                "chain",
                kernel.generated,
                f"its stamp names other {what} than the lock",
                expected=expected,
                found=found,
                reason="artifact lock",
            )


def stale(kernel: KernelFiles, stamp: Stamp, source_blake3: str | None) -> Iterator[Finding]:
    """Whether the stamp names the source as it is now.

    Args:
        kernel: The kernel that the generated file belongs to.
        stamp: The generated file's stamp.
        source_blake3: The source as found; None where it is not there.
    """
    if stamp.source != kernel.source:
        yield Finding(
            "chain",
            kernel.generated,
            "its stamp names another source",
            expected=kernel.source,
            found=stamp.source,
            reason=REMEDY,
        )
    elif source_blake3 is not None and stamp.source_blake3 != source_blake3:
        yield Finding(
            "chain",
            kernel.generated,
            f"stale: it was made of another {kernel.source}",
            expected=f"blake3:{source_blake3}",
            found=f"blake3:{stamp.source_blake3}",
            reason=REMEDY,
        )
