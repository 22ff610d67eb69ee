"""Where backends run: this machine's processor, or one GPU, found through NVML.

Nothing is chosen in place of what was asked for: a workload for a GPU without a GPU is an
error, never a run on the processor.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from artifact.errors import EnvironmentUnmet, UsageError
from artifact.model.results import Device, Machine, Scalar
from artifact.model.workload import Target

_CPU_INFO = Path("/proc/cpuinfo")
_CPU_SYSTEM = Path("/sys/devices/system/cpu")


def machine() -> Machine:
    """The host, without its name."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        memory = 0
    return Machine(
        system=platform.system(),
        release=platform.release(),
        architecture=platform.machine(),
        cpu=cpu_name(),
        cores=os.cpu_count() or 1,
        memory_bytes=memory if memory > 0 else None,
    )


def cpu_name(info: Path = _CPU_INFO) -> str:
    """The processor's name as the kernel reports it, or its architecture."""
    try:
        text = info.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^(?:model name|Model|cpu model|uarch)\s*:\s*(\S.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.machine() or "unknown"


def cpu_device() -> Device:
    """The processor, with what is known about the stability of its clock."""
    return Device(kind="cpu", name=cpu_name(), facts=cpu_facts())


def cpu_facts(system: Path = _CPU_SYSTEM) -> dict[str, Scalar]:
    """What may change a processor's speed; null where the machine does not say."""
    return {
        "usable_cores": len(os.sched_getaffinity(0)),
        "governor": _line(system / "cpu0/cpufreq/scaling_governor"),
        "boost": _line(system / "cpufreq/boost"),
        "smt": _line(system / "smt/control"),
        "load_1min": load(),
    }


def load() -> float | None:
    """The load average of the last minute; null where the system has none."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip() or None
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML names it."""

    uuid: str
    """Its only name that no environment variable changes."""
    index: int
    """In NVML's order, which is that of the PCI bus."""
    name: str
    driver: str

    def device(self) -> Device:
        """What results.json says of it; nothing here identifies the very card."""
        return Device(kind="gpu", name=self.name, facts={"driver": self.driver})


def list_gpus(nvml: Any = None) -> tuple[Gpu, ...]:
    """Every GPU of this machine, in the order of the PCI bus.

    Args:
        nvml: The module ``pynvml``, or what stands for it.

    Raises:
        EnvironmentUnmet: where the library, the driver or a GPU is missing.
    """
    library = _library() if nvml is None else nvml
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise _no_gpu("the NVIDIA driver does not answer", str(error)) from error
    try:
        driver = _text(library.nvmlSystemGetDriverVersion())
        found = []
        for index in range(library.nvmlDeviceGetCount()):
            handle = library.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(library.nvmlDeviceGetUUID(handle))
            found.append(Gpu(uuid, index, _text(library.nvmlDeviceGetName(handle)), driver))
    except library.NVMLError as error:
        raise _no_gpu("the NVIDIA driver does not name its GPUs", str(error)) from error
    finally:
        library.nvmlShutdown()
    if not found:
        raise _no_gpu("there is no NVIDIA GPU", f"driver {driver}, no device")
    return tuple(found)


def find_gpu(selector: str | None, nvml: Any = None) -> Gpu:
    """The GPU that ``selector`` names: an index in PCI order, or a UUID or the start of one.

    Without a selector the machine must have exactly one.

    Raises:
        EnvironmentUnmet: where there is none.
        UsageError: where the selector fits none or several.
    """
    gpus = list_gpus(nvml)
    listing = tuple(f"{gpu.index}: {gpu.name} ({gpu.uuid})" for gpu in gpus)
    if selector is None:
        if len(gpus) == 1:
            return gpus[0]
        raise UsageError(
            "this machine has several GPUs, and none was chosen",
            expected="--gpu INDEX or --gpu UUID",
            details=listing,
        )
    fitting = _fitting(selector, gpus)
    if len(fitting) == 1:
        return fitting[0]
    raise UsageError(
        "the GPU that was asked for is not there" if not fitting else "several GPUs fit",
        where=f"--gpu {selector}",
        expected="one of those below, by index or UUID",
        details=listing,
    )


def _fitting(selector: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    if selector.isdecimal():
        return [gpu for gpu in gpus if gpu.index == int(selector)]
    if selector.startswith("GPU-") and len(selector) > len("GPU-"):
        return [gpu for gpu in gpus if gpu.uuid.startswith(selector)]
    return []


def target_of(gpu: Gpu, targets: Sequence[Target]) -> Target:
    """The row of the target table that ``gpu`` is in.

    Raises:
        EnvironmentUnmet: where it is in none: such a device is refused, not guessed.
    """
    for target in targets:
        if gpu.name in target.device_names:
            return target
    raise EnvironmentUnmet(
        "this GPU is in no row of the manifest's target table",
        where=f"GPU {gpu.index}",
        expected=", ".join(name for t in targets for name in t.device_names) or "no GPU at all",
        found=gpu.name,
        next="choose another GPU with --gpu, or add a target to manifests/artifact.toml",
    )


def _library() -> ModuleType:
    try:
        return import_module("pynvml")
    except ImportError as error:
        raise _no_gpu("the library that asks the NVIDIA driver is missing", str(error)) from error


def _no_gpu(what: str, found: str) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        what,
        expected="an NVIDIA GPU, its driver, and NVML through the distribution nvidia-ml-py",
        found=found,
    )


def _text(value: str | bytes) -> str:
    # Releases of nvidia-ml-py before 12 return bytes.
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Watch:
    """What is observed around each timed window. The processor's; a GPU's extends it.

    ``wait`` stands before a backend's windows and may last (a temperature gate); ``begin``
    and ``end`` stand right around one window and must not.
    """

    def wait(self) -> None:
        """Wait until the device is fit to be measured.

        Raises:
            MeasurementInvalid: where it does not become so in time.
        """

    def begin(self) -> None:
        """Note the state before a window."""

    def end(self) -> tuple[dict[str, Scalar], tuple[str, ...]]:
        """Facts about the window, and every reason why its sample is not valid."""
        return {"load_1min": load()}, ()
