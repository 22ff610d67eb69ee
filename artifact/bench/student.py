"""Quantiles of Student's t, without SciPy at run time."""

from __future__ import annotations

import math
from functools import lru_cache


def _central(theta: float, df: int) -> float:
    """P(abs(T) <= t) for ``t = sqrt(df) * tan(theta)``.

    For whole degrees of freedom the density integrates to a finite sum of powers of
    cos(theta) (Abramowitz and Stegun, 26.7.3 and 26.7.4), so nothing is cut off.
    """
    sin, cos = math.sin(theta), math.cos(theta)
    odd = df % 2
    term = cos if odd else 1.0
    total = 0.0
    for k in range(2 + odd, df + 1, 2):
        total += term
        term *= cos * cos * (k - 1) / k
    if odd:
        return 2 / math.pi * (theta + sin * total)
    return sin * total


@lru_cache(maxsize=256)
def t_quantile(probability: float, df: int) -> float:
    """The number that a t-distributed variable exceeds with ``1 - probability``.

    Args:
        probability: From 0.5 (where it is 0) to below 1.
        df: Degrees of freedom, 1 or more.

    Raises:
        ValueError: outside of these ranges.
    """
    if not (0.5 <= probability < 1 and df >= 1):
        raise ValueError(f"no t quantile for probability {probability} and df {df}")
    wanted = 2 * probability - 1
    low, high = 0.0, math.pi / 2
    # Halving the angle rather than t: its range is finite for every df.
    while low < (middle := (low + high) / 2) < high:
        if _central(middle, df) < wanted:
            low = middle
        else:
            high = middle
    return math.sqrt(df) * math.tan(low)
