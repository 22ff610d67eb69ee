"""What is wrong with a program's form: the place, the words, the repair; and never a crash.

Each file of tests/assets/choreo/broken says itself what is found in it: below a wrong line stands a
comment with a caret under the place, the code and the message.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.lexer import Source
from artifact.choreo.parse import MOST_ERRORS, parse_file
from artifact.choreo.preprocess import split

ROOT = Path(__file__).resolve().parents[2]
BROKEN = sorted((ROOT / "tests/assets/choreo/broken").glob("*.co"))
SOURCES = sorted([*ROOT.glob("kernels/*.co"), *ROOT.glob("tests/assets/choreo/*.co")])

_MARK = re.compile(r"^( *//\s*)(\^~*) ([\w-]+): (.*)$")


def found(text: str) -> list[tuple[int, int, int, str, str]]:
    """Line, column, width, code and message of each finding; a file with none has a tree."""
    diagnostics = Diagnostics("t.co", text)
    file = parse_file(text, "t.co", {}, diagnostics)
    assert (file is None) == diagnostics.failed
    return [
        (d.span.line, d.span.column, d.span.end_column - d.span.column, d.code, d.message)
        for d in diagnostics.in_order()
    ]


def in_body(statement: str) -> list[str]:
    """``line:column: message`` of each finding in a body."""
    text = f"__co__ void f(int n) {{\n{statement}\n}}\n"
    return [f"{line - 1}:{column}: {message}" for line, column, _, _, message in found(text)]


def repairs(statement: str) -> list[str | None]:
    text = f"__co__ void f(int n) {{\n{statement}\n}}\n"
    diagnostics = Diagnostics("t.co", text)
    parse_file(text, "t.co", {}, diagnostics)
    return [d.repair for d in diagnostics.in_order()]


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_files_say_what_is_wrong_with_them(path: Path) -> None:
    expected = []
    line = 0
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, content in enumerate(lines, start=1):
        if mark := _MARK.match(content):
            expected.append((line, len(mark[1]) + 1, len(mark[2]), mark[3], mark[4]))
        else:
            line = number
    assert len(expected) > 5
    assert found("\n".join(lines)) == expected


@pytest.mark.parametrize(
    ("statement", "repair"),
    [
        (
            "k = tma.copy.async<full.at(i)> q => tile;",
            "write k = tma.load.async .. => ..; trigger full.at(i) after k;",
        ),
        (
            "tma.load.async<full> q => tile;",
            "write load = tma.load.async .. => ..; trigger full after load;",
        ),
        ("mma.wait<1>;", "write op = mma.row.row.async ..; and wait op;"),
        ("setreg_dec(40);", "write call croq::cuda::setreg_dec(40);"),
        ("setreg_inc(A, B);", "write call croq::cuda::setreg_inc(..);"),
        ("k = dma.load q => shared;", "write dma.copy, or tma.load"),
        ("tma.store t => q;", "write tma.copy tile => view;"),
        ("l = tma.load.swiz<64>.evict_first q => t;", "write .evict_first.swiz<64>"),
        ("event e;", "write shared event ..;"),
        ("shared event e = full;", "write = ready, or leave the initialiser out"),
        (
            "[[maxnreg(9)]] parallel p by 1 {}",
            "write [[launch_bounds(_, 1)]], and setreg_dec and setreg_inc by role",
        ),
        ("x = (half)y;", "write __to<half>(..)"),
        ("x = 3f;", "write 3.0f"),
        ("x = 007;", "write 7: a leading zero would be octal in C++"),
        ("v = q.chnkat(w, _);", "is .chunkat meant?"),
        ("uint32_t k = 3;", "write u32"),
        ("frag f33 [64] f;", "is f32 meant?"),
        ("f(x);", "write call f(..);"),
    ],
)
def test_repairs(statement: str, repair: str) -> None:
    assert repairs(statement) == [repair]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("__co__ f(int n) { }", (1, 9, "'(' cannot stand here: expected a name or '['")),
        ("__co__ void f(int n);", (1, 21, "';' cannot stand here: expected '{'")),
        ("__co__ void f(int) { }", (1, 18, "')' cannot stand here: expected a name")),
        ("__co__ bf16 [64] f() { }", (1, 8, "a __co__ function that returns a value is not supp")),
        ("__co__ void f(global f32 x) { }", (1, 15, "a global parameter needs a shape")),
        ("__co__ void f(shared f32 [3] x) { }", (1, 15, "a parameter cannot be shared")),
        ("__co__ void f(f31 [3] x) { }", (1, 15, "'f31' is no type")),
        ("#define A x y\n__co__ void f() { A; }", (2, 19, "'y' (from macro A) has no value")),
        ("#define A * 3\n__co__ void f() { x = A; }", (2, 23, "'*' (from macro A) cannot stand ")),
        ("#define A (float)\n__co__ void f() { x = A y; }", (2, 23, "casts as in C are not in ")),
        ("#define A @\n__co__ void f() { x = A; }", (2, 23, "the character '@' is not in the lan")),
    ],
)
def test_heads_and_macros(text: str, place: tuple[int, int, str]) -> None:
    line, column, _, _, message = found(text)[0]
    assert (line, column) == place[:2]
    assert message.startswith(place[2])


def test_a_missing_semicolon_is_after_what_it_ends() -> None:
    assert in_body("x = 1\ny = 2;") == ["1:6: a ';' is missing after '1'"]
    assert in_body("wait e") == ["1:7: a ';' is missing after 'e'"]
    assert in_body("{ break }") == ["1:8: a ';' is missing after 'break'"]


def test_words_of_the_language_are_no_names() -> None:
    for word in ("wait", "shared", "mma", "inf"):
        assert in_body(f"int {word} = 1;") == [
            f"1:5: '{word}' is a word of the language and cannot be a name"
        ]
    # these mean something in their own places only
    for word in ("block", "thread", "ready", "in", "by", "after", "copy", "launch_bounds", "load"):
        assert in_body(f"{word} = 1; x = {word} + 1; frag f32 [4] {word};") == []


def test_errors_are_limited() -> None:
    assert len(in_body("x = ;\n" * (MOST_ERRORS + 5))) == MOST_ERRORS


def test_an_error_in_a_head_leaves_out_its_body() -> None:
    assert in_body("if (x > ) { y = ; }\nz = ;") == [
        "1:9: ')' cannot stand here: expected an expression",
        "2:5: ';' cannot stand here: expected an expression or an operation (dma, tma, mma)",
    ]


def test_brackets_have_a_limit() -> None:
    assert in_body("x = " + "(" * 40 + "1" + ")" * 40 + ";") == []
    assert in_body("x = " + "(" * 99 + "1" + ")" * 99 + ";") == [
        "1:68: more than 64 brackets are open here"
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_kernel_cut_short_is_an_error(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (function,) = [r for r in split(text, "t.co", {}, Diagnostics("", "")) if r.tokens]
    source = Source(text)
    start = source.offset(function.span.line, function.span.column)
    ends = [end for _, end in source.tokens(start, start + len(function.original))][:-1]
    for end in ends[:: max(1, len(ends) // 25)]:
        assert found(text[:end])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_mutated_kernels_never_crash(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SOURCES)).read_text(encoding="utf-8")
    start = text.index("__co__ void")
    for _ in range(data.draw(st.integers(1, 3))):
        words = [
            (end - len(token.text), end) for token, end in Source(text).tokens(start, len(text))
        ]
        (first, first_end), (second, second_end) = sorted(
            data.draw(st.lists(st.sampled_from(words), min_size=2, max_size=2))
        )
        how = data.draw(st.sampled_from(["delete", "double", "swap", "character"]))
        if how == "delete":
            text = text[:first] + text[first_end:]
        elif how == "double":
            text = text[:first_end] + " " + text[first:second_end] + " " + text[first_end:]
        elif how == "swap" and first_end <= second:
            moved = text[second:second_end] + text[first_end:second] + text[first:first_end]
            text = text[:first] + moved + text[second_end:]
        else:
            text = text[:first] + data.draw(st.characters(max_codepoint=300)) + text[first + 1 :]
        start = min(start, len(text))
    lines = text.split("\n")
    for line, column, _, _, message in found(text):
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1
        assert message


_WORDS = [
    "parallel",
    "tma",
    ".load",
    "=>",
    "shared",
    "event",
    "wait",
    "if",
    "else",
    "foreach",
    "in",
]
_WORDS += [*"{}()[];,=.<>+-*#|&?:_^~!x1", "\n", "by", ".at"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(_WORDS), max_size=40).map(" ".join))
def test_any_body_gives_a_tree_or_errors(text: str) -> None:
    source = f"__co__ void f() {{\n{text}\n}}\n"
    diagnostics = Diagnostics("t.co", source)
    file = parse_file(source, "t.co", {}, diagnostics)
    assert (file is None) == diagnostics.failed
    assert file is None or isinstance(file, syntax.File)
