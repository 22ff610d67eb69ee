"""The one way in which documents are turned into bytes.

Keys are sorted, floats are written by ``repr`` (shortest form that reads back the same),
text is UTF-8 and unescaped, NaN is refused, and the last byte is a newline.
"""

from __future__ import annotations

import json
from typing import Any

from blake3 import blake3


def canonical_json(value: Any) -> bytes:
    """``value`` as compact JSON for digests."""
    return json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode("utf-8")


def pretty_json(value: Any) -> bytes:
    """``value`` as the JSON that is written to files: indented, in the order of the model."""
    return (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode("utf-8")


def canonical_digest(value: Any) -> str:
    """BLAKE3 of :func:`canonical_json`: 64 hex digits."""
    return blake3(canonical_json(value)).hexdigest()
