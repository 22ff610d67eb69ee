"""A fake NVML with one GPU, and a subject to look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from artifact.doctor.base import Options, Subject
from artifact.integrity.documents import load_manifest


class NvmlError(Exception):
    def __init__(self, value: int, text: str = "Not Supported") -> None:
        super().__init__(text)
        self.value = value


NOT_SUPPORTED = 3


class FakeNvml:
    """As much of ``pynvml`` as is used. ``answers`` replaces what a function returns; an
    exception among them is raised."""

    NVMLError = NvmlError

    def __init__(self, **answers: Any) -> None:
        self.open = 0
        self.answers = {
            "nvmlSystemGetDriverVersion": "590.48.01",
            "nvmlSystemGetCudaDriverVersion_v2": 13010,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "card",
            "nvmlDeviceGetHandleByUUID": "card",
            "nvmlDeviceGetName": "Fake GPU",
            "nvmlDeviceGetUUID": "GPU-1234",
            "nvmlDeviceGetMigMode": (0, 0),
            "nvmlDeviceGetNumGpuCores": 8 * 128,
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80 << 30, used=500 << 20),
            "nvmlDeviceGetEccMode": (1, 1),
            "nvmlDeviceGetPersistenceMode": 1,
            "nvmlDeviceGetComputeMode": 0,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
            "nvmlDeviceGetPowerUsage": 80_000,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x1,
            "nvmlDeviceGetTemperature": 40,
            "nvmlDeviceGetComputeRunningProcesses": [],
            **answers,
        }

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def answer(*arguments: Any) -> Any:
            assert self.open > 0, f"{name} outside of nvmlInit and nvmlShutdown"
            found = self.answers.get(name, NvmlError(NOT_SUPPORTED))
            if isinstance(found, Exception):
                raise found
            return found

        return answer


@pytest.fixture
def make_nvml() -> type[FakeNvml]:
    return FakeNvml


@pytest.fixture
def subject(fake_artifact: Path) -> Callable[..., Subject]:
    """Makes a subject: options by name, and ``environ``; the workload by name."""

    def make(workload: str = "tiny", environ: dict[str, str] | None = None, **options: Any):
        manifest = load_manifest(fake_artifact)
        found = manifest.workload(workload)
        assert found is not None
        values = {"PATH": "/usr/bin:/bin"} if environ is None else environ
        return Subject(fake_artifact, manifest, found, Options(workload, **options), values)

    return make
