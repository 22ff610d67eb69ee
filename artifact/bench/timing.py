"""The windows of a protocol, taken one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from artifact.bench.device import Watch
from artifact.bench.plan import Plan
from artifact.bench.progress import Estimate, Progress
from artifact.bench.rundir import RunDir
from artifact.bench.schedule import Window
from artifact.bench.session import Session
from artifact.bench.times import Times
from artifact.errors import MeasurementInvalid
from artifact.model import formula
from artifact.model.backend import Backend
from artifact.model.workload import Shape


def take_samples(
    plan: Plan,
    sessions: Sequence[Session],
    windows: Sequence[Window],
    *,
    rundir: RunDir,
    watch: Watch,
    times: Times,
    progress: Progress,
    at: Callable[[Backend, Shape | None], None],
) -> None:
    """Take the sample of every window, then let each worker confirm its kernel and end.

    Args:
        plan: What the run does.
        sessions: One for each backend, past its gates.
        windows: The schedule.
        rundir: Takes each sample.
        watch: Looks at the device.
        times: Where the time goes.
        progress: Shows how far it is.
        at: Told whose turn it is.

    Raises:
        MeasurementInvalid: where a sample is not valid.
        ArtifactError: what a worker or the watch raises.
    """
    shapes = {shape.name: shape for shape in plan.workload.shapes}
    of = {session.backend.name: session for session in sessions}
    work = {
        name: float(formula.evaluate(plan.manifest.metric.work, shape.dims))
        for name, shape in shapes.items()
    }
    estimate = Estimate(work)
    watch.workers([pid for s in sessions if (pid := s.worker.pid) is not None])
    before: tuple[str, int] | None = None
    for number, window in enumerate(windows):
        session, shape = of[window.backend], shapes[window.shape]
        at(session.backend, shape)
        label = f"{window.backend}, {window.shape}, round {window.round + 1}"
        progress.step(label, estimate.remaining(windows[number:]))
        if plan.protocol.order == "interleaved":
            # Every backend of a block holds its tensors before any of them is timed.
            for other in sessions:
                at(other.backend, shape)
                other.prepare(shape)
            at(session.backend, shape)
        session.prepare(shape)
        # Each pass in paper order, each window in interleaved order.
        if (window.backend, window.position) != before:
            before = (window.backend, window.position)
            with times.measure("wait for the device", window.backend):
                watch.wait()
        sample = session.time(window, watch)
        rundir.add("samples", sample)
        if not sample.valid:
            raise MeasurementInvalid(
                f"a sample of {window.backend} is not valid",
                expected="a device that is left alone and keeps its clocks",
                found="; ".join(sample.reasons),
            )
        estimate.add(window, sample.seconds or 0.0)
        rundir.save_soon()
    for session in sessions:
        at(session.backend, None)
        session.confirm()
        with times.measure("stop", session.backend.name):
            session.worker.stop()
