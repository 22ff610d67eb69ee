"""The base of every model, and the small types that they share.

Documents are JSON values: TOML is turned into JSON first, so that one set of strict rules
(no string taken for a number, no unknown field, arrays become tuples) holds for both.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from artifact.model.portable import path_problem


class Model(BaseModel):
    """A strict, frozen record: unknown fields, coercion and NaN are errors."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        defer_build=True,
    )


def _checked_path(path: str) -> str:
    if problem := path_problem(path):
        raise ValueError(f"the path {problem}")
    return path


RelPath = Annotated[str, AfterValidator(_checked_path)]
"""A portable path below the artifact's root, with ``/`` between its components."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
"""A short name: lower-case letters, digits, ``.``, ``_`` and ``-``."""

RunName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128)]
"""The name of a run folder: ``20260921T100514Z-nvidia-h200-bf16``."""

Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A BLAKE3 or SHA-256 digest: 64 lower-case hexadecimal digits."""

Text = Annotated[str, StringConstraints(min_length=1)]
"""A text that is not empty."""

UtcTime = Annotated[
    str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$")
]
"""A moment in UTC: ``2026-09-21T10:05:14Z``, with up to six decimals of a second."""


class GeneratedFrom(Model):
    """Which source and compiler a generated file was made of."""

    kernel: Name
    source: RelPath
    source_blake3: Hex64
    generated: RelPath
    generated_blake3: Hex64
    compiler: Text
    """The compiler's name and version by the file's stamp, such as ``choreo-py 0.1.0``."""
