"""Why figures of two runs may not be compared, and what to keep in mind where they may.

Every function yields :class:`~artifact.bench.claims.Reason`. *Obstacles* forbid a comparison,
*caveats* go with it. docs/comparing.md lists them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from artifact.bench import libraries
from artifact.bench.claims import Kind, Reason
from artifact.model.manifest import Manifest
from artifact.model.results import BackendRun, RunResults, Scalar

#: Fields of a protocol that say what one sample is the time of.
SAMPLE_FIELDS = ("clock", "warmup", "repeat")
#: Fields that move the device's temperature and clocks, and with them every absolute time.
STATE_FIELDS = ("order", "max_temperature_c")

#: Facts of a device that change how fast it may run -> what they are called in a sentence.
DEVICE_FACTS = {
    "sms": "the number of multiprocessors",
    "mig": "MIG mode",
    "ecc": "ECC",
    "power_limit_w": "the power limit in W",
    "sm_mhz_max": "the highest SM clock in MHz",
    "memory_mhz_max": "the highest memory clock in MHz",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A run, and the published run that it is held against."""

    run: RunResults
    published: RunResults
    manifest: Manifest
    cross_device: bool
    """Whether figures of different devices were asked for."""

    @property
    def named(self) -> tuple[tuple[str, RunResults], tuple[str, RunResults]]:
        """Both with what they are called in a sentence."""
        return ("the run", self.run), ("the published run", self.published)

    def backends(self, name: str) -> tuple[BackendRun, BackendRun]:
        """A backend that both have, as it is in each.

        Raises:
            StopIteration: where one lacks it.
        """
        ours, theirs = (
            next(b for b in results.backends if b.name == name) for _, results in self.named
        )
        return ours, theirs


def run_obstacles(pair: Pair) -> Iterator[Reason]:
    """What forbids every comparison of the two runs."""
    for who, results in pair.named:
        yield from _own_obstacles(who, results)
    run, published = pair.run, pair.published
    if run.workload.name != published.workload.name or run.device.kind != published.device.kind:
        yield Reason(
            "workload",
            f"the run measured {run.workload.title} ({run.workload.name}), the published run "
            f"{published.workload.title} ({published.workload.name})",
            f"artifact run --workload {published.workload.name}",
        )
    for field in SAMPLE_FIELDS:
        if reason := _protocol_reason(pair, field, "a sample is the time of something else"):
            yield reason


def _own_obstacles(who: str, results: RunResults) -> Iterator[Reason]:
    if not results.complete:
        yield Reason(
            "incomplete",
            f"{who} is not complete: it ended in the phase {results.state.phase}",
            "run it again to its end; its results.json says why it ended",
        )
    if not results.workload.comparable:
        note = f" ({results.workload.note})" if results.workload.note else ""
        yield Reason(
            "not-comparable",
            f"{who} measured {results.workload.name}, which is not comparable with anything{note}",
            "measure a workload that is: artifact run",
        )
    unlocked = [i for i in results.interpreters if i.locked is False]
    if "UNLOCKED" in results.marks or unlocked:
        said = "; ".join(
            f"{i.environment} differs from its lock: {_few(i.differences)}" for i in unlocked
        )
        names = [i.environment for i in unlocked]
        make = "; ".join(f"artifact env create {name}" for name in names)
        yield Reason(
            "unlocked",
            f"{who} is UNLOCKED{': ' + said if said else ''}",
            f"{make + '; then ' if make else ''}run it without --unlocked-env",
        )
    if "MODIFIED" in results.marks or results.artifact.modified:
        changed = ", ".join(results.artifact.modified)
        yield Reason(
            "modified",
            f"{who} is MODIFIED{': it measured a changed ' + changed if changed else ''}",
            "restore the pinned files (artifact verify names them) and run again",
        )


def _few(items: tuple[str, ...], most: int = 3) -> str:
    shown = ", ".join(items[:most]) or "how is not said"
    return shown + (f" and {len(items) - most} more" if len(items) > most else "")


def _protocol_reason(pair: Pair, field: str, why: str) -> Reason | None:
    ours, theirs = getattr(pair.run.protocol, field), getattr(pair.published.protocol, field)
    if ours == theirs:
        return None
    published = pair.published.protocol
    return Reason(
        f"protocol-{field.replace('_', '-')}",
        f"{field} is {_value(ours)} in the run and {_value(theirs)} in the published run: {why}",
        f"measure with the published protocol: artifact run --order {published.order}, without "
        "options that change it",
    )


def _value(value: Scalar) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def device_obstacles(pair: Pair) -> Iterator[Reason]:
    """What makes the two devices different ones; lifted by ``--cross-device``."""
    ours, theirs = pair.run.device, pair.published.device
    asked = "measure on that device; --cross-device compares them all the same, and marks it"
    if not same_target(pair):
        yield Reason(
            "device",
            f"the run was measured on {_device(pair.run)}, the published run on "
            f"{_device(pair.published)}",
            asked,
        )
    for fact, name in DEVICE_FACTS.items():
        known, published = ours.facts.get(fact), theirs.facts.get(fact)
        if known is not None and published is not None and known != published:
            yield Reason(
                f"device-{fact.replace('_', '-')}",
                f"{name} was {_value(known)} in the run and {_value(published)} in the published "
                "run",
                asked,
            )


def same_target(pair: Pair) -> bool:
    """Whether both devices are in one row of the target table, or of one name."""
    ours, theirs = pair.run.device, pair.published.device
    if ours.kind != theirs.kind:
        return False
    if ours.target is not None and theirs.target is not None:
        return ours.target == theirs.target
    return ours.name == theirs.name


def _device(results: RunResults) -> str:
    target = f" (target {results.device.target})" if results.device.target else ""
    return f"{results.device.name}{target}"


def absolute_obstacles(pair: Pair) -> Iterator[Reason]:
    """What forbids to compare times, but not ratios taken within one run."""
    why = "the device is warmed up otherwise, and its clocks follow"
    for field in STATE_FIELDS:
        if reason := _protocol_reason(pair, field, why):
            yield reason


def shape_obstacles(pair: Pair, shape: str) -> Iterator[Reason]:
    """Another shape of the same name, or other inputs."""
    ours, theirs = (
        next(s.dims for s in results.workload.shapes if s.name == shape)
        for _, results in pair.named
    )
    if ours != theirs:
        yield Reason(
            "shape",
            f"{shape} is {_dims(ours)} in the run and {_dims(theirs)} in the published run",
            "measure the published shapes: see the workload in both results.json",
        )
    digests, published = (_inputs(results, shape) for _, results in pair.named)
    others = sorted(
        name for name in digests.keys() & published.keys() if digests[name] != published[name]
    )
    if others:
        yield Reason(
            "inputs",
            f"the inputs of {shape} have other bytes than the published ones: {', '.join(others)}",
            f"measure with the seed {pair.published.workload.seed} and the published generator",
        )


def _dims(dims: dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in dims.items())


def _inputs(results: RunResults, shape: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for check in results.checks:
        if check.shape == shape:
            found.update(check.inputs)
    return found


def anchor_obstacles(pair: Pair) -> Iterator[Reason]:
    """Ratios need one anchor that both runs have."""
    run, published = pair.run.anchor, pair.published.anchor
    if published is None:
        yield Reason("anchor", "the published run has no anchor, so it claims no ratio")
    elif run is None:
        title = _title(pair.published, published)
        yield Reason(
            "anchor",
            f"{title} was not in this run, so it has no ratio to it",
            f"run it with {published} among the --backends",
        )
    elif run != published:
        yield Reason(
            "anchor",
            f"ratios are to {_title(pair.run, run)} in the run and to "
            f"{_title(pair.published, published)} in the published run",
            f"measure with {published} as the anchor",
        )


def _title(results: RunResults, backend: str) -> str:
    return next((b.title for b in results.backends if b.name == backend), backend)


def drift_obstacles(pair: Pair, kind: Kind, shape: str, *drifts: float | None) -> Iterator[Reason]:
    """Beyond ``statistics.max_drift`` of the anchor nothing is decided.

    In interleaved order each ratio is taken within one block, and a drift does not reach it.

    Args:
        pair: Both runs.
        kind: Of the claim.
        shape: At which it is.
        drifts: Of the anchor there, in the run and in the published run.
    """
    most = pair.manifest.statistics.max_drift
    for (who, results), drift in zip(pair.named, drifts, strict=True):
        binds = results.protocol.order == "paper" or kind == "absolute"
        if binds and drift is not None and abs(drift) > most and results.anchor is not None:
            yield Reason(
                "drift",
                f"{_title(results, results.anchor)} drifted by {drift * 100:+.2f} % over {who} at "
                f"{shape}; beyond {most * 100:g} % nothing is decided",
                "measure again on a device that is left alone",
            )


def library_obstacles(pair: Pair, backend: str) -> Iterator[Reason]:
    """Another version of a library of ``backend``, and no departure that says so."""
    for item in _libraries(pair, backend):
        if item.is_other:
            ours, _ = pair.backends(backend)
            environment = ours.environment
            yield Reason(
                "library",
                f"{ours.title} ran with {item.library} {item.run}, and with {item.published} in "
                "the published run",
                f"artifact env create {environment} makes the environment of the locks"
                if any(e.name == environment for e in pair.manifest.environments)
                else "measure with the published version",
            )


def _libraries(pair: Pair, backend: str) -> Iterator[libraries.Difference]:
    ours, theirs = pair.backends(backend)
    yield from libraries.differences(ours.versions, theirs.versions, departures(pair, backend))


def departures(pair: Pair, backend: str) -> tuple[str, ...]:
    """Where the environment of ``backend`` departs from the published one, by intent."""
    ours, _ = pair.backends(backend)
    return next(
        (e.departures for e in pair.manifest.environments if e.name == ours.environment), ()
    )


def run_caveats(pair: Pair) -> Iterator[Reason]:
    """What to keep in mind about every figure of the two runs."""
    if pair.run == pair.published:
        yield Reason("itself", "the run is the published run itself: that it agrees shows nothing")
    for who, results in pair.named:
        if results.origin == "published":
            yield Reason("imported", f"{who} was imported: this tool measured none of its figures")
        if results.artifact.content_id is None:
            yield Reason("bytes", f"which bytes {who} measured is not known by digest")
        if not any(check.inputs for check in results.checks):
            yield Reason(
                "inputs-unknown",
                f"the inputs of {who} are not known by digest; its seed is {results.workload.seed}",
            )
        if any(check.strict is None for check in results.checks):
            yield Reason("gate", f"{who} had no strict gate: its outputs were checked more loosely")
    ours, theirs = pair.run.device, pair.published.device
    driver = ours.facts.get("driver"), theirs.facts.get("driver")
    if None not in driver and driver[0] != driver[1]:
        yield Reason("driver", f"the driver is {driver[0]}, and was {driver[1]}")
    if same_target(pair) and ours.name != theirs.name:
        yield Reason("device-name", f"the device is called {ours.name}, and was {theirs.name}")
    if pair.run.protocol.rounds != pair.published.protocol.rounds:
        yield Reason(
            "rounds",
            f"the run has {pair.run.protocol.rounds} rounds, the published run "
            f"{pair.published.protocol.rounds}",
        )


def kind_caveats(pair: Pair, kind: Kind) -> Iterator[Reason]:
    """What to keep in mind about ratios, or about times."""
    if kind == "ratio":
        for reason in absolute_obstacles(pair):
            what = reason.what.partition(":")[0]
            yield Reason(reason.code, f"{what}: it moves both times of a ratio")
        return
    for who, results in pair.named:
        facts = results.device.facts
        unknown = [name for fact, name in DEVICE_FACTS.items() if facts.get(fact) is None]
        if unknown and results.device.kind == "gpu":
            yield Reason("device-unknown", f"not known of {who}: {', '.join(unknown)}")


def backend_caveats(pair: Pair, backend: str) -> Iterator[Reason]:
    """Declared departures, libraries that only one run names, another worker file."""
    ours, theirs = pair.backends(backend)
    for sentence in departures(pair, backend):
        yield Reason(
            "departure",
            f"the environment {ours.environment} departs from the published one: {sentence}",
        )
    items = list(_libraries(pair, backend))
    for item in items:
        if item.build:
            yield Reason(
                "build",
                f"{item.library} is {item.run} in the run and {item.published} in the published "
                "run: only one of them names the build",
            )
    alone = [f"{item.library} {item.run} in the run" for item in items if item.published is None]
    alone += [
        f"{item.library} {item.published} in the published run"
        for item in items
        if item.run is None
    ]
    if alone:
        yield Reason(
            "library-unknown",
            f"versions that only one of the two names for {ours.title}: {', '.join(alone)}",
        )
    digests = ours.worker_blake3, theirs.worker_blake3
    if None not in digests and digests[0] != digests[1]:
        yield Reason("worker", f"{ours.title} was measured by another worker file")
