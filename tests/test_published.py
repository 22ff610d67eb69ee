"""The imported published run against the figures that were published with it."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import ModuleType

import pytest

from artifact import __version__
from artifact.bench.check import load_results, verify_run
from artifact.bench.rundir import pins
from artifact.errors import VerificationError
from artifact.integrity.documents import load_manifest
from artifact.model.load import dump_json
from artifact.model.results import RunResults

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / "results" / "20260921-h800-bf16"
CSV = ROOT / "tests/assets/published/h800-20260921-samples.csv"
SCRIPT = ROOT / "benchmarks/import_published.py"


def test_every_published_run_is_still_what_its_report_makes_of_it() -> None:
    """A page, a table or a document that a newer version makes otherwise breaks every old run."""
    published = load_manifest(ROOT).inventory.published
    assert len(published) >= 3
    for name in published:
        assert verify_run(ROOT / "results" / name).findings == (), name


# The published table: median ms / TFLOPS at 4096, 8192 and 16384.
TABLE = {
    "FlashAttention-3": ("1.3944 / 394.3", "5.3025 / 414.7", "20.7054 / 424.8"),
    "Croqtile v1: sequential": ("2.5813 / 213.0", "9.2858 / 236.8", "35.3457 / 248.9"),
    "Croqtile v2: 1p2c TMA (fixed output)": ("1.6600 / 331.2", "6.1387 / 358.2", "23.7090 / 371.0"),
    "Croqtile v4: non-persistent overlap": ("1.4642 / 375.5", "5.4563 / 403.0", "21.1821 / 415.3"),
    "Croqtile v3: persistent overlap": ("1.3967 / 393.6", "5.2971 / 415.1", "20.7939 / 423.0"),
    "TileLang: 128 x 128, 2 stages": ("1.6511 / 333.0", "6.2546 / 351.6", "24.2038 / 363.4"),
    "Triton 3.6: autotuned, no WS": ("1.7542 / 313.4", "6.6744 / 329.5", "25.9039 / 339.6"),
    "Triton main: Hopper WS, masked loop": ("1.9217 / 286.1", "6.9654 / 315.7", "26.6264 / 330.4"),
}
SHAPES = ("S=4096", "S=8192", "S=16384")
ANCHOR_PASSES = {  # before, after, change
    "S=4096": ("1.3908", "1.3980", "+0.52 %"),
    "S=8192": ("5.2543", "5.3796", "+2.39 %"),
    "S=16384": ("20.5006", "20.8591", "+1.75 %"),
}


@pytest.fixture(scope="module")
def results() -> RunResults:
    return load_results(RUN)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("import_published", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_medians_and_rates_are_the_published_ones(results):
    titles = {b.name: b.title for b in results.backends}
    found = {
        (titles[row.backend], row.shape): f"{row.median_ms:.4f} / {row.rate:.1f}"
        for row in results.summary
    }
    assert found == {
        (title, shape): text
        for title, texts in TABLE.items()
        for shape, text in zip(SHAPES, texts, strict=True)
    }
    assert [row.samples for row in results.summary] == [6] * 3 + [3] * 21


def test_the_same_figures_stand_in_the_table_of_summary_md():
    lines = (RUN / "summary.md").read_text("utf-8").splitlines()
    for title, texts in TABLE.items():
        anchor = " (anchor)" if title == "FlashAttention-3" else ""
        assert f"| {title}{anchor} | {' | '.join(texts)} |" in lines


def test_the_anchor_before_and_after(results):
    lines = (RUN / "summary.md").read_text("utf-8").splitlines()
    drift = {c.shape: c.drift for c in results.comparisons if c.backend == "fa3"}
    for shape, (before, after, change) in ANCHOR_PASSES.items():
        passes = [
            [s.ms for s in results.samples if (s.backend, s.shape, s.position) == ("fa3", shape, p)]
            for p in (0, 8)
        ]
        assert [f"{median(times):.4f}" for times in passes] == [before, after]
        assert f"{100 * drift[shape]:+.2f} %" == change
        assert f"| {shape} | {before} | {after} | {change} |" in lines


def test_the_range_of_the_anchor(results):
    row = next(r for r in results.summary if (r.backend, r.shape) == ("fa3", "S=4096"))
    assert (f"{row.min_ms:.4f}", f"{row.max_ms:.4f}") == ("1.3180", "1.5034")


def test_every_sample_stands_where_the_csv_has_it(results):
    rows = [line.split(",") for line in CSV.read_text("utf-8").splitlines()[1:]]
    assert len(rows) == len(results.samples) == 81
    for (backend, position, sequence, round_, ms), sample in zip(
        rows, results.samples, strict=True
    ):
        assert (sample.backend, sample.shape) == (backend, f"S={sequence}")
        assert (sample.position, sample.round, sample.ms) == (int(position), int(round_), float(ms))
        assert sample.valid and sample.started is None and sample.device == {}
    assert results.order == (
        "fa3",
        "v1",
        "v2",
        "v4",
        "v3",
        "tilelang",
        "triton",
        "triton-ws",
        "fa3",
    )


def test_facts_that_were_published(results):
    assert (results.origin, results.complete) == ("published", True)
    assert results.started == "2026-09-21T10:05:14Z" and results.finished is None
    assert results.device.name == "NVIDIA H800 PCIe" and results.device.target == "h800-pcie"
    assert results.device.facts == {
        "driver": "590.48.01", "compute_capability": "9.0", "sms": 114,
        "temperature_c_before": 38, "sm_mhz_before": 345, "memory_mhz_before": 1593,
        "power_w_before": 50.76,
    }  # fmt: skip
    checked = {(c.backend, c.shape): (c.checked_elements, c.max_abs_error) for c in results.checks}
    assert [checked["fa3", s] for s in SHAPES] == [
        (261760, 0.00253), (262016, 0.00288), (262016, 0.00297)
    ]  # fmt: skip
    for native in ("v1", "v2", "v4", "v3"):
        assert [checked[native, s] for s in SHAPES] == [
            (4096, 0.00195), (4096, 0.00202), (4096, 0.00194)
        ]  # fmt: skip
    for other in ("tilelang", "triton", "triton-ws"):
        assert {checked[other, s] for s in SHAPES} == {(None, None)}
    revisions = {d.revision for d in results.dependencies if d.revision}
    assert revisions == {
        "b50d8fd7196e1c5801c1bd8edf1d64e4bf9add6c",
        "c18420006570a1f6f7abbe0544817e467b22ed88",
        "a59d32fd4fcd9a50d8361356d415402d753fe0e3",
        "4581f53edd51c55b3faf9edb4575e4b2e1de9cfe",
    }


def test_what_was_not_published_is_null_and_says_why(results):
    document = json.loads((RUN / "results.json").read_bytes())
    for place in document["absent"]:
        for value in reached(document, place):
            known = place.startswith(("checks[v1", "protocol.max_wait_s"))
            assert known or not value, f"{place}: {value!r}"
    unsaid = {
        name
        for name, value in document.items()
        if value in (None, [], {}) and name not in document["absent"]
    }
    assert unsaid <= {"marks"}


def reached(value, place: str) -> list:
    """What stands at a dotted place: ``[*]`` is every item, ``[a,b]`` those of a name."""
    values = [value]
    for name, _, chosen in re.findall(r"([\w]+)(\[([^\]]+)\])?", place):
        values = [v[name] for v in values if name in v]
        if chosen:
            items = [item for found in values for item in found]
            names = set(chosen.split(","))
            values = [
                i for i in items if chosen == "*" or {i.get("name"), i.get("backend")} & names
            ]
    return values


def test_it_verifies_with_notes():
    report = verify_run(RUN)
    assert report.findings == () and report.origin == "published"
    assert any(note.startswith("machine: ") for note in report.notes)


def test_it_is_what_the_manifest_calls_published(results):
    manifest = load_manifest(ROOT)
    assert results.run_id in manifest.inventory.published
    paper = manifest.protocol("paper")
    assert paper is not None and paper.digest() == results.protocol_digest
    workload = manifest.workload(results.workload.name)
    assert workload is not None and workload.shapes == results.workload.shapes
    assert results.metric.work == manifest.metric.work
    assert results.device.target in {target.name for target in manifest.targets}


def importing(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(
    load_results(RUN).tool.version != __version__, reason="another version wrote the tables"
)
def test_importing_it_again_gives_the_same_bytes(results, tmp_path):
    done = importing(CSV, "--into", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    again = tmp_path / results.run_id
    assert {p.name for p in again.iterdir()} == {p.name for p in RUN.iterdir()}
    for name in ("summary.csv", "summary.md", "provenance.json"):
        assert (again / name).read_bytes() == (RUN / name).read_bytes()
    # Figures, and the page that holds one, follow matplotlib's version: their pins are left out.
    drawn = {"tflops.png", "tflops.svg", "report.html"}

    def bytes_of(folder: Path) -> bytes:
        found = load_results(folder)
        kept = tuple(pin for pin in found.files if pin.path not in drawn)
        return dump_json("results", found.model_copy(update={"files": kept}), "results.json")

    assert bytes_of(again) == bytes_of(RUN)
    if all((again / name).read_bytes() == (RUN / name).read_bytes() for name in drawn):
        assert (again / "results.json").read_bytes() == (RUN / "results.json").read_bytes()


def test_a_folder_that_is_there_is_left_alone(results, tmp_path):
    taken = tmp_path / results.run_id
    taken.mkdir()
    (taken / "mine").write_text("mine")
    done = importing(CSV, "--into", tmp_path)
    assert done.returncode == 2 and "is there already" in done.stderr
    assert [path.name for path in taken.iterdir()] == ["mine"]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and "h800" in path.name] == [
        results.run_id
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda t: t.replace("fa3,0,4096,0,1.3179609680175781\n", ""),
            "without position 0 round 0",
        ),
        (lambda t: t + "fa3,8,16384,3,20.9\n", "too many at position 8 round 3"),
        (lambda t: t.replace("v1,1,4096,0,", "v1,1,4096,1,"), "two valid samples"),
        (lambda t: t.replace("1.3179609680175781", "fast"), "samples.csv:2"),
        (lambda t: t.replace("1.3179609680175781", "nan"), "samples.csv:2"),
        (lambda t: t.replace("1.3179609680175781", "1.3,1"), "samples.csv:2"),
        (lambda t: t.replace("suite_position", "position"), "samples.csv:1"),
        (lambda t: "", "a document is empty"),
        (lambda t: t.replace("v1,1,4096,0,", "v9,1,4096,0,"), "no backend of this run"),
    ],
)
def test_another_table_is_no_run(tmp_path, script, change, words):
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(VerificationError) as caught:
        data = change(CSV.read_text("utf-8")).encode("utf-8")
        script.write_run(script.make_results(data, "samples.csv"), into)
    assert words in caught.value.render()
    assert list(into.iterdir()) == []


@pytest.mark.parametrize(
    ("table", "into", "status", "words"),
    [
        (CSV, "nowhere", 2, "there is no such directory"),
        ("nothing.csv", ".", 1, "a document is missing"),
        (SCRIPT.parents[1] / "results/20260921-h800-bf16/tflops.png", ".", 1, "is not UTF-8"),
    ],
)
def test_arguments_that_are_none(tmp_path, table, into, status, words):
    done = importing(tmp_path / table, "--into", tmp_path / into)
    assert done.returncode == status and words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_sample_that_was_changed_is_found(tmp_path):
    copy = tmp_path / RUN.name
    shutil.copytree(RUN, copy)
    document = (copy / "results.json").read_text("utf-8")
    (copy / "results.json").write_text(
        document.replace("1.3179609680175781", "1.2179609680175781", 1)
    )
    assert not verify_run(copy).ok


def test_every_file_is_pinned(results):
    assert results.files == pins(RUN)
