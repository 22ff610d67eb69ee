from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifact.model.formula import MAX_LENGTH, evaluate, names

DIMS = {"B": 4, "H": 32, "S": 8192, "D": 128}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("2*B*H*S*S*D", 2 * 4 * 32 * 8192**2 * 128),
        ("B", 4),
        (" B + 1 ", 5),
        ("-B", -4),
        ("S // 3", 2730),
        ("-7 // 2", -4),
        ("S % 5", 2),
        ("B / 3", Fraction(4, 3)),
        ("(S + 1) * S / 2", 8193 * 4096),
        ("7", 7),
    ],
)
def test_exact_values(formula: str, value: Fraction) -> None:
    assert evaluate(formula, DIMS) == value


def test_names() -> None:
    assert names("2*B*S*S + D") == {"B", "S", "D"}
    assert names("1 + 1") == frozenset()


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("2*B*X", "unknown dimension 'X'.*known: B, D, H, S"),
        ("", "not an arithmetic expression"),
        ("B +", "not an arithmetic expression"),
        ("B = 1", "not an arithmetic expression"),
        ("1.5*B", "only integers"),
        ("True*B", "only integers"),
        ("'x'", "only integers"),
        ("B**2", "only integers"),
        ("B << 40", "only integers"),
        ("B if B else S", "only integers"),
        ("__import__('os').system('true')", "only integers"),
        ("B.__class__", "only integers"),
        ("[B]", "only integers"),
        ("lambda: 1", "only integers"),
        ("B / (S - S)", "division by zero"),
        ("B % 0", "division by zero"),
        ("B\x00", "not an arithmetic expression"),
    ],
)
def test_what_is_no_formula(formula: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        evaluate(formula, DIMS)


def test_depth_never_exhausts_the_stack() -> None:
    for depth in (10, 140, 280, 10_000, 100_000):
        for formula in ("(" * depth + "1" + ")" * depth, "-" * depth + "1", "1" + "+1" * depth):
            try:
                value = evaluate(formula, {})
            except ValueError:
                continue
            assert len(formula) <= MAX_LENGTH and abs(value) <= depth + 1


@pytest.mark.parametrize("formula", ["0B0", "0x10", "1_000", "2B", "1e3"])
def test_a_number_that_runs_into_a_name(formula: str) -> None:
    with pytest.raises(ValueError, match="runs into a name"):
        evaluate(formula, {"B": 5})
    assert evaluate("K2V*2", {"K2V": 3}) == 6


@given(st.text("BS0123456789+-*/%() ", max_size=30))
def test_agrees_with_python(formula: str) -> None:
    dims = {"B": 5, "S": 7}
    try:
        value = evaluate(formula, dims)
    except ValueError:
        return
    exact = {name: Fraction(size) for name, size in dims.items()}
    # Python's own arithmetic, with every integer a fraction.
    fractions = re.sub(r"\d+", r"F(\g<0>)", formula.strip())
    assert value == eval(fractions, {"F": Fraction, **exact})
