"""From text to CUDA or to errors: the whole way, and what happens when the compiler is at fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.choreo import Compiled, analysis, compile_text, emit, syntax
from artifact.choreo.diagnostics import CompileError, Diagnostics
from artifact.choreo.lexer import Source

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "tests/assets/choreo").glob("*.co"))
GOLDEN = ROOT.glob("tests/assets/choreo/golden/*.co")
SOURCES = sorted([*ROOT.glob("kernels/*.co"), *PROGRAMS, *GOLDEN])
PIPELINE = ROOT / "tests/assets/choreo/pipeline.co"


def refused(text: str) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compile_text(text, "t.co")
    return caught.value


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_compile_without_warnings(path: Path) -> None:
    compiled = compile_text(path.read_text(encoding="utf-8"), path.name)
    assert compiled.functions == (path.stem,)
    assert compiled.warnings == ()
    assert f"void {path.stem}(" in compiled.cuda


def test_the_same_text_gives_the_same_bytes() -> None:
    text = PIPELINE.read_text(encoding="utf-8")
    first = compile_text(text, "pipeline.co")
    assert isinstance(first, Compiled)
    assert compile_text(text, "pipeline.co") == first


def test_definitions_reach_the_program() -> None:
    text = PIPELINE.read_text(encoding="utf-8").replace("#define STAGES 3\n", "")
    refused(text)
    assert (
        compile_text(text, "t.co", {"STAGES": "2"}).cuda
        != compile_text(text, "t.co", {"STAGES": "3"}).cuda
    )


def test_text_without_functions_is_a_program() -> None:
    compiled = compile_text("int main() { return 0; }\n", "t.co")
    assert compiled.functions == ()
    assert "int main() { return 0; }" in compiled.cuda


def test_an_error_ends_the_compilation_with_all_that_was_found() -> None:
    error = refused("__co__ void f() {\n  x = ;\n  y = 1 2;\n}\n")
    assert [d.span.line for d in error.diagnostics] == [2, 3]
    assert error.render().startswith("error: t.co does not compile: 2 errors\n  - t.co:2:7: error:")


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (KeyError("lost"), "internal error of the compiler: KeyError: 'lost' (at "),
        (AssertionError(), "internal error of the compiler: AssertionError: (at "),
        (RecursionError(), "the program is nested too deeply for this compiler"),
    ],
)
@pytest.mark.parametrize("stage", ["analyse", "emit_file"])
def test_a_fault_of_the_compiler_is_one_error_with_a_place(
    monkeypatch: pytest.MonkeyPatch, stage: str, failure: Exception, message: str
) -> None:
    def handle(statement: syntax.Stmt) -> None:
        raise failure

    def broken(file: syntax.File, *_: object) -> None:
        (function,) = (p for p in file.parts if isinstance(p, syntax.Function))
        handle(function.body.body[1])

    monkeypatch.setattr(analysis if stage == "analyse" else emit, stage, broken)
    if stage == "emit_file":
        monkeypatch.setattr(analysis, "analyse", lambda file, diagnostics: {})
    error = refused("int a;\n__co__ void f() {\n  x = 1;\n  y = 2;\n}\n")
    (found,) = error.diagnostics
    assert (found.code, found.span.line, found.span.column) == ("internal", 4, 3)
    assert found.message.startswith(message.removesuffix(" (at "))
    assert error.exit_code == 1
    expected = "name parts" if isinstance(failure, RecursionError) else "report it"
    assert expected in str(found.repair)


def test_an_interrupt_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(file: syntax.File, diagnostics: Diagnostics) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(analysis, "analyse", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compile_text("int a;", "t.co")


def _of(expression: str) -> str:
    return (
        "__co__ void f(global f32 [N] x) {\n  parallel.async b by [N] : block {\n"
        f"    parallel t by [64] : thread {{\n      x.at(t) = {expression};\n    }}\n  }}\n}}\n"
    )


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("+".join(["x.at(t)"] * 5000), "unsupported"),
        ("- " * 3000 + "x.at(t)", "unsupported"),
        ("1" * 5000, "constant-overflow"),
        ("0x" + "f" * 6000, "constant-overflow"),
        ("1" * 5000 + ".0", "constant-overflow"),
        ("0" * 5000 + "1", "syntax"),
    ],
    ids=["sum", "signs", "decimal", "hexadecimal", "real", "zeros"],
)
def test_what_is_too_large_is_refused_and_no_fault(expression: str, code: str) -> None:
    (found,) = refused(_of(expression)).diagnostics
    assert (found.code, found.span.line) == (code, 4)
    assert len(found.message) < 200


@pytest.mark.parametrize(
    "expression",
    [
        "+".join(["x.at(t)"] * 240),
        "- " * 240 + "x.at(t)",
        "__max(1.0f, " * 60 + "x.at(t)" + ")" * 60,
        "t > 1 ? 1.0f : " * 240 + "x.at(t)",
    ],
    ids=["sum", "signs", "calls", "choices"],
)
def test_what_is_deep_compiles(expression: str) -> None:
    limit = sys.getrecursionlimit()
    assert "x[t] = " in compile_text(_of(expression), "t.co").cuda
    assert sys.getrecursionlimit() == limit


def test_a_condition_of_too_large_integers_is_left_to_the_host_compiler() -> None:
    for condition in ("0x" + "f" * 6000, "1" * 5000, "+".join(["1"] * 5000)):
        text = f"#if {condition}\n#endif\n{_of('1.0f')}"
        assert compile_text(text, "t.co").functions == ("f",)


def test_importing_the_package_is_light() -> None:
    code = "import sys, artifact.choreo; print('lark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_mutated_kernels_compile_or_are_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SOURCES)).read_text(encoding="utf-8")
    start = text.index("__co__ void")
    tokens = [
        (end - len(token.text), end)
        for token, end in Source(text).tokens(start, text.index("\n}\n", start))
        if token.kind != "newline"
    ]
    one, other = sorted(data.draw(st.lists(st.sampled_from(tokens), min_size=2, max_size=2)))
    how = data.draw(st.sampled_from(["delete", "double", "replace", "without", "again"]))
    # the statement around the first, as far as ';' tell
    begin, end = text.rfind(";", 0, one[0]) + 1, text.find(";", one[0]) + 1
    end = end or len(text)
    if how == "delete":
        text = text[: one[0]] + text[one[1] :]
    elif how == "double":
        text = f"{text[: one[1]]} {text[one[0] :]}"
    elif how == "replace":
        text = text[: one[0]] + text[other[0] : other[1]] + text[one[1] :]
    elif how == "without":
        text = text[:begin] + text[end:]
    else:
        text = text[:end] + text[begin:]
    try:
        compile_text(text, "t.co")
    except CompileError as error:
        assert [d.message for d in error.diagnostics if d.code == "internal"] == []


_LEAVES = """
    n m h a S N b t 0 1 2u 7 5L 0x10 3.5f inf -inf true #t X.span(0) ids.at(t) X.at(b,t) "text"
"""
_OPERATORS = "+ - * / % & | ^ << >> && || < > == !="
_FORMS = "cdiv({},{}) __min({},{}) __to<u32>({}) __to<bf16>({}) __exp2f({}) !{} ~{} -{} ({}?{}:{})"
_LEAF, _OPERATOR, _CALL = (st.sampled_from(x.split()) for x in (_LEAVES, _OPERATORS, _FORMS))
_EXPRESSION = st.recursive(
    _LEAF,
    lambda inner: (
        st.tuples(inner, _OPERATOR, inner).map(" ".join)
        | st.tuples(_CALL, inner, inner, inner).map(lambda parts: parts[0].format(*parts[1:]))
    ),
    max_leaves=6,
)
_TYPE = st.sampled_from(["", "int", "u64", "bool", "float", "bf16"])


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(_TYPE, _EXPRESSION),
    st.tuples(_TYPE, _EXPRESSION),
    st.tuples(st.sampled_from(["=", "+=", "<<=", "%="]), _EXPRESSION),
)
def test_any_expression_compiles_or_is_refused(
    host: tuple[str, str], local: tuple[str, str], stored: tuple[str, str]
) -> None:
    text = f"""
    __co__ void f(global bf16 [S, 64] X, global u32 [N] ids, u32 n, int m, float h) {{
      {host[0]} a = {host[1]};
      parallel.async b by [S] : block {{
        parallel t by [64] : thread {{
          {local[0]} k = {local[1]};
          ids.at(t) {stored[0]} {stored[1]} + k;
        }}
      }}
    }}
    """
    try:
        compile_text(text, "t.co")
    except CompileError as error:
        assert [d.message for d in error.diagnostics if d.code == "internal"] == []
