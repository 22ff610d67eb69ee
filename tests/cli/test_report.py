import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ASSETS = Path(__file__).parents[1] / "assets" / "results"


def artifact(*arguments, cwd, **environment):
    return subprocess.run(
        [sys.executable, "-m", "artifact", "report", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "110", **environment},
    )  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """The folder of a run that ended at a gate: reports, but no figures to wait for."""
    folder = tmp_path / "20261130T080000Z-cpu-bf16"
    folder.mkdir()
    (folder / "results.json").write_bytes((ASSETS / "cpu-gate-failed.json").read_bytes())
    return folder


@pytest.fixture
def finished(fake_artifact):
    """A finished run of the tests' artifact, in its results folder."""
    done = subprocess.run(
        [sys.executable, "-m", "artifact", "run", "--quiet"],
        cwd=fake_artifact, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (folder,) = (fake_artifact / "results").iterdir()
    return folder


def test_an_incomplete_run_is_reported_as_one(run):
    (run / "results.json").write_bytes((ASSETS / "cpu-interrupted.json").read_bytes())
    done = artifact(run, cwd=run.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "INCOMPLETE" in done.stdout
    assert "CPU: online softmax, forward" in done.stdout
    assert done.stdout.count("written:") == 6
    assert "\x1b" not in done.stdout
    assert "INCOMPLETE" in (run / "summary.md").read_text("utf-8")


def test_json(run):
    done = artifact(run / "results.json", "--json", cwd=run.parent)
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["ok"] is True and document["complete"] is False
    assert document["marks"] == ["UNLOCKED", "NOT COMPARABLE"]
    assert {file["status"] for file in document["files"]} == {"written"}
    assert document["summary"] == []


def test_quiet_prints_what_was_written_alone(run):
    done = artifact(run, "--quiet", cwd=run.parent)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["written"] * 4
    assert artifact(run, "--quiet", cwd=run.parent).stdout == ""


def test_output_leaves_the_run_alone(run, tmp_path):
    done = artifact(run, "--output", "pages", cwd=tmp_path)
    assert done.returncode == 0
    assert [path.name for path in run.iterdir()] == ["results.json"]
    assert len(list((tmp_path / "pages").iterdir())) == 4


def test_a_finished_run_by_name(finished):
    done = artifact(finished.name, cwd=finished.parents[1])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("unchanged:") == 6
    figure = next(finished.glob("*.png"))
    before = figure.read_bytes()
    figure.unlink()
    done = artifact(finished.name, "--quiet", cwd=finished.parents[1])
    assert done.stdout.startswith("restored:") and figure.read_bytes() == before


def test_a_changed_file_is_exit_code_1_with_a_way_out(finished):
    (finished / "summary.md").write_text("changed")
    done = artifact(finished, cwd=finished.parents[1])
    assert done.returncode == 1
    assert "refused:" in done.stdout and "--output DIR" in done.stdout
    assert (finished / "summary.md").read_text() == "changed"
    done = artifact(finished, "--json", cwd=finished.parents[1])
    assert done.returncode == 1
    assert json.loads(done.stdout)["ok"] is False


@pytest.mark.parametrize("name", ["nope", "a/b/c"])
def test_no_such_run(fake_artifact, name):
    done = artifact(name, cwd=fake_artifact)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no such run\n  where:    " + name)


def test_a_folder_without_results(tmp_path):
    done = artifact(tmp_path, cwd=tmp_path)
    assert done.returncode == 1
    assert "results.json" in done.stderr and done.stderr.startswith("error: a document is missing")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data[: len(data) // 2], "is not JSON"),
        (lambda data: b"", "is empty"),
        (lambda data: b"\xff" + data, "is not UTF-8"),
        (lambda data: data.replace(b'"run_id"', b'"run_idd"'), "does not match the results schema"),
        (lambda data: data.replace(b'"warmup": 1', b'"warmup": 2'), "protocol_digest"),
    ],
)
def test_bad_results_are_one_error(run, spoil, message):
    path = run / "results.json"
    path.write_bytes(spoil(path.read_bytes()))
    done = artifact(run, cwd=run.parent)
    assert done.returncode == 1
    assert message in done.stderr and done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr
    assert [p.name for p in run.iterdir()] == ["results.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_output_that_is_full_is_an_error(run):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "artifact", "report", str(run)],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode != 0 and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}, {"TZ": "Pacific/Apia"}],
    ids=["ascii", "tz"],
)
def test_surroundings_change_nothing_that_is_written(run, tmp_path, environment):
    assert artifact(run, "--output", "one", cwd=tmp_path).returncode == 0
    done = artifact(run, "--output", "two", cwd=tmp_path, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("one", "two"))
    assert one == two


def test_help_names_what_it_does(tmp_path):
    done = artifact("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "--output" in done.stdout and "pinned" in done.stdout
