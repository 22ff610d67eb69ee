"""Whole runs on a GPU that is a fake NVML, with fake workers."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifact.bench import caches, runner, starting
from artifact.bench.check import verify_run
from artifact.bench.plan import Options
from artifact.bench.progress import Progress
from artifact.errors import (
    ArtifactError,
    EnvironmentUnmet,
    ExitCode,
    MeasurementInvalid,
    UsageError,
)
from artifact.integrity.documents import load_manifest
from artifact.model.load import check_schema
from artifact.report.text import summary_table

Make = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("no_watch_left")

PROTOCOL = """
[[protocols]]
name = "events"
clock = "host-monotonic"
order = "paper"
warmup = 1
repeat = 2
rounds = 3
max_temperature_c = 65.0
max_wait_s = 0.3
worker_timeout_s = 20.0

[[protocols]]
name = "mixed-events"
clock = "host-monotonic"
order = "interleaved"
warmup = 1
repeat = 2
rounds = 3
max_temperature_c = 65.0
max_wait_s = 0.3
worker_timeout_s = 20.0
"""

BACKEND = """
[[backends]]
name = "{name}"
title = "{name}"
kind = "python"
device = "gpu"
worker = "workers/fake.py"
workloads = ["big"]
anchor = {anchor}
witness = {{ implementation = "fake" }}
"""


@pytest.fixture(scope="module")
def gpu_tree(fake_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact of the fake workers with two backends for a GPU."""
    from artifact.integrity.lockfile import write_lock

    root = tmp_path_factory.mktemp("gpu") / "tree"
    shutil.copytree(fake_tree, root, ignore=shutil.ignore_patterns("results"))
    path = root / "manifests/artifact.toml"
    text = path.read_text()
    begin = text.index('[[protocols]]\nname = "events"')
    end = text.index("[[backends]]")
    text = text[:begin] + PROTOCOL + text[end:]
    text = text.replace('protocols = { paper = "events" }', PROTOCOLS)
    for name, anchor in (("omega", "true"), ("psi", "false")):
        text += BACKEND.format(name=name, anchor=anchor)
    path.write_text(text)
    write_lock(root)
    return root


PROTOCOLS = 'protocols = { paper = "events", interleaved = "mixed-events" }'


@pytest.fixture
def root(gpu_tree: Path, tmp_path: Path) -> Path:
    """A copy for one test alone."""
    return shutil.copytree(gpu_tree, tmp_path / "tree")


@pytest.fixture(autouse=True)
def no_pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the test of a complete folder draws."""
    if "complete" not in request.node.name:
        monkeypatch.setattr("artifact.report.base.write_reports", lambda results, folder: ())


class Talk(Progress):
    """Keeps the messages, and lets a test act at a step."""

    def __init__(self, at: Callable[[str, str], None] | None = None) -> None:
        self.said: list[str] = []
        self.where = ""
        self._at = at

    def phase(self, phase: str, steps: int) -> None:
        self.where = phase

    def step(self, label: str, remaining: float | None = None) -> None:
        if self._at is not None:
            self._at(self.where, label)

    def message(self, text: str) -> None:
        self.said.append(text)


def run(root: Path, nvml: Any, progress: Progress | None = None, **options: Any) -> Any:
    chosen = Options(**{"workload": "big", "gpu": "0", **options})
    return runner.run(chosen, root, load_manifest(root), progress or Talk(), nvml)


def only_run(root: Path) -> Path:
    (folder,) = (root / "results").iterdir()
    return folder


def results_of(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "results.json").read_bytes())
    check_schema("results", document, "x")
    return document


def refused(root: Path, nvml: Any, kind: type[ArtifactError], **options: Any) -> ArtifactError:
    """The error of a run that must not begin."""
    with pytest.raises(kind) as caught:
        run(root, nvml, **options)
    assert not (root / "results").exists()
    assert nvml.running == 0
    return caught.value


def test_a_complete_run_holds_the_cards_facts(root: Path, fake_nvml: Make, gpu_card: Make) -> None:
    nvml = fake_nvml(gpu_card())
    command = ("artifact", "run", "--gpu", "GPU-aaaa", "--gpu=GPU-aaaa-1")
    outcome = run(root, nvml, gpu="GPU-aaaa", command=command)
    assert nvml.running == 0
    assert verify_run(outcome.folder).findings == ()
    results = outcome.results
    assert results.device.target == "fake-gpu"
    facts = results.device.facts
    assert (facts["sms"], facts["ecc"], facts["temperature_c_before"]) == (8, True, 40)
    assert "lists no process" in str(facts["processes"])
    assert len(results.samples) == 9
    for sample in results.samples:
        assert sample.valid
        assert sample.device["readings"] >= 2
        assert sample.device["clock_events"] == "software power cap"
        assert len(sample.device) <= 15
    trace = (outcome.folder / "trace.csv").read_text().splitlines()
    assert {line.split(",")[1] for line in trace[1:]} == {"", *map(str, range(9))}
    assert "trace.csv" in {pin.path for pin in results.files}
    page = (outcome.folder / "summary.md").read_text()
    assert "## The GPU while it was measured" in page
    assert "## Where the time went, put together" in page
    assert "The runner's own share" in page
    for path in outcome.folder.rglob("*"):
        assert path.is_dir() or b"GPU-aaaa" not in path.read_bytes(), path
    assert results.tool.command == ("artifact", "run", "--gpu", "$GPU", "--gpu=$GPU")


def test_a_complete_run_without_the_anchor_says_so(
    root: Path, fake_nvml: Make, gpu_card: Make
) -> None:
    outcome = run(root, fake_nvml(gpu_card()), backends=("psi",))
    assert verify_run(outcome.folder).findings == ()
    assert outcome.results.anchor is None
    assert {c.verdict for c in outcome.results.comparisons} == {"NO ANCHOR"}
    said = "Speed relative to omega, which was not in this run"
    for name in ("summary.md", "report.html"):
        assert said in (outcome.folder / name).read_text()
    assert said in " ".join(summary_table(outcome.results).split())
    (row, *_) = csv.DictReader((outcome.folder / "summary.csv").read_text().splitlines())
    assert (row["verdict"], row["ratio_to_anchor"]) == ("NO ANCHOR", "")


def test_a_run_says_what_limits_its_times(root: Path, fake_nvml: Make, gpu_card: Make) -> None:
    for order, words in (("paper", "one after the other"), ("interleaved", "took turns")):
        notes = run(root, fake_nvml(gpu_card()), order=order).results.notes
        assert [part for part in notes if words in part] == [notes[0]]
        assert any("clocks of the GPU were not locked" in note for note in notes)
        assert any("at most 65 C" in note and "no constant" in note for note in notes)


def test_workers_see_the_watched_card_alone(
    root: Path, fake_nvml: Make, gpu_card: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = fake_nvml(gpu_card(uuid="GPU-a"), gpu_card(uuid="GPU-b"), gpu_card(uuid="GPU-c"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    seen: dict[str, str] = {}
    real = starting.child_environment

    def child_environment(*args: Any, **named: Any) -> Any:
        made = real(*args, **named)
        seen.update(made.values)
        return made

    monkeypatch.setattr(starting, "child_environment", child_environment)
    opened: list[str] = []
    by_uuid = nvml.nvmlDeviceGetHandleByUUID
    nvml.nvmlDeviceGetHandleByUUID = lambda uuid: opened.append(uuid) or by_uuid(uuid)
    run(root, nvml, gpu="1", rounds=1)
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["CUDA_DEVICE_ORDER"]) == ("GPU-b", "PCI_BUS_ID")
    assert opened == ["GPU-b"]


def test_interleaved_order_asks_nothing_but_times_within_a_shape(
    root: Path, fake_nvml: Make, gpu_card: Make
) -> None:
    outcome = run(root, fake_nvml(gpu_card()), order="interleaved")
    log = (outcome.folder / "logs/psi.log").read_text()
    asked = re.findall(r'> \{"op": "(\w+)"', log)
    assert asked == ["hello", "prepare", "check", "witness", *["time"] * 3, "witness", "quit"]


def test_a_card_in_use_is_refused(root: Path, fake_nvml: Make, gpu_card: Make) -> None:
    nvml = fake_nvml(gpu_card(processes=lambda: [4242]))
    error = refused(root, nvml, EnvironmentUnmet)
    assert error.exit_code == ExitCode.ENVIRONMENT
    assert "4242" in str(error.found)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "Another GPU"}, "in no row"),
        ({"cores": 7 * 128}, "another number of multiprocessors"),
        ({"instances": []}, "split into MIG instances"),
    ],
)
def test_a_card_that_is_no_target_is_refused(
    root: Path, fake_nvml: Make, gpu_card: Make, changes: dict[str, Any], said: str
) -> None:
    error = refused(root, fake_nvml(gpu_card(**changes)), EnvironmentUnmet)
    assert said in error.what
    assert error.exit_code == ExitCode.ENVIRONMENT


def test_two_instances_of_a_card_exclude_each_other(
    root: Path, fake_nvml: Make, gpu_card: Make, mig: Make
) -> None:
    nvml = fake_nvml(gpu_card(instances=[mig("MIG-1", 8), mig("MIG-2", 8)]))
    first, second = (
        runner.make_plan(Options(workload="big", gpu=uuid), root, load_manifest(root), nvml)
        for uuid in ("MIG-1", "MIG-2")
    )
    assert first.lock_name == second.lock_name == "GPU-aaaa-1"
    with runner.exclusive(first.lock_name, {}):
        assert "another run" in refused(root, nvml, EnvironmentUnmet, gpu="MIG-2").what


def test_a_slowdown_ends_the_suite_and_keeps_the_sample(
    root: Path, fake_nvml: Make, gpu_card: Make
) -> None:
    nvml = fake_nvml(gpu_card(reasons=[0x4] * 12 + [0x44]))
    with pytest.raises(MeasurementInvalid, match="is not valid") as caught:
        run(root, nvml)
    assert caught.value.exit_code == ExitCode.MEASUREMENT
    assert nvml.running == 0
    folder = only_run(root)
    document = results_of(folder)
    assert document["complete"] is False
    *good, bad = document["samples"]
    assert [s["valid"] for s in good] == [True] * len(good)
    assert bad["reasons"] == ["the GPU reported: hardware thermal slowdown"]
    assert document["state"]["error"]["found"] == bad["reasons"][0]
    assert "0x44" in (folder / "trace.csv").read_text()


def test_a_foreign_process_ends_the_suite(
    root: Path, fake_nvml: Make, gpu_card: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artifact.bench.neighbours.first_namespace", lambda: True)
    here: list[int] = []

    def arrive(phase: str, label: str) -> None:
        if phase == "timing" and not here:
            here.extend(pid for pid in workers(root))
        if phase == "timing" and label.startswith("psi"):
            here.append(1)

    with pytest.raises(MeasurementInvalid) as caught:
        run(root, fake_nvml(gpu_card(processes=lambda: here)), Talk(arrive))
    assert caught.value.found == "process 1 computed on the GPU"
    document = results_of(only_run(root))
    assert [s["backend"] for s in document["samples"]] == ["omega"] * 3 + ["psi"]
    assert document["device"]["facts"]["processes"] == "told apart by process id"


def workers(root: Path) -> list[int]:
    name = os.fsencode(root / "workers")
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and name in (entry / "cmdline").read_bytes()
    ]


def test_a_card_that_is_lost_ends_the_suite(root: Path, fake_nvml: Make, gpu_card: Make) -> None:
    nvml = fake_nvml(gpu_card(lost_after=9))
    with pytest.raises(MeasurementInvalid) as caught:
        run(root, nvml)
    assert "NVML failed" in caught.value.render()
    assert "GPU is lost" in caught.value.render()
    assert nvml.running == 0
    assert results_of(only_run(root))["state"]["error"]["exit_code"] == 5


def test_a_card_that_stays_hot_ends_the_suite(root: Path, fake_nvml: Make, gpu_card: Make) -> None:
    progress = Talk()
    with pytest.raises(MeasurementInvalid, match="did not cool down"):
        run(root, fake_nvml(gpu_card(temperatures=[80])), progress)
    assert progress.said == ["the GPU has 80 C: waiting for 65 C, 0.3 s at most"]
    document = results_of(only_run(root))
    assert (document["state"]["phase"], document["samples"]) == ("timing", [])
    waited = [t["seconds"] for t in document["times"] if t["activity"] == "wait for the device"]
    assert sum(waited) == pytest.approx(0.3, abs=0.2)


@pytest.mark.parametrize("phase", ["verify", "prepare", "gates", "timing", "report"])
def test_an_interrupt_leaves_no_watch(
    root: Path, fake_nvml: Make, gpu_card: Make, phase: str
) -> None:
    def interrupt(at: str, label: str) -> None:
        if at == phase:
            raise KeyboardInterrupt

    nvml = fake_nvml(gpu_card())
    with pytest.raises(ArtifactError) as caught:
        run(root, nvml, Talk(interrupt))
    assert caught.value.exit_code == ExitCode.INTERRUPTED
    assert nvml.running == 0
    assert results_of(only_run(root))["state"]["phase"] == phase


def test_the_interleaved_gate_stands_before_each_window(
    root: Path, fake_nvml: Make, gpu_card: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: dict[str, int] = {}
    for order in ("paper", "interleaved"):
        real = runner.GpuWatch.wait

        def wait(self: Any, order: str = order, real: Any = real) -> None:
            waits[order] = waits.get(order, 0) + 1
            real(self)

        with monkeypatch.context() as patch:
            patch.setattr(runner.GpuWatch, "wait", wait)
            run(root, fake_nvml(gpu_card()), order=order)
    assert waits == {"paper": 3, "interleaved": 6}


def test_caches_are_kept_seeded_and_recorded(
    root: Path, fake_nvml: Make, gpu_card: Make, tmp_path: Path
) -> None:
    (tmp_path / "seed/triton").mkdir(parents=True)
    (tmp_path / "seed/triton/k.json").write_text('"$SCRATCH/x"')
    digest = f"blake3:{caches.describe(tmp_path / 'seed').blake3}"
    progress = Talk()
    outcome = run(
        root, fake_nvml(gpu_card()), progress, rounds=1,
        cache_from=tmp_path / "seed", cache_digest=digest, keep_cache=tmp_path / "kept",
    )  # fmt: skip
    seeded = outcome.results.tool.seeded_cache
    assert (f"blake3:{seeded.blake3}", seeded.files) == (digest, 1)
    assert (tmp_path / "kept/triton/k.json").read_text() == '"$SCRATCH/x"'
    assert f"--cache-digest {digest}" in progress.said[0]


def test_a_wrong_digest_of_caches_stops_before_any_worker(
    root: Path, fake_nvml: Make, gpu_card: Make, tmp_path: Path
) -> None:
    (tmp_path / "seed").mkdir()
    nvml = fake_nvml(gpu_card())
    with pytest.raises(ArtifactError, match="another content") as caught:
        run(root, nvml, cache_from=tmp_path / "seed", cache_digest="blake3:" + "0" * 64)
    assert caught.value.exit_code == ExitCode.VERIFICATION
    assert list((only_run(root) / "logs").iterdir()) == []
    refused_ = pytest.raises(UsageError, match="only together with its digest")
    with refused_:
        run(root, nvml, cache_from=tmp_path / "seed")
