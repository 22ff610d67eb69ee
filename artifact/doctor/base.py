"""What a check is, and what every check may ask about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from artifact.errors import ArtifactError
from artifact.model.manifest import Manifest
from artifact.model.workload import Workload

Verdict = Literal["ok", "warn", "bad", "absent"]
"""``warn``: a run goes on, but look at it. ``bad``: a run that needs it is refused or
invalid. ``absent``: it is not there at all."""

ALWAYS, GPU, BUILD, ADVICE = "always", "gpu", "build", "advice"
"""What needs a check: every run, a run on a GPU, a run of native kernels, none."""


def of_environment(name: str) -> str:
    """The scope of a check that backends of the environment ``name`` need."""
    return f"environment {name}"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    verdict: Verdict
    found: str
    expected: str | None = None
    """What would have been right; null where it is."""
    mend: tuple[str, ...] = ()
    """Commands or acts, in order, that make it right."""
    scope: str = ALWAYS
    """Who needs it: one of the constants above, or :func:`of_environment`."""

    @property
    def passed(self) -> bool:
        """Whether a run that needs it goes on."""
        return self.verdict in ("ok", "warn")

    def as_json(self) -> dict[str, Any]:
        """The check as ``--json`` prints it."""
        return {**asdict(self), "mend": list(self.mend)}


@dataclass(frozen=True)
class Options:
    """What ``artifact doctor`` was asked for; None stands for what was left out."""

    workload: str | None = None
    gpu: str | None = None
    interpreters: Mapping[str, Path] = field(default_factory=dict)
    """By option: ``{"--python": Path(...)}``."""
    named: tuple[str, ...] = ()
    """By environment: ``("main=PATH", ...)``, as ``--interpreter`` takes them."""
    nvcc: Path | None = None
    cutlass: Path | None = None
    results_dir: Path | None = None
    unlocked_env: bool = False
    """What differs from its lock or pin is a warning, as it is for ``artifact run``."""


@dataclass(frozen=True)
class Subject:
    """The artifact and the machine that are looked at."""

    root: Path
    manifest: Manifest
    workload: Workload
    options: Options
    environ: Mapping[str, str]
    """The caller's environment."""
    interpreters: Mapping[str, Path] = field(default_factory=dict)
    """Those that the options name, by environment."""

    @property
    def results(self) -> Path:
        """Where runs are written: an absolute path."""
        chosen = self.options.results_dir
        default = self.root / self.manifest.inventory.results
        return default if chosen is None else Path.cwd() / chosen

    @property
    def differs(self) -> Verdict:
        """The verdict on what is there and usable, but is not what the artifact pins."""
        return "warn" if self.options.unlocked_env else "bad"

    def needs(self, workload: Workload) -> frozenset[str]:
        """The scopes that a run of ``workload`` needs."""
        backends = self.manifest.backends_of(workload.name)
        scopes = {ALWAYS}
        scopes |= {of_environment(b.environment) for b in backends if b.environment is not None}
        if workload.device == "gpu":
            scopes.add(GPU)
        if any(backend.kind == "native" for backend in backends):
            scopes.add(BUILD)
        return frozenset(scopes)


def from_error(
    name: str, error: ArtifactError | OSError, verdict: Verdict, scope: str = ALWAYS
) -> Check:
    """A check that ended in ``error``."""
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return Check(name, verdict, f"{place}{error.strerror or error}", scope=scope)
    found = error.what if error.found is None else f"{error.what}: {error.found}"
    if error.where is not None:
        found += f" ({error.where})"
    mend = tuple(error.next.splitlines()) if error.next else ()
    details = "; ".join(error.details[:5])
    return Check(
        name, verdict, f"{found}: {details}" if details else found, error.expected, mend, scope
    )
