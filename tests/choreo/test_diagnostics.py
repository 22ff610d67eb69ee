"""How findings are kept, ordered and shown."""

from __future__ import annotations

import pytest

from artifact.choreo.diagnostics import CompileError, Diagnostic, Diagnostics, render
from artifact.choreo.syntax import Span, Wildcard


def shown(text: str, span: Span, **more: str) -> list[str]:
    return render(Diagnostic("error", "code", span, "message", **more), "d/t.co", text).split("\n")


def test_place_line_caret_rule_and_repair() -> None:
    found = shown("a\n  x = y;\n", Span(2, 3, 2, 8), rule="the rule", repair="the repair")
    assert found == [
        "d/t.co:2:3: error: message [code]",
        "    x = y;",
        "    ^~~~~",
        "  rule: the rule",
        "  repair: the repair",
    ]


@pytest.mark.parametrize(
    ("text", "span", "line", "caret"),
    [
        ("\tx = y;", Span(1, 2, 1, 3), "      x = y;", "      ^"),
        ("a\tx = y;", Span(1, 3, 1, 4), "  a   x = y;", "      ^"),
        ("a\tb\tc", Span(1, 3, 1, 6), "  a   b   c", "      ^~~~~"),
        ("/* 注釈 */ x;", Span(1, 10, 1, 11), "  /* 注釈 */ x;", "             ^"),
        ("/* e\u0301 */ x;", Span(1, 10, 1, 11), "  /* e\u0301 */ x;", "          ^"),
        ("x = y;\r", Span(1, 1, 1, 2), "  x = y;", "  ^"),
        ("x\x0c = y\u2028;\nz", Span(2, 1, 2, 2), "  z", "  ^"),
        # over lines: to the end of the first
        ("ab (\n c)", Span(1, 4, 2, 3), "  ab (", "     ^"),
        ("ab cd\n c)", Span(1, 4, 2, 3), "  ab cd", "     ^~"),
        # right after the last character, and after the last line
        ("x = 3", Span(1, 6, 1, 7), "  x = 3", "       ^"),
        ("x", Span(2, 1, 2, 2), "  ", "  ^"),
    ],
)
def test_the_caret_is_under_its_place(text: str, span: Span, line: str, caret: str) -> None:
    assert shown(text, span)[1:] == [line, caret]


def test_findings_count_once_and_come_in_order() -> None:
    found = Diagnostics("t.co", "x\ny\n")
    found.add("warning", "a", Wildcard(Span(2, 1, 2, 2)), "second")
    assert not found.failed
    found.raise_errors()
    for _ in range(2):
        found.error("b", Span(1, 1, 1, 2), "first")
    assert found.failed
    assert [d.message for d in found.in_order()] == ["first", "second"]
    with pytest.raises(CompileError) as caught:
        found.raise_errors()
    assert caught.value.what == "t.co does not compile: 1 error"
    assert caught.value.exit_code == 1
    assert caught.value.diagnostics == found.in_order()
    assert caught.value.render().split("\n") == [
        "error: t.co does not compile: 1 error",
        "  - t.co:1:1: error: first [b]",
        "    x",
        "    ^",
        "  - t.co:2:1: warning: second [a]",
        "    y",
        "    ^",
    ]
