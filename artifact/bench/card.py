"""One GPU, open in NVML: what it says of itself, and of the processes that compute on it.

The card is found by UUID: an index means another one under another environment.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blake3 import blake3

from artifact.bench.device import Gpu, broken
from artifact.errors import EnvironmentUnmet
from artifact.model.results import Scalar

_GRAPHICS, _SM, _MEMORY = 0, 1, 2
"""Clock domains of nvml.h."""

_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""Linux gives the namespace in which it starts this number (proc_ns.h)."""

#: Bits of NVML's clock-event reasons, by the names of nvml.h.
REASONS = {
    0x1: "gpu idle",
    0x2: "applications clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}

#: Reasons that make a sample invalid. A software power cap does not: dense matrix work reaches
#: it on these cards at their default limit, so it is recorded as a condition of the run.
INVALID = 0x8 | 0x20 | 0x40 | 0x80


def reason_names(mask: int) -> str:
    """The names of the bits of ``mask``, with unknown ones as a number."""
    known = [name for bit, name in REASONS.items() if mask & bit]
    rest = mask & ~sum(REASONS)
    return ", ".join([*known, *([hex(rest)] if rest else [])]) or "none"


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of one moment; a value that NVML does not give is None."""

    at: float
    """Seconds of the host's monotonic clock."""
    sm_mhz: int | None
    memory_mhz: int | None
    temperature_c: int | None
    power_w: float | None
    reasons: int | None
    processes: frozenset[int] | None = None
    """Who computed on the card, as the driver numbers processes; None: not asked or not
    told."""


class Card:
    """A GPU, open from its construction to :meth:`close`.

    A question that the card or its driver cannot answer is answered None, until :meth:`facts`
    has been called: what was answered then must go on being answered. That it is not, or that
    NVML itself fails, is an NVMLError, which the caller must expect.

    Raises:
        EnvironmentUnmet: where the GPU cannot be opened.
    """

    def __init__(self, gpu: Gpu, nvml: Any) -> None:
        self.gpu = gpu
        self.error: type[Exception] = nvml.NVMLError
        self._nvml = nvml
        self._untold: set[str] = set()
        self._settled = False
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise _gone(gpu, str(error)) from error
        try:
            self._handle = nvml.nvmlDeviceGetHandleByUUID(gpu.card)
        except BaseException as error:
            nvml.nvmlShutdown()
            if isinstance(error, nvml.NVMLError):
                raise _gone(gpu, str(error)) from error
            raise

    def close(self) -> None:
        """Let NVML go."""
        try:
            self._nvml.nvmlShutdown()
        except self.error:
            # The driver is gone, and with it everything that could be let go.
            return

    def _ask(self, name: str, *arguments: Any) -> Any:
        function = getattr(self._nvml, name, None)
        if function is None or name in self._untold:
            return None
        try:
            return function(self._handle, *arguments)
        except self.error as error:
            if self._settled or broken(error):
                raise
            self._untold.add(name)
            return None

    def reading(self, *, processes: bool = False) -> Reading:
        """The state of this moment.

        Raises:
            NVMLError: where NVML fails.
        """
        at = time.monotonic()
        power = self._ask("nvmlDeviceGetPowerUsage")
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            # The name before driver 535.
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return Reading(
            at=at,
            sm_mhz=self._ask("nvmlDeviceGetClockInfo", _SM),
            memory_mhz=self._ask("nvmlDeviceGetClockInfo", _MEMORY),
            temperature_c=self._ask("nvmlDeviceGetTemperature", 0),
            power_w=_milli(power),
            reasons=reasons,
            processes=self.processes() if processes else None,
        )

    def processes(self) -> frozenset[int] | None:
        """Numbers of the processes that compute on the card, as the driver counts them."""
        running = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return None if running is None else frozenset(process.pid for process in running)

    def facts(self) -> dict[str, Scalar]:
        """What does not change while a run lasts, and the state at this moment.

        The card itself is named by a digest of its UUID: two runs on one card can be known
        as such, and nothing else can be learned from it.

        Raises:
            NVMLError: where NVML fails.
        """
        capability = self._ask("nvmlDeviceGetCudaComputeCapability")
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        now = self.reading(processes=True)
        told: dict[str, Scalar] = {
            "uuid_blake3": blake3(self.gpu.uuid.encode()).hexdigest()[:16],
            "driver": self.gpu.driver,
            "vbios": _text(self._ask("nvmlDeviceGetVbiosVersion")),
            "compute_capability": None if capability is None else ".".join(map(str, capability)),
            "sms": self.gpu.sms,
            "memory_bytes": None if memory is None else int(memory.total),
            "ecc": _first(self._ask("nvmlDeviceGetEccMode")),
            "mig": _first(self._ask("nvmlDeviceGetMigMode")),
            "persistence": _first(self._ask("nvmlDeviceGetPersistenceMode")),
            "compute_mode": _COMPUTE_MODES.get(self._ask("nvmlDeviceGetComputeMode")),
            "power_limit_w": _milli(self._ask("nvmlDeviceGetEnforcedPowerLimit")),
            "power_limit_default_w": _milli(self._ask("nvmlDeviceGetPowerManagementDefaultLimit")),
            "sm_mhz_max": self._ask("nvmlDeviceGetMaxClockInfo", _SM),
            "sm_mhz_application": self._ask("nvmlDeviceGetApplicationsClock", _GRAPHICS),
            "memory_mhz_max": self._ask("nvmlDeviceGetMaxClockInfo", _MEMORY),
            "pcie_generation": self._ask("nvmlDeviceGetCurrPcieLinkGeneration"),
            "pcie_width": self._ask("nvmlDeviceGetCurrPcieLinkWidth"),
            "sm_mhz_before": now.sm_mhz,
            "memory_mhz_before": now.memory_mhz,
            "temperature_c_before": now.temperature_c,
            "power_w_before": now.power_w,
        }
        self._settled = True
        return told


_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


def _gone(gpu: Gpu, found: str) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        "the GPU that was chosen cannot be watched",
        where=f"GPU {gpu.index}, {gpu.name}",
        expected="a GPU that NVML opens by its UUID",
        found=found,
        next="nvidia-smi -L",
    )


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _milli(value: int | None) -> float | None:
    return None if value is None else value / 1000


def _first(value: Any) -> bool | None:
    """Whether a mode is on now; NVML answers some with the present and the pending one."""
    if isinstance(value, list | tuple):
        value = value[0]
    return None if value is None else bool(value)


def first_namespace(link: Path = Path("/proc/self/ns/pid")) -> bool:
    """Whether this process has the numbers by which the driver knows processes.

    In a container, or where the system does not say, it may have others.
    """
    try:
        return str(link.readlink()) == _FIRST_PID_NAMESPACE
    except OSError:
        return False


def command_name(pid: int, proc: Path = Path("/proc")) -> str | None:
    """The name of the program that process ``pid`` runs, where this user may see it."""
    try:
        return (proc / str(pid) / "comm").read_text(errors="replace").strip() or None
    except OSError:
        return None


def descendants(roots: frozenset[int], proc: Path = Path("/proc")) -> frozenset[int]:
    """``roots`` and every process below them."""
    children: dict[int, list[int]] = {}
    for entry in proc.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            # It has just ended.
            continue
        # The name stands in brackets and may hold anything, brackets too.
        parent = int(stat.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(entry.name))
    found = set(roots)
    todo = list(roots)
    while todo:
        for child in children.get(todo.pop(), []):
            if child not in found:
                found.add(child)
                todo.append(child)
    return frozenset(found)
