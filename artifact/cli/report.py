"""``artifact report``: the tables, figures and page of a run, from its results.json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artifact.cli.options import Json, NoColor, Quiet, Root, Run, Verbose
from artifact.cli.output import Output
from artifact.cli.runfolder import run_folder
from artifact.errors import ExitCode

if TYPE_CHECKING:
    from artifact.model.results import RunResults
    from artifact.report.again import Outcome


def command(
    run: Run,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Write them all there, not to the run."),
    ] = None,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Make the tables, figures and page of a run again, and print its table.

    The files of a complete run are pinned, so none is ever changed: what is missing is put
    back, what is there is compared. Those of a run that ended early are written, marked
    INCOMPLETE. The figures are drawn from summary.csv alone.

    Examples:  artifact report results/RUN    artifact report RUN --output /tmp/pages

    Exit code 1 where a file is not what was pinned or cannot be put back.
    """
    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    folder = run_folder(run, root)
    from artifact.bench.check import load_results
    from artifact.report.again import write_again, write_elsewhere

    results = load_results(folder)
    target = folder if output is None else output
    outcomes = (
        write_again(results, folder) if output is None else write_elsewhere(results, folder, output)
    )
    refused = [outcome for outcome in outcomes if outcome.status == "refused"]
    _print(out, results, target, outcomes)
    if refused:
        out.say(f"next:      artifact verify {folder}; artifact report {folder} --output DIR")
    out.document(lambda: _document(results, target, outcomes))
    if refused:
        raise typer.Exit(int(ExitCode.VERIFICATION))


def _print(out: Output, results: RunResults, target: Path, outcomes: tuple[Outcome, ...]) -> None:
    if out.json:
        return
    if not out.quiet:
        from artifact.report.text import summary_table

        out.say(summary_table(results, out.width, color=out.answer_color))
        out.say()
    for outcome in outcomes:
        word = f"{outcome.status + ':':<11}"
        shown = out.bad(word) if outcome.status == "refused" else word
        reason = f" ({outcome.reason})" if outcome.reason else ""
        line = f"{shown}{target / outcome.name}{reason}"
        if outcome.status in ("refused", "restored", "written"):
            out.always(line)
        else:
            out.say(line)


def _document(
    results: RunResults, target: Path, outcomes: tuple[Outcome, ...]
) -> dict[str, object]:
    return {
        "run": results.run_id,
        "origin": results.origin,
        "complete": results.complete,
        "marks": list(results.marks),
        "folder": str(target),
        "ok": not any(outcome.status == "refused" for outcome in outcomes),
        "files": [
            {"name": o.name, "status": o.status, "reason": o.reason or None} for o in outcomes
        ],
        "summary": [row.model_dump(mode="json") for row in results.summary],
        "comparisons": [row.model_dump(mode="json") for row in results.comparisons],
    }
