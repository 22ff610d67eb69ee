"""Finding the processor, and a GPU through a fake NVML."""

from __future__ import annotations

from pathlib import Path

import pytest

from artifact.bench import device
from artifact.bench.device import cpu_device, cpu_facts, cpu_name, find_gpu, machine, target_of
from artifact.errors import EnvironmentUnmet, UsageError
from artifact.model.workload import Target


class FakeNvml:
    """As much of ``pynvml`` as is used, with the cards that a test wants."""

    class NVMLError(Exception):
        pass

    def __init__(self, *cards: tuple[str, str], broken: str = "", as_bytes: bool = False) -> None:
        self.cards = cards
        self.broken = broken
        self.as_bytes = as_bytes
        self.running = 0

    def _text(self, text: str) -> str | bytes:
        return text.encode() if self.as_bytes else text

    def nvmlInit(self) -> None:
        if self.broken:
            raise self.NVMLError(self.broken)
        self.running += 1

    def nvmlShutdown(self) -> None:
        self.running -= 1

    def nvmlSystemGetDriverVersion(self) -> str | bytes:
        return self._text("590.48.01")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:
        return self._text(self.cards[handle][0])

    def nvmlDeviceGetUUID(self, handle: int) -> str | bytes:
        return self._text(self.cards[handle][1])


ONE = ("NVIDIA H200", "GPU-aaaa-1")
TWO = ("NVIDIA H800 PCIe", "GPU-aabb-2")


def test_the_only_card_needs_no_choice() -> None:
    nvml = FakeNvml(ONE)
    gpu = find_gpu(None, nvml)
    assert (gpu.name, gpu.uuid, gpu.index, gpu.driver) == (
        "NVIDIA H200",
        "GPU-aaaa-1",
        0,
        "590.48.01",
    )
    assert nvml.running == 0
    assert gpu.device().kind == "gpu"


@pytest.mark.parametrize(
    ("selector", "index"), [("0", 0), ("1", 1), ("GPU-aabb-2", 1), ("GPU-aaa", 0)]
)
def test_a_card_by_index_or_uuid(selector: str, index: int) -> None:
    assert find_gpu(selector, FakeNvml(ONE, TWO, as_bytes=True)).index == index


@pytest.mark.parametrize("selector", ["2", "GPU-x", "GPU-", "GPU-aa", "-1", "", "h200", None])
def test_a_card_is_never_guessed(selector: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        find_gpu(selector, FakeNvml(ONE, TWO))
    assert caught.value.details == (
        "0: NVIDIA H200 (GPU-aaaa-1)",
        "1: NVIDIA H800 PCIe (GPU-aabb-2)",
    )


@pytest.mark.parametrize(
    ("nvml", "what", "found"),
    [
        (FakeNvml(), "there is no NVIDIA GPU", "driver 590.48.01, no device"),
        (
            FakeNvml(broken="Driver Not Loaded"),
            "the NVIDIA driver does not answer",
            "Driver Not Loaded",
        ),
    ],
)
def test_no_card(nvml: FakeNvml, what: str, found: str) -> None:
    with pytest.raises(EnvironmentUnmet) as caught:
        find_gpu("0", nvml)
    assert (caught.value.what, caught.value.found) == (what, found)
    assert "nvidia-ml-py" in str(caught.value.expected)


def test_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(device, "import_module", missing)
    with pytest.raises(EnvironmentUnmet) as caught:
        find_gpu("0")
    assert caught.value.found == "No module named 'pynvml'"


def test_a_card_in_no_row_of_the_table_is_refused() -> None:
    targets = [
        Target(name="h200", title="H200", device_names=("NVIDIA H200",), sms=132),
        Target(name="other", title="Other", device_names=("Other GPU",), sms=1),
    ]
    assert target_of(find_gpu("0", FakeNvml(ONE)), targets).name == "h200"
    with pytest.raises(EnvironmentUnmet) as caught:
        target_of(find_gpu("0", FakeNvml(TWO)), targets)
    assert caught.value.found == "NVIDIA H800 PCIe"
    assert caught.value.expected == "NVIDIA H200, Other GPU"


def test_the_processor(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Some CPU\n")
    assert cpu_name(info) == "Some CPU @ 2 GHz"
    assert cpu_name(tmp_path / "nothing")
    assert cpu_device().kind == "cpu"
    assert machine().cores >= 1
    assert machine().memory_bytes


def test_facts_that_the_machine_does_not_tell_are_null(tmp_path: Path) -> None:
    assert cpu_facts(tmp_path)["governor"] is None
    governor = tmp_path / "cpu0/cpufreq/scaling_governor"
    governor.parent.mkdir(parents=True)
    governor.write_text("powersave\n")
    assert cpu_facts(tmp_path)["governor"] == "powersave"
