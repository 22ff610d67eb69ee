import json

import pytest

from artifact import __version__
from artifact.errors import UsageError
from artifact.model.load import dump_json, load_json
from artifact.model.lock import FilePin
from artifact.model.results import RunResults
from artifact.report import again
from artifact.report.again import write_again, write_elsewhere

REPORTS = {"summary.csv", "summary.md", "provenance.json", "tflops.png", "tflops.svg",
           "report.html"}  # fmt: skip


def pin(path):
    from artifact.integrity.digest import hash_file

    digests = hash_file(path)
    return FilePin(
        path=path.name, size=path.stat().st_size, executable=False,
        blake3=digests.blake3, sha256=digests.sha256,
    )  # fmt: skip


@pytest.fixture
def run(complete, whole, tmp_path):
    """A whole run folder and its results, as the runner leaves them."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name, data in whole.items():
        (folder / name).write_bytes(data)
    pins = tuple(pin(path) for path in sorted(folder.iterdir()))
    results = complete.model_copy(update={"files": pins})
    data = dump_json("results", results, "results.json")
    (folder / "results.json").write_bytes(data)
    return folder, load_json("results", RunResults, data, "results.json")


def statuses(outcomes):
    return {outcome.name: outcome.status for outcome in outcomes}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_whole_run_is_unchanged(run):
    folder, results = run
    before = contents(folder)
    assert statuses(write_again(results, folder)) == dict.fromkeys(REPORTS, "unchanged")
    assert contents(folder) == before


def test_what_is_missing_is_put_back(run):
    folder, results = run
    before = contents(folder)
    for name in REPORTS:
        (folder / name).unlink()
    assert statuses(write_again(results, folder)) == dict.fromkeys(REPORTS, "restored")
    assert contents(folder) == before


def test_the_figures_come_from_the_csv_alone(run):
    from artifact.report import plots

    folder, _ = run
    (folder / "results.json").unlink()
    csv = (folder / "summary.csv").read_bytes()
    assert plots.draw(csv) == {
        name: data for name, data in contents(folder).items() if name.startswith("tflops")
    }


@pytest.mark.parametrize("name", ["summary.csv", "tflops.png"])
def test_a_changed_file_is_refused_and_left_alone(run, name):
    folder, results = run
    (folder / name).write_bytes(b"something of the user")
    (folder / "summary.md" if name != "summary.md" else folder / "summary.csv").unlink()
    found = statuses(write_again(results, folder))
    assert found[name] == "refused"
    assert (folder / name).read_bytes() == b"something of the user"
    assert sorted(found.values()) == ["refused", "restored"] + ["unchanged"] * 4


def test_a_link_in_place_of_a_file_is_refused(run):
    folder, results = run
    target = folder.parent / "elsewhere"
    (folder / "summary.md").rename(target)
    (folder / "summary.md").symlink_to(target)
    assert statuses(write_again(results, folder))["summary.md"] == "refused"
    assert (folder / "summary.md").is_symlink()


def redrawn(monkeypatch, names):
    """Make the named files come out with other bytes, as another matplotlib would."""
    real = again.render_all

    def other(results):
        return {n: d + b" " if n in names else d for n, d in real(results).items()}

    monkeypatch.setattr(again, "render_all", other)


def test_figures_of_another_matplotlib_are_kept(run, monkeypatch):
    folder, results = run
    redrawn(monkeypatch, {"tflops.png", "report.html"})
    before = contents(folder)
    found = statuses(write_again(results, folder))
    assert found["tflops.png"] == found["report.html"] == "kept"
    assert contents(folder) == before


def test_a_missing_figure_that_comes_out_otherwise_is_refused(run, monkeypatch):
    folder, results = run
    redrawn(monkeypatch, {"tflops.png"})
    (folder / "tflops.png").unlink()
    (outcome,) = [o for o in write_again(results, folder) if o.status == "refused"]
    assert outcome.name == "tflops.png" and "other bytes" in outcome.reason
    assert not (folder / "tflops.png").exists()


def test_a_pinned_table_that_does_not_follow_is_refused(run):
    folder, results = run
    (folder / "summary.md").write_text("# faster than everybody\n")
    pins = tuple(pin(folder / p.path) if p.path == "summary.md" else p for p in results.files)
    tool = results.tool.model_copy(update={"version": __version__})
    forged = results.model_copy(update={"files": pins, "tool": tool})
    refused = {o.name: o.reason for o in write_again(forged, folder) if o.status == "refused"}
    assert refused["summary.md"] == "is pinned, but is not what results.json makes"


def test_the_words_of_an_earlier_version_are_kept(run):
    folder, results = run
    assert results.tool.version != __version__
    (folder / "summary.md").write_text("# in other words\n")
    pins = tuple(pin(folder / p.path) if p.path == "summary.md" else p for p in results.files)
    before = contents(folder)
    found = statuses(write_again(results.model_copy(update={"files": pins}), folder))
    assert found == dict.fromkeys(REPORTS, "unchanged") | {"summary.md": "kept"}
    assert contents(folder) == before


def test_a_complete_run_takes_no_new_file(run):
    folder, results = run
    (folder / "report.html").unlink()
    pins = tuple(p for p in results.files if p.path != "report.html")
    found = statuses(write_again(results.model_copy(update={"files": pins}), folder))
    assert found["report.html"] == "left out"
    assert not (folder / "report.html").exists()


def test_an_incomplete_run_is_written_and_marked(interrupted, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "summary.md").write_text("older")
    assert statuses(write_again(interrupted, folder)) == dict.fromkeys(REPORTS, "written")
    for name in ("summary.md", "summary.csv", "report.html"):
        assert "INCOMPLETE" in (folder / name).read_text("utf-8")
    assert json.loads((folder / "provenance.json").read_text())["_type"]
    assert statuses(write_again(interrupted, folder)) == dict.fromkeys(REPORTS, "unchanged")


def test_elsewhere(run, tmp_path):
    folder, results = run
    output = tmp_path / "deep" / "pages"
    assert statuses(write_elsewhere(results, folder, output)) == dict.fromkeys(REPORTS, "written")
    assert set(contents(output)) == REPORTS
    found = write_elsewhere(results, folder, output)
    assert statuses(found) == dict.fromkeys(REPORTS, "unchanged")


def test_elsewhere_overwrites_nothing(run, tmp_path):
    folder, results = run
    output = tmp_path / "pages"
    output.mkdir()
    (output / "summary.md").write_text("mine")
    with pytest.raises(UsageError) as caught:
        write_elsewhere(results, folder, output)
    assert caught.value.found == "summary.md"
    assert contents(output) == {"summary.md": b"mine"}


@pytest.mark.parametrize("inside", [".", "sub", "sub/deeper", "../run"])
def test_elsewhere_is_not_in_the_run(run, inside):
    folder, results = run
    before = contents(folder)
    with pytest.raises(UsageError, match="own folder"):
        write_elsewhere(results, folder, folder / inside)
    assert contents(folder) == before
