"""Options held against a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artifact.bench.buildphase import BuildOptions
from artifact.bench.interpreters import choose
from artifact.bench.plan import Options, Plan, make_plan
from artifact.errors import ArtifactError, EnvironmentUnmet, ExitCode, UsageError
from artifact.integrity.documents import load_manifest


class NoGpu:
    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None:
        raise self.NVMLError("Driver Not Loaded")


class OneGpu(NoGpu):
    name = "Fake GPU"

    def nvmlInit(self) -> None:
        pass

    def nvmlShutdown(self) -> None:
        pass

    def nvmlSystemGetDriverVersion(self) -> str:
        return "1.0"

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        return self.name

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return "GPU-1"


def plan(root: Path, nvml: Any = None, **options: Any) -> Plan:
    return make_plan(Options(**options), root, load_manifest(root), nvml)


def test_what_is_left_out_comes_from_the_manifest(fake_tree: Path) -> None:
    made = plan(fake_tree)
    assert made.workload.name == "tiny"
    assert made.protocol.name == "quick"
    assert [backend.name for backend in made.backends] == ["alpha", "beta"]
    assert made.anchor == "alpha"
    assert made.marks == ()
    assert made.device.kind == "cpu"
    assert made.lock_name == "cpu"
    assert made.results_dir == fake_tree / "results"


def test_backends_keep_the_order_of_the_manifest(fake_tree: Path) -> None:
    made = plan(fake_tree, backends=("beta", "alpha"))
    assert [backend.name for backend in made.backends] == ["alpha", "beta"]
    assert plan(fake_tree, backends=("beta",)).anchor is None


def test_another_order_is_the_manifests_other_protocol(fake_tree: Path) -> None:
    made = plan(fake_tree, order="interleaved")
    assert (made.protocol.name, made.protocol.custom) == ("mixed", False)
    assert made.marks == ()


def test_a_changed_count_is_another_protocol(fake_tree: Path) -> None:
    usual = plan(fake_tree)
    custom = plan(fake_tree, repeat=5)
    assert (custom.protocol.name, custom.protocol.custom) == ("quick+custom", True)
    assert custom.protocol.digest() != usual.protocol.digest()
    assert custom.marks == ("CUSTOM PROTOCOL",)
    # The protocol's own count, said aloud, changes nothing.
    assert plan(fake_tree, repeat=2, rounds=3, warmup=1).protocol == usual.protocol


def test_a_workload_that_is_not_comparable_is_marked(fake_tree: Path) -> None:
    assert plan(fake_tree, workload="demo").marks == ("NOT COMPARABLE",)


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"workload": "x"}, "no such workload", "one of: tiny, demo, big"),
    ({"backends": ("x", "alpha")}, "no such backend", "some of: alpha, beta, gamma"),
    ({"backends": ()}, "no such backend", "some of: alpha, beta, gamma"),
    ({"backends": ("gamma",)}, "does not run the workload", "some of: alpha, beta"),
    ({"workload": "demo", "order": "interleaved"}, "no protocol of this order", "one of: paper"),
    ({"gpu": "0"}, "runs on the processor", ""),
    ({"interpreters": {"--python": Path("p")}}, "no environment", "one of: --ws-python"),
    ({"worker_env": ("gamma:X=1",)}, "not in this run", "one of: alpha, beta"),
    ({"rounds": 0}, "too small", "at least 1"),
    ({"warmup": -1}, "too small", "at least 0"),
]


@pytest.mark.parametrize(("options", "what", "allowed"), BAD, ids=[str(b[0]) for b in BAD])
def test_usage_errors_say_what_is_allowed(
    fake_tree: Path, options: dict[str, Any], what: str, allowed: str
) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        plan(fake_tree, **options)
    assert caught.value.exit_code == ExitCode.USAGE
    assert (caught.value.expected or "") == allowed


def test_no_gpu_is_said_with_what_can_be_done(fake_tree: Path) -> None:
    with pytest.raises(EnvironmentUnmet) as caught:
        plan(fake_tree, NoGpu(), workload="big")
    text = caught.value.render()
    assert "NVML through the distribution nvidia-ml-py" in text
    assert "Driver Not Loaded" in text
    assert "artifact run --workload tiny" in text
    assert "bash run.sh --workload tiny" in text


def test_a_gpu_of_another_kind_is_refused(fake_tree: Path) -> None:
    nvml = OneGpu()
    nvml.name = "Another GPU"
    with pytest.raises(EnvironmentUnmet, match="in no row of the manifest's target table"):
        plan(fake_tree, nvml, workload="big")


def test_no_backend_yet_is_said_after_the_device_was_found(fake_tree: Path) -> None:
    with pytest.raises(UsageError, match="lists no backend for the workload 'big' yet") as caught:
        plan(fake_tree, OneGpu(), workload="big")
    assert caught.value.next == "artifact run --workload tiny"


def gpu_manifest(root: Path) -> Any:
    manifest = load_manifest(root)
    alpha = manifest.backends[0].model_copy(
        update={"name": "omega", "device": "gpu", "workloads": ("big",)}
    )
    return manifest.model_copy(update={"backends": (*manifest.backends, alpha)})


def test_a_gpu_gives_its_target_and_its_parameters(fake_tree: Path) -> None:
    made = make_plan(Options(workload="big"), fake_tree, gpu_manifest(fake_tree), OneGpu())
    assert made.device.target == "fake-gpu"
    assert made.parameters == {"ctas": 8}
    assert made.lock_name == "GPU-1"


def test_native_backends_are_units_of_the_build(native_artifact: Path) -> None:
    made = plan(native_artifact, backends=("two",))
    (unit,) = made.units
    assert (unit.backend, unit.kernel.name, unit.symbol) == ("two", "two", "kernel_of_two")
    assert unit.nvcc_flags == ("-std=c++17", "-Xptxas", "-v", "-O2")
    assert unit.file(native_artifact) == native_artifact / "build/two"
    # A native backend runs in no interpreter.
    assert choose(made) == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"skip": True, "regenerate": True}, "contradict each other"),
        ({"choreo": Path("choreo")}, "nothing is to be generated"),
        ({"regenerate": True}, "made of a kernel"),
    ],
)
def test_options_of_the_build_that_do_not_go_together(
    fake_tree: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        plan(fake_tree, build=BuildOptions(**options))


def test_an_interpreter_that_was_not_named(fake_tree: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        choose(plan(fake_tree, workload="demo"))
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert "--ws-python PATH" in str(caught.value.expected)
    assert caught.value.where == "backends gamma"


@pytest.mark.parametrize("folder", [".", "workers", "new/folder", "results/../new", "resultsx"])
def test_a_run_cannot_become_part_of_the_pinned_tree(
    fake_tree: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(fake_tree)
    with pytest.raises(UsageError, match="part of the pinned tree"):
        plan(fake_tree, results_dir=Path(folder))
    with pytest.raises(UsageError, match="part of the pinned tree"):
        plan(fake_tree, results_dir=fake_tree / folder)


def test_where_runs_may_be_put(fake_tree: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, fake_tree / "results", fake_tree / "results/mine", fake_tree.parent):
        assert plan(fake_tree, results_dir=folder).results_dir == folder
