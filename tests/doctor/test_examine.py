"""All checks together: what a workload needs, and what follows for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from artifact.build.regenerate import stamp
from artifact.doctor import contents
from artifact.doctor.base import Options
from artifact.doctor.examine import Diagnosis, examine
from artifact.errors import UsageError
from artifact.integrity.documents import load_manifest
from artifact.integrity.lockfile import write_lock


@pytest.fixture(autouse=True)
def no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def diagnose(root: Path, nvml: Any, **options: Any) -> Diagnosis:
    return examine(Options(**options), root, load_manifest(root), nvml)


def verdicts(diagnosis: Diagnosis) -> dict[str, str]:
    return {check.name: check.verdict for check in diagnosis.checks}


def with_gpu_backend(root: Path, kind: str = "python") -> None:
    """Let the workload ``big`` have a backend."""
    path = root / "manifests/artifact.toml"
    backend = (
        f'[[backends]]\nname = "delta"\ntitle = "Delta"\nkind = "{kind}"\ndevice = "gpu"\n'
        'worker = "workers/fake.py"\nworkloads = ["big"]\n\n[[targets]]'
    )
    path.write_text(path.read_text().replace("[[targets]]", backend))
    write_lock(root)


def test_a_workload_for_the_processor_needs_no_gpu(fake_artifact: Path, make_nvml: Any) -> None:
    diagnosis = diagnose(fake_artifact, make_nvml(nvmlDeviceGetCount=0))
    found = verdicts(diagnosis)
    assert found["gpu"] == found["target"] == found["processes"] == "absent"
    assert diagnosis.ready
    # "demo" needs an interpreter that nobody named, "big" has no backends.
    assert [workload.name for workload in diagnosis.runnable] == ["tiny"]


def test_a_workload_for_the_gpu_without_one(fake_artifact: Path, make_nvml: Any) -> None:
    with_gpu_backend(fake_artifact)
    diagnosis = diagnose(fake_artifact, make_nvml(nvmlDeviceGetCount=0), workload="big")
    assert not diagnosis.ready
    failing = [c for c in diagnosis.failing(diagnosis.subject.workload) if c.mend]
    assert [check.name for check in failing] == ["gpu"]
    assert "nvidia-smi -L" in failing[0].mend[0]
    assert [workload.name for workload in diagnosis.runnable] == ["tiny"]


def test_a_workload_for_the_gpu_with_one(fake_artifact: Path, make_nvml: Any) -> None:
    with_gpu_backend(fake_artifact)
    diagnosis = diagnose(fake_artifact, make_nvml(), workload="big")
    assert diagnosis.ready
    assert verdicts(diagnosis)["CUDA_VISIBLE_DEVICES"] == "ok"
    assert [workload.name for workload in diagnosis.runnable] == ["tiny", "big"]


def test_a_workload_without_backends_keeps_no_other_from_running(
    fake_artifact: Path, make_nvml: Any
) -> None:
    diagnosis = diagnose(fake_artifact, make_nvml(), workload="big")
    assert [c.name for c in diagnosis.failing(diagnosis.subject.workload)] == ["workload"]
    assert [workload.name for workload in diagnosis.runnable] == ["tiny"]


def test_several_gpus_and_none_chosen(fake_artifact: Path, make_nvml: Any) -> None:
    with_gpu_backend(fake_artifact)
    diagnosis = diagnose(fake_artifact, make_nvml(), workload="big", gpu="5")
    assert verdicts(diagnosis)["gpu"] == "bad"
    assert not diagnosis.ready


def test_native_backends_need_a_compiler(
    fake_artifact: Path, make_nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    # The toolkit's wheels may be installed beside the tests.
    monkeypatch.setattr("artifact.build.toolchain.packaged", lambda *a: None)
    with_gpu_backend(fake_artifact)
    named = {"workload": "big", "nvcc": Path("/nowhere/nvcc")}
    assert diagnose(fake_artifact, make_nvml(), **named).ready
    path = fake_artifact / "manifests/artifact.toml"
    path.write_text(
        path.read_text()
        .replace('kind = "python"\ndevice = "gpu"', 'kind = "native"\ndevice = "gpu"')
        .replace(
            'worker = "workers/fake.py"\nworkloads = ["big"]',
            'worker = "k.cu"\nworkloads = ["big"]\nkernel = "k"\n\n'
            '[[kernels]]\nname = "k"\nsource = "k.co"\ngenerated = "k.cu"',
        )
    )
    (fake_artifact / "k.co").write_text("k\n")
    digest = blake3(b"k\n").hexdigest()
    (fake_artifact / "k.cu").write_bytes(stamp("k.co", digest, "compiler 1", ()))
    write_lock(fake_artifact)
    diagnosis = diagnose(fake_artifact, make_nvml(), **named)
    failing = {check.name for check in diagnosis.failing(diagnosis.subject.workload)}
    assert failing >= {"nvcc", "compilation", "disassemblers"}


def test_an_environment_that_is_needed(fake_artifact: Path, make_nvml: Any) -> None:
    unnamed = diagnose(fake_artifact, make_nvml(), workload="demo")
    assert verdicts(unnamed)["environment other"] == "absent"
    assert not unnamed.ready
    named = {"workload": "demo", "interpreters": {"--ws-python": Path(sys.executable)}}
    differs = diagnose(fake_artifact, make_nvml(), **named)
    (check,) = [check for check in differs.checks if check.name == "environment other"]
    assert check.verdict == "bad" and "differences" in check.found
    assert check.mend[0].startswith("artifact env check other --python")
    assert not differs.ready
    assert diagnose(fake_artifact, make_nvml(), unlocked_env=True, **named).ready
    by_name = diagnose(
        fake_artifact, make_nvml(), workload="demo", named=(f"other={sys.executable}",)
    )
    assert [c for c in by_name.checks if c.name == "environment other"] == [check]
    missing = {"--ws-python": fake_artifact / "none"}
    gone = diagnose(fake_artifact, make_nvml(), workload="demo", interpreters=missing)
    assert verdicts(gone)["environment other"] == "bad"


def test_an_environment_that_was_made_is_named(fake_artifact: Path, make_nvml: Any) -> None:
    made = fake_artifact / "build/envs/other/bin/python"
    made.parent.mkdir(parents=True)
    made.touch()
    diagnosis = diagnose(fake_artifact, make_nvml())
    (check,) = [check for check in diagnosis.checks if check.name == "environment other"]
    assert check.mend == (f"artifact doctor --ws-python {made}",)


def test_a_check_that_cannot_be_made_leaves_the_others(
    fake_artifact: Path, make_nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_folders(subject: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/results")

    monkeypatch.setattr(contents, "run_folders", run_folders)
    diagnosis = diagnose(fake_artifact, make_nvml())
    (check,) = [check for check in diagnosis.checks if check.name == "run folders"]
    assert (check.verdict, check.found) == ("bad", "/results: Permission denied")
    # Nobody needs it to run.
    assert diagnosis.ready


def test_names_that_the_manifest_does_not_have(fake_artifact: Path) -> None:
    with pytest.raises(UsageError, match="no such workload"):
        diagnose(fake_artifact, None, workload="none")
    with pytest.raises(UsageError, match="takes its interpreter") as caught:
        diagnose(fake_artifact, None, interpreters={"--python": Path("p")})
    assert caught.value.expected == "one of: --ws-python"
    with pytest.raises(UsageError, match="no such environment"):
        diagnose(fake_artifact, None, named=("none=p",))


def test_the_document(fake_artifact: Path, make_nvml: Any) -> None:
    document = diagnose(fake_artifact, make_nvml(nvmlDeviceGetCount=0)).as_json()
    assert (document["workload"], document["ready"], document["runnable"]) == (
        "tiny",
        True,
        ["tiny"],
    )
    by_name = {check["name"]: check for check in document["checks"]}
    assert len(by_name) == len(document["checks"])
    assert by_name["tree"]["needed"] and not by_name["gpu"]["needed"]
    assert by_name["gpu"]["mend"]
