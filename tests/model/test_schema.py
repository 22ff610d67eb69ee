"""The JSON Schemas: current, valid, and as strict as the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from artifact.model.canonical import pretty_json
from artifact.model.root import SCHEMAS
from artifact.model.schema import DIALECT, DOCUMENTS, model_of, schema_of

ROOT = Path(__file__).resolve().parents[2]
TREES = (ROOT, ROOT / "tests" / "assets" / "rowsum")


@pytest.mark.parametrize("tree", TREES, ids=["this artifact", "the second"])
@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_exported_schema_is_current(tree: Path, document: str) -> None:
    exported = tree / SCHEMAS / f"{document}.schema.json"
    assert exported.read_bytes() == pretty_json(schema_of(document)), "run: artifact lock"


@pytest.mark.parametrize("tree", TREES, ids=["this artifact", "the second"])
def test_nothing_else_stands_beside_them(tree: Path) -> None:
    names = {path.name for path in (tree / SCHEMAS).iterdir()}
    assert names == {f"{document}.schema.json" for document in DOCUMENTS}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_schema_is_one_itself(document: str) -> None:
    from jsonschema import Draft202012Validator

    schema = schema_of(document)
    assert schema["$schema"] == DIALECT
    assert document in schema["$id"]
    Draft202012Validator.check_schema(schema)


def objects(schema: Any, place: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every object schema with its place."""
    found = []
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            found.append((place, schema))
        for key, value in schema.items():
            found.extend(objects(value, f"{place}/{key}"))
    elif isinstance(schema, list):
        for i, value in enumerate(schema):
            found.extend(objects(value, f"{place}/{i}"))
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_record_takes_unknown_fields(document: str) -> None:
    for place, schema in objects(schema_of(document)):
        if "properties" in schema:
            assert schema.get("additionalProperties") is False, place


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_record_says_what_it_is(document: str) -> None:
    for place, schema in objects(schema_of(document)):
        if "properties" in schema:
            assert schema.get("description"), place


def test_there_is_no_other_document() -> None:
    with pytest.raises(KeyError):
        model_of("unknown")


@pytest.mark.parametrize("tree", TREES, ids=["this artifact", "the second"])
def test_the_documents_of_the_tree_match(tree: Path) -> None:
    from artifact.integrity.documents import load_lock, load_manifest
    from artifact.model.load import check_schema, parse_json

    manifest, lock = load_manifest(tree), load_lock(tree)
    assert lock.artifact == manifest.artifact.name
    path = tree / "manifests/provenance.json"
    check_schema("provenance", parse_json(path.read_bytes(), str(path)), str(path))


def test_a_schema_is_deterministic() -> None:
    for document in DOCUMENTS:
        schema_of.cache_clear()
        one = json.dumps(schema_of(document))
        schema_of.cache_clear()
        assert json.dumps(schema_of(document)) == one
