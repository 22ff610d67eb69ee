"""Finding the processor, and a GPU through a fake NVML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifact.bench import device
from artifact.bench.device import cpu_device, cpu_facts, cpu_name, find_gpu, machine, target_of
from artifact.errors import EnvironmentUnmet, ExitCode, UsageError
from artifact.model.workload import Target

Make = Callable[..., Any]


@pytest.fixture
def two(fake_nvml: Make, gpu_card: Make) -> Any:
    """A machine with cards of two models."""
    return fake_nvml(
        gpu_card(uuid="GPU-aaaa-1", name="NVIDIA H200", cores=132 * 128),
        gpu_card(uuid="GPU-aabb-2", name="NVIDIA H800 PCIe", cores=114 * 128),
        as_bytes=True,
    )


@pytest.fixture
def twins(fake_nvml: Make, gpu_card: Make) -> Any:
    """A machine with three cards of one model."""
    return fake_nvml(*(gpu_card(uuid=f"GPU-{letter}") for letter in "abc"))


@pytest.fixture
def split(fake_nvml: Make, gpu_card: Make, mig: Make) -> Any:
    """A machine whose only card is split in two."""
    return fake_nvml(gpu_card(instances=[mig("MIG-11", 2), mig("MIG-12", 6)]))


TARGETS = [
    Target(name="h200", title="H200", device_names=("NVIDIA H200",), sms=132),
    Target(name="fake", title="Fake", device_names=("Fake GPU",), sms=8),
]


def test_the_only_card_needs_no_choice(fake_nvml: Make, gpu_card: Make) -> None:
    nvml = fake_nvml(gpu_card())
    gpu = find_gpu(None, nvml)
    assert (gpu.name, gpu.uuid, gpu.index, gpu.driver, gpu.sms) == (
        "Fake GPU", "GPU-aaaa-1", 0, "590.48.01", 8,
    )  # fmt: skip
    assert nvml.running == 0
    assert gpu.device().kind == "gpu"
    assert (gpu.card, gpu.split) == (gpu.uuid, False)


@pytest.mark.parametrize(
    ("selector", "index"), [("0", 0), ("1", 1), ("GPU-aabb-2", 1), ("GPU-aaa", 0)]
)
def test_a_card_by_index_or_uuid(two: Any, selector: str, index: int) -> None:
    assert find_gpu(selector, two).index == index


@pytest.mark.parametrize("selector", ["2", "GPU-x", "GPU-", "GPU-aa", "-1", "", "h200", None])
def test_a_card_is_never_guessed(two: Any, selector: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        find_gpu(selector, two)
    assert caught.value.details == (
        "0: NVIDIA H200 (GPU-aaaa-1)",
        "1: NVIDIA H800 PCIe (GPU-aabb-2)",
    )


@pytest.mark.parametrize(
    ("broken", "what", "found"),
    [
        ("", "there is no NVIDIA GPU", "driver 590.48.01, no device"),
        ("Driver Not Loaded", "the NVIDIA driver does not answer", "Driver Not Loaded"),
    ],
)
def test_no_card(fake_nvml: Make, broken: str, what: str, found: str) -> None:
    with pytest.raises(EnvironmentUnmet) as caught:
        find_gpu("0", fake_nvml(broken=broken))
    assert (caught.value.what, caught.value.found) == (what, found)
    assert "nvidia-ml-py" in str(caught.value.expected)


def test_an_error_of_nvml_is_no_missing_fact(twins: Any) -> None:
    def lost(card: object) -> None:
        raise twins.NVMLError(15)

    twins.nvmlDeviceGetNumGpuCores = lost
    with pytest.raises(EnvironmentUnmet) as caught:
        find_gpu("0", twins)
    assert caught.value.found == "GPU is lost"
    assert twins.running == 0


# --- CUDA_VISIBLE_DEVICES


@pytest.mark.parametrize(
    ("visible", "selector", "uuid"),
    [
        ("2,0", "0", "GPU-c"),
        ("2,0", "1", "GPU-a"),
        ("2,0", "GPU-a", "GPU-a"),
        ("GPU-b,GPU-c", "0", "GPU-b"),
        (" GPU-b , 2", "1", "GPU-c"),
        ("1", None, "GPU-b"),
        ("1,-1,0", None, "GPU-b"),
    ],
)
def test_an_index_means_an_entry_of_the_list(
    twins: Any, visible: str, selector: str | None, uuid: str
) -> None:
    assert find_gpu(selector, twins, {"CUDA_VISIBLE_DEVICES": visible}).uuid == uuid


@pytest.mark.parametrize(
    ("visible", "selector", "said"),
    [
        ("2,0", "2", "not there"),
        ("2,0", "GPU-b", "outside of CUDA_VISIBLE_DEVICES"),
        ("2,0", None, "several GPUs"),
        ("0,-1,1", "1", "not there"),
        ("0,7", "0", "not a list of GPUs"),
        ("0,GPU-a", "0", "not a list of GPUs"),
        ("GPU-", "0", "not a list of GPUs"),
        ("NoDevFiles", "0", "not a list of GPUs"),
    ],
)
def test_what_the_list_leaves_out_is_refused(
    twins: Any, visible: str, selector: str | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        find_gpu(selector, twins, {"CUDA_VISIBLE_DEVICES": visible})
    assert caught.value.exit_code == ExitCode.USAGE


def test_the_list_is_shown_as_it_counts(twins: Any) -> None:
    with pytest.raises(UsageError) as caught:
        find_gpu("5", twins, {"CUDA_VISIBLE_DEVICES": "2,0"})
    assert caught.value.details == ("0: Fake GPU (GPU-c)", "1: Fake GPU (GPU-a)")


@pytest.mark.parametrize("visible", ["", "-1", " "])
def test_a_list_that_hides_all(twins: Any, visible: str) -> None:
    with pytest.raises(EnvironmentUnmet, match="hides every GPU"):
        find_gpu("0", twins, {"CUDA_VISIBLE_DEVICES": visible})


def test_numbers_on_a_machine_of_several_models_need_the_bus_order(two: Any) -> None:
    numbers = {"CUDA_VISIBLE_DEVICES": "1"}
    with pytest.raises(UsageError, match="not certain which GPU") as caught:
        find_gpu("0", two, numbers)
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in str(caught.value.expected)
    with pytest.raises(UsageError, match="not certain which GPU"):
        find_gpu("GPU-aabb-2", two, numbers)
    assert find_gpu("0", two, {**numbers, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).index == 1
    assert find_gpu("0", two, {"CUDA_VISIBLE_DEVICES": "GPU-aabb"}).index == 1


# --- MIG


@pytest.mark.parametrize("selector", ["0", None, "GPU-aaaa-1"])
def test_a_split_card_is_refused(split: Any, selector: str | None) -> None:
    gpu = find_gpu(selector, split)
    assert gpu.split
    with pytest.raises(EnvironmentUnmet, match="is split into MIG instances") as caught:
        target_of(gpu, TARGETS)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT


@pytest.mark.parametrize(
    ("selector", "visible"), [("MIG-11", None), ("0", "MIG-11,MIG-12"), (None, "MIG-11")]
)
def test_an_instance_is_refused_for_its_multiprocessors(
    split: Any, selector: str | None, visible: str | None
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    gpu = find_gpu(selector, split, environment)
    assert (gpu.uuid, gpu.card, gpu.name) == ("MIG-11", "GPU-aaaa-1", "Fake GPU")
    with pytest.raises(EnvironmentUnmet, match="another number of multiprocessors") as caught:
        target_of(gpu, TARGETS)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert caught.value.found == "2"
    assert "MIG instance" in str(caught.value.where)


def test_an_instance_of_unknown_size_is_refused(split: Any) -> None:
    def unsupported(instance: object) -> None:
        raise split.NVMLError(3)

    split.nvmlDeviceGetAttributes = unsupported
    with pytest.raises(EnvironmentUnmet, match="another number of multiprocessors") as caught:
        target_of(find_gpu("MIG-11", split), TARGETS)
    assert caught.value.found == "a number that NVML does not tell"


def test_instances_are_not_mixed_up(split: Any) -> None:
    with pytest.raises(UsageError, match="several GPUs fit") as caught:
        find_gpu("MIG-1", split)
    assert "0: a MIG instance of Fake GPU (MIG-12)" in caught.value.details


def test_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(device, "import_module", missing)
    with pytest.raises(EnvironmentUnmet) as caught:
        find_gpu("0")
    assert caught.value.found == "No module named 'pynvml'"


def test_a_card_in_no_row_of_the_table_is_refused(two: Any) -> None:
    assert target_of(find_gpu("0", two), TARGETS).name == "h200"
    with pytest.raises(EnvironmentUnmet, match="in no row") as caught:
        target_of(find_gpu("1", two), TARGETS)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert caught.value.found == "NVIDIA H800 PCIe"
    assert caught.value.expected == "NVIDIA H200, Fake GPU"


@pytest.mark.parametrize(("cores", "accepted"), [(8 * 128, True), (None, True), (7 * 128, False)])
def test_a_card_that_lacks_multiprocessors_is_refused(
    fake_nvml: Make, gpu_card: Make, cores: int | None, accepted: bool
) -> None:
    gpu = find_gpu("0", fake_nvml(gpu_card(cores=cores)))
    if accepted:
        assert target_of(gpu, TARGETS).name == "fake"
        return
    with pytest.raises(EnvironmentUnmet, match="another number of multiprocessors") as caught:
        target_of(gpu, TARGETS)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert (caught.value.expected, caught.value.found) == (
        "8 multiprocessors, as the target fake has", "7",
    )  # fmt: skip


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
