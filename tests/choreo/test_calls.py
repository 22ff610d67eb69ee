"""What a kernel calls, and how its function and what it calls may be named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from artifact.choreo.compiler import compile_text
from artifact.choreo.diagnostics import CompileError

MMA = "acc = mma.fill.f32 0.0f; mma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];"
KERNEL = """
__co__ void {name}(global f32 [N] x, int {parameter}) {{
  parallel b by N : block {{
    parallel t by 32 : thread {{ x.at(b) = {parameter}; {body} }}
  }}
}}
"""


def kernel(name: str = "f", parameter: str = "n", body: str = "") -> str:
    return KERNEL.format(name=name, parameter=parameter, body=body)


def codes(text: str) -> list[str]:
    with pytest.raises(CompileError) as caught:
        compile_text(text, "t.co")
    return [d.code for d in caught.value.diagnostics if d.severity == "error"]


@pytest.mark.parametrize("call", ["cuda::setreg_decr(40)", "setreg_dec(40)", "cuda::other(1)"])
def test_a_misspelt_name_of_the_language_is_refused(
    threads: Callable[[str], Any], call: str
) -> None:
    found = threads(f"call croq::{call};")
    assert found.codes == ["unknown-call"]
    near = "setreg" in call
    assert ("did you mean croq::cuda::setreg_dec?" in found.said("unknown-call").repair) == near


@pytest.mark.parametrize("name", ["print", "println", "printf"])
def test_a_print_beside_an_mma_is_a_warning(
    threads: Callable[[str], Any], consumer: Callable[[str], Any], name: str
) -> None:
    call = f'call {name}("x");'
    assert "print-beside-mma" not in threads(call).codes
    found = consumer(f"{MMA} mma.store acc, o.subspan(64, 128).at(cid, 0); {call}")
    assert found.codes == ["print-beside-mma"]
    assert found.said("print-beside-mma").severity == "warning"


@pytest.mark.parametrize(
    "body",
    ['assert(n > 0 + "text");', 'y = "text";', 'call helper(1 + "text");', 'x.at("0") = 1.0f;'],
)
def test_a_text_is_no_value(body: str) -> None:
    assert codes(kernel(body=body)) == ["string-value"]


def test_a_text_may_be_the_message_of_assert_and_an_argument() -> None:
    cuda = compile_text(kernel(body='assert(n > 0, "a text"); call helper("text", n);'), "t").cuda
    assert 'helper("text", n);' in cuda


@pytest.mark.parametrize("name", ["delete", "main", "std", "choreo", "__f"])
def test_a_function_is_not_named_by_a_word_of_cxx(name: str) -> None:
    assert codes(kernel(name)) == ["reserved-name"]


@pytest.mark.parametrize("other", ["f", "f_kernel"])
def test_two_functions_have_two_names(other: str) -> None:
    assert codes(kernel("f") + kernel(other)) == ["declared-twice"]


@pytest.mark.parametrize("name", ["delete", "f_kernel", "helper", "errno"])
def test_a_parameter_gets_a_name_that_cxx_allows(name: str) -> None:
    cuda = compile_text(kernel(parameter=name, body="call helper(1);"), "t.co").cuda
    assert f"int {name}_2" in cuda
    assert f"int {name}," not in cuda and f"int {name})" not in cuda
