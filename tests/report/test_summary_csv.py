import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifact.report import words
from artifact.report.plots import unguard
from artifact.report.summary_csv import COLUMNS, CsvReport, guard

NUMBERS = ("samples", "median_ms", "min_ms", "max_ms", "rate", "rate_min", "rate_max",
           "ratio_to_anchor", "ratio_low", "ratio_high", "drift", "detectable", "warmup",
           "repeat", "rounds")  # fmt: skip


def render(results):
    return CsvReport().render(results, {})["summary.csv"]


def read(results):
    text = render(results).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_every_row_reads_back_to_the_same_floats(every):
    rows = read(every)
    assert len(rows) == len(every.summary)
    for row, summary in zip(rows, every.summary, strict=True):
        for name in ("median_ms", "min_ms", "max_ms", "rate", "rate_min", "rate_max"):
            assert float(row[name]) == getattr(summary, name)
        assert int(row["samples"]) == summary.samples
        assert (row["backend"], row["shape"]) == (summary.backend, summary.shape)


def test_comparisons_stand_beside_their_rows(complete):
    rows = {(row["backend"], row["shape"]): row for row in read(complete)}
    for comparison in complete.comparisons:
        row = rows[comparison.backend, comparison.shape]
        assert row["verdict"] == comparison.verdict
        assert row["anchor"] == "cpu-direct"
        for column, value in (
            ("ratio_to_anchor", comparison.ratio),
            ("ratio_low", comparison.low),
            ("ratio_high", comparison.high),
            ("drift", comparison.drift),
            ("detectable", comparison.detectable),
        ):
            assert (float(row[column]) if row[column] else None) == value


def test_the_form_is_fixed(published):
    data = render(published)
    assert data.startswith(b"backend,title,remark,shape,")
    assert not data.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in data
    assert data.endswith(b"\n") and not data.endswith(b"\n\n")
    assert data.count(b"\n") == 1 + 8 * 3
    assert data == render(published)


def test_a_run_without_samples_is_a_header(gate_failed):
    assert render(gate_failed).decode() == ",".join(COLUMNS) + "\n"


def test_marks_protocol_and_note_are_in_each_row(interrupted):
    for row in read(interrupted):
        assert row["marks"] == "INCOMPLETE; UNLOCKED; NOT COMPARABLE"
        assert row["protocol_digest"] == interrupted.protocol_digest
        assert row["note"] == interrupted.workload.note
        assert row["run_id"] == interrupted.run_id


FORMULA = re.compile(r"^[\s\"]*[=+\-@\t\r\n＝＋－＠]")


def test_no_cell_is_a_formula(hostile):
    text = render(hostile).decode("utf-8")
    for separator in (",", ";", "\t", "|"):
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            for cell in row:
                for piece in cell.split("\n"):
                    if FORMULA.match(piece):
                        # A negative number is one, and stays one.
                        float(piece)
    assert len(read(hostile)) == len(hostile.summary)


def test_hostile_text_comes_back_as_it_is_shown(hostile):
    for row in read(hostile):
        assert unguard(row["heading"]) == words.visible(hostile.headings.title)
        assert unguard(row["unit"]) == words.visible(hostile.metric.name)
    assert unguard(read(hostile)[0]["title"]) == words.visible(hostile.backends[0].title)


def test_numbers_are_plain_numbers(every):
    for row in read(every):
        for column in NUMBERS:
            if row[column]:
                assert row[column] == repr(float(row[column])).removesuffix(
                    ".0" if "." not in row[column] else ""
                )


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ("plain", "plain"),
        ("=1", "'=1"),
        ("a;=1", "a;'=1"),
        ('";"=1', '";\'"=1'),
        ("'x", "''x"),
        ("a-b+c", "a-b+c"),
        ("＝1", "'＝1"),
        ("", ""),
    ],
)
def test_guard(text, guarded):
    assert guard(text) == guarded


@given(st.text(alphabet="=+-@'\";,|\t\r\nab＝"))
def test_the_guard_comes_off_without_loss(text):
    assert unguard(guard(text)) == text


@given(st.text(alphabet="=+-@'\";,|ab", min_size=1))
def test_a_guarded_text_is_no_formula_in_any_dialect(text):
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(["x", guard(text), "y"])
    for separator in (",", ";", "|"):
        for row in csv.reader(io.StringIO(stream.getvalue(), newline=""), delimiter=separator):
            assert not any(FORMULA.match(cell) for cell in row)
