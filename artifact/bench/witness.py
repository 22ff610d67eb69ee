"""What the kernel that ran shows of itself, against what the manifest expects.

A backend whose library quietly takes another path would be timed under a false name. So a
fact that differs, or that the worker does not report, is a refused fallback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from artifact.errors import FallbackRefused
from artifact.model.backend import Witness
from artifact.model.results import Scalar, WitnessRecord


def expectations(expected: Witness) -> dict[str, Scalar]:
    """The fields of ``expected`` that a worker has to meet; the others are only recorded.

    A grid is one text, as workers report it: ``32x32x4``.
    """
    stated = {name: value for name, value in expected.model_dump().items() if value is not None}
    if expected.grid is not None:
        stated["grid"] = "x".join(expected.grid)
    return stated


def recorded(stated: Mapping[str, Scalar]) -> Witness:
    """The witness of which :func:`expectations` made ``stated``.

    Raises:
        ValueError: where there is none.
    """
    fields: dict[str, object] = dict(stated)
    if isinstance(grid := stated.get("grid"), str):
        fields["grid"] = tuple(grid.split("x"))
    return Witness.model_validate(fields)


def compare(expected: Witness, facts: Mapping[str, Scalar]) -> tuple[str, ...]:
    """Every expectation that ``facts`` does not meet, a sentence each.

    ``expected`` is that of one shape and target (:meth:`Witness.at`).
    ``symbol`` is a regular expression that the whole symbol must match; ``registers_max``
    is the most that the fact ``registers`` may be; every other expectation must equal the
    fact of its name in type and value (``true`` is not 1, ``384.0`` is not 384).
    """
    differences = []
    for name, wanted in expectations(expected).items():
        key = "registers" if name == "registers_max" else name
        found = facts.get(key)
        if found is None:
            differences.append(f"{key}: expected {_wanted(name, wanted)}, but it is not reported")
        elif not _meets(name, wanted, found):
            differences.append(f"{key}: expected {_wanted(name, wanted)}, found {found!r}")
    return tuple(differences)


def _wanted(name: str, wanted: Scalar) -> str:
    if name == "symbol":
        return f"a symbol that matches {wanted!r}"
    if name == "registers_max":
        return f"at most {wanted}"
    return repr(wanted)


def _meets(name: str, wanted: Scalar, found: Scalar) -> bool:
    if name == "symbol":
        return isinstance(found, str) and re.fullmatch(str(wanted), found) is not None
    if name == "registers_max":
        return type(found) is int and type(wanted) is int and 0 <= found <= wanted
    return type(found) is type(wanted) and found == wanted


def record(
    backend: str, shape: str, expected: Witness, facts: Mapping[str, Scalar]
) -> WitnessRecord:
    """Facts and expectations as results.json keeps them, met or not."""
    return WitnessRecord(
        backend=backend, shape=shape, facts=dict(facts), expected=expectations(expected)
    )


def require(
    backend: str, shape: str, expected: Witness, facts: Mapping[str, Scalar]
) -> WitnessRecord:
    """The record of a kernel that is the expected one.

    Raises:
        FallbackRefused: naming every difference.
    """
    differences = compare(expected, facts)
    if not differences:
        return record(backend, shape, expected, facts)
    raise FallbackRefused(
        f"what ran as {backend} is not what the manifest names",
        where=f"backend {backend}, shape {shape}, witness",
        expected="every fact that the manifest's witness states",
        found=differences[0] if len(differences) == 1 else f"{len(differences)} differences",
        cause="another version of its library, or a path that the library chose by itself",
        next="`artifact doctor` says what is installed; a wanted change belongs in the "
        "manifest's witness of this backend",
        details=differences if len(differences) > 1 else (),
    )
