from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from artifact.bench.check import load_results
from artifact.bench.rundir import pins
from artifact.integrity.documents import load_manifest
from artifact.model.load import dump_json
from artifact.report.base import render

ROOT = Path(__file__).resolve().parents[2]
RUN = "20260921-h800-bf16"


def artifact(*arguments, cwd=ROOT, columns="160"):
    return subprocess.run(
        [sys.executable, "-m", "artifact", "compare", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": columns},
    )  # fmt: skip


def saved(folder: Path, results) -> Path:
    """A run folder of ``results`` that verifies: tables without figures."""
    from artifact.bench.summary import summarise

    folder.mkdir()
    rows, comparisons = summarise(
        results.samples, results.workload, [b.name for b in results.backends], results.anchor,
        results.metric, results.statistics, results.protocol,
    )  # fmt: skip
    results = results.model_copy(
        update={"run_id": folder.name, "summary": rows, "comparisons": comparisons, "files": ()}
    )
    for name, data in render(results).items():
        (folder / name).write_bytes(data)
    pinned = results.model_copy(update={"files": pins(folder)})
    (folder / "results.json").write_bytes(dump_json("results", pinned, "results.json"))
    return folder


@pytest.fixture(scope="module")
def published():
    return load_results(ROOT / "results" / RUN)


@pytest.fixture
def slower(published, tmp_path):
    samples = tuple(
        s.model_copy(update={"ms": s.ms * 1.5}) if s.backend == "v2" else s
        for s in published.samples
    )
    return saved(tmp_path / "slower", published.model_copy(update={"samples": samples}))


@pytest.fixture
def elsewhere(published, tmp_path):
    device = published.device.model_copy(update={"name": "NVIDIA H200", "target": "h200"})
    return saved(tmp_path / "elsewhere", published.model_copy(update={"device": device}))


@pytest.mark.parametrize("arguments", [(RUN, RUN), (f"results/{RUN}", RUN)])
def test_reproduced_is_0(arguments):
    done = artifact(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("verdict:    REPRODUCED; 45 of 45")
    assert done.stdout.count("REPRODUCED") >= 45


def test_not_reproduced_is_1(slower):
    done = artifact(slower / "results.json")
    assert (done.returncode, done.stderr) == (1, "")
    assert "6 NOT REPRODUCED" in done.stdout.splitlines()[-1]


def test_nothing_decided_is_5_unless_asked(elsewhere):
    done = artifact(elsewhere)
    assert (done.returncode, done.stderr) == (5, "")
    assert "the run was measured on NVIDIA H200" in done.stdout
    done = artifact(elsewhere, "--cross-device", "--quiet")
    assert (done.returncode, done.stdout) == (
        0,
        "REPRODUCED (CROSS-DEVICE); 45 of 45 claims could be decided: 45 REPRODUCED, "
        "0 NOT REPRODUCED\n",
    )


def test_json(slower):
    done = artifact(slower, RUN, "--json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["outcome"] == "NOT REPRODUCED" and document["run"]["run"] == "slower"


def test_a_run_that_does_not_agree_with_itself_is_not_compared(slower):
    table = slower / "summary.csv"
    table.write_bytes(table.read_bytes().replace(b"v2", b"v9", 1))
    done = artifact(slower)
    assert done.returncode == 1 and "does not agree with itself" in done.stderr
    assert "summary.csv" in done.stderr and done.stdout == ""


def test_an_incomplete_run_is_not_compared(tmp_path):
    folder = tmp_path / "cpu"
    folder.mkdir()
    asset = ROOT / "tests/assets/results/cpu-interrupted.json"
    shutil.copy(asset, folder / "results.json")
    done = artifact(folder)
    assert done.returncode == 1 and "the run is not complete" in done.stderr


def test_output(slower, tmp_path):
    page = tmp_path / "claims.md"
    done = artifact(slower, "--output", page)
    assert done.returncode == 1 and f"written:    {page}" in done.stdout
    text = page.read_text("utf-8")
    assert text.startswith("# Causal prefill attention, BF16, D=128: NOT REPRODUCED\n")
    # The same again is no overwriting; anything else is refused.
    assert artifact(slower, "--output", page, "--quiet").returncode == 1
    page.write_text("mine")
    done = artifact(slower, "--output", page)
    assert done.returncode == 2 and "was not overwritten" in done.stderr
    assert page.read_text() == "mine"


@pytest.mark.parametrize("place", ["{slower}/claims.md", "{tmp}"])
def test_an_output_that_cannot_be(slower, tmp_path, place):
    done = artifact(slower, "--output", place.format(slower=slower, tmp=tmp_path))
    assert done.returncode == 2 and done.stdout == ""
    assert sorted(p.name for p in slower.iterdir()) == [
        "provenance.json", "results.json", "summary.csv", "summary.md"
    ]  # fmt: skip


def test_an_output_that_cannot_be_written(slower, tmp_path):
    done = artifact(slower, "--output", tmp_path / "nowhere" / "claims.md")
    assert done.returncode == 3 and "Traceback" not in done.stderr


def test_the_two_runs_the_other_way_round():
    runs = sorted(path for path in (ROOT / "results").iterdir() if path.is_dir())
    measured = next(path.name for path in runs if load_results(path).origin == "measured")
    done = artifact(RUN, measured, "--cross-device", "--output", "a b.md")
    assert (done.returncode, done.stdout) == (2, "")
    answers = dict(line.strip().split(":", 1) for line in done.stderr.splitlines())
    assert answers["error"] == " the two runs are the other way round"
    assert f"first {RUN}, which was imported, then {measured}, a measure" in answers["found"]
    options = "--cross-device --output 'a b.md'"
    assert answers["next"].strip() == f"artifact compare {measured} {RUN} {options}"
    for right in ((measured, RUN), (measured, measured), (RUN, RUN)):
        assert artifact(*right).stderr == ""


def test_an_imported_run_alone_is_not_compared_with_the_newest_measurement():
    done = artifact(RUN, "--root", ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    answers = dict(line.strip().split(":", 1) for line in done.stderr.splitlines())
    newest = max(set(load_manifest(ROOT).inventory.published) - {RUN})
    assert answers["error"] == " the two runs are the other way round"
    assert answers["next"].strip() == f"artifact compare {newest} {RUN} --root {ROOT}"


def test_no_such_run():
    done = artifact("nothing-of-that-name")
    assert done.returncode == 2 and "there is no such run" in done.stderr
    done = artifact(RUN, "nothing-of-that-name")
    assert done.returncode == 2 and "there is no such run" in done.stderr


def test_the_artifact_is_found_around_the_run(slower, tmp_path):
    tree = tmp_path / "tree"
    (tree / "manifests").mkdir(parents=True)
    shutil.copy(ROOT / "manifests/artifact.toml", tree / "manifests")
    (tree / "results").mkdir()
    shutil.copytree(ROOT / "results" / RUN, tree / "results" / RUN)
    shutil.move(slower, tree / "results" / "slower")
    outside = tmp_path / "outside"
    outside.mkdir()
    assert artifact(tree / "results" / "slower", cwd=outside).returncode == 1
    assert artifact("slower", "--root", tree, cwd=outside).returncode == 1
    done = artifact(RUN, cwd=outside)
    assert done.returncode == 2 and "there is no artifact here" in done.stderr


def test_which_published_run_is_taken(slower, published, tmp_path):
    tree = tmp_path / "tree"
    (tree / "manifests").mkdir(parents=True)
    (tree / "results").mkdir()
    text = (ROOT / "manifests/artifact.toml").read_text("utf-8")
    names = f'published = ["ours-1", "{RUN}", "ours-2", "measured"]'
    listed = re.sub(r"(?ms)^published = \[.*?\]$", names, text)
    (tree / "manifests/artifact.toml").write_text(listed, "utf-8")
    shutil.copytree(ROOT / "results" / RUN, tree / "results" / RUN)
    for name, day in (("ours-1", "03"), ("ours-2", "02")):
        started = f"2026-12-{day}T00:00:00Z"
        saved(tree / "results" / name, published.model_copy(update={"started": started}))

    # Newer, but measured by this tool: the claims are those that were imported.
    newer = {"origin": "measured", "started": "2027-01-01T00:00:00Z",
             "finished": "2027-01-01T01:00:00Z"}  # fmt: skip
    saved(tree / "results" / "measured", published.model_copy(update=newer))

    def taken(run: Path | str) -> str:
        return json.loads(artifact(run, "--json", cwd=tree).stdout)["published"]["run"]

    assert taken(slower) == "ours-1"
    assert taken("ours-1") == "ours-2"
    assert taken(RUN) == "ours-1"


def test_without_a_published_run_one_has_to_be_named(fake_artifact, slower):
    done = artifact(slower, cwd=fake_artifact)
    assert done.returncode == 2
    assert "no published run" in done.stderr and "artifact compare RUN PUBLISHED" in done.stderr


def test_two_runs_of_an_artifact_that_is_not_this_one(fake_artifact):
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-m", "artifact", "run", "--quiet"],
            cwd=fake_artifact, capture_output=True, check=True,
        )  # fmt: skip
    first, second = sorted(path.name for path in (fake_artifact / "results").iterdir())
    done = artifact(second, first, "--json", cwd=fake_artifact)
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"]
    assert {c["kind"] for c in document["claims"]} == {"ratio", "absolute"}
    codes = {r["code"] for c in document["claims"] for r in c["reasons"] + c["caveats"]}
    assert not codes & {"device", "inputs", "library", "workload", "bytes", "worker", "gate"}


def test_notes_are_details():
    assert "note: " not in artifact(RUN).stdout
    assert f"note: {RUN}: machine: the host was not published" in artifact(RUN, "-v").stdout
