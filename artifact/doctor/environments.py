"""Checks of the Python environments that the manifest locks."""

from __future__ import annotations

from artifact.bench.named import spelled
from artifact.doctor.base import Check, Subject, from_error, of_environment
from artifact.errors import ArtifactError
from artifact.model.backend import Environment
from artifact.model.portable import shown

_SHOWN = 2


def environment(subject: Subject, wanted: Environment) -> Check:
    """Whether an interpreter is named for ``wanted``, and equals its lock by versions."""
    from artifact.envs.check import differences

    name, scope = f"environment {wanted.name}", of_environment(wanted.name)
    expected = f"{spelled(wanted)}, a Python {wanted.python} as {wanted.requirements} says"
    python = subject.interpreters.get(wanted.name)
    if python is None:
        made = subject.root / "build" / "envs" / wanted.name / "bin" / "python"
        there = made.is_file()
        mend: tuple[str, ...] = () if there else (f"artifact env create {wanted.name}",)
        mend += (f"artifact doctor {spelled(wanted, made)}",)
        found = f"none was named; {'one was made' if there else 'none was made yet'}"
        return Check(name, "absent", found, expected, mend, scope)
    try:
        snapshot, differing = differences(wanted, python, subject.root, digests=False)
    except ArtifactError as error:
        return from_error(name, error, "bad", scope)
    if not differing:
        found = f"Python {snapshot.python} at {python}, equal to its lock (files not compared)"
        return Check(name, "ok", found, scope=scope)
    listed = "; ".join(shown(str(item)) for item in differing[:_SHOWN])
    more = f"; {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
    mend = (
        f"artifact env check {wanted.name} --python {python}   (lists every difference)",
        f"artifact env create {wanted.name} --into DIR   (makes one that is equal)",
        "or accept and record the differences: --unlocked-env",
    )
    found = f"{python}: {len(differing)} differences: {listed}{more}"
    return Check(name, subject.differs, found, f"exactly {wanted.requirements}", mend, scope)
