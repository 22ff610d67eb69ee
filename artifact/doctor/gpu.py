"""Checks of the GPU that a run would use, each from one reading of NVML."""

from __future__ import annotations

from typing import Any

from artifact.bench import visible
from artifact.bench.card import INVALID, command_name, first_namespace, reason_names
from artifact.bench.device import list_gpus, target_of
from artifact.build.toolchain import dependency
from artifact.doctor.base import GPU, Check, Subject, Verdict, from_error
from artifact.doctor.gpustate import GpuState
from artifact.errors import ArtifactError, EnvironmentUnmet
from artifact.model.build import TOOLKIT
from artifact.model.results import Scalar

_HIDDEN_BYTES = 2 << 30
"""More memory in use than a driver takes by itself (ECC and page tables of a large card
included): somebody who cannot be seen from here holds it."""


def device(subject: Subject, state: GpuState) -> Check:
    """The GPU that was found."""
    capability = state.facts.get("compute_capability")
    words = [f"{state.gpu.index}: {state.gpu.described}"]
    if capability is not None:
        words.append(f"compute capability {capability}")
    if state.gpu.sms is not None:
        words.append(f"{state.gpu.sms} SMs")
    return Check("gpu", "ok", ", ".join(words), scope=GPU)


def target(subject: Subject, state: GpuState) -> Check:
    """Whether the GPU is in a row of the target table, with the multiprocessors it names."""
    try:
        row = target_of(state.gpu, subject.manifest.targets)
    except EnvironmentUnmet as error:
        return from_error("target", error, "bad", GPU)
    if state.gpu.sms is None:
        found = f"{row.name}; how many SMs there are, NVML does not say"
        return Check("target", "warn", found, f"{row.sms} SMs", scope=GPU)
    return Check("target", "ok", f"{row.name}: {row.title}, {row.sms} SMs", scope=GPU)


def driver(subject: Subject, state: GpuState) -> Check:
    """Whether the driver runs what the pinned toolkit makes.

    A driver runs programs of every older toolkit, and of newer ones of its own major release
    where they hold machine code for the device (CUDA Compatibility, minor versions).
    """
    found = f"{state.gpu.driver}"
    if state.cuda is None:
        return Check("driver", "warn", f"{found}; it does not say for which CUDA", scope=GPU)
    found += f", for CUDA {state.cuda[0]}.{state.cuda[1]}"
    pin = dependency(subject.manifest, TOOLKIT)
    if pin is None or pin.version is None:
        return Check("driver", "ok", found, scope=GPU)
    major, minor = (int(part) for part in [*pin.version.split("."), "0"][:2])
    expected = f"a driver for CUDA {major}.{minor} or newer"
    mend = ("install a newer NVIDIA driver; nvidia-smi shows its CUDA version",)
    if state.cuda[0] < major:
        return Check("driver", "bad", found, expected, mend, GPU)
    if state.cuda < (major, minor):
        return Check("driver", "warn", found, expected, mend, GPU)
    return Check("driver", "ok", f"{found} (pinned toolkit {pin.version})", scope=GPU)


def modes(subject: Subject, state: GpuState) -> Check:
    """Compute mode, MIG, persistence and ECC."""
    index, facts = state.gpu.index, state.facts
    mode = facts.get("compute_mode")
    found = ", ".join(
        f"{name} {words}"
        for name, words in (
            ("compute mode", mode or "unknown"),
            ("MIG", _on(facts.get("mig"))),
            ("persistence", _on(facts.get("persistence"))),
            ("ECC", _on(facts.get("ecc"))),
        )
    )
    if mode not in (None, "default"):
        # The workers of a run stay alive, so that their samples can be interleaved.
        expected = "compute mode default: several workers hold the GPU at once"
        return Check(
            "modes", "bad", found, expected, (f"sudo nvidia-smi -i {index} -c DEFAULT",), GPU
        )
    if state.gpu.split:
        mend = (f"sudo nvidia-smi -i {index} -mig 0   (it stops what runs there)",)
        return Check("modes", "bad", found, "MIG off", mend, GPU)
    if facts.get("persistence") is False:
        expected = "persistence on: without it the driver lets the GPU go between programs"
        return Check("modes", "warn", found, expected, (f"sudo nvidia-smi -i {index} -pm 1",), GPU)
    return Check("modes", "ok", found, scope=GPU)


def _on(value: Scalar) -> str:
    return "unknown" if value is None else "on" if value else "off"


def clocks(subject: Subject, state: GpuState) -> Check:
    """The clocks now, and whether something slows them down.

    NVML has no question for locked clocks. A run records the clocks of every window, so what
    held is known afterwards; nothing here changes them.
    """
    now = state.now
    clock = "unknown" if now.sm_mhz is None else f"{now.sm_mhz} MHz"
    most = state.facts.get("sm_mhz_max")
    found = f"SM {clock}" + ("" if most is None else f" of {most}")
    if now.memory_mhz is not None:
        found += f", memory {now.memory_mhz} MHz"
    if now.reasons is None:
        return Check("clocks", "ok", f"{found}; what holds them, NVML does not say", scope=GPU)
    if not now.reasons & INVALID:
        return Check("clocks", "ok", f"{found}; held by: {reason_names(now.reasons)}", scope=GPU)
    mend = (
        f"nvidia-smi -i {state.gpu.index} -q -d PERFORMANCE,TEMPERATURE,POWER",
        "see to cooling and power: samples taken meanwhile are invalid",
    )
    slowed = f"{found}; slowed down by: {reason_names(now.reasons & INVALID)}"
    return Check("clocks", "bad", slowed, "no slowdown", mend, GPU)


def power(subject: Subject, state: GpuState) -> Check:
    """Whether the power limit is the board's default."""
    limit, default = (state.facts.get(f"power_limit{end}_w") for end in ("", "_default"))
    if limit is None:
        return Check("power limit", "ok", "the device does not say", scope=GPU)
    if default is None or limit == default:
        words = f"{limit:g} W" + (" (the default)" if default is not None else "")
        return Check("power limit", "ok", words, scope=GPU)
    mend = (f"sudo nvidia-smi -i {state.gpu.index} -pl {default:g}",)
    return Check("power limit", "warn", f"{limit:g} W", f"{default:g} W, the default", mend, GPU)


def temperature(subject: Subject, state: GpuState) -> Check:
    """The temperature now against the gate of the workload's protocols."""
    protocols = [subject.manifest.protocol(n) for n in subject.workload.protocols.values()]
    gates = [p for p in protocols if p is not None and p.max_temperature_c is not None]
    if state.now.temperature_c is None:
        verdict: Verdict = "bad" if gates else "ok"
        found = "the device has no sensor that can be read"
        expected = "a sensor: the protocol has a temperature gate" if gates else None
        return Check("temperature", verdict, found, expected, scope=GPU)
    found = f"{state.now.temperature_c} C"
    if not gates:
        return Check("temperature", "ok", f"{found} (no gate)", scope=GPU)
    gate = min(gates, key=lambda p: p.max_temperature_c or 0.0)
    limit = f"at most {gate.max_temperature_c:g} C"
    if state.now.temperature_c <= (gate.max_temperature_c or 0.0):
        return Check("temperature", "ok", f"{found} (gate: {limit})", scope=GPU)
    mend = (f"let it cool down; a run waits up to {gate.max_wait_s:g} s before each backend",)
    return Check("temperature", "warn", found, limit, mend, GPU)


def processes(subject: Subject, state: GpuState) -> Check:
    """Whether somebody else works on the GPU."""
    running = state.now.processes
    if running:
        # The driver's numbers are those of the machine, not those of a container.
        names = {pid: command_name(pid) if first_namespace() else None for pid in sorted(running)}
        listed = ", ".join(f"{pid} {name or '(name unknown)'}" for pid, name in names.items())
        mend: tuple[str, ...] = (
            f"nvidia-smi -i {state.gpu.index}",
            "wait until they have ended, or stop what is yours",
        )
        return Check("processes", "bad", listed, "none beside a run's own workers", mend, GPU)
    if running is None:
        found = "the driver does not say who uses the GPU"
        return Check("processes", "warn", found, "a list", scope=GPU)
    if state.memory_used is not None and state.memory_used > _HIDDEN_BYTES:
        found = f"none to be seen, but {state.memory_used / 2**30:.1f} GiB are in use"
        mend = (f"nvidia-smi -i {state.gpu.index}   (outside of this container)",)
        return Check("processes", "warn", found, "an idle GPU", mend, GPU)
    return Check("processes", "ok", "none", scope=GPU)


def visible_devices(subject: Subject, nvml: Any) -> Check:
    """What CUDA_VISIBLE_DEVICES of the caller's shell means for a run."""
    name, value = visible.LIST, subject.environ.get(visible.LIST)
    if value is None:
        found = "not set: --gpu N counts the GPUs as nvidia-smi does"
        return Check(name, "ok", found, scope=GPU)
    try:
        gpus = visible.devices(list_gpus(nvml), subject.environ)
    except ArtifactError as error:
        return from_error(name, error, "bad", GPU)
    meaning = ", ".join(f"--gpu {entry} is {gpu.described}" for entry, gpu in enumerate(gpus))
    return Check(name, "ok", f"{value}: {meaning}", scope=GPU)


CHECKS = (device, target, driver, modes, clocks, power, temperature, processes)


def absent(reason: Check) -> tuple[Check, ...]:
    """Every check of this module for a machine whose GPU cannot be asked.

    Args:
        reason: The check that says why.
    """
    names = ("target", "driver", "modes", "clocks", "power limit", "temperature", "processes")
    return (reason, *(Check(name, "absent", "no GPU to ask", scope=GPU) for name in names))
