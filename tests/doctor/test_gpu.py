"""Checks of a GPU, through a fake NVML."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from artifact.doctor import gpu
from artifact.doctor.base import Check, Subject
from artifact.doctor.gpustate import read_gpu
from artifact.errors import EnvironmentUnmet, UsageError
from artifact.model.backend import Dependency

Make = Callable[..., Subject]


def look(check: Callable[..., Check], subject: Subject, nvml: Any) -> Check:
    found = check(subject, read_gpu(None, {}, nvml))
    assert nvml.open == 0
    return found


def test_a_gpu_in_good_order_passes_every_check(subject: Make, make_nvml: Any) -> None:
    checks = [look(check, subject("big"), make_nvml()) for check in gpu.CHECKS]
    assert {check.name: (check.verdict, check.mend) for check in checks} == dict.fromkeys(
        ("gpu", "target", "driver", "modes", "clocks", "power limit", "temperature", "processes"),
        ("ok", ()),
    )
    assert checks[0].found == "0: Fake GPU (GPU-1234), compute capability 9.0, 8 SMs"
    assert checks[1].found == "fake-gpu: A fake GPU, 8 SMs"
    assert checks[4].found == "SM 1980 MHz of 1980, memory 1980 MHz; held by: gpu idle"


@pytest.mark.parametrize(
    ("check", "answers", "verdict", "found", "mend"),
    [
        (gpu.target, {"nvmlDeviceGetName": "Other"}, "bad", "Other", "--gpu"),
        (gpu.target, {"nvmlDeviceGetNumGpuCores": 7 * 128}, "bad", ": 7", "--gpu"),
        (gpu.modes, {"nvmlDeviceGetComputeMode": 3}, "bad", "exclusive process", "-c DEFAULT"),
        (gpu.modes, {"nvmlDeviceGetMigMode": (1, 1)}, "bad", "MIG on", "-i 0 -mig 0"),
        (gpu.modes, {"nvmlDeviceGetPersistenceMode": 0}, "warn", "persistence off", "-i 0 -pm 1"),
        (gpu.clocks, {"nvmlDeviceGetCurrentClocksEventReasons": 0x44}, "bad",
         "slowed down by: hardware thermal slowdown", "nvidia-smi -i 0 -q"),
        (gpu.power, {"nvmlDeviceGetEnforcedPowerLimit": 350_000}, "warn", "350 W", "-i 0 -pl 700"),
        (gpu.processes, {"nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=4194305)]},
         "bad", "4194305 (name unknown)", "nvidia-smi -i 0"),
        (gpu.processes,
         {"nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80 << 30, used=20 << 30)},
         "warn", "20.0 GiB are in use", "outside of this container"),
    ],
)  # fmt: skip
def test_what_is_wrong_names_its_mend(
    subject: Make, make_nvml: Any, check: Any, answers: Any, verdict: str, found: str, mend: str
) -> None:
    result = look(check, subject("big"), make_nvml(**answers))
    assert result.verdict == verdict
    assert found in result.found
    assert result.expected
    assert any(mend in line for line in result.mend)


def test_what_a_device_does_not_say_is_not_made_up(subject: Make, make_nvml: Any) -> None:
    silent = dict.fromkeys(
        (
            "nvmlDeviceGetNumGpuCores",
            "nvmlDeviceGetComputeMode",
            "nvmlDeviceGetPersistenceMode",
            "nvmlDeviceGetEnforcedPowerLimit",
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetTemperature",
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlSystemGetCudaDriverVersion_v2",
        ),
        make_nvml.NVMLError(3),
    )
    found = {c.name: c for c in (look(k, subject("big"), make_nvml(**silent)) for k in gpu.CHECKS)}
    assert {name: check.verdict for name, check in found.items()} == {
        "gpu": "ok",
        "target": "warn",
        "driver": "warn",
        "modes": "ok",
        "clocks": "ok",
        "power limit": "ok",
        "temperature": "ok",
        "processes": "warn",
    }
    assert "SMs" not in found["gpu"].found
    assert found["modes"].found.startswith("compute mode unknown")


def with_gate(subject: Subject, limit: float) -> Subject:
    from dataclasses import replace

    protocols = tuple(
        p.model_copy(update={"max_temperature_c": limit, "max_wait_s": 9.0})
        for p in subject.manifest.protocols
    )
    return replace(subject, manifest=subject.manifest.model_copy(update={"protocols": protocols}))


def test_the_temperature_gate(subject: Make, make_nvml: Any) -> None:
    gated = with_gate(subject("big"), 40.0)
    assert look(gpu.temperature, gated, make_nvml()).verdict == "ok"
    warm = look(gpu.temperature, gated, make_nvml(nvmlDeviceGetTemperature=41))
    assert (warm.verdict, warm.found, warm.expected) == ("warn", "41 C", "at most 40 C")
    assert "up to 9 s" in warm.mend[0]
    blind = make_nvml(nvmlDeviceGetTemperature=make_nvml.NVMLError(3))
    assert look(gpu.temperature, gated, blind).verdict == "bad"


@pytest.mark.parametrize(
    ("cuda", "verdict"), [(12080, "bad"), (13000, "warn"), (13010, "ok"), (14000, "ok")]
)
def test_the_driver_against_the_pinned_toolkit(
    subject: Make, make_nvml: Any, cuda: int, verdict: str
) -> None:
    from dataclasses import replace

    big = subject("big")
    pin = Dependency(name="CUDA Toolkit", version="13.1.88", role="compiles")
    pinned = replace(big, manifest=big.manifest.model_copy(update={"dependencies": (pin,)}))
    nvml = make_nvml(nvmlSystemGetCudaDriverVersion_v2=cuda)
    assert look(gpu.driver, pinned, nvml).verdict == verdict


def test_a_list_of_visible_devices_is_explained(subject: Make, make_nvml: Any) -> None:
    unset = gpu.visible_devices(subject("big"), make_nvml())
    assert (unset.verdict, unset.found[:7]) == ("ok", "not set")
    one = gpu.visible_devices(subject("big", {"CUDA_VISIBLE_DEVICES": "GPU-12"}), make_nvml())
    assert one.found == "GPU-12: --gpu 0 is Fake GPU (GPU-1234)"
    wrong = gpu.visible_devices(subject("big", {"CUDA_VISIBLE_DEVICES": "7"}), make_nvml())
    assert wrong.verdict == "bad"
    assert wrong.mend == ("unset CUDA_VISIBLE_DEVICES, or correct it",)


def test_no_gpu_and_the_wrong_gpu(make_nvml: Any) -> None:
    with pytest.raises(EnvironmentUnmet):
        read_gpu(None, {}, make_nvml(nvmlDeviceGetCount=0))
    with pytest.raises(UsageError):
        read_gpu("3", {}, make_nvml())


def test_a_gpu_that_is_lost_while_it_is_asked(make_nvml: Any) -> None:
    lost = make_nvml(nvmlDeviceGetTemperature=make_nvml.NVMLError(15, "GPU is lost"))
    with pytest.raises(EnvironmentUnmet) as caught:
        read_gpu(None, {}, lost)
    assert caught.value.found == "GPU is lost"
    assert lost.open == 0
