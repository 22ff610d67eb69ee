"""The conversation with one worker: what is asked of it, and what of its answers is taken."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from artifact.bench import gates, witness
from artifact.bench.device import Watch
from artifact.bench.failures import (
    KernelChanged,
    WorkerMistimed,
    WrongClock,
    WrongProtocol,
)
from artifact.bench.messages import (
    PROTOCOL,
    Checked,
    Hello,
    Prepared,
    Timed,
    Witnessed,
)
from artifact.bench.plan import Plan
from artifact.bench.rundir import stamp, utc_now
from artifact.bench.schedule import Window
from artifact.bench.times import Times
from artifact.bench.worker import Worker
from artifact.errors import GateFailed
from artifact.model.backend import Backend
from artifact.model.results import CheckRecord, Sample, Scalar, WitnessRecord
from artifact.model.workload import Shape

_CLOCK_SLACK = 1.001
"""The device's clock and the host's may run apart by this much."""


class Session:
    """One backend of a run, and the shape whose tensors its worker holds at the moment."""

    def __init__(
        self,
        backend: Backend,
        plan: Plan,
        worker: Worker,
        times: Times,
        known: Mapping[str, Scalar] = MappingProxyType({}),
    ) -> None:
        """A session that has not begun.

        Args:
            backend: Its manifest entry.
            plan: What the run does.
            worker: Its process, which is started later.
            times: Where the time goes.
            known: Facts of the kernel that the runner itself knows, from its build.
        """
        self.backend = backend
        self._known = dict(known)
        self.worker = worker
        self.hello: Hello | None = None
        self._plan = plan
        self._times = times
        self._shape: str | None = None
        self._inputs: dict[str, dict[str, str]] = {}
        self._facts: dict[str, dict[str, Scalar]] = {}
        self._timed = False

    def _ask(self, kind: Any, **fields: Any) -> Any:
        return self.worker.ask(kind, self._plan.protocol.worker_timeout_s, **fields)

    def start(self) -> Hello:
        """Start the worker and let it say who it is.

        Raises:
            WrongProtocol: where it speaks another version.
            WrongClock: where it times with another instrument than the protocol names.
            ArtifactError: what :meth:`Worker.ask` raises.
        """
        name, wanted = self.backend.name, self._plan.protocol.clock
        with self._times.measure("start and import", name):
            self.worker.start()
            hello: Hello = self._ask(Hello, protocol=PROTOCOL)
        if hello.protocol != PROTOCOL:
            raise WrongProtocol(
                f"{name} speaks another version of the worker protocol",
                expected=f"version {PROTOCOL}",
                found=f"version {hello.protocol}",
            )
        self._check_clock(wanted, hello.clock)
        self.hello = hello
        return hello

    def _check_clock(self, wanted: str, found: str) -> None:
        if found != wanted:
            raise WrongClock(
                f"{self.backend.name} times with another instrument",
                expected=f"{wanted}, as the protocol {self._plan.protocol.name} says",
                found=found,
            )

    def prepare(self, shape: Shape) -> None:
        """Let the worker hold ``shape``; does nothing where it does.

        The worker gives up the tensors of the shape before. A shape that it held before
        must have the same input bytes again.

        Raises:
            GateFailed: where the inputs are others than before.
            ArtifactError: what :meth:`Worker.ask` raises.
        """
        if self._shape == shape.name:
            return
        self.confirm()
        name = self.backend.name
        begin = time.perf_counter()
        prepared: Prepared = self._ask(
            Prepared,
            shape=dict(shape.dims),
            seed=self._plan.workload.seed,
            parameters=self._plan.parameters,
        )
        self._times.split(
            time.perf_counter() - begin,
            {f"setup: {part}": ms / 1000 for part, ms in prepared.setup_ms.items()},
            "setup: other",
            name,
        )
        before = self._inputs.setdefault(shape.name, dict(prepared.inputs))
        if before != prepared.inputs:
            changed = sorted(
                key
                for key in before.keys() | prepared.inputs.keys()
                if before.get(key) != prepared.inputs.get(key)
            )
            raise GateFailed(
                f"{name} would be timed on other inputs than it was checked on",
                expected="the same bytes at each prepare of one shape and seed",
                found=f"other digests of: {', '.join(changed)}",
            )
        self._shape = shape.name

    def inputs(self, shape: Shape) -> dict[str, str]:
        """SHA-256 of each input of a shape that was prepared."""
        return dict(self._inputs[shape.name])

    def check(self, shape: Shape) -> CheckRecord:
        """Measure the output and every known-wrong output; the verdicts are in the record."""
        rules = self._plan.manifest.gates
        with self._times.measure("check and controls", self.backend.name):
            checked: Checked = self._ask(
                Checked,
                gates={
                    "atol": rules.published.atol,
                    "rtol": rules.published.rtol,
                    "band_axis": rules.output.band_axis,
                    "band_rows": rules.output.band_rows,
                },
                controls=[
                    {"name": name, "position": position}
                    for name, position in gates.expected_controls(rules)
                ],
            )
        inputs = self.inputs(shape)
        return gates.judge(self.backend.name, shape.name, inputs, checked, rules, shape.dims)

    def witness(self, shape: Shape) -> WitnessRecord:
        """What the kernel that was just checked shows of itself; judged by the caller."""
        facts = self._witnessed()
        self._facts[shape.name] = facts
        expected = self._plan.witness(self.backend, shape)
        return witness.record(self.backend.name, shape.name, expected, facts)

    def _witnessed(self) -> dict[str, Scalar]:
        with self._times.measure("witness", self.backend.name):
            answer: Witnessed = self._ask(Witnessed)
        scrub = self.worker.log.scrub
        said = {
            name: scrub.text(value) if isinstance(value, str) else value
            for name, value in answer.facts.items()
        }
        for name, value in self._known.items():
            if said.get(name, value) != value:
                raise KernelChanged(
                    f"{self.backend.name} runs another kernel than was built",
                    expected=f"{name} {value!r}",
                    found=f"{name} {said[name]!r}",
                )
        return {**said, **self._known}

    def time(self, window: Window, watch: Watch) -> Sample:
        """Take the sample of ``window``.

        Raises:
            WrongClock: where another instrument took it.
            WorkerMistimed: where the counts are not those asked for, or the sample says
                that more time passed than did.
            ArtifactError: what :meth:`Worker.ask` raises.
        """
        protocol, name = self._plan.protocol, self.backend.name
        started = stamp(utc_now())
        watch.begin()
        begin = time.perf_counter()
        timed: Timed = self._ask(Timed, warmup=protocol.warmup, repeat=protocol.repeat)
        seconds = time.perf_counter() - begin
        facts, reasons = watch.end()
        self._check_clock(protocol.clock, timed.clock)
        counts = (timed.warmup, timed.repeat)
        if counts != (protocol.warmup, protocol.repeat):
            raise WorkerMistimed(
                f"{name} did not time what it was asked to",
                expected=f"{protocol.warmup} warm-ups, {protocol.repeat} launches",
                found=f"{counts[0]} warm-ups, {counts[1]} launches",
            )
        in_window = timed.ms * protocol.repeat / 1000
        if in_window > seconds * _CLOCK_SLACK:
            raise WorkerMistimed(
                f"{name} reports more time than passed",
                expected=f"{protocol.repeat} launches within {seconds * 1000:.6g} ms",
                found=f"{timed.ms:.6g} ms each",
            )
        self._times.split(seconds, {"timed windows": in_window}, "warm-ups", name)
        self._timed = True
        return Sample(
            backend=name,
            shape=window.shape,
            position=window.position,
            round=window.round,
            ms=timed.ms,
            started=started,
            seconds=round(seconds, 6),
            valid=not reasons,
            reasons=reasons,
            device=facts,
        )

    def confirm(self) -> None:
        """Accept the samples of the present shape: the kernel is still the checked one.

        Raises:
            KernelChanged: where the worker's facts are others than at the check.
        """
        if not self._timed or self._shape is None:
            return
        self._timed = False
        before, after = self._facts.get(self._shape, {}), self._witnessed()
        if before != after:
            raise KernelChanged(
                f"the kernel that was timed as {self.backend.name} is not the one that was checked",
                expected=_changes(before, after),
                found=_changes(after, before),
                cause="the library chose another kernel between the check and the timing",
            )


def _changes(mine: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> str:
    names = sorted(n for n in mine.keys() | other.keys() if mine.get(n) != other.get(n))
    return ", ".join(f"{name} {mine.get(name)!r}" for name in names)
