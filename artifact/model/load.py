"""Reading and writing documents: JSON Schema first, then the model, one error for both.

A document is read strictly. The error of a bad one names the file, the dotted place in it
(``backends[3].witness.threads``), what was found there and what is allowed.
"""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from artifact.errors import EnvironmentUnmet, VerificationError
from artifact.model.canonical import pretty_json

if TYPE_CHECKING:  # `artifact verify` parses documents without importing Pydantic
    from pydantic import ValidationError

    from artifact.model.base import Model

M = TypeVar("M", bound="Model")

#: No document of ours is larger; a larger one is not read into memory.
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024


MEND = (
    "take it again from the archive or the checkout; after an edit of your own: correct it, "
    "then: artifact lock"
)
"""What is done about a document that is not what it should be."""


def read_bytes(path: Path, *, next: str | None = None) -> bytes:
    """The bytes of a document.

    Raises:
        VerificationError: where it is missing, no regular file, or too large.
        EnvironmentUnmet: where the system does not let us read it.
    """
    try:
        if not path.is_file():
            found = "a directory" if path.is_dir() else "nothing"
            raise VerificationError(
                "a document is missing", where=str(path), expected="a file", found=found, next=next
            )
        size = path.stat().st_size
        if size > MAX_DOCUMENT_BYTES:
            raise VerificationError(
                "a document is too large",
                where=str(path),
                expected=f"at most {MAX_DOCUMENT_BYTES} bytes",
                found=f"{size} bytes",
                next=MEND,
            )
        return path.read_bytes()
    except OSError as error:
        raise EnvironmentUnmet(
            "a document cannot be read",
            where=str(path),
            found=error.strerror or str(error),
            next="check the permissions of the file",
        ) from error


def decode(data: bytes, where: str) -> str:
    """``data`` as UTF-8 text.

    Raises:
        VerificationError: naming the first bad byte.
    """
    if not data:
        raise VerificationError("a document is empty", where=where, found="0 bytes", next=MEND)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise VerificationError(
            "a document is not UTF-8",
            where=f"{where}: byte {error.start}",
            expected="UTF-8 text",
            found=f"byte 0x{data[error.start]:02x}",
            cause="the file was saved in another encoding, or is not text",
            next=MEND,
        ) from error


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} stands twice in one object")
        result[key] = value
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text} is too large")
    return value


def parse_json(data: bytes, where: str) -> Any:
    """``data`` as strict JSON: no NaN, no infinity, no key twice.

    Raises:
        VerificationError: with line and column.
    """
    text = decode(data, where)
    try:
        return json.loads(
            text,
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip())
        raise VerificationError(
            "a document is not JSON",
            where=f"{where}:{error.lineno}:{error.colno}",
            expected="JSON",
            found=error.msg,
            cause="the file is truncated" if cut else None,
            next=MEND,
        ) from error
    except (ValueError, RecursionError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise VerificationError(
            "a document is not JSON", where=where, found=message, next=MEND
        ) from error


def parse_toml(data: bytes, where: str) -> Any:
    """``data`` as TOML, with times as ISO text, so that the same strict rules hold as for JSON.

    Raises:
        VerificationError: with the parser's line and column.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    text = decode(data, where)
    try:
        return _json_value(tomllib.loads(text))
    except (ValueError, OverflowError, RecursionError) as error:
        # Beyond the parser's own: a number of too many digits, a moment before year 1 in UTC.
        message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise VerificationError(
            "a document is not TOML", where=where, expected="TOML 1.0", found=message, next=MEND
        ) from error


def _json_value(value: Any) -> Any:
    """A TOML value as a JSON value: moments become ISO text, in UTC where they have a zone."""
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value


def dotted(location: Sequence[str | int]) -> str:
    """``("backends", 3, "witness", "threads")`` as ``backends[3].witness.threads``."""
    place = ""
    for part in location:
        if isinstance(part, int):
            place += f"[{part}]"
        else:
            place += f".{part}" if place else part
    return place


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 100 else text[:97] + "..."


def check_schema(document: str, value: Any, where: str) -> None:
    """Check ``value`` against the JSON Schema of ``document`` with jsonschema.

    Raises:
        VerificationError: listing every violation, the first one in full.
    """
    from jsonschema import Draft202012Validator

    from artifact.model.schema import schema_of

    validator = Draft202012Validator(schema_of(document))
    errors = sorted(validator.iter_errors(value), key=lambda e: [str(p) for p in e.absolute_path])
    if not errors:
        return
    lines = tuple(f"{dotted(list(e.absolute_path)) or 'document'}: {e.message}" for e in errors)
    raise VerificationError(
        f"a document does not match the {document} schema",
        where=f"{where}: {dotted(list(errors[0].absolute_path)) or 'document'}",
        expected=_expected(errors[0]),
        found=_shown(errors[0].instance),
        next=MEND,
        details=lines[:20] if len(lines) > 1 else (),
    )


def _expected(error: Any) -> str:
    if error.validator in ("type", "enum", "const", "pattern", "minimum", "maximum"):
        return f"{error.validator}: {_shown(error.validator_value)}"
    return str(error.message)[:200]


def parse_model(model: type[M], value: Any, where: str) -> M:
    """``value`` (plain JSON data) as ``model``.

    Raises:
        VerificationError: with the dotted place of every problem.
    """
    from pydantic import ValidationError

    try:
        # Through JSON on purpose: strict JSON validation takes arrays for tuples.
        return model.model_validate_json(json.dumps(value, allow_nan=False))
    except ValidationError as error:
        raise model_error(error, where) from error
    except ValueError as error:
        raise VerificationError(
            "a document holds no JSON value", where=where, found=str(error), next=MEND
        ) from error


def model_error(error: ValidationError, where: str) -> VerificationError:
    """Pydantic's findings as one error of ours."""
    lines = []
    first: tuple[str, str, str | None] | None = None
    for item in error.errors(include_url=False):
        place = dotted(item["loc"])
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "value_error" and not place:
            place, _, message = message.partition(": ")
        scalar = not isinstance(item.get("input"), dict | list)
        found = _shown(item.get("input")) if scalar and item["type"] != "missing" else None
        first = first or (place, message, found)
        lines.append(f"{place or 'document'}: {message}" + (f" (found {found})" if found else ""))
    assert first is not None
    return VerificationError(
        "a document is not valid",
        where=f"{where}: {first[0] or 'document'}",
        expected=first[1],
        found=first[2],
        next=MEND,
        details=tuple(lines[:20]) if len(lines) > 1 else (),
    )


def load_json(
    document: str, model: type[M], data: bytes, where: str, *, trusted: bool = False
) -> M:
    """A JSON document as its model, checked against its schema unless ``trusted``.

    ``trusted`` is for bytes whose digest has passed the schema before: jsonschema takes
    longer to import than everything else that ``artifact verify`` does.
    """
    value = parse_json(data, where)
    if not trusted:
        check_schema(document, value, where)
    return parse_model(model, value, where)


def dump_json(document: str, value: Model, where: str) -> bytes:
    """A model as the bytes of its document, checked against its schema.

    Raises:
        VerificationError: where the model and its schema disagree, which is a bug of ours.
    """
    plain = value.model_dump(mode="json", by_alias=True)
    check_schema(document, plain, where)
    return pretty_json(plain)
