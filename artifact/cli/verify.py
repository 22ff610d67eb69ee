"""``artifact verify``: a tree, an archive or a results folder against its pins."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artifact.cli.options import ExpectContentId, Json, NoColor, Quiet, Root, Verbose
from artifact.cli.output import Output
from artifact.errors import ExitCode, UsageError
from artifact.model.portable import shown
from artifact.model.root import MANIFEST, find_root

if TYPE_CHECKING:
    from artifact.integrity.pin import Digests, Finding
    from artifact.integrity.verify import Report

_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def command(
    path: Annotated[
        Path | None,
        typer.Argument(help="A tree, a .tar.gz, a .zip or a results folder (default: this tree)."),
    ] = None,
    expect_content_id: ExpectContentId = None,
    checksums: Annotated[
        Path | None,
        typer.Option(
            "--checksums", metavar="FILE", help="The .sha256 or .b3 file that was published."
        ),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Check BLAKE3 alone, not SHA-256.")] = False,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Check every byte against the lock, both ways, and print the content id.

    A lock that was edited together with a file agrees with it: give the published content id
    or checksum file to tie the lock itself to its authors. The files ARCHIVE.sha256,
    ARCHIVE.b3 and ARCHIVE.intoto.json are checked where they stand beside an archive.

    Examples:  artifact verify    artifact verify kernels.tar.gz    artifact verify results/RUN

    Exit code 1 where anything is not as pinned; 3 where nothing was found wrong, but a file
    cannot be read.
    """
    # The records of a large tree are many and all of them are kept: looking through them for
    # circles, again and again as they grow, takes longer than comparing them.
    gc.disable()
    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    if path is not None and root is not None:
        raise UsageError("a PATH and --root were given; one names the tree", next="leave one out")
    target = root if path is None else path
    if target is not None and _is_run(target):
        _refuse_with_run(target, fast, expect_content_id, checksums)
        _results(out, target)
        return
    started = time.perf_counter()
    before = _since_start()
    # A record for each file and no cycles among them: looking for some only takes time.
    gc.disable()
    report = _verify(target, fast, expect_content_id, checksums)
    total = before + time.perf_counter() - started
    steps = {"interpreter and command line": before, **report.seconds}
    steps["imports of verify and output"] = total - sum(steps.values())
    _print(out, report)
    if out.verbose:
        _print_details(out, report, steps)
    out.document(lambda: _document(report, steps))
    if not report.ok:
        code = ExitCode.ENVIRONMENT if report.undecided else ExitCode.VERIFICATION
        raise typer.Exit(int(code))


def _is_run(folder: Path) -> bool:
    return (folder / "results.json").is_file() and not (folder / MANIFEST).is_file()


def _refuse_with_run(
    folder: Path, fast: bool, expected: str | None, checksums: Path | None
) -> None:
    """Options that say nothing about a run folder are refused: ignored, they would mislead."""
    given = []
    if expected is not None:
        given.append(f"--expect-content-id {expected}")
    if checksums is not None:
        given.append(f"--checksums {checksums}")
    if fast:
        given.append("--fast")
    if not given:
        return
    import shlex

    raise UsageError(
        "--expect-content-id, --checksums and --fast are for a tree or an archive; a results "
        "folder is checked against its own results.json",
        where=", ".join(given),
        expected="a tree, a .tar.gz or a .zip, or none of these options",
        found=f"the results folder {folder}",
        next=f"artifact verify {shlex.quote(str(folder))}",
    )


def _verify(
    target: Path | None, fast: bool, expected: str | None, checksums: Path | None
) -> Report:
    from artifact.integrity.digest import hash_file
    from artifact.integrity.published import check_published, neighbours, read_checksums
    from artifact.integrity.source import Source
    from artifact.integrity.tree import Tree
    from artifact.integrity.verify import expecting, parse_content_id, verify

    wanted = parse_content_id(expected) if expected is not None else None
    published = [checksums] if checksums is not None else []
    opened: contextlib.AbstractContextManager[Source]
    if target is None or target.is_dir():
        target = find_root(Path.cwd(), target, "artifact verify")
        opened = contextlib.nullcontext(Tree(target))
    elif target.is_file():
        from artifact.archive.source import open_source

        opened = open_source(target)
        published += [file for file in neighbours(target) if file != checksums]
    else:
        raise UsageError(
            "there is nothing to verify here",
            where=str(target),
            expected=f"a directory with {MANIFEST}, a .tar.gz, a .zip or a results folder",
            found="nothing" if not target.exists() else "neither a file nor a directory",
        )
    sums = [read_checksums(file) for file in published]

    @functools.cache
    def digests() -> Digests:
        return hash_file(target.resolve())

    with opened as source:
        report = check_published(verify(source, fast=fast), target, sums, digests)
    if target.is_file():
        from artifact.archive.statement import check_statement

        report = check_statement(report, target, digests)
    if wanted is not None:
        report = expecting(report, wanted, "the one of --expect-content-id")
    return report


def _results(out: Output, folder: Path) -> None:
    from artifact.bench.check import verify_run

    run = verify_run(folder)
    if run.findings:
        _print_findings(out, run.findings)
        out.always(out.bad(f"not as it says: {_count(len(run.findings), 'finding')}"))
    else:
        out.say(f"{run.label}: run {run.run_id} ({run.origin}) is complete and agrees with itself")
        out.always(f"run: {run.run_id}")
    for note in run.notes:
        out.say(f"note: {shown(note)}")
    out.document(
        lambda: {
            "target": run.label,
            "kind": "results",
            "ok": run.ok,
            "run": run.run_id,
            "origin": run.origin,
            "complete": run.complete,
            "findings": [asdict(finding) for finding in run.findings],
            "notes": list(run.notes),
        }
    )
    if not run.ok:
        raise typer.Exit(int(ExitCode.VERIFICATION))


def _print(out: Output, report: Report) -> None:
    _print_findings(out, report.findings)
    size = f"{report.bytes:,} bytes".replace(",", " ")
    checked = "size and BLAKE3" if report.fast else "BLAKE3 and SHA-256"
    out.say(f"artifact:   {report.artifact} {report.version}")
    out.say(f"files:      {report.files} of {report.pinned} pinned, {size} ({checked})")
    if report.ok:
        out.say(f"verified:   {out.good('everything is as pinned')}")
    else:
        answer = "UNDECIDED" if report.undecided else "NO"
        out.say(f"verified:   {out.bad(f'{answer}: ' + _count(len(report.findings), 'finding'))}")
    if report.content_id is None:
        out.always("content id: none, since files are missing or cannot be read")
    else:
        note = "" if report.ok else "  (of what was found)"
        out.always(f"content id: blake3:{report.content_id}{note}")


def _print_findings(out: Output, findings: tuple[Finding, ...]) -> None:
    """Two lines a finding, the second ones aligned: what is wrong, then why or how."""
    width = max((len(finding.kind) for finding in findings), default=0)
    for finding in findings:
        kind = out.bad(f"{finding.kind:<{width}}")
        out.always(f"{kind}  {shown(finding.path)}: {finding.message}")
        answers = []
        if finding.expected is not None and finding.found is not None:
            answers.append(f"expected {_short(finding.expected)}, found {_short(finding.found)}")
        elif finding.expected is not None and finding.expected != "nothing":
            answers.append(f"expected {_short(finding.expected)}")
        elif finding.found is not None:
            answers.append(f"found {_short(finding.found)}")
        if finding.reason is not None:
            answers.insert(0, finding.reason)
        if finding.kind == "extra" and not answers:
            answers.append("it does not belong here")
        if answers:
            out.always(f"{'':<{width}}  {shown('; '.join(answers))}")


def _print_details(out: Output, report: Report, steps: dict[str, float]) -> None:
    out.say(f"lock:       blake3:{report.lock_blake3}")
    for name in report.outside:
        out.say(f"outside:    {shown(name)}")
    for name in report.unlisted_results:
        out.say(f"outside:    {shown(name)} (a run that is not part of the artifact)")
    validated = "validated before" if report.trusted else "validated now"
    for name, seconds in steps.items():
        words = f"{name} ({validated})" if name == "documents" else name
        out.say(f"time:       {seconds * 1e3:7.1f} ms  {words}")
    out.say(f"time:       {sum(steps.values()) * 1e3:7.1f} ms  in all")


def _document(report: Report, steps: dict[str, float]) -> dict[str, object]:
    return {
        "target": report.label,
        "kind": "contents",
        "ok": report.ok,
        "artifact": report.artifact,
        "version": report.version,
        "content_id": f"blake3:{report.content_id}" if report.content_id else None,
        "lock": f"blake3:{report.lock_blake3}",
        "files": report.files,
        "pinned": report.pinned,
        "bytes": report.bytes,
        "digests": ["blake3"] if report.fast else ["blake3", "sha256"],
        "findings": [asdict(finding) for finding in report.findings],
        "outside": [*report.outside, *report.unlisted_results],
        "documents_trusted": report.trusted,
        "seconds": {name: round(value, 6) for name, value in steps.items()},
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _short(text: str) -> str:
    """``text`` with its digests cut to what tells two apart; ``--json`` has them whole."""
    return shown(_DIGEST.sub(r"\1...", text))


def _since_start() -> float:
    """Seconds since the kernel started this process (its clock has steps of 10 ms)."""
    try:
        fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, ValueError, IndexError):
        return 0.0
