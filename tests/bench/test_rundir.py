"""The run folder and its results.json."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from artifact.bench import rundir
from artifact.bench.opening import first_document, written_command
from artifact.bench.plan import Options, make_plan
from artifact.bench.rundir import RESULTS, RunDir, create, pins, slug, stamp
from artifact.bench.scrub import Scrubber
from artifact.errors import EnvironmentUnmet
from artifact.integrity.documents import load_manifest
from artifact.model.canonical import pretty_json
from artifact.model.load import check_schema
from artifact.model.results import ErrorRecord, RunResults, Sample, State

MOMENT = datetime(2026, 9, 21, 10, 5, 14, 123456, tzinfo=timezone.utc)


@pytest.fixture
def first(fake_tree: Path) -> RunResults:
    plan = make_plan(Options(), fake_tree, load_manifest(fake_tree))
    return first_document(plan, "run", MOMENT, Scrubber())


@pytest.fixture
def run(tmp_path: Path, first: RunResults) -> RunDir:
    folder = tmp_path / "run"
    folder.mkdir()
    return RunDir(folder, first)


def read(run: RunDir) -> dict[str, object]:
    return json.loads((run.folder / RESULTS).read_bytes())


def sample(number: int) -> Sample:
    return Sample(
        backend="alpha", shape="N=8", position=number, round=0, ms=1.5, reasons=('a\nb "c" ü',)
    )


def test_names_are_utc_and_distinct_within_a_second(tmp_path: Path) -> None:
    names = [create(tmp_path / "new", "NVIDIA H200", "bf16", MOMENT).name for _ in range(3)]
    assert names == [
        "20260921T100514Z-nvidia-h200-bf16",
        "20260921T100514Z-2-nvidia-h200-bf16",
        "20260921T100514Z-3-nvidia-h200-bf16",
    ]


@pytest.mark.parametrize(
    ("name", "expected"), [("NVIDIA H800 PCIe", "nvidia-h800-pcie"), ("!!", "device")]
)
def test_slug(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_a_moment_is_written_in_utc() -> None:
    assert stamp(MOMENT) == "2026-09-21T10:05:14.123Z"
    assert stamp(MOMENT.replace(microsecond=999_999)) == "2026-09-21T10:05:14.999Z"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentUnmet) as caught:
        create(tmp_path / "file", "cpu", "x", MOMENT)
    assert "--results-dir" in str(caught.value.next)


def test_the_first_bytes_say_that_it_is_not_complete(run: RunDir) -> None:
    document = read(run)
    assert document["complete"] is False
    assert document["state"] == {"phase": "verify", "error": None}
    check_schema("results", document, "x")
    assert sorted(path.name for path in run.folder.iterdir()) == ["logs", RESULTS]


def test_the_bytes_are_those_of_the_model(run: RunDir) -> None:
    run.add("samples", sample(0))
    run.add("samples", sample(1))
    run.set(marks=("UNLOCKED",), state=State(phase="timing"))
    assert run.encode() == pretty_json(run.results().model_dump(mode="json"))
    run.add("samples", sample(2))
    assert run.encode() == pretty_json(run.results().model_dump(mode="json"))
    assert len(run.results().samples) == 3
    run.set(samples=())
    assert run.encode() == pretty_json(run.results().model_dump(mode="json"))


def test_a_document_of_another_run_is_not_shared(run: RunDir, first: RunResults) -> None:
    run.add("samples", sample(0))
    assert first.samples == ()


def test_a_write_is_put_off_until_it_is_cheap(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = []
    monkeypatch.setattr(run, "save", lambda: writes.append(1))
    monkeypatch.setattr(rundir, "time", SimpleNamespace(monotonic=lambda: 100.0))
    run._cost, run._written = 0.01, 99.8
    run.save_soon()
    assert not writes
    run._written = 99.4
    run.save_soon()
    assert writes


def test_the_last_write_pins_every_other_file(run: RunDir) -> None:
    (run.folder / "summary.csv").write_bytes(b"a,b\n")
    (run.folder / "logs/alpha.log").write_bytes(b"hello\n")
    (run.folder / ".summary.md.0123.partial").write_bytes(b"half")
    done = run.results(state=State(phase="done"), complete=True, finished=stamp(MOMENT))
    written = run.finish(done)
    assert [pin.path for pin in written.files] == ["logs/alpha.log", "summary.csv"]
    assert read(run) == written.model_dump(mode="json")
    assert read(run)["complete"] is True


def test_pins_have_both_digests(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    (pin,) = pins(tmp_path)
    assert pin.sha256 == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert pin.blake3 == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


def test_a_failure_keeps_the_samples(run: RunDir) -> None:
    run.add("samples", sample(0))
    record = ErrorRecord(error="WorkerDied", exit_code=5, what="it died", phase="timing")
    run.fail(record, MOMENT)
    document = read(run)
    assert document["complete"] is False
    assert document["state"]["error"]["what"] == "it died"  # type: ignore[index]
    assert len(document["samples"]) == 1  # type: ignore[arg-type]
    check_schema("results", document, "x")


def test_no_folder_is_left_where_the_first_write_fails(
    tmp_path: Path, first: RunResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, data: bytes) -> None:
        raise EnvironmentUnmet("no room")

    monkeypatch.setattr(rundir, "write_atomic", refuse)
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(EnvironmentUnmet):
        RunDir(folder, first)
    assert not folder.exists()


def test_a_full_disk_while_a_failure_is_noted_hides_nothing(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (run.folder / RESULTS).read_bytes()

    def refuse(path: Path, data: bytes) -> None:
        raise EnvironmentUnmet("no room")

    monkeypatch.setattr(rundir, "write_atomic", refuse)
    record = ErrorRecord(error="WorkerDied", exit_code=5, what="it died", phase="timing")
    run.fail(record, MOMENT)
    assert (run.folder / RESULTS).read_bytes() == before


def test_a_write_encodes_no_sample_again(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        run.add("samples", sample(number))
    expected = pretty_json(run.results().model_dump(mode="json"))

    def refuse(value: object) -> str:
        raise AssertionError("it was encoded when it was added")

    monkeypatch.setattr(rundir, "_item", refuse)
    monkeypatch.setattr(rundir, "_encoded", refuse)
    assert run.encode() == expected


def test_a_command_is_written_without_paths_of_this_machine(tmp_path: Path) -> None:
    root, home = tmp_path / "home/me/tree", tmp_path / "home/me"
    root.mkdir(parents=True)
    scrub = Scrubber([("$ROOT", root), ("$PYTHON", home / "env/bin/python"), ("$HOME", home)])
    command = (
        "artifact", "run", "--root", str(root), "--python", f"{home}/env/bin/python",
        f"--results-dir={root}/results", "--ws-python", "/opt/secret/bin/python3", "--rounds", "9",
    )  # fmt: skip
    assert written_command(command, scrub) == (
        "artifact", "run", "--root", ".", "--python", "$PYTHON",
        "--results-dir=results", "--ws-python", ".../python3", "--rounds", "9",
    )  # fmt: skip
    pairs = (
        "--interpreter", f"main={home}/env/bin/python", "--interpreter=other=/opt/secret/python3",
        "third=/home/me/secret", "alpha:A=B=C", "/data/run=1/cache", "--out=/data/s=1/x",
        f"--in={root}", f"a:X={root}/", "alpha:X=" + "a=" * 2000,
    )  # fmt: skip
    assert written_command(pairs, scrub) == (
        "--interpreter", "main=$PYTHON", "--interpreter=other=.../python3",
        "third=.../secret", "alpha:A=B=C", ".../cache", "--out=.../x",
        "--in=.", "a:X=.", "alpha:X=" + "a=" * 2000,
    )  # fmt: skip
