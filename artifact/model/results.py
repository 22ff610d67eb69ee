"""What a run writes: results.json, complete or not.

Every sample is kept. ``complete`` is false from the first byte until the last check has
passed; it becomes true in the very last write of a run.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from artifact.model.backend import Dependency
from artifact.model.base import Hex64, Model, Name, RelPath, Text, UtcTime
from artifact.model.build import BuildFacts
from artifact.model.lock import FilePin
from artifact.model.manifest import GateRules, StatisticsRules
from artifact.model.protocol import Protocol
from artifact.model.workload import Workload

Scalar = str | int | float | bool | None
"""A fact as a worker or a driver reports it."""

Milliseconds = Annotated[float, Field(ge=1e-9, le=1e12)]
"""A time of one launch. The bounds lie far outside of what any clock could show, and keep
every ratio and rate of two times a finite number."""

Phase = Literal["verify", "build", "prepare", "gates", "timing", "report", "done"]
"""The phases of a run, in their order; only a run of native backends has ``build``."""

Mark = Literal["UNLOCKED", "MODIFIED", "NOT COMPARABLE", "CUSTOM PROTOCOL"]
"""What every table of a run must say about it."""

Verdict = Literal["ANCHOR", "FASTER", "SLOWER", "TIE", "UNRESOLVED", "NO ANCHOR"]
"""How a backend stands to the anchor."""


class ErrorRecord(Model):
    """Why a run ended early."""

    error: Text
    """The class of the error, such as ``GateFailed``."""
    exit_code: NonNegativeInt
    what: Text
    phase: Phase
    backend: Name | None = None
    shape: Text | None = None
    where: str | None = None
    expected: str | None = None
    found: str | None = None
    cause: str | None = None
    next: str | None = None
    log: RelPath | None = None
    """The raw log, below the run folder."""
    details: tuple[str, ...] = ()
    """What was found, a line each."""


class State(Model):
    """How far a run came."""

    phase: Phase
    error: ErrorRecord | None = None


class ArtifactRef(Model):
    """What was run."""

    name: Name
    version: Text | None
    """Null where the published archive carried none."""
    content_id: Hex64 | None
    lock_blake3: Hex64 | None
    """The digest of the lock.json that the run folder keeps a copy of."""
    modified: tuple[RelPath, ...] = ()
    """Kernels whose change ``--regenerate`` accepted."""


class SeededCache(Model):
    """Compile caches that a run began with instead of empty ones."""

    blake3: Hex64
    """The content id of their files."""
    files: NonNegativeInt
    bytes: NonNegativeInt


class ToolRef(Model):
    """What ran it; of a published run, what imported it."""

    name: Text
    version: Text
    python: Text | None
    """Null where nothing of the document depends on it."""
    command: tuple[str, ...]
    """The arguments, with paths below the root made relative."""
    seeded_cache: SeededCache | None = None
    """What ``--cache-from`` gave; null where every kernel was compiled by the run itself."""


class Machine(Model):
    """The host, without its name."""

    system: Text
    release: Text
    architecture: Text
    cpu: Text
    cores: PositiveInt
    memory_bytes: PositiveInt | None


class Device(Model):
    """Where the backends ran."""

    kind: Literal["cpu", "gpu"]
    name: Text
    target: Name | None = None
    """The row of the manifest's target table."""
    facts: dict[str, Scalar] = {}
    """What NVML (or the operating system) says: driver, clocks, power limit, ECC, MIG."""


RUNNER = "runner"
"""What the tool's own Python is called where an environment's name stands."""


class Interpreter(Model):
    """One Python that workers ran in."""

    environment: Name
    """The name of the locked environment, or ``runner`` for the tool's own."""
    python: Text
    implementation: Text
    locked: bool | None
    """Whether it is what its lock says; null for the tool's own, which no lock of the
    artifact speaks of."""
    digests: bool | None = None
    """Whether the bytes of its installed files were compared too. With ``--unlocked-env``
    they are only where names and versions agree. Null for the tool's own, and in runs from
    before this was recorded."""
    differences: tuple[str, ...] = ()
    """How it differs from its lock, an item each."""


class BackendRun(Model):
    """One backend as it ran."""

    name: Name
    title: Text
    anchor: bool
    environment: Name | None
    """Null for a native backend, and where a published run names none."""
    worker: RelPath | None
    """Null where another's program measured it."""
    worker_blake3: Hex64 | None
    env: dict[str, str] = {}
    """The worker's whole environment: ``$NAME`` stands for a value of the caller's shell,
    ``$SCRATCH`` for the folder of the run, ``$GPU`` for the UUID of the device."""
    versions: dict[str, str] = {}
    log: RelPath | None = None


class Band(Model):
    """Errors of one band of rows: row RMS over the last dimension, against the FP32 oracle."""

    first: NonNegativeInt
    last: NonNegativeInt
    """Indices of the band axis, both inclusive."""
    rows: PositiveInt
    e_max: float | None
    e_rms: float | None
    e0_max: float | None
    """The same for the plain low-precision implementation."""
    e0_rms: float | None


class Figures(Model):
    """What a worker measured of one output. Null stands for a value that is not finite."""

    elements: NonNegativeInt
    rows: NonNegativeInt
    nonfinite: NonNegativeInt
    """Elements of the output that are NaN or infinite."""
    outside_tolerance: NonNegativeInt
    """Elements that do not satisfy the published tolerance (NaN never does)."""
    max_abs: float | None
    max_abs0: float | None
    bands: Annotated[tuple[Band, ...], Field(min_length=1)]


class GateVerdict(Model):
    """What a gate said, and every reason if it said no."""

    passed: bool
    reasons: tuple[str, ...] = ()


class ControlRecord(Model):
    """One known-wrong output and whether the gates rejected it."""

    name: Name
    position: Literal["first", "middle", "last"] | None
    rejected: bool
    by_published: bool
    """Whether the published gate would have rejected it too; recorded, not required."""
    figures: Figures


class CheckRecord(Model):
    """The gates of one backend and shape."""

    backend: Name
    shape: Text
    inputs: dict[str, Hex64]
    """SHA-256 of the bytes of each input tensor."""
    published: GateVerdict
    strict: GateVerdict | None
    """Null where the run did not have the gate (a published run)."""
    figures: Figures | None
    controls: tuple[ControlRecord, ...]
    checked_elements: NonNegativeInt | None = None
    max_abs_error: NonNegativeFloat | None = None


class WitnessRecord(Model):
    """Facts about the kernel that ran, and what the manifest expects of them."""

    backend: Name
    shape: Text
    facts: dict[str, Scalar]
    expected: dict[str, Scalar]


class Sample(Model):
    """One timed window: the mean of ``repeat`` launches."""

    backend: Name
    shape: Text
    position: NonNegativeInt
    """Place in the suite: the block in paper order, the window in interleaved order."""
    round: NonNegativeInt
    ms: Milliseconds
    started: UtcTime | None = None
    seconds: NonNegativeFloat | None = None
    """Wall time of the whole window, warm-up included."""
    valid: bool = True
    reasons: tuple[str, ...] = ()
    """Why it is not valid."""
    device: dict[str, Scalar] = {}
    """Temperature, clocks, power and clock-event reasons over the window."""


class SummaryRow(Model):
    """The samples of one backend and shape, put together."""

    backend: Name
    shape: Text
    samples: NonNegativeInt
    median_ms: PositiveFloat
    min_ms: PositiveFloat
    max_ms: PositiveFloat
    rate: PositiveFloat
    """The manifest's metric at the median."""
    rate_min: PositiveFloat
    rate_max: PositiveFloat


class Comparison(Model):
    """One backend and shape against the anchor of the same run. A ratio above 1 is faster."""

    backend: Name
    shape: Text
    anchor: Name | None
    verdict: Verdict
    ratio: PositiveFloat | None = None
    """Paper order: median time of the anchor over the median time of the backend.
    Interleaved: median over the rounds of the anchor's time over the backend's."""
    low: PositiveFloat | None = None
    high: PositiveFloat | None = None
    """The interval at the manifest's confidence; null where the samples are too few."""
    method: str | None = None
    drift: float | None = None
    """Relative change of the anchor over the run."""
    detectable: NonNegativeFloat | None = None
    """Smallest relative difference that these samples would show (80 % power)."""
    reason: str = ""


class PhaseTime(Model):
    """Where the wall time went."""

    phase: Phase
    activity: Text
    backend: Name | None = None
    seconds: NonNegativeFloat


class Metric(Model):
    """The rate of this run's tables, copied so that a run folder explains itself."""

    name: Text
    work: Text
    per_second: PositiveFloat
    explanation: str = ""


class Headings(Model):
    """Title and captions of this run's tables."""

    title: Text
    caption: str = ""
    axis: Text
    anchor: Text | None = None
    """The title of what ratios of this workload are taken to, also where it was not in the run."""


class RunResults(Model):
    """results.json as a whole."""

    results_version: Literal[1]
    run_id: Text
    """The name of the run folder."""
    origin: Literal["measured", "published"]
    complete: bool
    state: State
    marks: tuple[Mark, ...] = ()
    started: UtcTime
    finished: UtcTime | None = None
    artifact: ArtifactRef
    tool: ToolRef
    machine: Machine | None
    device: Device
    workload: Workload
    protocol: Protocol
    protocol_digest: Hex64
    metric: Metric
    gates: GateRules | None = None
    """The thresholds that the checks were judged by, copied so that a run folder can be
    judged again by itself; null where a published run had none."""
    statistics: StatisticsRules | None = None
    """The rules of the verdicts, copied for the same reason."""
    headings: Headings
    order: tuple[Name, ...] = ()
    """Backends in the order in which they were measured (paper order: with both anchors)."""
    interpreters: tuple[Interpreter, ...] = ()
    backends: tuple[BackendRun, ...] = ()
    build: BuildFacts | None = None
    """Null in a run without native backends."""
    checks: tuple[CheckRecord, ...] = ()
    witnesses: tuple[WitnessRecord, ...] = ()
    samples: tuple[Sample, ...] = ()
    summary: tuple[SummaryRow, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    times: tuple[PhaseTime, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    """What a published run was built on and taken from. A measured run names it by its lock."""
    notes: tuple[Text, ...] = ()
    """Sentences without which the figures are misread; every report of the run has them."""
    files: tuple[FilePin, ...] = ()
    """Every other file of the run folder, pinned by the last write."""
    absent: dict[str, str] = {}
    """Dotted places that are null or empty, and why."""

    @property
    def anchor(self) -> str | None:
        """The backend that ratios are taken to."""
        return next((backend.name for backend in self.backends if backend.anchor), None)

    @model_validator(mode="after")
    def _state_agrees(self) -> RunResults:
        if self.complete and (self.state.phase != "done" or self.state.error is not None):
            raise ValueError("complete: true stands beside a state that is not done")
        if self.complete and self.finished is None and self.origin == "measured":
            raise ValueError("finished: null in a complete run")
        if self.state.phase == "done" and not self.complete:
            raise ValueError("state.phase: 'done' in a run that is not complete")
        if self.protocol.digest() != self.protocol_digest:
            raise ValueError("protocol_digest: is not the digest of protocol")
        return self
