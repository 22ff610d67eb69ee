"""JSON Schemas of the documents, made from the models and exported to manifests/schema/."""

from __future__ import annotations

from functools import cache
from typing import Any

from artifact.model.base import Model

DIALECT = "https://json-schema.org/draft/2020-12/schema"

DOCUMENTS = ("manifest", "lock", "results", "provenance", "statement")
"""The documents that have a schema; ``<name>.schema.json`` in manifests/schema/."""


def model_of(document: str) -> type[Model]:
    """The model of ``document``. Imports only that model's module."""
    if document == "manifest":
        from artifact.model.manifest import Manifest

        return Manifest
    if document == "lock":
        from artifact.model.lock import Lock

        return Lock
    if document == "results":
        from artifact.model.results import RunResults

        return RunResults
    if document in ("provenance", "statement"):
        from artifact.model import provenance

        return provenance.TreeProvenance if document == "provenance" else provenance.Statement
    raise KeyError(document)


@cache
def schema_of(document: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of ``document``, one of :data:`DOCUMENTS`."""
    schema = model_of(document).model_json_schema(by_alias=True, mode="validation")
    return {"$schema": DIALECT, "$id": f"urn:artifact:schema:{document}:1", **schema}
