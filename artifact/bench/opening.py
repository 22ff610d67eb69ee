"""results.json of a run that has just begun."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from datetime import datetime

from artifact import __version__
from artifact.bench.device import machine
from artifact.bench.plan import Plan
from artifact.bench.rundir import stamp
from artifact.bench.scrub import Scrubber
from artifact.model.results import ArtifactRef, Headings, Metric, RunResults, State, ToolRef


def first_document(plan: Plan, run_id: str, moment: datetime, scrub: Scrubber) -> RunResults:
    """The document before anything has happened: ``complete: false``, nothing measured.

    Args:
        plan: What the run will do.
        run_id: The name of the run folder.
        moment: When it began, in UTC.
        scrub: Knows the places of this machine.
    """
    manifest = plan.manifest
    return RunResults(
        results_version=1,
        run_id=run_id,
        origin="measured",
        complete=False,
        state=State(phase="verify"),
        marks=plan.marks,
        started=stamp(moment),
        artifact=ArtifactRef(
            name=manifest.artifact.name,
            version=manifest.artifact.version,
            content_id=None,
            lock_blake3=None,
        ),
        tool=ToolRef(
            name="artifact",
            version=__version__,
            python=platform.python_version(),
            command=written_command(plan.options.command, scrub),
        ),
        machine=machine(),
        device=plan.device,
        workload=plan.workload,
        protocol=plan.protocol,
        protocol_digest=plan.protocol.digest(),
        metric=Metric(**manifest.metric.model_dump()),
        gates=manifest.gates,
        statistics=manifest.statistics,
        headings=Headings(
            **manifest.report.model_dump(exclude={"suffix"}),
            anchor=next(
                (b.title for b in manifest.backends_of(plan.workload.name) if b.anchor), None
            ),
        ),
        notes=notes(plan),
    )


def notes(plan: Plan) -> tuple[str, ...]:
    """What limits the times of a run: what the runner does, then what the manifest declares."""
    protocol, said = plan.protocol, []
    if protocol.order == "paper":
        said.append(
            "The implementations were measured one after the other: the machine may have moved "
            "between them, which the two passes of the anchor show where there are two."
        )
    else:
        said.append(
            "The implementations took turns in random order, a window each: a window begins "
            "in the state in which the implementation before it left the machine."
        )
    if plan.gpu is not None:
        said.append("The clocks of the GPU were not locked; they are recorded for each window.")
        if protocol.max_temperature_c is not None:
            said.append(
                f"Before each implementation's turn the GPU had at most "
                f"{protocol.max_temperature_c:g} C. It gets warmer while it is measured: that "
                "is no constant temperature."
            )
    backends = [backend.name for backend in plan.backends]
    return (*said, *plan.manifest.caveats_of(plan.workload.name, backends))


_ROOT = re.compile(r"(?:^|(?<==))\$ROOT(?:(/)(?=.)|/?$)")


def written_command(command: Sequence[str], scrub: Scrubber) -> tuple[str, ...]:
    """A command line without any path of this machine; paths below the root are relative."""
    return tuple(_argument(text, scrub) for text in command)


def _argument(text: str, scrub: Scrubber) -> str:
    return _ROOT.sub(lambda match: "" if match[1] else ".", scrub.paths(text))
