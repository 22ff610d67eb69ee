"""Whether an interpreter is what its lock says, and how it differs if not.

Every difference is found in one pass: the version of Python, each locked distribution
(missing, another version, there twice, not from the locked archive, files changed since it
was installed, shadowed by something else), and whatever is importable without being locked.
A library that is not locked can replace one that is, so it is a difference too; only the
tools that install packages are not.

What it cannot see: bytecode files (no RECORD has their digest), the interpreter itself and
its standard library, and code that was put inside a locked package beside its own files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from artifact.envs.inspect import Distribution, Question, Snapshot, inspect_interpreters
from artifact.envs.requirements import Pinned, applicable, read_lock
from artifact.model.backend import Environment

#: Tools that install packages: no worker imports them, and any version of them will do.
INSTALLERS = frozenset({"pip", "setuptools", "wheel"})

#: Changed files of one distribution that are listed; the rest is counted.
MAX_FILES = 10

Kind = Literal[
    "python", "missing", "version", "twice", "origin", "record", "file", "shadow", "extra",
    "unowned", "path",
]  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One way in which an interpreter is not what its lock says."""

    kind: Kind
    subject: str
    """The distribution, file or path it is about."""
    expected: str | None
    found: str | None
    note: str = ""
    """What else helps to understand it."""

    def __str__(self) -> str:
        parts = []
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        if self.found is not None:
            parts.append(f"found {self.found}")
        line = f"{self.subject}: {', '.join(parts)}"
        return f"{line} ({self.note})" if self.note else line

    def as_json(self) -> dict[str, str | None]:
        """The difference as ``--json`` prints it."""
        return asdict(self)


def check_environment(
    environment: Environment, python: Path, root: Path, *, digests: bool = True
) -> tuple[str, ...]:
    """How the interpreter ``python`` differs from the lock of ``environment``, a line each.

    Args:
        environment: The environment as the manifest declares it.
        python: The interpreter to check.
        root: The artifact's root.
        digests: Whether installed files are compared with their digests.

    Returns:
        Nothing where it is equal.

    Raises:
        VerificationError: where the lock is not valid.
        EnvironmentUnmet: where the interpreter cannot be asked.
    """
    return check_environments(((environment, python),), root, digests=digests)[0]


def check_environments(
    named: Sequence[tuple[Environment, Path]], root: Path, *, digests: bool = True
) -> tuple[tuple[str, ...], ...]:
    """What :func:`check_environment` finds of each; the interpreters are asked side by side."""
    found = _asked(named, root, digests, None)
    return tuple(tuple(str(item) for item in differing) for _, differing in found)


def differences(
    environment: Environment,
    python: Path,
    root: Path,
    *,
    digests: bool = True,
    timeout: float | None = None,
) -> tuple[Snapshot, tuple[Difference, ...]]:
    """What :func:`check_environment` finds, as records, and the interpreter they are about."""
    return _asked(((environment, python),), root, digests, timeout)[0]


def _asked(
    named: Sequence[tuple[Environment, Path]], root: Path, digests: bool, timeout: float | None
) -> tuple[tuple[Snapshot, tuple[Difference, ...]], ...]:
    locks = [root / environment.requirements for environment, _ in named]
    pins = [read_lock(lock) for lock in locks]
    questions = [
        Question(python, frozenset(pin.name for pin in locked))
        for (_, python), locked in zip(named, pins, strict=True)
    ]
    snapshots = inspect_interpreters(questions, digests=digests, timeout=timeout)
    return tuple(
        (
            snapshot,
            compare(
                applicable(locked, snapshot.environment, str(lock)), snapshot, environment.python
            ),
        )
        for (environment, _), lock, locked, snapshot in zip(
            named, locks, pins, snapshots, strict=True
        )
    )


def compare(pins: Iterable[Pinned], snapshot: Snapshot, python: str) -> tuple[Difference, ...]:
    """Every difference between locked requirements and an interpreter.

    Args:
        pins: The requirements that apply to it.
        snapshot: The interpreter.
        python: The locked version of Python, such as ``3.12``.
    """
    return tuple(_differences({pin.name: pin for pin in pins}, snapshot, python))


def _differences(
    locked: dict[str, Pinned], snapshot: Snapshot, python: str
) -> Iterator[Difference]:
    if snapshot.environment.get("python_version") != python:
        yield Difference("python", "python", python, snapshot.python)
    installed: dict[str, list[Distribution]] = {}
    for distribution in snapshot.distributions:
        installed.setdefault(distribution.name, []).append(distribution)
    for name, pin in sorted(locked.items()):
        here = installed.get(name, [])
        if not here:
            yield Difference("missing", name, pin.version, "none", _instead(name, snapshot))
        if len(here) > 1:
            places = "; ".join(f"{item.version} in {item.location}" for item in here)
            yield Difference("twice", name, "one installation", f"{len(here)}", places)
        # Python imports the first one on its path, which is the first one found.
        for distribution in here[:1]:
            yield from _installed(pin, distribution)
    for name, here in sorted(installed.items()):
        if name not in locked and name not in INSTALLERS:
            for distribution in here:
                note = _provides(distribution, locked, snapshot)
                yield Difference("extra", name, "nothing", distribution.version or "it", note)
    for place in snapshot.nameless:
        yield Difference("extra", place, "nothing", "a distribution without a name")
    for place in snapshot.unowned:
        yield Difference("unowned", place, "nothing", "a file of no distribution")
    for place in snapshot.paths:
        yield Difference("path", place, "nothing", "a directory that imports look into")


def _installed(pin: Pinned, distribution: Distribution) -> Iterator[Difference]:
    """Differences of one distribution that is locked and installed."""
    if distribution.version != pin.version:
        yield Difference("version", pin.name, pin.version, distribution.version or "no version")
    if distribution.origin is not None and distribution.archive_sha256 not in pin.hashes:
        yield Difference(
            "origin", pin.name, "an archive of the lock", f"installed from {distribution.origin}"
        )
    if not distribution.record:
        yield Difference(
            "record", pin.name, "a RECORD", "none", "its files cannot be compared with anything"
        )
    for path, why in distribution.problems[:MAX_FILES]:
        yield Difference("file", pin.name, None, f"{path}, which {why}")
    if (rest := len(distribution.problems) - MAX_FILES) > 0:
        yield Difference("file", pin.name, None, f"{rest} more files changed or missing")
    for module, place in distribution.shadows:
        yield Difference("shadow", pin.name, f"module {module} in {distribution.location}", place)


def _instead(name: str, snapshot: Snapshot) -> str:
    """Who provides the module that a missing distribution is named after."""
    module = name.replace("-", "_")
    others = [
        f"{item.name} {item.version}" for item in snapshot.distributions if module in item.modules
    ]
    return f"the module {module} is that of {', '.join(others)}" if others else ""


def _provides(distribution: Distribution, locked: dict[str, Pinned], snapshot: Snapshot) -> str:
    """The modules of an extra distribution, and which of them a locked one has too."""
    if not distribution.modules:
        return ""
    owners: dict[str, list[str]] = {}
    for other in snapshot.distributions:
        if other.name in locked:
            for module in other.modules:
                owners.setdefault(module, []).append(other.name)
    shared = [
        f"{module}, which {' and '.join(sorted(set(owners[module])))} has too"
        for module in distribution.modules
        if module in owners
    ]
    shown = ", ".join(distribution.modules[:MAX_FILES])
    return f"provides {shown}" + (f"; of these {'; '.join(shared[:MAX_FILES])}" if shared else "")
