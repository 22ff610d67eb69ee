import subprocess
import sys
from pathlib import Path

import pytest

from artifact.errors import EnvironmentUnmet
from artifact.model.load import load_json
from artifact.model.results import RunResults
from artifact.report.base import render, render_all, reports, write_reports

ASSETS = Path(__file__).parents[1] / "assets" / "results"
TEXTS = {"summary.csv", "summary.md", "provenance.json"}


def test_every_file_is_written(complete, whole, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    paths = write_reports(complete, folder)
    assert {p.name for p in paths} == TEXTS | {"tflops.png", "tflops.svg", "report.html"}
    assert sorted(paths) == sorted(folder.iterdir())
    assert {p.name: p.read_bytes() for p in paths} == whole


def test_without_samples_there_are_no_figures(gate_failed, tmp_path):
    assert {p.name for p in write_reports(gate_failed, tmp_path)} == TEXTS | {"report.html"}


def test_render_gives_what_follows_from_the_results_alone(every):
    files = render(every)
    assert set(files) == TEXTS
    assert files == render(every)


def test_pins_never_enter_a_report(complete, whole, changed):
    # results.files is made from the reports, so no report may be made from it.
    pin = {"path": "summary.csv", "size": 1, "executable": False, "blake3": "0" * 64,
           "sha256": "0" * 64}  # fmt: skip
    assert render_all(changed(complete, files=[pin])) == whole


def test_names_are_distinct():
    names = [report.name for report in reports()]
    assert len(set(names)) == len(names)


def test_render_imports_no_matplotlib():
    script = (
        "import sys, pathlib\n"
        "from artifact.model.load import load_json\n"
        "from artifact.model.results import RunResults\n"
        "from artifact.report.base import render\n"
        "data = pathlib.Path(sys.argv[1]).read_bytes()\n"
        "render(load_json('results', RunResults, data, 'x'))\n"
        "assert not {'matplotlib', 'numpy', 'jinja2'} & set(sys.modules)\n"
    )
    asset = str(ASSETS / "published-h800.json")
    subprocess.run([sys.executable, "-c", script, asset], check=True)


def test_nothing_is_written_where_something_cannot_be_rendered(complete, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("no page")

    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setattr("artifact.report.page.PageReport.render", broken)
    with pytest.raises(RuntimeError, match="no page"):
        write_reports(complete, folder)
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_there(complete, tmp_path):
    with pytest.raises(EnvironmentUnmet) as caught:
        write_reports(complete, tmp_path / "nowhere")
    assert "nowhere" in (caught.value.where or "")


@pytest.mark.parametrize("path", sorted(ASSETS.glob("*.json")), ids=lambda path: path.stem)
def test_the_documents_of_these_tests_match_their_schema(path):
    load_json("results", RunResults, path.read_bytes(), str(path))
