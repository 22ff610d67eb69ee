"""Where backends run: this machine's processor, or one GPU, found through NVML.

Nothing is chosen in place of what was asked for: a workload for a GPU without a GPU is an
error, never a run on the processor.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from artifact.bench import visible
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
    """One device that CUDA can compute on: a GPU, or a MIG instance of one, as NVML names it."""

    uuid: str
    """Its only name that no environment variable changes; a worker sees this device alone."""
    index: int
    """In NVML's order, which is that of the PCI bus; a MIG instance has its GPU's."""
    name: str
    """The model, such as ``NVIDIA H200``; a MIG instance has its GPU's."""
    driver: str
    sms: int | None = None
    """Streaming multiprocessors; None where NVML does not tell."""
    card_uuid: str = ""
    """A MIG instance: the UUID of its GPU."""
    split: bool = False
    """Whether MIG mode is on, so that CUDA computes on its instances alone."""

    @property
    def card(self) -> str:
        """The UUID of the GPU, whose clocks, power and temperature an instance shares."""
        return self.card_uuid or self.uuid

    @property
    def described(self) -> str:
        """As lists of devices name it."""
        kind = "a MIG instance of " if self.card_uuid else ""
        more = ", split into MIG instances" if self.split else ""
        return f"{kind}{self.name} ({self.uuid}{more})"

    def device(self) -> Device:
        """What results.json says of it; nothing here identifies the very card."""
        return Device(kind="gpu", name=self.name, facts={"driver": self.driver})


_CORES_PER_SM = {(7, 0): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 9): 128, (9, 0): 128}
"""FP32 cores of one multiprocessor by compute capability (CUDA C++ Programming Guide)."""


def list_gpus(nvml: Any = None) -> tuple[Gpu, ...]:
    """Every GPU of this machine in the order of the PCI bus, each before its MIG instances.

    Args:
        nvml: The module ``pynvml``, or what stands for it.

    Raises:
        EnvironmentUnmet: where the library, the driver or a GPU is missing.
    """
    library = nvml_library() if nvml is None else nvml
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise _no_gpu("the NVIDIA driver does not answer", str(error)) from error
    try:
        driver = _text(library.nvmlSystemGetDriverVersion())
        found: list[Gpu] = []
        for index in range(library.nvmlDeviceGetCount()):
            found += _card_and_instances(library, index, driver)
    except library.NVMLError as error:
        raise _no_gpu("the NVIDIA driver does not name its GPUs", str(error)) from error
    finally:
        library.nvmlShutdown()
    if not found:
        raise _no_gpu("there is no NVIDIA GPU", f"driver {driver}, no device")
    return tuple(found)


def _card_and_instances(nvml: Any, index: int, driver: str) -> list[Gpu]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    uuid, name = (_text(f(handle)) for f in (nvml.nvmlDeviceGetUUID, nvml.nvmlDeviceGetName))
    mode = ask(nvml, "nvmlDeviceGetMigMode", handle)
    split = mode is not None and bool(mode[0])
    found = [Gpu(uuid, index, name, driver, _sms(nvml, handle), split=split)]
    if not split:
        return found
    for place in range(ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        # A place that holds no instance answers "not found".
        instance = ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
        if instance is not None:
            attributes = ask(nvml, "nvmlDeviceGetAttributes", instance)
            sms = None if attributes is None else int(attributes.multiprocessorCount)
            own = _text(nvml.nvmlDeviceGetUUID(instance))
            found.append(Gpu(own, index, name, driver, sms, card_uuid=uuid))
    return found


def _sms(nvml: Any, handle: Any) -> int | None:
    cores = ask(nvml, "nvmlDeviceGetNumGpuCores", handle)
    capability = ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    if cores is None or capability is None:
        return None
    in_one = _CORES_PER_SM.get(tuple(capability))
    return None if in_one is None else int(cores) // in_one


_BROKEN = frozenset({1, 9, 10, 15, 16, 18})
"""NVML's codes for: not initialised, driver not loaded, timeout, GPU lost, GPU needs a reset,
library and driver of two versions (nvml.h, nvmlReturn_t). Every other one only says that this
question has no answer here: sandboxes even answer "unknown error" to what they do not let
through."""


def broken(error: Exception) -> bool:
    """Whether an NVMLError says that NVML as a whole does not work."""
    return getattr(error, "value", None) in _BROKEN


def ask(nvml: Any, name: str, *arguments: Any) -> Any:
    """What the NVML function ``name`` answers; None where this device or driver cannot tell.

    Raises:
        NVMLError: where NVML itself fails (the GPU is lost, the driver is gone).
    """
    function = getattr(nvml, name, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        if broken(error):
            raise
        return None


def find_gpu(
    selector: str | None, nvml: Any = None, environment: Mapping[str, str] = os.environ
) -> Gpu:
    """The device that ``selector`` names: an index, or a UUID or the start of one.

    An index counts the GPUs in the order of the PCI bus or, where the caller has set
    ``CUDA_VISIBLE_DEVICES``, the entries of that list, as it does for any CUDA program.
    Without a selector there must be exactly one device.

    Args:
        selector: ``0``, ``GPU-...``, ``MIG-...`` or None.
        nvml: The module ``pynvml``, or what stands for it.
        environment: The caller's environment.

    Raises:
        EnvironmentUnmet: where there is no device.
        UsageError: where the selector fits none or several, or only one that
            ``CUDA_VISIBLE_DEVICES`` leaves out, or where it is not certain which GPUs that
            list means.
    """
    every = list_gpus(nvml)
    gpus = visible.devices(every, environment)
    listed = environment.get(visible.LIST) is not None
    listing = tuple(
        f"{entry if listed else gpu.index}: {gpu.described}" for entry, gpu in enumerate(gpus)
    )
    if selector is None:
        # The only GPU of a machine stands for itself, whole or split.
        if len({gpu.card for gpu in gpus}) == 1 and (len(gpus) == 1 or not listed):
            return gpus[0]
        raise UsageError(
            "there are several GPUs, and none was chosen",
            expected="--gpu INDEX or --gpu UUID",
            next="choose one of those below: --gpu INDEX",
            details=listing,
        )
    fitting = _fitting(selector, gpus, environment)
    if len(fitting) == 1:
        return fitting[0]
    what = "several GPUs fit" if fitting else "the GPU that was asked for is not there"
    if not fitting and _fitting(selector, every, {}) and not selector.isdecimal():
        what = f"the GPU that was asked for is outside of {visible.LIST}"
    raise UsageError(
        what,
        where=f"--gpu {selector}",
        expected="one of those below, by index or UUID",
        next="nvidia-smi -L",
        details=listing,
    )


def _fitting(selector: str, gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    if selector.isdecimal():
        if environment.get(visible.LIST) is not None:
            return list(gpus[int(selector) : int(selector) + 1])
        return [gpu for gpu in gpus if gpu.index == int(selector) and not gpu.card_uuid]
    return visible.by_uuid(selector, gpus)


def target_of(gpu: Gpu, targets: Sequence[Target]) -> Target:
    """The row of the target table that ``gpu`` is in.

    Raises:
        EnvironmentUnmet: where it is in none, has another number of multiprocessors than
            the row says, or is split into MIG instances: it is refused, not guessed.
    """
    for target in targets:
        if gpu.name in target.device_names:
            _require_whole(gpu, target)
            return target
    raise EnvironmentUnmet(
        "this GPU is in no row of the manifest's target table",
        where=f"GPU {gpu.index}",
        expected=", ".join(name for t in targets for name in t.device_names) or "no GPU at all",
        found=gpu.name,
        next="choose another GPU with --gpu, or add a target to manifests/artifact.toml",
    )


def _require_whole(gpu: Gpu, target: Target) -> None:
    expected = f"{target.sms} multiprocessors, as the target {target.name} has"
    if gpu.split:
        raise EnvironmentUnmet(
            "this GPU is split into MIG instances",
            where=f"GPU {gpu.index}, {gpu.name}",
            expected=expected,
            found="MIG mode on: CUDA computes on its instances alone",
            next="choose another GPU with --gpu, or have MIG mode turned off",
        )
    # A driver that does not count those of a whole GPU has named its model all the same.
    if gpu.sms == target.sms or (gpu.sms is None and not gpu.card_uuid):
        return
    raise EnvironmentUnmet(
        "this GPU has another number of multiprocessors than its row of the target table",
        where=f"{'a MIG instance of ' if gpu.card_uuid else ''}GPU {gpu.index}, {gpu.name}",
        expected=expected,
        found="a number that NVML does not tell" if gpu.sms is None else str(gpu.sms),
        cause="a MIG instance is a part of a GPU" if gpu.card_uuid else None,
        next="choose a whole GPU with --gpu, or add a target to manifests/artifact.toml",
    )


def nvml_library() -> ModuleType:
    """The module ``pynvml``.

    Raises:
        EnvironmentUnmet: where it is not installed.
    """
    try:
        return import_module("pynvml")
    except ImportError as error:
        what = "the library that asks the NVIDIA driver is missing"
        raise _no_gpu(what, str(error), "pip install nvidia-ml-py") from error


_GET_A_GPU = (
    "install the NVIDIA driver; nvidia-smi -L must list the GPU\n"
    "in a container, pass the GPU through: docker run --gpus all"
)


def _no_gpu(what: str, found: str, next: str = _GET_A_GPU) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        what,
        expected="an NVIDIA GPU, its driver, and NVML through the distribution nvidia-ml-py",
        found=found,
        next=next,
    )


def _text(value: str | bytes) -> str:
    # Releases of nvidia-ml-py before 12 return bytes.
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Watch:
    """What is observed around each timed window. The processor's; a GPU's extends it.

    ``wait`` stands before a backend's windows and may last (a temperature gate); ``begin``
    and ``end`` stand right around one window and must not.
    """

    def facts(self) -> dict[str, Scalar]:
        """What is known of the device beside what the plan knows, for results.json."""
        return {}

    def workers(self, numbers: Sequence[int]) -> None:
        """The processes of ``numbers``, and what they start, may use the device from now on."""

    def wait(self) -> None:
        """Wait until the device is fit to be measured.

        Raises:
            MeasurementInvalid: where it does not become so in time.
        """

    def begin(self) -> None:
        """Note the state before a window.

        Raises:
            MeasurementInvalid: where it cannot be seen.
        """

    def end(self) -> tuple[dict[str, Scalar], tuple[str, ...]]:
        """Facts about the window, and every reason why its sample is not valid."""
        return {"load_1min": load()}, ()

    def close(self) -> None:
        """Stop watching. What was seen can still be asked for."""

    def files(self) -> dict[str, bytes]:
        """What the run folder keeps of it, by file name."""
        return {}
