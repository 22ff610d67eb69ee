import locale

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifact.report import words


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.3943981, "1.3944"), (35.3456, "35.3456"), (0.1, "0.1000"), (0.012345, "0.01235")],
)
def test_milliseconds(value, text):
    assert words.milliseconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (394.260, "394.3"),
        (213.0, "213.0"),
        (0.0212999, "0.02130"),
        (12345.6, "12346"),
        (0, "0"),
        (3e-12, "3.000e-12"),
        (7.5e13, "7.500e+13"),
        (9.99999, "10.000"),
    ],
)
def test_significant(value, text):
    assert words.significant(value) == text


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_significant_reads_back_to_four_digits(value):
    assert float(words.significant(value)) == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.04, "0.04 s"), (12.34, "12.3 s"), (99.96, "100.0 s"), (307.2, "5 min 7 s"),
     (3599.7, "1 h 0 min"), (7380, "2 h 3 min")],
)  # fmt: skip
def test_seconds(value, text):
    assert words.seconds(value) == text


def test_percent_and_ratio():
    assert words.percent(0.005164) == "+0.52 %"
    assert words.percent(-0.0181) == "-1.81 %"
    assert words.percent(0.0451, signed=False) == "4.51 %"
    assert words.ratio(0.99815) == "0.998"
    assert words.ratio(0.001234) == "0.001234"


def test_plural():
    assert words.plural(1, "launch") == "1 launch"
    assert words.plural(200, "launch") == "200 launches"
    assert words.plural(3, "round") == "3 rounds"


def test_visible_writes_out_what_acts():
    assert words.visible("a\x1b[31m\nb\u202ec\u2028") == "a\\x1b[31m\\x0ab\\u202ec\\u2028"
    assert words.visible_lines("a\nb\x07") == "a\nb\\x07"


def test_visible_keeps_what_people_write():
    text = "Größe 漢字 שלום 👩\u200d🔬 °C –"
    assert words.visible(text) == text


@given(st.text())
def test_visible_is_one_line_and_stays(text):
    shown = words.visible(text)
    assert shown.splitlines() in ([], [shown])
    assert words.visible(shown) == shown
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in shown)
    shown.encode("utf-8")


def test_no_locale_changes_a_number(monkeypatch):
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8"):
        try:
            before = locale.setlocale(locale.LC_ALL)
            locale.setlocale(locale.LC_ALL, name)
        except locale.Error:
            continue
        try:
            assert words.milliseconds(1234.5) == "1234.5000"
            assert words.count(1234567) == "1,234,567"
        finally:
            locale.setlocale(locale.LC_ALL, before)


def test_marks_of_a_complete_run(complete, published):
    assert words.marks(complete) == ("UNLOCKED", "NOT COMPARABLE")
    assert words.marks(published) == ()


def test_an_incomplete_run_says_so_first(interrupted):
    assert words.marks(interrupted)[0] == "INCOMPLETE"


def test_protocol_line(published):
    assert words.protocol_line(published) == (
        f"protocol paper {published.protocol_digest[:12]}: 50 warm-ups, 200 launches a sample, "
        "3 rounds, paper order, clock cuda-events, at most 65 °C before each backend"
    )
