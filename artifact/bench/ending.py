"""The end of a run that did not come through: what is said of it, on screen and on disk."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from artifact.bench.opening import written_command
from artifact.bench.rundir import LOCK_COPY, LOGS, RESULTS
from artifact.bench.scrub import Scrubber
from artifact.errors import ArtifactError, EnvironmentUnmet, ExitCode, Interrupted
from artifact.model.results import ErrorRecord, Phase


def explain(
    error: BaseException,
    *,
    phase: Phase,
    backend: str | None,
    shape: str | None,
    folder: Path,
    command: Sequence[str],
    scrub: Scrubber,
) -> tuple[BaseException, ErrorRecord]:
    """What is to be raised for ``error``, and what results.json says of it.

    An error of ours is completed with the backend, phase and shape, the raw log and the
    next command. An error that nobody foresaw is a bug: it is recorded and returned as it
    is, so that its traceback is seen.

    Args:
        error: What ended the run.
        phase: Where the run was.
        backend: Whose turn it was, if any one's.
        shape: The shape at hand, if any.
        folder: The run folder.
        command: The command line as it was typed.
        scrub: Knows the places of this machine.
    """
    log = f"{LOGS}/{backend}{'-nvcc' if phase == 'build' else ''}.log"
    has_log = backend is not None and (folder / log).is_file()
    again = shlex.join(command)
    known = _known(error, again)
    unplaced = known.where if isinstance(known, ArtifactError) else None

    def text(value: str | None) -> str | None:
        if value is None:
            return None
        return scrub.text(value.replace(again, shlex.join(written_command(command, scrub))))

    if isinstance(known, ArtifactError):
        _place(known, phase, backend, shape, folder, log if has_log else None, again)
        code, what = known.exit_code, known.what
        answers = {name: text(v) for name, v in known.fields().items() if name != "where"}
        details = tuple(scrub.text(detail) for detail in known.details)
    else:
        code, what, answers, details = ExitCode.VERIFICATION, str(known), {}, ()
    return known, ErrorRecord(
        error=type(known).__name__,
        exit_code=int(code),
        what=scrub.text(what) or type(known).__name__,
        phase=phase,
        backend=backend,
        shape=shape,
        where=text(unplaced),
        log=log if has_log else None,
        details=details,
        **answers,
    )


def _known(error: BaseException, again: str) -> BaseException:
    if isinstance(error, KeyboardInterrupt):
        return Interrupted("the run was interrupted", found="SIGINT", next=again)
    if isinstance(error, Interrupted):
        return Interrupted("the run was interrupted", found=error.found, next=again)
    if Interrupted.received is not None and not isinstance(error, ArtifactError):
        return Interrupted("the run was interrupted", found=Interrupted.received, next=again)
    if isinstance(error, OSError):
        return EnvironmentUnmet(
            "the system refused an operation",
            where=str(error.filename) if error.filename else None,
            found=error.strerror or str(error),
            next=f"df -h; ls -ld the folder; then: {again}",
        )
    return error


def _place(
    error: ArtifactError,
    phase: Phase,
    backend: str | None,
    shape: str | None,
    folder: Path,
    log: str | None,
    again: str,
) -> None:
    """Say where it happened, where more can be read, and what to do."""
    places = [f"phase {phase}"]
    if backend is not None:
        places.insert(0, f"backend {backend}")
    if shape is not None:
        places.append(f"shape {shape}")
    lines = [", ".join(places)]
    if error.where is not None:
        lines.append(error.where)
    place = shown(folder)
    lines.append(f"raw log: {place}/{log}" if log else f"run folder: {place}")
    error.where = "\n".join(lines)
    if error.next is None:
        error.next = f"read {place}/{log}; then: {again}" if log else again


def discard_pages(folder: Path) -> None:
    """Remove tables and plots: they would say that the run is complete."""
    keep = {RESULTS, LOCK_COPY}
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name not in keep and path.is_file():
                path.unlink()


def shown(folder: Path) -> str:
    """``folder`` as a person at the terminal would type it."""
    relative = os.path.relpath(folder)
    return str(folder) if relative.startswith("../..") else relative
