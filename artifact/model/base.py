"""The base of every model, and the small types that they share.

Documents are JSON values: TOML is turned into JSON first, so that one set of strict rules
(no string taken for a number, no unknown field, arrays become tuples) holds for both.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

# Names that Windows reserves in every directory, whatever their extension. A tree that is
# unpacked there must keep its names, or its content id cannot be checked.
_RESERVED = re.compile(r"(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')

#: The longest file name that ext4, XFS, NTFS and APFS all take, in bytes.
MAX_COMPONENT_BYTES = 255


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


def path_problem(path: str) -> str | None:
    """Why ``path`` cannot be the name of a pinned file, or None where it can.

    A pinned path is relative, uses ``/``, is in Unicode NFC, and has components that
    Linux, macOS and Windows all keep as they are.
    """
    if not path:
        return "is empty"
    if path.startswith("/"):
        return "is absolute"
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if unicodedata.normalize("NFC", path) != path:
        return "is not in Unicode normal form C"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return f"has the component {part!r}"
        if bad := _FORBIDDEN.search(part):
            return f"contains the character {bad.group()!r}"
        if part[-1] in ". ":
            return f"has the component {part!r}, which ends in a dot or a space"
        if _RESERVED.match(part):
            return f"has the component {part!r}, a name that Windows reserves"
        if len(part.encode("utf-8")) > MAX_COMPONENT_BYTES:
            return f"has a component of more than {MAX_COMPONENT_BYTES} bytes"
    return None


def _checked_path(path: str) -> str:
    if problem := path_problem(path):
        raise ValueError(f"the path {problem}")
    return path


RelPath = Annotated[str, AfterValidator(_checked_path)]
"""A portable path below the artifact's root, with ``/`` between its components."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
"""A short name: lower-case letters, digits, ``.``, ``_`` and ``-``."""

Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A BLAKE3 or SHA-256 digest: 64 lower-case hexadecimal digits."""

Text = Annotated[str, StringConstraints(min_length=1)]
"""A text that is not empty."""

UtcTime = Annotated[
    str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$")
]
"""A moment in UTC: ``2026-09-21T10:05:14Z``, with up to six decimals of a second."""
