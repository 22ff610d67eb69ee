"""``artifact compare``: a run against the claims of a published one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artifact.cli.options import Json, NoColor, Quiet, Root, Run, Verbose
from artifact.cli.output import Output
from artifact.cli.runfolder import run_folder
from artifact.errors import UsageError

if TYPE_CHECKING:
    from artifact.bench.compare import RunComparison
    from artifact.model.manifest import Manifest


def command(
    run: Run,
    published: Annotated[
        str | None,
        typer.Argument(
            metavar="[PUBLISHED]",
            help="The same, of the run whose figures are the claims (default: the newest "
            "published run of the manifest).",
        ),
    ] = None,
    cross_device: Annotated[
        bool,
        typer.Option(
            "--cross-device", help="Also decide where the devices differ, and mark every verdict."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE.md", help="Write it as Markdown, too."),
    ] = None,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Say of each published figure whether a run reproduces it, and why not where not.

    Each claim is REPRODUCED, NOT REPRODUCED or INCOMPARABLE, by the tolerances that the
    manifest fixed beforehand. Ratios to the anchor and absolute times are claims apart. Both
    run folders are verified first.

    Examples:  artifact compare results/RUN    artifact compare RUN PUBLISHED --output claims.md

    Exit code 0 where every claim that could be decided is reproduced, 1 where one is not (or
    a run folder does not agree with itself), 5 where none could be decided.
    """
    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    from artifact.bench.check import load_results, verify_run
    from artifact.bench.compare import compare
    from artifact.integrity.documents import load_manifest

    folder = run_folder(run, root)
    top = _root(folder, root)
    manifest = load_manifest(top)
    other = run_folder(published, root) if published else _newest(top, manifest, folder)
    _check_output(output, folder, other)
    for each in dict.fromkeys((folder, other)):
        report = verify_run(each)
        report.require()
        for note in report.notes:
            out.detail(f"note: {report.run_id}: {note}")
    ours, theirs = load_results(folder), load_results(other)
    if (ours.origin, theirs.origin) == ("published", "measured"):
        options = _options(cross_device, output, root)
        raise UsageError(
            "the two runs are the other way round",
            where="artifact compare RUN PUBLISHED",
            expected="first a run that was measured, then the one whose figures are the claims",
            found=f"first {ours.run_id}, which was imported, then {theirs.run_id}, a measurement",
            next=shlex.join(["artifact", "compare", published or other.name, run, *options]),
        )
    comparison = compare(ours, theirs, manifest, cross_device=cross_device)
    if output is not None:
        _write(output, comparison)
    _print(out, comparison)
    if output is not None:
        out.say(f"written:    {output}")
    raise typer.Exit(int(comparison.exit_code))


def _options(cross_device: bool, output: Path | None, root: Path | None) -> list[str]:
    """The options that change an answer, as they were given."""
    return [
        *(["--cross-device"] if cross_device else []),
        *(["--output", str(output)] if output else []),
        *(["--root", str(root)] if root else []),
    ]


def _root(folder: Path, root: Path | None) -> Path:
    """The artifact whose rules hold: named, the one around here, or the one around the run."""
    from artifact.model.root import find_root

    try:
        return find_root(Path.cwd(), root)
    except UsageError:
        if root is not None:
            raise
        return find_root(folder)


def _newest(root: Path, manifest: Manifest, run: Path) -> Path:
    """The newest published run, one of imported figures before one that this tool measured.

    ``run`` itself is taken only where there is no other.
    """
    from artifact.bench.check import load_results

    names = manifest.inventory.published
    folders = [root / manifest.inventory.results / name for name in names]
    if not folders:
        raise UsageError(
            "the artifact has no published run to compare with",
            where="manifests/artifact.toml: inventory.published",
            expected="the name of a run folder",
            found="none",
            next="artifact compare RUN PUBLISHED",
        )
    loaded = [(folder, load_results(folder)) for folder in folders]
    return max(
        loaded,
        key=lambda item: (
            item[0].resolve() != run.resolve(),
            item[1].origin == "published",
            item[1].started,
        ),
    )[0]


def _check_output(output: Path | None, *folders: Path) -> None:
    if output is None:
        return
    target = output.resolve()
    for folder in folders:
        if folder.resolve() in target.parents:
            raise UsageError(
                "a comparison is not written into a run folder, whose files are pinned",
                where=str(output),
                expected="a file outside of it",
                found=f"a file in {folder}",
                next=f"--output {shlex.quote(output.name)}",
            )
    if output.is_dir():
        raise UsageError(
            "this is a directory",
            where=str(output),
            expected="a file, such as comparison.md",
            next=f"--output {shlex.quote(str(output / 'comparison.md'))}",
        )


def _write(output: Path, comparison: RunComparison) -> None:
    from artifact.bench.comparison_pages import as_markdown
    from artifact.integrity.atomic import write_atomic

    data = as_markdown(comparison).encode("utf-8")
    if output.exists() and output.read_bytes() != data:
        raise UsageError(
            "a file of this name is there already, and was not overwritten",
            where=str(output),
            expected="no file, or one with the same contents",
            found=f"{output.stat().st_size} other bytes",
            next="choose another name, or move the file away",
        )
    write_atomic(output, data)


def _print(out: Output, comparison: RunComparison) -> None:
    from artifact.bench.comparison_pages import ComparisonReport, as_document, as_text

    if out.quiet:
        outcome, said = ComparisonReport(comparison).verdict()
        out.always(f"{outcome}; {said}")
    else:
        out.say(as_text(comparison, out.width, color=out.answer_color))
    out.document(lambda: as_document(comparison))
