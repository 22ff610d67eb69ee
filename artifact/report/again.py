"""The reports of a run that is there already, made again from its results.json.

The files of a complete run are pinned by its results.json, so nothing here changes one of
them: what is missing is put back where the new bytes are the pinned ones, everything else
is said and left alone. An incomplete run has no pins: its reports are written as they are
made, marked INCOMPLETE.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from artifact import __version__
from artifact.errors import UsageError
from artifact.integrity.atomic import write_atomic
from artifact.model.load import read_bytes
from artifact.model.lock import FilePin
from artifact.model.results import RunResults
from artifact.report.base import render, render_all
from artifact.report.earlier import EARLIER, is_known, wrong_tables

Status = Literal["unchanged", "kept", "restored", "written", "left out", "refused"]


@dataclass(frozen=True)
class Outcome:
    """What became of one file. Only ``refused`` asks somebody to act."""

    name: str
    status: Status
    reason: str = ""


def write_again(results: RunResults, folder: Path) -> tuple[Outcome, ...]:
    """Render every report of the run in ``folder``, and put back what is missing there.

    ``unchanged``: is there, and is what was rendered. ``kept``: is there as it was pinned, but
    other versions of the tool or of the libraries make other bytes. ``restored``: was missing.
    ``written``: of a run without pins. ``left out``: the complete run has no such file.
    ``refused``: is not as it was pinned, or cannot be put back as it was.

    Raises:
        UsageError: where a version that this one does not know began the run, and did not end it.
        EnvironmentUnmet: where a file cannot be read or written.
    """
    if not results.complete and not is_known(results):
        raise UsageError(
            "a version of the tool that this one does not know began this run",
            where=str(folder),
            expected=f"one of: {', '.join((*EARLIER, __version__))}",
            found=results.tool.version,
            next=f"use that version, or: artifact report {folder} --output DIR",
        )
    pins = {pin.path: pin for pin in results.files}
    wrong = _wrong(results, folder) if results.complete else ()
    outcomes = []
    for name, data in render_all(results).items():
        if results.complete:
            outcome = _judge(folder / name, data, pins.get(name), wrong=name in wrong)
        else:
            outcome = Outcome(name, "unchanged" if _holds(folder / name, data) else "written")
        if outcome.status in ("restored", "written"):
            write_atomic(folder / name, data)
        outcomes.append(outcome)
    return tuple(outcomes)


def _wrong(results: RunResults, folder: Path) -> tuple[str, ...]:
    """The tables of the folder that its results.json does not make, as far as can be told."""
    if not is_known(results):
        return ()
    made = render(results)
    paths = {name: folder / name for name in made}
    there = {n: read_bytes(p) for n, p in paths.items() if p.is_file() and not p.is_symlink()}
    return wrong_tables(there, made, results)


def _judge(path: Path, data: bytes, pin: FilePin | None, *, wrong: bool) -> Outcome:
    if pin is None:
        return Outcome(path.name, "left out", "this run has no such file, and takes none")
    there = path.is_symlink() or path.exists()
    if not there:
        if _is_pinned(data, pin):
            return Outcome(path.name, "restored")
        return Outcome(
            path.name,
            "refused",
            "is missing, and what is made here has other bytes than the pinned file; with the "
            "versions of the tool and the libraries that made it, it would have the same",
        )
    if path.is_symlink() or not path.is_file() or not _is_pinned(read_bytes(path), pin):
        return Outcome(
            path.name, "refused", "is not the pinned file; move it away to have it put back"
        )
    if _is_pinned(data, pin):
        return Outcome(path.name, "unchanged")
    if wrong:
        return Outcome(path.name, "refused", "is pinned, but is not what results.json makes")
    return Outcome(
        path.name, "kept", "as pinned; what is made of results.json here has other bytes"
    )


def write_elsewhere(results: RunResults, run: Path, folder: Path) -> tuple[Outcome, ...]:
    """Render every report into ``folder``, which is made if need be.

    Raises:
        UsageError: where ``folder`` is the run folder or inside it, or a file there has the
            name of a report and other contents. Nothing is then written.
        EnvironmentUnmet: where a file cannot be read or written.
    """
    target = folder.resolve()
    if target == run.resolve() or run.resolve() in target.parents:
        raise UsageError(
            "reports of a run are not written into its own folder under --output",
            where=str(folder),
            expected="a directory outside of the run folder, whose files are pinned",
            found=f"a directory in {run}",
            next=f"artifact report {run}",
        )
    files = render_all(results)
    taken = [
        name
        for name, data in files.items()
        if (folder / name).exists() and not _holds(folder / name, data)
    ]
    if taken:
        raise UsageError(
            "files of these names are there already, and nothing was overwritten",
            where=str(folder),
            expected="a directory without them",
            found=", ".join(taken),
            next="choose another directory, or move these files away",
        )
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for name, data in files.items():
        there = _holds(folder / name, data)
        if not there:
            write_atomic(folder / name, data)
        outcomes.append(Outcome(name, "unchanged" if there else "written"))
    return tuple(outcomes)


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and not path.is_symlink() and read_bytes(path) == data


def _is_pinned(data: bytes, pin: FilePin) -> bool:
    from blake3 import blake3

    return len(data) == pin.size and blake3(data).hexdigest() == pin.blake3
