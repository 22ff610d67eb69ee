"""What a card says of itself, and who is below whom."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifact.bench.card import Card, command_name, descendants, first_namespace, reason_names
from artifact.bench.device import list_gpus
from artifact.errors import EnvironmentUnmet

Make = Callable[..., Any]


def test_facts_name_the_card_by_a_digest_alone(fake_nvml: Make, gpu_card: Make) -> None:
    nvml = fake_nvml(gpu_card(), as_bytes=True)
    (gpu,) = list_gpus(nvml)
    card = Card(gpu, nvml)
    facts = card.facts()
    card.close()
    assert nvml.running == 0
    assert gpu.uuid not in str(facts)
    assert len(str(facts["uuid_blake3"])) == 16
    assert facts | {
        "driver": "590.48.01", "vbios": "96.00.A5.00.01", "sms": 8, "ecc": True, "mig": False,
        "persistence": True, "compute_mode": "default", "power_limit_w": 700.0,
        "compute_capability": "9.0", "memory_bytes": 150_000_000_000,
    } == facts  # fmt: skip
    # The fake knows no such function, as an old driver would not.
    assert facts["pcie_width"] is None


def test_a_name_of_an_older_driver(fake_nvml: Make, gpu_card: Make) -> None:
    nvml = fake_nvml(gpu_card(), without=("nvmlDeviceGetCurrentClocksEventReasons",))
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda card: 0x40
    card = Card(list_gpus(nvml)[0], nvml)
    assert card.reading().reasons == 0x40


def test_what_was_told_once_must_go_on_being_told(fake_nvml: Make, gpu_card: Make) -> None:
    def unknown(*arguments: object) -> None:
        raise nvml.NVMLError(999, "Unknown Error")

    nvml = fake_nvml(gpu_card())
    nvml.nvmlDeviceGetEccMode = nvml.nvmlDeviceGetComputeRunningProcesses = unknown
    card = Card(list_gpus(nvml)[0], nvml)
    assert card.facts()["ecc"] is None
    assert card.reading(processes=True).processes is None
    nvml.nvmlDeviceGetTemperature = unknown
    with pytest.raises(nvml.NVMLError, match="Unknown Error"):
        card.reading()


def test_a_card_that_is_gone(fake_nvml: Make, gpu_card: Make) -> None:
    nvml = fake_nvml(gpu_card())
    (gpu,) = list_gpus(nvml)
    nvml.cards[0].uuid = "GPU-other"
    with pytest.raises(EnvironmentUnmet, match="cannot be watched") as caught:
        Card(gpu, nvml)
    assert caught.value.found == "Not Found"
    assert nvml.running == 0


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0, "none"),
        (0x4, "software power cap"),
        (0x48, "hardware slowdown, hardware thermal slowdown"),
        (0x201, "gpu idle, 0x200"),
    ],
)
def test_reasons_have_names(mask: int, names: str) -> None:
    assert reason_names(mask) == names


def test_descendants() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        try:
            while len(found := descendants(frozenset({child.pid}))) < 2:
                assert child.poll() is None
            assert child.pid in found
            assert os.getpid() not in found
            assert found < descendants(frozenset({os.getpid()}))
        finally:
            child.communicate(b"\n")


def test_a_name_with_brackets_hides_no_parent(tmp_path: Path) -> None:
    for pid, name, parent in ((7, "a) R 1 (b", 1), (8, "x", 7), (9, "y", 1)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 0 0")
    (tmp_path / "10").mkdir()
    (tmp_path / "self").mkdir()
    assert descendants(frozenset({7}), tmp_path) == {7, 8}


def test_namespaces_and_names(tmp_path: Path) -> None:
    link = tmp_path / "pid"
    link.symlink_to("pid:[4026531836]")
    assert first_namespace(link)
    link.unlink()
    link.symlink_to("pid:[4026532222]")
    assert not first_namespace(link)
    assert not first_namespace(tmp_path / "nothing")
    assert command_name(os.getpid())
    assert command_name(-1) is None
