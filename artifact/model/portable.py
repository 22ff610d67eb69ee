"""Which names a pinned file may have: those that Linux, macOS and Windows keep as they are.

Apart from the models, because ``artifact verify`` asks this without importing Pydantic.
"""

from __future__ import annotations

import re
import unicodedata

# Names that Windows reserves in every directory, whatever their extension. A tree that is
# unpacked there must keep its names, or its content id cannot be checked.
_RESERVED = re.compile(r"(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')

#: The longest file name that ext4, XFS, NTFS and APFS all take, in bytes.
MAX_COMPONENT_BYTES = 255


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


def shown(text: str) -> str:
    """``text`` for a message: what a terminal would act on or cannot show is escaped."""
    return text if text.isprintable() else ascii(text)[1:-1]
