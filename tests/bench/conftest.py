"""A fake NVML: as much of ``pynvml`` as is used, with the cards and the story a test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND, LOST = 3, 6, 13, 15


_TEXTS = {3: "Not Supported", 6: "Not Found", 15: "GPU is lost"}


class NVMLError(Exception):
    """As pynvml's: it has the code of nvml.h."""

    def __init__(self, value: int, text: str = "") -> None:
        super().__init__(text or _TEXTS[value])
        self.value = value


@dataclass
class FakeInstance:
    uuid: str
    sms: int


@dataclass
class FakeCard:
    """One card. Lists are scripts: an item a question, the last one for ever."""

    uuid: str = "GPU-aaaa-1"
    name: str = "Fake GPU"
    cores: int | None = 8 * 128
    capability: tuple[int, int] = (9, 0)
    instances: list[FakeInstance] | None = None
    """Not None: MIG mode is on."""
    temperatures: list[int] = field(default_factory=lambda: [40])
    reasons: list[int] = field(default_factory=lambda: [0x4])
    processes: Callable[[], list[int]] | None = list
    """None: not supported."""
    lost_after: int | None = None
    """Readings of the power until the GPU is lost."""
    hangs_after: int | None = None


class FakeNvml:
    """Stands for the module."""

    NVMLError = NVMLError

    def __init__(
        self, *cards: FakeCard, broken: str = "", as_bytes: bool = False, without: tuple = ()
    ) -> None:
        self.cards = list(cards)
        self.broken = broken
        self.as_bytes = as_bytes
        self.running = 0
        self.readings = 0
        self.release = threading.Event()
        for name in without:
            setattr(self, name, self._no_function)

    @staticmethod
    def _no_function(*arguments: Any) -> None:
        raise NVMLError(FUNCTION_NOT_FOUND, "Function Not Found")

    def _text(self, text: str) -> str | bytes:
        return text.encode() if self.as_bytes else text

    def nvmlInit(self) -> None:
        if self.broken:
            raise NVMLError(9, self.broken)
        self.running += 1

    def nvmlShutdown(self) -> None:
        assert self.running > 0
        self.running -= 1

    def nvmlSystemGetDriverVersion(self) -> str | bytes:
        return self._text("590.48.01")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        assert self.running > 0
        for card in self.cards:
            if card.uuid == uuid:
                return card
        raise NVMLError(NOT_FOUND)

    def nvmlDeviceGetName(self, handle: Any) -> str | bytes:
        return self._text(handle.name)

    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes:
        return self._text(handle.uuid)

    def nvmlDeviceGetMigMode(self, card: FakeCard) -> list[int]:
        return [1, 1] if card.instances is not None else [0, 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, card: FakeCard) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: FakeCard, index: int) -> FakeInstance:
        assert card.instances is not None
        if index >= len(card.instances):
            raise NVMLError(NOT_FOUND)
        return card.instances[index]

    def nvmlDeviceGetAttributes(self, instance: FakeInstance) -> Any:
        return SimpleNamespace(multiprocessorCount=instance.sms)

    def nvmlDeviceGetNumGpuCores(self, card: FakeCard) -> int:
        if card.cores is None:
            raise NVMLError(NOT_SUPPORTED)
        return card.cores

    def nvmlDeviceGetCudaComputeCapability(self, card: FakeCard) -> tuple[int, int]:
        return card.capability

    def nvmlDeviceGetPowerUsage(self, card: FakeCard) -> int:
        assert self.running > 0
        self.readings += 1
        if card.lost_after is not None and self.readings > card.lost_after:
            raise NVMLError(LOST)
        if card.hangs_after is not None and self.readings > card.hangs_after:
            self.release.wait(20)
        return 650_000

    def nvmlDeviceGetClockInfo(self, card: FakeCard, which: int) -> int:
        return {1: 1980, 2: 3201}[which]

    def nvmlDeviceGetTemperature(self, card: FakeCard, sensor: int) -> int:
        if not card.temperatures:
            raise NVMLError(NOT_SUPPORTED)
        return _next(card.temperatures)

    def nvmlDeviceGetCurrentClocksEventReasons(self, card: FakeCard) -> int:
        if not card.reasons:
            raise NVMLError(NOT_SUPPORTED)
        return _next(card.reasons)

    def nvmlDeviceGetComputeRunningProcesses(self, card: FakeCard) -> list[Any]:
        if card.processes is None:
            raise NVMLError(NOT_SUPPORTED)
        return [SimpleNamespace(pid=pid) for pid in card.processes()]

    def nvmlDeviceGetVbiosVersion(self, card: FakeCard) -> str | bytes:
        return self._text("96.00.A5.00.01")

    def nvmlDeviceGetEccMode(self, card: FakeCard) -> list[int]:
        return [1, 1]

    def nvmlDeviceGetPersistenceMode(self, card: FakeCard) -> int:
        return 1

    def nvmlDeviceGetComputeMode(self, card: FakeCard) -> int:
        return 0

    def nvmlDeviceGetMemoryInfo(self, card: FakeCard) -> Any:
        return SimpleNamespace(total=150 * 10**9)

    def nvmlDeviceGetEnforcedPowerLimit(self, card: FakeCard) -> int:
        return 700_000


def _next(script: list[int]) -> int:
    return script.pop(0) if len(script) > 1 else script[0]


@pytest.fixture
def gpu_card() -> Callable[..., FakeCard]:
    """Makes a card; what is not said of it is harmless."""
    return lambda **changes: replace(FakeCard(), **changes)


@pytest.fixture
def mig() -> Callable[[str, int], FakeInstance]:
    """Makes a MIG instance from its UUID and multiprocessors."""
    return FakeInstance


@pytest.fixture
def fake_nvml() -> Callable[..., FakeNvml]:
    """Makes a fake of the module ``pynvml`` from cards."""
    return FakeNvml


@pytest.fixture
def no_watch_left() -> Any:
    """No thread of a watch may outlive a test."""
    yield
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not [t for t in threading.enumerate() if t.name == "gpu-watch"]:
            return
        time.sleep(0.01)
    raise AssertionError("a watch still runs")
