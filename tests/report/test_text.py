import re

import pytest

from artifact.report import words
from artifact.report.text import summary_table


def test_the_table_holds_times_and_ratios(complete):
    text = summary_table(complete, 120)
    assert "NOT COMPARABLE" in text and "UNLOCKED" in text
    line = next(line for line in text.splitlines() if line.startswith("CPU: online softmax, fo"))
    assert re.search(r"8\.2006 / 0\.009206 +12\.4845 / 0\.01075 +168\.5812 / 0\.01274$", line)
    assert "FASTER" in text
    assert complete.protocol_digest[:12] in text
    assert "are not comparable" in text


def test_without_samples_it_says_so(gate_failed):
    text = summary_table(gate_failed, 80)
    assert "INCOMPLETE" in text
    assert "No sample was taken." in text


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_no_line_is_wider_than_asked(published, width):
    for line in summary_table(published, width).splitlines():
        assert len(line) <= width


def test_names_stay_whole_at_80_columns(published):
    text = summary_table(published, 80)
    assert "Triton main: Hopper WS, masked loop" in text


def test_colour_only_if_asked(complete, monkeypatch):
    for name, value in (("FORCE_COLOR", "1"), ("COLORTERM", "truecolor"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    plain = summary_table(complete, 100)
    assert "\x1b" not in plain
    coloured = summary_table(complete, 100, color=True)
    assert "\x1b[32m" in coloured
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


def test_settings_of_the_terminal_change_nothing(complete, monkeypatch):
    before = summary_table(complete, 100)
    for name, value in (("NO_COLOR", "1"), ("COLUMNS", "40"), ("TERM", "dumb"), ("LC_ALL", "C")):
        monkeypatch.setenv(name, value)
    assert summary_table(complete, 100) == before


def test_hostile_text_does_nothing(hostile):
    text = summary_table(hostile, 100)
    assert "\x1b" not in text and "\u202e" not in text
    shown = words.visible(hostile.headings.title)
    assert shown[:20].split()[0] in text


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_cell_is_cut(published, width):
    """Every word of the widest table is there, on however many lines."""
    text = "".join(summary_table(published, width).split())
    for comparison in published.comparisons:
        assert text.count(comparison.verdict.replace(" ", "")) >= 1
    for shape in published.workload.shapes:
        assert text.count(shape.name) == 2
    for comparison in published.comparisons:
        if comparison.low is not None:
            assert f"[{comparison.low:.3f}," in text
            assert f"{comparison.high:.3f}]" in text
