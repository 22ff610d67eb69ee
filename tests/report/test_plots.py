import csv
import io
import os
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from artifact.report import plots
from artifact.report.summary_csv import CsvReport

SCRIPT = Path(plots.__file__)


def table(results):
    return CsvReport().render(results, {})["summary.csv"]


def edited(data, edit):
    """The CSV with its rows (the header first) changed by ``edit``."""
    rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))
    edit(rows)
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue().encode("utf-8")


def column(rows, name):
    return rows[0].index(name)


@pytest.fixture
def nine(published):
    """The published table with a ninth backend, whose name is long."""

    def edit(rows):
        for row in [row for row in rows if row[0] == "triton-ws"]:
            other = ["triton-ws-2", "Triton main: Hopper warp specialization, split loops, tuned"]
            rows.append(other + row[2:])

    return edited(table(published), edit)


def png_size(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[12:16] == b"IHDR" and data[-8:-4] == b"IEND"
    return struct.unpack(">II", data[16:24])


def drawn(data):
    """The figure, within the settings that files are drawn with."""
    with plots._quiet_matplotlib():
        figure = plots.figure(plots.read(data))
        figure.canvas.draw()
        return figure


def test_png_and_svg(published):
    files = plots.draw(table(published))
    assert set(files) == {"tflops.png", "tflops.svg"}
    width, height = png_size(files["tflops.png"])
    assert 1500 < width < 3000 and 600 < height < 1500
    root = ET.fromstring(files["tflops.svg"])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(files["tflops.svg"]) < 400_000


def test_nothing_in_the_svg_is_fetched_or_run(published):
    svg = plots.draw(table(published))["tflops.svg"]
    root = ET.fromstring(svg)
    for element in root.iter():
        assert not element.tag.endswith(("}script", "}image", "}foreignObject", "}a"))
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on")
            if name.endswith("href"):
                assert value.startswith("#")
    assert b"url(http" not in svg and b"@import" not in svg


def test_all_panels_share_one_scale_from_zero(published):
    axes = drawn(table(published)).axes
    assert len(axes) == 3
    assert {a.get_xlim() for a in axes} == {axes[0].get_xlim()}
    low, high = axes[0].get_xlim()
    assert low == 0
    assert high > max(row.rate_max for row in published.summary)


def test_bars_are_the_rates_and_whiskers_the_ranges(published):
    axes = drawn(table(published)).axes
    for panel, shape in zip(axes, published.workload.shapes, strict=True):
        rows = [row for row in published.summary if row.shape == shape.name]
        bars = sorted(panel.patches, key=lambda bar: bar.get_y())
        assert [bar.get_width() for bar in bars] == [row.rate for row in rows]
        assert {bar.get_x() for bar in bars} == {0}
        spans = [c.get_segments()[0] for c in panel.collections]
        found = sorted((s[0][1], s[0][0], s[1][0]) for s in spans)
        assert [f[1] for f in found] == pytest.approx([row.rate_min for row in rows])
        assert [f[2] for f in found] == pytest.approx([row.rate_max for row in rows])


def test_values_are_printed(published):
    axes = drawn(table(published)).axes
    texts = {text.get_text() for panel in axes for text in panel.texts}
    assert {"394.3", "414.7", "424.8", "213.0"} <= texts


def test_the_anchor_is_told_apart_without_colour(published):
    panel = drawn(table(published)).axes[0]
    bars = sorted(panel.patches, key=lambda bar: bar.get_y())
    assert [bool(bar.get_hatch()) for bar in bars] == [True] + [False] * 7
    labels = [label.get_text() for label in panel.get_yticklabels()]
    assert labels[0] == "FlashAttention-3 (anchor)"


def boxes(figure, texts):
    renderer = figure.canvas.get_renderer()
    return [t.get_window_extent(renderer) for t in texts if t.get_text() and t.get_visible()]


def test_nine_backends_are_readable(nine):
    with plots._quiet_matplotlib():
        figure = plots.figure(plots.read(nine))
        figure.canvas.draw()
        everything = [t for a in figure.axes for t in (*a.texts, *a.get_yticklabels(), a.title)]
        ticks = [(a, t) for a in figure.axes for t in a.get_xticklabels()]
        everything += [t for a, t in ticks if t.get_position()[0] <= a.get_xlim()[1]]
        everything += [a._left_title for a in figure.axes] + list(figure.texts)
        found = boxes(figure, everything)
        width, height = figure.canvas.get_width_height()
    assert len(found) == 9 * 3 + 9 + 3 * 4 + 3 + 6
    for i, box in enumerate(found):
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
        for other in found[i + 1 :]:
            assert not box.overlaps(other)


def test_labels_do_not_meet_bars_or_whiskers(nine):
    with plots._quiet_matplotlib():
        figure = plots.figure(plots.read(nine))
        figure.canvas.draw()
        for panel in figure.axes:
            top = max(bar.high for bar in plots.read(nine).bars.values())
            end = panel.transData.transform((top, 0))[0]
            assert all(box.x0 > end for box in boxes(figure, panel.texts))


def test_marks_and_protocol_stand_in_the_figure(interrupted):
    texts = " ".join(text.get_text() for text in drawn(table(interrupted)).texts)
    for mark in ("INCOMPLETE", "UNLOCKED", "NOT COMPARABLE"):
        assert mark in texts
    assert interrupted.protocol_digest[:12] in texts
    assert "Causal prefill attention" in texts
    assert "TFLOPS" in texts
    assert "Example CPU" in texts
    assert "not a confidence interval" in " ".join(texts.split())


def test_a_missing_cell_is_named_and_not_a_zero_bar(interrupted):
    panel = drawn(table(interrupted)).axes[2]
    assert "no samples" in {text.get_text() for text in panel.texts}
    assert len(panel.patches) == 2


def test_many_shapes_wrap_into_rows(published):
    def edit(rows):
        shape = column(rows, "shape")
        for row in [row for row in rows[1:] if row[shape] == "S=4096"]:
            for name in ("S=1", "S=2", "S=3", "S=5"):
                rows.append([*row[:shape], name, *row[shape + 1 :]])

    figure = drawn(edited(table(published), edit))
    assert len(figure.axes) == 7
    assert {a.get_xlim() for a in figure.axes} == {figure.axes[0].get_xlim()}
    assert figure.get_figheight() > 10


def test_one_bar_alone(published):
    def edit(rows):
        del rows[2:]

    assert png_size(plots.draw(edited(table(published), edit))["tflops.png"])


def test_the_same_table_gives_the_same_bytes_in_another_process(published, tmp_path):
    data = table(published)
    first = plots.draw(data)
    assert plots.draw(data) == first
    (tmp_path / "summary.csv").write_bytes(data)
    environment = {**os.environ, "TZ": "Pacific/Auckland", "PYTHONHASHSEED": "7", "LC_ALL": "C"}
    subprocess.run(
        [sys.executable, str(SCRIPT), "summary.csv", "--output", "out"],
        cwd=tmp_path, env=environment, check=True,
    )  # fmt: skip
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == first


def test_the_script_needs_nothing_but_the_csv(complete, tmp_path):
    folder = tmp_path / "download"
    folder.mkdir()
    shutil.copy(SCRIPT, folder / "plots.py")
    (folder / "summary.csv").write_bytes(table(complete))
    # -I: neither the package of this checkout nor the user's settings can be imported.
    done = subprocess.run(
        [sys.executable, "-I", "-c",
         "import runpy, sys\nsys.modules['artifact'] = None\n"
         "sys.argv = ['plots.py', 'summary.csv', '--output', '.']\n"
         "runpy.run_path('plots.py', run_name='__main__')"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["tflops.png", "tflops.svg"]
    assert sorted(p.name for p in folder.iterdir()) == [
        "plots.py", "summary.csv", "tflops.png", "tflops.svg"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [
        {"HOME": "/nonexistent", "MPLBACKEND": "no-such-backend"},
        {"MPLCONFIGDIR": "/proc/nowhere", "MPLBACKEND": "module://matplotlib_inline.x"},
    ],
    ids=str,
)
def test_surroundings_neither_fail_nor_print(complete, tmp_path, settings):
    (tmp_path / "summary.csv").write_bytes(table(complete))
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: black\nno.such.key: 1\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **settings}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "summary.csv", "--output", "out"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out/tflops.png").read_bytes() == plots.draw(table(complete))["tflops.png"]


def test_drawing_leaves_matplotlib_as_it_was(complete, monkeypatch):
    import matplotlib

    monkeypatch.setenv("MPLBACKEND", "svg")
    before = dict(matplotlib.rcParams)
    plots.draw(table(complete))
    assert dict(matplotlib.rcParams) == before
    assert os.environ["MPLBACKEND"] == "svg"


@pytest.mark.parametrize(
    "text",
    [
        "</svg><script>alert(1)</script> --> ]]> &amp; \"'",
        "$\\frac{x$ and $y^2$",
        "x" * 300,
        "漢字" * 40,
        "bell\x07 escape\x1b \u202eoverride",
    ],
    ids=ascii,
)
def test_hostile_text_is_drawn_as_text(published, text):
    def edit(rows):
        del rows[5:]
        for name in ("heading", "caption", "note", "axis", "device", "workload", "marks", "unit"):
            for row in rows[1:]:
                row[column(rows, name)] = text
        for name in ("title", "shape"):
            rows[1][column(rows, name)] = rows[2][column(rows, name)] = text
        del rows[2:4]

    files = plots.draw(edited(table(published), edit))
    png_size(next(data for name, data in files.items() if name.endswith(".png")))
    svg = next(data for name, data in files.items() if name.endswith(".svg"))
    for element in ET.fromstring(svg).iter():
        assert not element.tag.endswith(("}script", "}image", "}foreignObject"))


@pytest.mark.parametrize(
    ("unit", "stem"),
    [("TFLOPS", "tflops"), ("GB/s", "gb-s"), ("../../x", "x"), ("漢字", "rate"), ("=1", "1")],
)
def test_file_names_come_from_the_unit(unit, stem):
    assert plots.stem(unit) == stem


def set_cell(name, value, row=3):
    def edit(rows):
        rows[row][column(rows, name)] = value

    return edit


def drop_column(name):
    def edit(rows):
        at = column(rows, name)
        for row in rows:
            del row[at]

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (set_cell("rate", "394,3"), r"row 4: rate: expected a positive number, found '394,3'"),
        (set_cell("rate", ""), r"row 4: rate: expected a positive number"),
        (set_cell("rate_min", "nan"), r"row 4: rate_min: expected a positive number, found 'nan'"),
        (set_cell("rate_max", "inf"), r"row 4: rate_max: expected a positive number"),
        (set_cell("rate", "-1"), r"row 4: rate: expected a positive number"),
        (set_cell("rate_max", "0.001"), r"row 4: rate: .* is not between"),
        (set_cell("run_id", "other"), r"row 4: run_id: expected '20260921.*rows of two runs"),
        (set_cell("title", "Other"), r"row 4: title: fa3 has two titles"),
        (set_cell("remark", "other"), r"row 4: remark: fa3 has two remarks"),
        (set_cell("shape", "S=4096"), r"row 4: fa3 at S=4096 stands in the table twice"),
        (lambda rows: rows[5].pop(), r"row 6: expected 34 cells, found 33"),
        (lambda rows: rows.__delitem__(slice(1, None)), r"row 2: expected at least one row"),
        (lambda rows: rows.clear(), r"row 1: the file is empty"),
        (drop_column("rate"), r"row 1: the header lacks rate"),
    ],
)
def test_a_bad_table_is_one_line_with_its_row(published, edit, message):
    data = edited(table(published), edit)
    with pytest.raises(plots.TableError, match=message) as caught:
        plots.read(data, "summary.csv")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("summary.csv: row")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe\x00", "byte 0 is not UTF-8"),
        (b'backend,"title\nx', "row 1"),
        (b"\x89PNG\r\n\x1a\n", "not UTF-8"),
    ],
)
def test_bytes_that_are_no_table(data, message):
    with pytest.raises(plots.TableError, match=message):
        plots.read(data)


def test_a_spreadsheet_may_have_saved_it(published):
    data = table(published)
    again = b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")
    assert plots.read(again) == plots.read(data)


def run(*arguments, capsys):
    code = plots.main([str(argument) for argument in arguments])
    return (code, *capsys.readouterr())


def test_main_says_what_is_wrong(tmp_path, capsys, published):
    bad = tmp_path / "bad.csv"
    bad.write_bytes(edited(table(published), set_cell("rate", "x")))
    code, out, err = run(bad, capsys=capsys)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("error: bad.csv: row 4: rate:")
    code, out, err = run(tmp_path / "none.csv", capsys=capsys)
    assert code == 3 and "none.csv" in err and err.count("\n") == 1
    good = tmp_path / "summary.csv"
    good.write_bytes(table(published))
    (tmp_path / "file").write_text("")
    code, out, err = run(good, "--output", tmp_path / "file", capsys=capsys)
    assert code == 3 and err.count("\n") == 1


def test_main_without_matplotlib(tmp_path, published):
    (tmp_path / "summary.csv").write_bytes(table(published))
    (tmp_path / "matplotlib.py").write_text("raise ImportError('No module named matplotlib')")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "summary.csv"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "pip install matplotlib" in done.stderr and done.stderr.count("\n") == 1


def test_main_leaves_no_half_figure(tmp_path, published, monkeypatch, capsys):
    (tmp_path / "summary.csv").write_bytes(table(published))
    output = tmp_path / "out"

    def full(*_):
        raise OSError(28, "No space left on device", "tflops.png")

    monkeypatch.setattr(plots.Path, "replace", full)
    code, _, err = run(tmp_path / "summary.csv", "--output", output, capsys=capsys)
    assert (code, list(output.iterdir())) == (3, [])
    assert "No space left on device" in err
