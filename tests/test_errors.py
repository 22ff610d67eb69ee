"""How an error looks on a terminal."""

from __future__ import annotations

from artifact.errors import ArtifactError


def test_what_a_terminal_acts_on_is_written_as_text() -> None:
    bad = "a\x1b[31m\rb\x9b\nc"
    error = ArtifactError(
        bad, where=bad, expected=bad, found=bad, cause=bad, next=bad, details=(bad,)
    )
    text = error.render()
    assert text.replace("\n", "").isprintable()
    assert text.count(r"a\x1b[31m\x0db\x9b") == 7


def test_every_line_of_an_answer_is_aligned() -> None:
    assert ArtifactError("x", found="a\nb\n", next="").render().splitlines() == [
        "error: x",
        "  found:    a",
        "            b",
        "  next:     ",
    ]
