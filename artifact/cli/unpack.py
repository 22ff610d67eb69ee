"""``artifact unpack``: an archive becomes a verified tree, or nothing happens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from artifact.cli.options import ExpectContentId, Json, NoColor, Quiet, Verbose
from artifact.cli.output import Output


def command(
    archive: Annotated[Path, typer.Argument(help="A .tar.gz or .zip that `artifact pack` wrote.")],
    into: Annotated[
        Path,
        typer.Option(
            "--into", metavar="DIR", help="Where the tree is put (made if it is not there)."
        ),
    ] = Path(),
    expect_content_id: ExpectContentId = None,
    max_ratio: Annotated[
        int | None,
        typer.Option(
            "--max-ratio",
            min=1,
            metavar="N",
            help="Bytes that may come out of each byte of the archive (default: 200).",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Unpack an archive safely and verify it.

    Nothing is written before the archive matches the checksum files beside it, every member
    is judged, and the contents match the lock inside. The tree appears whole or not at all,
    and never replaces anything.

    Examples:  artifact unpack kernels.tar.gz    artifact unpack kernels.zip --into /tmp/review

    Exit code 1 where the archive is damaged, unsafe or not as pinned, 2 where the tree is
    there already.
    """
    from dataclasses import replace

    from artifact.archive.limits import DEFAULT
    from artifact.archive.unpack import unpack
    from artifact.integrity.verify import parse_content_id

    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    wanted = parse_content_id(expect_content_id) if expect_content_id is not None else None
    limits = DEFAULT if max_ratio is None else replace(DEFAULT, ratio=max_ratio)
    done = unpack(archive, into, expect_content_id=wanted, limits=limits)
    report = done.report
    size = f"{report.bytes:,} bytes".replace(",", " ")
    out.say(f"artifact:   {report.artifact} {report.version}")
    out.say(f"tree:       {done.path}")
    out.say(f"files:      {report.files}, {size}")
    for name in done.checked:
        out.say(f"checked:    {name}")
    out.say(f"verified:   {out.good('everything is as pinned')}")
    out.always(f"content id: blake3:{report.content_id}")
    if not done.checked and wanted is None:
        out.note(
            "note: no checksum file stands beside the archive, and no content id was given: it "
            "agrees with itself, but nothing ties it to its authors"
        )
    out.document(
        lambda: {
            "path": str(done.path),
            "artifact": report.artifact,
            "version": report.version,
            "content_id": f"blake3:{report.content_id}",
            "files": report.files,
            "bytes": report.bytes,
            "checked": list(done.checked),
        }
    )
