"""The conversions pass: implicit conversions that can change a value warn.

Rules (co-language.md, 3):

* A signed value that may be negative becomes unsigned, a float becomes narrower or an integer: a
  warning. ``__to<T>(e)`` says that it is meant.
* Constants that fit, bounds, variables of ``parallel`` and ``foreach``, coordinates and dimensions
  are known not to be negative, and so is what sums, products and quotients make of them.
* So is a value that depends on parallel variables alone, where it is not negative for any thread
  that gets there: ``p - 1`` in the role ``p > 0``.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.arithmetic import FLOATS, INTEGERS, fits
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.expressions import Conversion
from artifact.choreo.tables import Tables
from artifact.choreo.threads import ThreadValues


def check_conversions(
    tables: Tables,
    diagnostics: Diagnostics,
    conversions: list[Conversion],
    values: ThreadValues,
) -> None:
    """Warn of the implicit conversions that may lose something; threads are planned."""
    for conversion in conversions:
        if _narrows(tables, conversion):
            diagnostics.add(
                "warning",
                "narrowing",
                conversion.expr,
                f"{conversion.source} is converted to {conversion.to} and may lose precision",
                rule="conversions that lose something are written out",
                repair=f"__to<{conversion.to}>(..)",
            )
        elif _changes_sign(tables, conversion, values):
            diagnostics.add(
                "warning",
                "sign-change",
                conversion.expr,
                f"{conversion.source} is converted to {conversion.to}: a negative value would "
                "become a large one",
                rule="signed and unsigned values meet only where the sign is known",
                repair=f"__to<{conversion.to}>(..), or declare the value as {conversion.to}",
            )


def _narrows(tables: Tables, conversion: Conversion) -> bool:
    source, to = conversion.source, conversion.to
    if source not in FLOATS:
        return False
    if to in INTEGERS:
        return True
    # A constant is written in the type that it goes to.
    constant = conversion.expr in tables.constants
    return FLOATS.index(to) < FLOATS.index(source) and not constant


def _changes_sign(tables: Tables, conversion: Conversion, values: ThreadValues) -> bool:
    if not (conversion.source in INTEGERS and conversion.source.startswith("s")):
        return False
    if not conversion.to.startswith("u"):
        return False
    value = tables.constants.get(conversion.expr)
    if value is not None:
        return not fits(value, conversion.to)
    mask = tables.threads.get(conversion.stmt) if conversion.stmt is not None else None
    return not _Signs(tables, values, mask).never_negative(conversion.expr)


class _Signs:
    """What is known of signs where a set of threads gets."""

    def __init__(self, tables: Tables, values: ThreadValues, mask: int | None) -> None:
        self.tables = tables
        self.values = values
        self.mask = mask

    def never_negative(self, expr: syntax.Expr) -> bool:
        """Whether an integer expression is known to be 0 or more."""
        value = self.tables.constants.get(expr)
        if value is not None:
            return value >= 0
        if self.tables.types.get(expr, "").startswith("u"):
            return True
        known = self.values.of(expr)
        if known is not None and self.mask is not None:
            return all(v >= 0 for t, v in enumerate(known) if self.mask >> t & 1)
        match expr:
            case syntax.Name():
                return self._name(expr)
            case syntax.Bound() | syntax.Extent():
                return True
            case syntax.Compose():
                return self.never_negative(expr.left)
            case syntax.Binary(op="+" | "*" | "/" | "%" | ">>"):
                return self.never_negative(expr.left) and self.never_negative(expr.right)
            case syntax.BuiltinCall(name="cdiv" | "__max" | "__min"):
                return all(map(self.never_negative, expr.args))
        return False

    def _name(self, name: syntax.Name) -> bool:
        symbol = self.tables.uses.get(name)
        if symbol is None:
            return False
        if symbol.kind in ("level", "loop", "coordinate", "dimension"):
            return True
        node = symbol.node
        return (
            symbol.kind == "scalar"
            and isinstance(node, syntax.ScalarDecl | syntax.Assign)
            and self.never_negative(node.value)
        )
