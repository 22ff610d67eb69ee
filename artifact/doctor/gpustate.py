"""What NVML says of one GPU at this moment, asked once and kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from artifact.bench.card import Card, Reading
from artifact.bench.device import Gpu, ask, find_gpu
from artifact.errors import EnvironmentUnmet
from artifact.model.results import Scalar


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU; what the device or the driver does not say is null."""

    gpu: Gpu
    facts: Mapping[str, Scalar]
    """As a run records them (:meth:`artifact.bench.card.Card.facts`)."""
    now: Reading
    cuda: tuple[int, int] | None
    """The newest CUDA release that the driver runs."""
    memory_used: int | None
    """Bytes."""


def read_gpu(selector: str | None, environ: Mapping[str, str], nvml: Any) -> GpuState:
    """The state of the GPU that ``selector`` names.

    Args:
        selector: As for :func:`artifact.bench.device.find_gpu`.
        environ: The caller's environment.
        nvml: The module ``pynvml``, or what stands for it.

    Raises:
        EnvironmentUnmet: where there is no GPU, or NVML fails.
        UsageError: where the selector fits none or several.
    """
    gpu = find_gpu(selector, nvml, environ)
    card = Card(gpu, nvml)
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(gpu.card)
        memory = ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
        cuda = ask(nvml, "nvmlSystemGetCudaDriverVersion_v2")
        return GpuState(
            gpu=gpu,
            facts=card.facts(),
            now=card.reading(processes=True),
            cuda=None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
            memory_used=None if memory is None else int(memory.used),
        )
    except nvml.NVMLError as error:
        raise EnvironmentUnmet(
            "NVML fails",
            where=f"GPU {gpu.index}, {gpu.name}",
            found=str(error),
            cause="the GPU fell off the bus, or the driver broke down",
            next="nvidia-smi; sudo dmesg | grep -i xid",
        ) from error
    finally:
        card.close()
