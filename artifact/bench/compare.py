"""A run against a published one: a verdict for each claim, or the reasons why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from artifact.bench import comparability as why
from artifact.bench.claims import Figure, Kind, Outcome, Reason, figures, judge
from artifact.bench.comparability import Pair
from artifact.errors import ExitCode
from artifact.model.manifest import ClaimRules, Manifest
from artifact.model.results import RunResults

KINDS: tuple[Kind, ...] = ("ratio", "absolute")


@dataclass(frozen=True, slots=True)
class Claim:
    """One published figure, and what the run says to it."""

    kind: Kind
    backend: str
    shape: str
    outcome: Outcome
    published: Figure | None
    run: Figure | None
    reasons: tuple[Reason, ...]
    """Why it was decided so; where it is INCOMPARABLE, everything that stands against it."""
    caveats: tuple[Reason, ...]
    cross_device: bool
    """Whether it was decided although the devices differ, because that was asked for."""

    @property
    def difference(self) -> float | None:
        """The run's figure against the published one, relatively; None where one is missing."""
        if self.run is None or self.published is None:
            return None
        return self.run.value / self.published.value - 1


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Every claim of a published run against another run."""

    run: RunResults
    published: RunResults
    rules: ClaimRules
    confidence: float
    cross_device: bool
    """Whether figures of different devices were asked for."""
    obstacles: tuple[Reason, ...]
    """What forbids every comparison of these two runs; every claim names it too."""
    claims: tuple[Claim, ...]
    """Ratios first; within a kind in the order of the published tables."""
    only_run: tuple[str, ...]
    """Backends, then shapes, that the published run lacks."""
    only_published: tuple[str, ...]

    def counts(self, kind: Kind | None = None) -> dict[Outcome, int]:
        """How many claims came out how."""
        found = Counter(c.outcome for c in self.claims if kind is None or c.kind == kind)
        every: tuple[Outcome, ...] = ("REPRODUCED", "NOT REPRODUCED", "INCOMPARABLE")
        return {outcome: found[outcome] for outcome in every}

    @property
    def outcome(self) -> Outcome:
        """NOT REPRODUCED where one claim is; REPRODUCED where one is and none is not."""
        counts = self.counts()
        if counts["NOT REPRODUCED"]:
            return "NOT REPRODUCED"
        return "REPRODUCED" if counts["REPRODUCED"] else "INCOMPARABLE"

    @property
    def exit_code(self) -> ExitCode:
        """0 REPRODUCED, 1 NOT REPRODUCED, 5 where nothing could be decided."""
        return {
            "REPRODUCED": ExitCode.DONE,
            "NOT REPRODUCED": ExitCode.VERIFICATION,
            "INCOMPARABLE": ExitCode.MEASUREMENT,
        }[self.outcome]


def compare(
    run: RunResults, published: RunResults, manifest: Manifest, *, cross_device: bool = False
) -> RunComparison:
    """Hold ``run`` against the claims of ``published``.

    Args:
        run: The measurement.
        published: Whose figures are the claims.
        manifest: Its tolerances, its statistics (for both runs) and declared departures.
        cross_device: Decide also where the devices differ, and mark it.

    Raises:
        VerificationError: where the samples of a run are not its own.
    """
    pair = Pair(run, published, manifest, cross_device)
    names, others = (_backends(results) for results in (published, run))
    shapes, other_shapes = (
        [shape.name for shape in results.workload.shapes] for results in (published, run)
    )
    return RunComparison(
        run=run,
        published=published,
        rules=manifest.claims,
        confidence=manifest.statistics.confidence,
        cross_device=cross_device,
        obstacles=tuple(why.run_obstacles(pair)),
        claims=tuple(
            _claims(
                pair, [n for n in names if n in others], [s for s in shapes if s in other_shapes]
            )
        ),
        only_run=tuple([n for n in (*others, *other_shapes) if n not in (*names, *shapes)]),
        only_published=tuple([n for n in (*names, *shapes) if n not in (*others, *other_shapes)]),
    )


def _backends(results: RunResults) -> list[str]:
    """The anchor first, as tables have it."""
    return sorted((b.name for b in results.backends), key=lambda name: name != results.anchor)


def _claims(pair: Pair, backends: list[str], shapes: list[str]) -> Iterator[Claim]:
    statistics = pair.manifest.statistics
    run, run_drift = figures(pair.run, statistics)
    published, published_drift = figures(pair.published, statistics)
    everywhere = (*why.run_obstacles(pair),)
    devices = tuple(why.device_obstacles(pair))
    anchors = {pair.published.anchor, pair.run.anchor}
    for kind in KINDS:
        obstacles = [*everywhere]
        obstacles += why.anchor_obstacles(pair) if kind == "ratio" else why.absolute_obstacles(pair)
        caveats = [*why.run_caveats(pair), *why.kind_caveats(pair, kind)]
        if pair.cross_device:
            caveats += devices
        else:
            obstacles += devices
        for backend in backends:
            if kind == "ratio" and backend in anchors:
                continue
            libraries = _both(pair, kind, backend)
            mine = [*obstacles, *(r for b in libraries for r in why.library_obstacles(pair, b))]
            notes = [*caveats, *(r for b in libraries for r in why.backend_caveats(pair, b))]
            for shape in shapes:
                place = (kind, backend, shape)
                against = [
                    *mine,
                    *why.shape_obstacles(pair, shape),
                    *why.drift_obstacles(
                        pair, kind, shape, run_drift.get(shape), published_drift.get(shape)
                    ),
                ]
                yield _claim(
                    pair, place, published.get(place), run.get(place), against, notes, bool(devices)
                )


def _both(pair: Pair, kind: Kind, backend: str) -> list[str]:
    """The backends whose libraries a claim depends on: a ratio also on those of the anchor."""
    anchor = pair.run.anchor
    if kind == "ratio" and anchor is not None and anchor == pair.published.anchor:
        return [backend, anchor]
    return [backend]


def _claim(
    pair: Pair,
    place: tuple[Kind, str, str],
    published: Figure | None,
    run: Figure | None,
    obstacles: list[Reason],
    caveats: list[Reason],
    other_device: bool,
) -> Claim:
    kind, backend, shape = place
    outcome: Outcome = "INCOMPARABLE"
    reasons = tuple(dict.fromkeys(obstacles))
    if not reasons:
        if published is None or run is None:
            who = "the published run" if published is None else "the run"
            reasons = (Reason("no-samples", f"{who} has no valid sample for it"),)
        else:
            outcome, reason = judge(kind, published, run, pair.manifest.claims)
            reasons = (reason,)
    return Claim(
        kind=kind,
        backend=backend,
        shape=shape,
        outcome=outcome,
        published=published,
        run=run,
        reasons=reasons,
        caveats=tuple(dict.fromkeys(caveats)),
        cross_device=other_device and outcome != "INCOMPARABLE",
    )
