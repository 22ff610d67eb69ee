from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from artifact.bench.student import t_quantile


@pytest.mark.parametrize("probability", [0.6, 0.8, 0.9, 0.95, 0.975, 0.995, 0.9995])
@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 7, 8, 9, 16, 25, 100, 101, 1000, 9999])
def test_agrees_with_scipy(probability: float, df: int) -> None:
    assert t_quantile(probability, df) == pytest.approx(stats.t.ppf(probability, df), rel=1e-9)


def test_closed_forms() -> None:
    assert t_quantile(0.975, 1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-12)
    p = 0.9
    assert t_quantile(p, 2) == pytest.approx(
        (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p))), rel=1e-12
    )


def test_the_middle_is_zero() -> None:
    assert t_quantile(0.5, 3) == pytest.approx(0, abs=1e-12)


@settings(max_examples=60)
@given(st.floats(0.5001, 0.9999), st.integers(1, 300))
def test_inverts_scipys_distribution(probability: float, df: int) -> None:
    assert stats.t.cdf(t_quantile(probability, df), df) == pytest.approx(probability, abs=1e-12)


@pytest.mark.parametrize(
    ("probability", "df"), [(0.49, 3), (1.0, 3), (math.nan, 3), (0.9, 0), (0.9, -1)]
)
def test_what_has_no_quantile_is_refused(probability: float, df: int) -> None:
    with pytest.raises(ValueError, match="no t quantile"):
        t_quantile(probability, df)
