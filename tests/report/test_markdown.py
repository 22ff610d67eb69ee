from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from artifact.report import facts, words
from artifact.report.markdown import MarkdownReport, code, escape


def parser():
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


class Shown(HTMLParser):
    """What a rendered page shows: tags, and the text of each cell, paragraph and item."""

    def __init__(self, markdown):
        super().__init__(convert_charrefs=True)
        self.tags, self.blocks = [], []
        self.feed(parser().render(markdown))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("td", "th", "p", "li", "h1", "h2"):
            self.blocks.append("")

    def handle_data(self, data):
        if self.blocks:
            self.blocks[-1] += data


def render(results):
    return MarkdownReport().render(results, {})["summary.md"].decode("utf-8")


def test_deterministic_and_one_newline_at_the_end(every):
    text = render(every)
    assert text == render(every)
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert "\r" not in text


def test_title_then_marks(interrupted):
    lines = render(interrupted).splitlines()
    assert lines[0] == "# Causal prefill attention, BF16, D=128"
    assert lines[2] == "**INCOMPLETE · UNLOCKED · NOT COMPARABLE**"


def test_a_clean_run_has_no_marks(published):
    assert "**" not in render(published).replace("\\*", "")


def test_every_table_is_a_table_to_a_parser(every):
    shown = Shown(render(every))
    assert shown.tags.count("table") == len(facts.every_table(every))
    cells = [cell.text for t in facts.every_table(every) for row in t.rows for cell in row]
    assert shown.tags.count("td") == len(cells)
    found = {block.strip() for block in shown.blocks}
    assert {cell.strip() for cell in cells} <= found


def test_the_error_of_a_run_comes_before_its_tables(interrupted):
    text = render(interrupted)
    assert text.index("Why it ended early") < text.index("| Implementation")
    assert "exit status -9" in text
    assert "logs/cpu-reverse.log" in text


def test_it_says_how_to_check(published):
    text = render(published)
    assert "`artifact verify results/20260921-h800-bf16`" in text
    assert "`artifact report results/20260921-h800-bf16`" in text


def test_hostile_text_stays_text(hostile):
    text = render(hostile)
    shown = Shown(text)
    allowed = {"h1", "h2", "p", "strong", "blockquote", "ul", "li", "code", "br",
               "table", "thead", "tbody", "tr", "th", "td"}  # fmt: skip
    assert set(shown.tags) <= allowed
    assert shown.tags.count("h1") == 1
    assert shown.tags.count("table") == len(facts.every_table(hostile))
    assert "\x1b" not in text and "\u202e" not in text
    assert shown.blocks[0].strip() == words.visible(hostile.headings.title).strip()


@given(st.text(min_size=1))
def test_any_text_in_a_cell_shows_as_itself(text):
    shown = Shown(f"| head | x |\n| --- | --- |\n| {escape(text)} | end |\n")
    assert shown.tags.count("td") == 2
    assert set(shown.tags) <= {"table", "thead", "tbody", "tr", "th", "td"}
    assert shown.blocks[2].strip() == words.visible(text).strip()


@example(" -")
@example("    four blanks")
@given(st.text(alphabet="ab1 *_`[](){}<>|#~-+=.!&;:/\\@$^", min_size=1))
def test_any_text_in_a_paragraph_shows_as_itself(text):
    markdown = escape(text)
    shown = Shown(markdown)
    assert set(shown.tags) <= {"p"}
    assert "".join(shown.blocks).strip() == text.strip()


@given(st.text(alphabet="ab `\\*", min_size=1).filter(lambda text: text.strip()))
def test_any_text_in_a_code_span_shows_as_itself(text):
    shown = Shown(f"x: {code(text)}")
    assert "".join(shown.blocks).removeprefix("x: ").strip() == text.strip()


@pytest.mark.parametrize("text", ["http://g.example", "www.g.example", "@someone"])
def test_nothing_links_or_mentions_by_itself(text):
    # Code hosts link bare addresses and names; a comment or an entity breaks them up.
    assert text not in escape(text)


def test_readable_as_plain_text():
    for text in ("x86_64", "baselines/cpu_reference.py", "0.998 [0.935, 1.082] TIE", "1.3944"):
        assert escape(text) == text
