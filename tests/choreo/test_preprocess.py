"""Regions of a file and its macros: what is C++ text, what a function is after preprocessing."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.preprocess import Region, quoted_includes, split
from artifact.choreo.syntax import File, Function, Span, Text

FUNCTION = "__co__ void f(int n) { x = 1; }"


def regions(text: str, defines: Mapping[str, str] | None = None) -> list[Region]:
    """The regions of a file without errors."""
    diagnostics = Diagnostics("t.co", text)
    found = split(text, "t.co", defines or {}, diagnostics)
    assert diagnostics.found == []
    return found


def errors(text: str, defines: Mapping[str, str] | None = None) -> list[tuple[int, int, str]]:
    """Place and message of each finding."""
    diagnostics = Diagnostics("t.co", text)
    split(text, "t.co", defines or {}, diagnostics)
    return [(d.span.line, d.span.column, d.message) for d in diagnostics.in_order()]


def words(text: str, defines: Mapping[str, str] | None = None) -> str:
    """The tokens of the one function, with blanks between them."""
    (function,) = [r for r in regions(text, defines) if r.kind == "function"]
    return " ".join(token.text for token in function.tokens)


def body(text: str, defines: Mapping[str, str] | None = None) -> str:
    """The tokens of the one function between its outer braces."""
    return words(text, defines).partition("{ ")[2].removesuffix("}").strip()


# Regions -----------------------------------------------------------------------------------------


def test_a_file_is_cut_at_its_functions() -> None:
    text = f"#include <a>\nint a;\n{FUNCTION}\nint b;{FUNCTION}{FUNCTION} "
    found = regions(text)
    kinds = ["text", "function", "text", "function", "function", "text"]
    assert [r.kind for r in found] == kinds
    assert "".join(r.original for r in found) == text
    assert found[1].span == Span(3, 1, 3, 32)
    assert found[2].original == "\nint b;"


def test_text_without_a_function_is_one_region() -> None:
    assert [r.original for r in regions("int main() { return 0; }\n")] == [
        "int main() { return 0; }\n"
    ]
    assert regions("") == []


@pytest.mark.parametrize(
    "mention",
    [
        "// __co__ void g() {",
        "// spliced \\\n__co__ void g() {",
        "/* __co__ void g() {\n */",
        'const char* a = "__co__ void g() {";',
        'const char* a = "\\"__co__ void g() {";',
        'const char* a = R"(" __co__ void g() {)";',
        'const char* a = R"x(__co__ )" void g() {)x";',
        'auto a = u8R"(__co__)";',
        "char a = '\"'; // __co__ \"",
        "int a = 1'000'000; // __co__ '",
        "int __co__x, x__co__, __coo__;",
        "#define A __co__",
        "#define A \\\n __co__",
        "#pragma __co__",
        "#if 0\n__co__ void g() { broken\n#endif",
        "#ifdef NO\n__co__ void g() {\n#endif",
    ],
)
def test_a_mention_is_no_function(mention: str) -> None:
    text = f"{mention}\n{FUNCTION}\n"
    found = regions(text)
    assert [r.kind for r in found] == ["text", "function", "text"]
    assert found[0].original == mention + "\n"


def test_braces_in_strings_and_comments_do_not_end_a_function() -> None:
    text = '__co__ void f() { assert(1, "}"); /* } */ // }\n x = 1; } int a;'
    assert regions(text)[0].original.endswith("x = 1; }")


def test_windows_line_ends_are_white_space() -> None:
    text = "#define A 3\r\n__co__ void f() {\r\n  x = A;\r\n}\r\n"
    assert body(text) == "x = 3 ;"
    assert "".join(r.original for r in regions(text)) == text


def test_a_byte_order_mark_is_white_space() -> None:
    assert body("\ufeff#define A 3\n__co__ void f() { A }") == "3"


def test_expanded_text_keeps_lines() -> None:
    text = "#define A(x) (x + 1)\n__co__ void f() {\n  x =\n#define B 2\n    A(B);\n}\n"
    (function,) = [r for r in regions(text) if r.kind == "function"]
    assert function.expanded.split("\n") == [
        "__co__ void f ( ) {",
        "x =",
        "",
        "( 2 + 1 ) ;",
        "}",
    ]


def test_includes_are_listed_not_opened() -> None:
    (text, *_) = regions(f'#include "a.h"\n  # include "b/c.h"\n#include <d>\n{FUNCTION}')
    node = Text(text.span, text.original)
    assert quoted_includes(File(text.span, "t.co", (node,))) == ("a.h", "b/c.h")
    assert isinstance(node, Text) and not isinstance(node, Function)


# Macros ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("macros", "use", "expansion"),
    [
        ("#define A 3", "A + A", "3 + 3"),
        ("#define A", "A x A", "x"),
        ("#define A B\n#define B 3", "A", "3"),
        ("#define A (1 + \\\n 2)", "A", "( 1 + 2 )"),
        ("#define A 3 // three", "A", "3"),
        ("#define A 3 /* three\n lines */ + 1", "A", "3 + 1"),
        ("#define A A + 1", "A", "A + 1"),
        ("#define A B\n#define B A", "A", "A"),
        ("#define F(x) x * x", "F(3) + F", "3 * 3 + F"),
        ("#define F(x) x", "F((1, 2))", "( 1 , 2 )"),
        ("#define F(x, y) x # y", "F(a, b)", "a # b"),
        ("#define F() 3", "F()", "3"),
        ("#define F(x) [x]", "F()", "[ ]"),
        ("#define F(x) x", "F(\n 1\n)", "1"),
        ("#define F(x) F(x) + 1", "F(F(2))", "F ( F ( 2 ) + 1 ) + 1"),
        ("#define F(x) G(x)\n#define G(x) x + H\n#define H 9", "F(H)", "9 + 9"),
        ("#define F(x) x\n#define A F", "A(4)", "4"),
        ("#define F (x)", "F", "( x )"),
        ("#define F(...) g(__VA_ARGS__)", "F(1, 2)", "g ( 1 , 2 )"),
        ("#define F(a, ...) g(a, __VA_ARGS__)", "F(1, 2, 3)", "g ( 1 , 2 , 3 )"),
        ("#define F(a, ...) g(a)", "F(1)", "g ( 1 )"),
        ("#define A 1\n#define A 2", "A", "2"),
        ("#define A 1\n#undef A", "A", "A"),
        ("#undef A", "A", "A"),
        ("#define A 128", ".swiz<A>", ".swiz < 128 >"),
        ("#define at 3", "x.at(at)", "x .at ( 3 )"),
        ("#define AT .at", "x AT(1)", "x .at ( 1 )"),
        ('#define A "a" "b"', "A", '"a" "b"'),
        ("#define A 3", '"A" AA', '"A" AA'),
        ("  #  define   A   3", "A", "3"),
    ],
)
def test_expansion(macros: str, use: str, expansion: str) -> None:
    assert body(f"{macros}\n__co__ void f() {{ {use} }}") == expansion


def test_a_macro_is_known_below_its_definition_only() -> None:
    text = "__co__ void f() { x = A; }\n#define A 3\n"
    assert body(text) == "x = A ;"


def test_definitions_of_the_command_line() -> None:
    text = "__co__ void f() { x = A; }"
    assert body(text, {"A": "1 + 2"}) == "x = 1 + 2 ;"
    assert body("#undef A\n" + text, {"A": "1"}) == "x = A ;"


def test_directives_inside_a_function_are_consumed() -> None:
    text = """\
    __co__ void f() {
    #define A 3
      x = A;
    #if A == 3
      y = A;
    #else
      y = ;
    #endif
    #undef A
      z = A;
    #
    }
    int a = A;
    """
    assert body(textwrap.dedent(text)) == "x = 3 ; y = 3 ; z = A ;"


def test_places_are_those_of_the_file() -> None:
    text = "#define A(x) (x * N)\n#define N 3\n__co__ void f() {\n  y = A(4 +\n   5) + 6;\n}"
    (function,) = [r for r in regions(text) if r.kind == "function"]
    places = {t.text: t.span for t in function.tokens}
    use = Span(4, 7, 5, 6)
    assert [places[w] for w in ("4", "*", "3")] == [use] * 3
    assert places["6"] == Span(5, 9, 5, 10)
    macros = {t.text: t.macro for t in function.tokens}
    assert (macros["3"], macros["y"]) == ("A", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "#define F(x) x\n__co__ void f() { F(1, 2) }",
            (2, 19, "macro F takes 1 argument, 2 given"),
        ),
        (
            "#define F(x, y) x\n__co__ void f() { F(1) }",
            (2, 19, "macro F takes 2 arguments, 1 given"),
        ),
        (
            "#define F(x) x\n__co__ void f() { F(1 }",
            (2, 19, "the arguments of macro F have no ')'"),
        ),
        ("#define A a ## b\n__co__ void f() { A }", (2, 19, "macro A pastes tokens with '##', ")),
        ("#define E } }\n__co__ void f() { E", (2, 19, "macro E goes on after the end of the ")),
        ("#define F(x", (1, 1, "the parameter list of macro F has no ')'")),
        ("#define F(x y) 1", (1, 1, "the parameter list of macro F is malformed at 'y'")),
        ("#define F(x, x) 1", (1, 1, "two parameters of macro F have one name")),
        ("#define F(..., x) 1", (1, 1, "the parameter list of macro F is malformed at ','")),
        ("#define 3", (1, 1, "#define needs the name of a macro")),
        ("#define defined 3", (1, 1, "'defined' cannot be a macro")),
        ('#error "no" good', (1, 1, '#error "no" good')),
    ],
)
def test_errors_of_macros(text: str, expected: tuple[int, int, str]) -> None:
    found = errors(text)
    line, column, message = found[0]
    assert (line, column) == expected[:2]
    assert message.startswith(expected[2])


def test_an_expansion_without_bounds_is_given_up() -> None:
    levels = "".join(f"#define A{i + 1} A{i} A{i}\n" for i in range(40))
    ((line, column, message),) = errors(f"#define A0 x\n{levels}__co__ void f() {{ A40 }}")
    assert (line, column) == (42, 19)
    assert message == "the expansion of macro A40 is longer than any kernel"


# Conditions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "directives",
    [
        "#if A == 3\n+\n#else\n-\n#endif",
        "#if 0\n-\n#elif A > 2\n+\n#elif 1\n-\n#else\n-\n#endif",
        "#ifdef B\n-\n#else\n+\n#endif",
        "#ifndef B\n+\n#endif",
        "#if 0\n#if 1\n-\n#else\n-\n#endif\n#else\n+\n#endif",
        "#if 0\n#bogus\n#include nonsense\n#error no\n#endif\n+",
        "#if 0\n it's \" @ \n#endif\n+",
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_conditions_choose_lines(directives: str, inside: bool) -> None:
    if inside:
        text = f"#define A 3\n__co__ void f() {{\n{directives}\n}}"
    else:
        text = "#define A 3\n" + directives.replace("+", "#define S +").replace(
            "\n-", "\n#define S -"
        )
        text += "\n__co__ void f() { S }"
    assert body(text) == "+"


def test_conditions_around_a_function() -> None:
    text = "#if X\n__co__ void f() { 1 }\n#else\n__co__ void g() { 2 }\n#endif\n"
    assert body(text) == "2"
    assert body(text, {"X": "1"}) == "1"
    found = regions(text)
    assert [r.original for r in found if r.kind == "text"] == [
        "#if X\n__co__ void f() { 1 }\n#else\n",
        "\n#endif\n",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#if 1\n", (1, 1, "this #if has no #endif")),
        ("#endif\n", (1, 1, "this #endif has no #if")),
        ("#if 1\n#else\n#else\n#endif", (3, 1, "this #else comes after its #if's #else")),
        (
            "__co__ void f() {\n#if 1\n}\n#endif\n",
            (2, 1, "this #if opens inside a __co__ function and is not closed in it"),
        ),
        (
            "#if 1\n__co__ void f() {\n#endif\n}\n#endif",
            (3, 1, "this #endif has no #if inside the __co__ function"),
        ),
        (
            "__co__ void f() {\n#if f(3)\n#endif\n}",
            (2, 1, "this condition cannot be evaluated: only the C++ compiler knows f(..)"),
        ),
        (
            "#if __has_include(<a>)\n__co__ void f() { }\n#endif",
            (1, 1, "a __co__ function depends on this condition, but only the C++ compiler"),
        ),
        ("__co__ void f() {\n#include <a>\n}", (2, 1, "#include inside a __co__ function")),
        ("__co__ void f() {\n#pragma unroll\n}", (2, 1, "#pragma has no effect in a __co__ ")),
        ("__co__ void f() {\n x = y\n # v;\n}", (3, 2, "unknown directive #v")),
    ],
)
def test_errors_of_conditions(text: str, expected: tuple[int, int, str]) -> None:
    line, column, message = errors(text)[0]
    assert (line, column) == expected[:2]
    assert message.startswith(expected[2])


def test_a_condition_only_nvcc_can_decide_is_left_to_it() -> None:
    text = f"#if __has_include(<a>)\n#include <a>\n#endif\n{FUNCTION}"
    assert [r.kind for r in regions(text)] == ["text", "function"]


# Blocks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int a;\n__cok__ { }", (2, 1, "__cok__ blocks are not supported")),
        ("__co__ void f() {\n {\n }\n", (1, 17, "the file ends and this '{' has no '}'")),
        ("__co__ void f()\n", (1, 1, "the file ends before this function has a body")),
        (
            "__co__ void f() {\n {\n }\n__co__ void g() { }\n",
            (1, 17, "the next function begins and this '{' has no '}'"),
        ),
        ("__co__ void f() { } }\n", (1, 21, "this '}' closes nothing")),
        ("__co__ void f() { /* }\n", (1, 19, "this comment has no '*/'")),
        ("int a; /* __co__\n", (1, 8, "this comment has no '*/'")),
    ],
)
def test_errors_of_blocks(text: str, expected: tuple[int, int, str]) -> None:
    assert errors(text) == [expected]


def test_a_brace_that_a_macro_opens_may_be_closed() -> None:
    text = f"#define OPEN namespace a {{\nOPEN\n{FUNCTION}\n}}\n"
    assert errors(text) == []


_PIECES = ["__co__ ", "__cok__", "#if 1\n", "#else\n", "#endif\n", "#define F(x) x\n", "F", "F("]
_PIECES += [*"#{}()\"'/*\\\n1", "//", "/*", "*/", 'R"(', ')"', "void f", "##"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(_PIECES),
        max_size=30,
    ).map("".join)
)
def test_any_text_is_cut_without_loss(text: str) -> None:
    diagnostics = Diagnostics("t.co", text)
    found = split(text, "t.co", {}, diagnostics)
    assert "".join(r.original for r in found) == text
