"""Arithmetic over the dimensions of a shape, as a manifest writes it: ``2*B*H*S*S*D``.

A formula is data from a file, so it is parsed and walked, never evaluated as Python.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Annotated

from pydantic import AfterValidator

_RUN_ON = re.compile(r"(?<![A-Za-z0-9_])[0-9]+[A-Za-z_]")
"""Python would read ``0B1`` as a binary number and ``1_0`` as ten: nobody means that here."""

_BINARY: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda a, b: Fraction(a // b),
    ast.Mod: operator.mod,
}


#: No formula of a manifest is longer; a longer one could exhaust the stack.
MAX_LENGTH = 300


def _parse(formula: str) -> ast.expr:
    if len(formula) > MAX_LENGTH:
        raise ValueError(f"a formula of {len(formula)} characters; at most {MAX_LENGTH} are read")
    if _RUN_ON.search(formula):
        raise ValueError(f"a number runs into a name in {formula!r}")
    try:
        return ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not an arithmetic expression: {formula!r}") from error


def values(dims: Mapping[str, int], parameters: Mapping[str, int]) -> dict[str, int]:
    """What names stand for in a formula over a shape on a target.

    A dash or a dot in the name of a launch argument is written as ``_``, since ``a-b`` is a
    difference: ``persistent-ctas`` is ``persistent_ctas``.

    Raises:
        ValueError: where two of them would have one name.
    """
    found = dict(dims)
    for name, value in parameters.items():
        written = re.sub(r"[.-]", "_", name)
        if written in found:
            raise ValueError(f"the name {written!r} stands for two things")
        found[written] = value
    return found


def names(formula: str) -> frozenset[str]:
    """The dimensions that ``formula`` uses."""
    return frozenset(n.id for n in ast.walk(_parse(formula)) if isinstance(n, ast.Name))


def evaluate(formula: str, dims: Mapping[str, int]) -> Fraction:
    """The exact value of ``formula`` with ``dims`` for its names.

    Raises:
        ValueError: for an unknown name, another operation, or a division by zero.
    """

    def walk(node: ast.expr) -> Fraction:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return Fraction(node.value)
        if isinstance(node, ast.Name):
            if node.id not in dims:
                known = ", ".join(sorted(dims)) or "none"
                raise ValueError(f"unknown dimension {node.id!r} in {formula!r} (known: {known})")
            return Fraction(dims[node.id])
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            left, right = walk(node.left), walk(node.right)
            if right == 0 and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
                raise ValueError(f"division by zero in {formula!r}")
            return _BINARY[type(node.op)](left, right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -walk(node.operand)
        raise ValueError(f"only integers, dimensions and + - * / // % may stand in {formula!r}")

    return walk(_parse(formula))


def _checked(formula: str) -> str:
    # Distinct large stand-ins: a difference of two dimensions is then not zero by accident.
    evaluate(formula, {name: 1009 + 2 * i for i, name in enumerate(sorted(names(formula)))})
    return formula


Formula = Annotated[str, AfterValidator(_checked)]
"""An arithmetic expression over the dimensions of a shape."""
