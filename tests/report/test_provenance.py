import hashlib
import json

import pytest
from blake3 import blake3

from artifact.model.load import check_schema, load_json
from artifact.model.provenance import Statement
from artifact.report.base import render
from artifact.report.provenance import ProvenanceReport


def made(results):
    data = render(results)["provenance.json"]
    return json.loads(data), data


def test_it_is_a_valid_statement(every):
    document, data = made(every)
    check_schema("statement", document, "provenance.json")
    load_json("statement", Statement, data, "provenance.json")
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert document["predicateType"] == "https://slsa.dev/provenance/v1"


def test_the_subjects_are_the_tables(complete):
    files = render(complete)
    document, _ = made(complete)
    subjects = {s["name"]: s["digest"] for s in document["subject"]}
    assert set(subjects) == {"summary.csv", "summary.md"}
    for name, digest in subjects.items():
        assert digest["sha256"] == hashlib.sha256(files[name]).hexdigest()
        assert digest["blake3"] == blake3(files[name]).hexdigest()


def test_it_names_what_went_in(complete):
    document, _ = made(complete)
    built = document["predicate"]["buildDefinition"]
    found = {d["name"]: d["digest"] for d in built["resolvedDependencies"]}
    assert found[complete.artifact.name] == {"artifactContentId": complete.artifact.content_id}
    assert found["lock.json"] == {"blake3": complete.artifact.lock_blake3}
    assert found["baselines/cpu_reference.py"] == {"blake3": complete.backends[0].worker_blake3}
    assert found["inputs/S=384/Q"] == {"sha256": complete.checks[0].inputs["Q"]}
    assert built["externalParameters"]["protocolDigest"] == complete.protocol_digest
    assert built["internalParameters"]["marks"] == ["UNLOCKED", "NOT COMPARABLE"]
    run = document["predicate"]["runDetails"]
    assert run["metadata"]["invocationId"] == complete.run_id
    assert run["metadata"]["finishedOn"] == complete.finished


def test_an_incomplete_run_says_so(interrupted):
    document, _ = made(interrupted)
    assert document["predicate"]["buildDefinition"]["internalParameters"]["complete"] is False
    assert document["predicate"]["runDetails"]["metadata"]["finishedOn"] is None


def test_a_published_run_is_not_called_a_run_of_this_tool(published, complete):
    kinds = [made(r)[0]["predicate"]["buildDefinition"]["buildType"] for r in (published, complete)]
    assert kinds == ["urn:artifact:published-run:1", "urn:artifact:run:1"]
    document, _ = made(published)
    assert document["predicate"]["buildDefinition"]["resolvedDependencies"] == []


def test_the_same_results_give_the_same_bytes(every):
    assert made(every)[1] == made(every)[1]


def test_a_statement_without_subjects_is_refused(complete):
    from artifact.errors import VerificationError

    with pytest.raises((VerificationError, ValueError), match="subject"):
        ProvenanceReport().render(complete, {})
