"""Which backends of a run had libraries that were not those of their lock.

The run says it of itself: a note is written while it runs, and the tables mark the rows for
which there is one.
"""

from __future__ import annotations

from collections.abc import Iterable

from packaging.utils import canonicalize_name

from artifact.model.results import BackendRun, Interpreter, RunResults

_SAYS = "{title} did not run as locked: "


def unlocked_libraries(backend: BackendRun, interpreters: Iterable[Interpreter]) -> str | None:
    """The note for ``backend``, or None where each library that its worker names is as locked.

    Args:
        backend: With the versions that its worker reported, by the names of distributions.
        interpreters: As they were compared with their locks; a difference is a line that
            begins with what it is about (:class:`artifact.envs.check.Difference`).
    """
    named = {canonicalize_name(library) for library in backend.versions}
    differences = [
        line
        for interpreter in interpreters
        if interpreter.environment == backend.environment
        for line in interpreter.differences
        if canonicalize_name(line.partition(":")[0]) in named
    ]
    if not differences:
        return None
    return f"{_SAYS.format(title=backend.title)}{'; '.join(differences)}."


def misnoted(results: RunResults) -> tuple[str, ...]:
    """The notes that a run has and its own facts do not call for, and those that it lacks.

    None of a run of version 0.1.0 that has no note of this kind: that version began without.
    """
    said = {n for n in results.notes if any(_is_of(n, backend) for backend in results.backends)}
    facts = (unlocked_libraries(backend, results.interpreters) for backend in results.backends)
    if not said and results.tool.version == "0.1.0":
        return ()
    return tuple(sorted(said ^ {note for note in facts if note}))


def is_unlocked(results: RunResults, backend: BackendRun) -> bool:
    """Whether the run has the note for ``backend``."""
    return any(_is_of(note, backend) for note in results.notes)


def _is_of(note: str, backend: BackendRun) -> bool:
    return note.startswith(_SAYS.format(title=backend.title))
