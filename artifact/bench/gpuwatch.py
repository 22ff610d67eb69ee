"""Watches one GPU while it is measured, and says when a sample is not valid for it.

A thread of its own asks NVML, so that a driver that hangs cannot hang the run. Within a
window it reads clocks, temperature, power and clock-event reasons twenty times a second,
and at both ends; between windows it sleeps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from artifact.bench.card import INVALID, REASONS, Card, Reading, reason_names
from artifact.bench.device import Gpu, Watch, nvml_library
from artifact.bench.neighbours import Neighbours
from artifact.errors import EnvironmentUnmet, MeasurementInvalid
from artifact.model.protocol import Protocol
from artifact.model.results import Scalar

TRACE = "trace.csv"

INTERVAL_S = 0.05
"""Twenty readings a second within a window."""

_PROCESSES_EVERY = 10
"""Readings of a window between two looks at who computes on the card."""

_ANSWER_S = 10.0
"""How long NVML may take for one reading before it counts as hung."""

_POLL_S = 1.0
"""How often a wait for the temperature looks again."""


class GpuWatch(Watch):
    """Watches one GPU from its construction to :meth:`close`.

    Args:
        gpu: The device that the workers see.
        protocol: Says how warm it may be before each backend, and how long to wait for that.
        nvml: The module ``pynvml``, or what stands for it.
        say: Takes a line for whoever watches a wait.
        neighbours: Tells the workers from other processes.
        sleep: Waits; another one in tests.
        answer_s: How long NVML may take for one reading.

    Raises:
        EnvironmentUnmet: where the GPU cannot be opened, or another process computes on it.
    """

    def __init__(
        self,
        gpu: Gpu,
        protocol: Protocol,
        nvml: Any = None,
        *,
        say: Callable[[str], None] = lambda _: None,
        neighbours: Neighbours | None = None,
        sleep: Callable[[float], None] = time.sleep,
        answer_s: float = _ANSWER_S,
    ) -> None:
        self._gpu = gpu
        self._limit = protocol.max_temperature_c
        self._max_wait_s = protocol.max_wait_s
        self._say = say
        self._sleep = sleep
        self._answer_s = answer_s
        self._neighbours = neighbours or Neighbours()
        self._windows: list[tuple[float, float]] = []
        self._began = 0.0
        self._closed = False
        self._card = Card(gpu, nvml_library() if nvml is None else nvml)
        try:
            self._neighbours.require_none(self._card.processes(), gpu.index)
            self._facts = self._card.facts()
            self._thread = _Readings(self._card)
            self._thread.start()
        except BaseException as error:
            self._card.close()
            if isinstance(error, self._card.error):
                raise EnvironmentUnmet(
                    "NVML does not answer for the GPU that was chosen",
                    where=f"GPU {gpu.index}, {gpu.name}",
                    found=str(error),
                    next="nvidia-smi",
                ) from error
            raise

    def facts(self) -> dict[str, Scalar]:
        """Facts of the card at the start, and what the watch itself did so far."""
        watched: dict[str, Scalar] = {
            "processes": self._neighbours.told,
            "trace_readings": len(self._thread.taken),
            "trace_cpu_s": round(self._thread.cpu_s, 3),
        }
        return {**self._facts, **watched} if self._windows else dict(self._facts)

    def workers(self, numbers: Sequence[int]) -> None:
        """The processes of ``numbers``, and what they start, may use the GPU from now on."""
        self._neighbours.workers(numbers)

    def wait(self) -> None:
        """Wait until the GPU is no warmer than the protocol says.

        The runner calls it before each backend's turn: its pass in paper order, and every
        window in interleaved order, where each window is the turn of another backend.

        Raises:
            MeasurementInvalid: where it does not cool down in time, or NVML does not say
                how warm it is.
        """
        if self._limit is None:
            return
        begin = time.monotonic()
        said = False
        while True:
            temperature = self._now().temperature_c
            if temperature is None:
                raise MeasurementInvalid(
                    "the GPU does not tell its temperature",
                    expected=f"at most {self._limit:g} C before each backend",
                    found="none",
                    next="nvidia-smi -q -d TEMPERATURE",
                )
            if temperature <= self._limit:
                return
            waited = time.monotonic() - begin
            if waited >= self._max_wait_s:
                raise MeasurementInvalid(
                    "the GPU did not cool down in time",
                    expected=f"at most {self._limit:g} C within {self._max_wait_s:g} s",
                    found=f"{temperature} C",
                    cause="other work on the machine, or too little cooling",
                    next="nvidia-smi -q -d TEMPERATURE; wait, then run the same command again",
                )
            if not said:
                said = True
                self._say(
                    f"the GPU has {temperature} C: waiting for {self._limit:g} C, "
                    f"{self._max_wait_s:g} s at most"
                )
            self._sleep(min(_POLL_S, self._max_wait_s - waited))

    def begin(self) -> None:
        """Note the state before a window, and read the card until its end."""
        self._began = self._now(processes=True).at
        self._thread.run_steadily()

    def end(self) -> tuple[dict[str, Scalar], tuple[str, ...]]:
        """Facts of the window's part of the trace, and why its sample is not valid."""
        self._thread.pause()
        failed: tuple[str, ...] = ()
        ended = time.monotonic()
        try:
            ended = self._now(processes=True).at
        except MeasurementInvalid as error:
            failed = (f"{error.what}: {error.found}",)
        self._windows.append((self._began, ended))
        window = self._thread.between(self._began, ended)
        strangers = frozenset[int]().union(
            *(self._neighbours.strangers(reading.processes) for reading in window)
        )
        foreign = tuple(f"process {pid} computed on the GPU" for pid in sorted(strangers))
        return summary(window), (*invalid_reasons(window), *foreign, *failed)

    def _now(self, *, processes: bool = False) -> Reading:
        reading = self._thread.now(self._answer_s, processes=processes)
        if isinstance(reading, Reading):
            return reading
        raise MeasurementInvalid(
            "NVML failed while the GPU was measured",
            where=f"GPU {self._gpu.index}, {self._gpu.name}",
            expected=f"a reading within {self._answer_s:g} s",
            found=reading,
            cause="the driver was unloaded, or the GPU fell off the bus (dmesg names an Xid)",
            next="nvidia-smi",
        )

    def close(self) -> None:
        """Stop the thread and let NVML go; what was read is kept."""
        if self._closed:
            return
        self._closed = True
        # A thread that hangs in the driver still uses NVML.
        if self._thread.stop(self._answer_s):
            self._card.close()

    def files(self) -> dict[str, bytes]:
        """The whole trace, once a window was read."""
        if not self._windows:
            return {}
        return {TRACE: trace_csv(self._thread.taken, self._windows)}


class _Readings(threading.Thread):
    """Takes readings: steadily within a window, and one whenever it is asked to."""

    def __init__(self, card: Card) -> None:
        super().__init__(name="gpu-watch", daemon=True)
        self.taken: list[Reading] = []
        self.cpu_s = 0.0
        self._card = card
        self._condition = threading.Condition()
        self._steady = False
        self._stopped = False
        self._wanted = 0
        self._answered = 0
        self._processes = False
        self._latest: Reading | None = None
        self._failure: str | None = None

    def now(self, timeout: float, *, processes: bool) -> Reading | str:
        """A reading that begins after this call; or why there is none."""
        with self._condition:
            self._wanted += 1
            ticket = self._wanted
            self._processes = self._processes or processes
            self._condition.notify_all()
            self._condition.wait_for(
                lambda: self._answered >= ticket or self._failure is not None, timeout
            )
            if self._failure is None and self._answered >= ticket and self._latest is not None:
                return self._latest
            return self._failure or f"no answer within {timeout:g} s"

    def run_steadily(self) -> None:
        """Go on reading until :meth:`pause`."""
        with self._condition:
            self._steady = True
            self._condition.notify_all()

    def pause(self) -> None:
        """Read no more by itself."""
        with self._condition:
            self._steady = False

    def between(self, begin: float, end: float) -> list[Reading]:
        """The readings from ``begin`` to ``end``, both included."""
        with self._condition:
            found = []
            for reading in reversed(self.taken):
                if reading.at < begin:
                    break
                if reading.at <= end:
                    found.append(reading)
        return found[::-1]

    def stop(self, timeout: float) -> bool:
        """End; whether it did. May be called again."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        self.join(timeout)
        return not self.is_alive()

    def run(self) -> None:
        """Read until it is stopped or NVML fails."""
        number = 0
        due = 0.0
        while True:
            with self._condition:
                if not (self._stopped or self._wanted > self._answered):
                    pause = max(0.0, due - time.monotonic()) if self._steady else None
                    self._condition.wait(pause)
                if self._stopped:
                    return
                ticket = self._wanted
                if ticket == self._answered and not (self._steady and time.monotonic() >= due):
                    continue
                processes = self._processes or (self._steady and number % _PROCESSES_EVERY == 0)
                self._processes = False
            number += 1
            try:
                reading = self._card.reading(processes=processes)
            except Exception as error:
                # Whatever it is, whoever asked must hear of it and not wait for ever.
                with self._condition:
                    self._failure = str(error) or type(error).__name__
                    self._condition.notify_all()
                return
            with self._condition:
                due = reading.at + INTERVAL_S
                self.taken.append(reading)
                self.cpu_s = time.thread_time()
                self._latest, self._answered = reading, ticket
                self._condition.notify_all()


def summary(window: Sequence[Reading]) -> dict[str, Scalar]:
    """Facts about one window of the trace."""

    def column(name: str) -> list[float]:
        return [v for v in (getattr(r, name) for r in window) if v is not None]

    sm, memory, degrees, watts = map(column, ("sm_mhz", "memory_mhz", "temperature_c", "power_w"))
    masks = column("reasons")
    return {
        "readings": len(window),
        "sm_mhz_min": min(sm, default=None),
        "sm_mhz_mean": _mean(sm),
        "sm_mhz_max": max(sm, default=None),
        "memory_mhz_min": min(memory, default=None),
        "temperature_c_min": min(degrees, default=None),
        "temperature_c_max": max(degrees, default=None),
        "power_w_mean": _mean(watts),
        "power_w_max": max(watts, default=None),
        "clock_events": reason_names(_union(window)) if masks else None,
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 1) if values else None


def invalid_reasons(window: Sequence[Reading]) -> tuple[str, ...]:
    """Why a sample of this window is not valid; empty where it is."""
    mask = _union(window) & INVALID
    return tuple(f"the GPU reported: {name}" for bit, name in REASONS.items() if mask & bit)


def _union(window: Sequence[Reading]) -> int:
    union = 0
    for reading in window:
        union |= reading.reasons or 0
    return union


def trace_csv(readings: Sequence[Reading], windows: Sequence[tuple[float, float]]) -> bytes:
    """One line a reading: seconds from the first one, and the number of its window, if any.

    Args:
        readings: In the order of time.
        windows: Beginnings and ends in the order of time: the samples, as they were taken.
    """
    start = readings[0].at if readings else 0.0
    lines = ["seconds,window,sm_mhz,memory_mhz,temperature_c,power_w,clock_events\n"]
    number = 0
    for reading in readings:
        while number < len(windows) and windows[number][1] < reading.at:
            number += 1
        inside = number < len(windows) and windows[number][0] <= reading.at
        values = (
            f"{reading.at - start:.3f}",
            number if inside else None,
            reading.sm_mhz,
            reading.memory_mhz,
            reading.temperature_c,
            reading.power_w,
            None if reading.reasons is None else hex(reading.reasons),
        )
        lines.append(",".join("" if v is None else str(v) for v in values) + "\n")
    return "".join(lines).encode("ascii")
