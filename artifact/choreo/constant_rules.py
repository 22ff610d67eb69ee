"""What constants may not be: a divisor of zero, a shift past the width, an index out of range.

Rules (co-language.md, 3 and 5; C++ gives each of these no meaning):

* A constant divisor is not zero, that of ``cdiv`` neither.
* A constant shift is from 0 to the width of its left side, less one.
* An element has one index for every dimension; a constant one is below a constant extent.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.arithmetic import INTEGERS
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.tables import Tables


def by_zero(diagnostics: Diagnostics, node: syntax.Node) -> None:
    """Say that an expression, or an assignment, divides by zero."""
    diagnostics.error(
        "division-by-zero",
        node,
        "this divides by zero",
        rule="a constant divisor is not zero",
        repair="check the constant",
    )


def shifts(tables: Tables, diagnostics: Diagnostics, right: syntax.Expr, type_: str) -> bool:
    """Whether the right side of a shift is not, for certain, more bits than there are."""
    by = tables.constants.get(right)
    # Narrow types are computed with in 32 bits.
    bits = max(int(type_[1:]), 32) if type_ in INTEGERS else 32
    if by is None or 0 <= by < bits:
        return True
    diagnostics.error(
        "shift-range",
        right,
        f"a shift of {bits} bits by {by}",
        rule="a shift is by 0 or more, and by less than the width of its left side",
        repair=f"use a number from 0 to {bits - 1}, or widen the left side: __to<u64>(..)",
    )
    return False


def check_indices(
    tables: Tables, diagnostics: Diagnostics, expr: syntax.Element, tensor: syntax.TensorParam
) -> None:
    """Check the indices of an element of a tensor, as far as they are constant."""
    if len(expr.indices) != len(tensor.extents):
        diagnostics.error(
            "view-rank",
            expr,
            f"{len(expr.indices)} indices of {expr.base.id}, which has "
            f"{len(tensor.extents)} dimensions",
            rule="an element has one index for every dimension",
            repair="write as many indices as the tensor has dimensions",
        )
        return
    for index, extent in zip(expr.indices, tensor.extents, strict=True):
        value, size = (tables.constants.get(e) for e in (index, extent))
        if value is not None and (value < 0 or (size is not None and value >= size)):
            diagnostics.error(
                "index-range",
                index,
                f"index {value} of {size if size is not None else 'a dimension'}",
                rule="an index is from 0 to the extent of its dimension, less one",
                repair="use an index in this range"
                if size is None
                else f"use an index from 0 to {int(size) - 1}",
            )
