"""``artifact pack``: the verified tree as one deterministic archive."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artifact.cli.options import Json, NoColor, Quiet, Root, Verbose
from artifact.cli.output import Output
from artifact.model.root import find_root

if TYPE_CHECKING:
    from artifact.archive.pack import Packed


class Container(str, Enum):
    """The archive formats."""

    TAR_GZ = "tar.gz"
    ZIP = "zip"


def command(
    format: Annotated[Container, typer.Option("--format", help="Which container.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="The archive, or a directory for it (default: dist/NAME.FORMAT in the tree).",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files of the same names.")
    ] = False,
    individual: Annotated[
        bool,
        typer.Option("--individual", help="Also write the manifest's single downloads beside it."),
    ] = False,
    non_canonical: Annotated[
        bool,
        typer.Option(
            "--non-canonical",
            help="Accept another compressor than the pinned one; recorded in the statement.",
        ),
    ] = False,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Write a deterministic archive of exactly the pinned files.

    The tree is verified first and the archive is read back before it takes its name. Beside
    it stand ARCHIVE.sha256, ARCHIVE.b3 and ARCHIVE.intoto.json. The same content gives the
    same archive bytes everywhere; only the last of these files has times in it.

    Examples:  artifact pack --format tar.gz    artifact pack --format zip --output /tmp/a.zip

    Exit code 1 where the tree is not as pinned, 2 where a file would be overwritten, 3 where
    the compressor is not the pinned one.
    """
    from artifact.archive.pack import pack

    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    packed = pack(
        find_root(Path.cwd(), root),
        format.value,
        output=output,
        overwrite=overwrite,
        individual=individual,
        non_canonical=non_canonical,
    )
    _print(out, packed)
    out.document(lambda: _document(packed))


def _print(out: Output, packed: Packed) -> None:
    sizes = f"{packed.content_bytes:,} bytes -> {packed.digests.size:,} bytes".replace(",", " ")
    out.say(f"archive:    {packed.archive}")
    out.say(f"files:      {packed.files}, {sizes}")
    out.detail(f"deflate:    {packed.compressor.describe()}, level {packed.compressor.level}")
    for path in packed.written[1:]:
        out.say(f"beside it:  {path.name}")
    out.say(f"sha256:     {packed.digests.sha256}")
    out.say(f"blake3:     {packed.digests.blake3}")
    out.say(f"verified:   {out.good('read back through the safe reader, everything is as pinned')}")
    out.always(f"content id: blake3:{packed.content_id}")
    for note in _notes(packed):
        out.note(f"note: {note}")


def _notes(packed: Packed) -> list[str]:
    notes = []
    if not packed.compressor.canonical:
        notes.append(
            f"NOT CANONICAL: compressed by {packed.compressor.describe()}, which is not what the "
            "lock pins; the content id is the same, the archive's own digests are not"
        )
    if packed.ratio_beyond is not None:
        notes.append(
            f"it unpacks to more than readers take for safe: they need --max-ratio "
            f"{packed.ratio_beyond}"
        )
    return notes


def _document(packed: Packed) -> dict[str, object]:
    return {
        "archive": str(packed.archive),
        "format": packed.format,
        "content_id": f"blake3:{packed.content_id}",
        "sha256": packed.digests.sha256,
        "blake3": packed.digests.blake3,
        "size": packed.digests.size,
        "files": packed.files,
        "content_bytes": packed.content_bytes,
        "compressor": packed.compressor.describe(),
        "level": packed.compressor.level,
        "canonical": packed.compressor.canonical,
        "written": [str(path) for path in packed.written],
        "notes": _notes(packed),
    }
