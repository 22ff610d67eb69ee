"""provenance.json of a run folder: an in-toto Statement about the tables of the run.

It says nothing that results.json does not say; it says it in the form that other tools
read (in-toto Statement v1, SLSA provenance v1). The subjects are the files whose bytes
follow from the results alone. What a run produces beside them is pinned by results.json.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from artifact.archive.statement import external
from artifact.model.provenance import (
    BuildDefinition,
    Builder,
    BuildMetadata,
    DigestSet,
    Predicate,
    ResourceDescriptor,
    RunDetails,
    Statement,
    Subject,
)
from artifact.model.results import Interpreter, RunResults
from artifact.report import evidence
from artifact.report.base import Report

#: What kind of process made the subjects: a run of this tool, or figures published earlier.
BUILD_TYPES = {"measured": "urn:artifact:run:1", "published": "urn:artifact:published-run:1"}


class ProvenanceReport(Report):
    """provenance.json."""

    name = "provenance"
    reproducible = True

    def render(self, results: RunResults, earlier: Mapping[str, bytes]) -> dict[str, bytes]:
        """The statement, checked against its schema."""
        from artifact.model.load import dump_json

        return {"provenance.json": dump_json("statement", statement(results, earlier), "run")}


def statement(results: RunResults, subjects: Mapping[str, bytes]) -> Statement:
    """What made ``subjects`` (by file name), as far as ``results`` knows."""
    tool = results.tool
    return Statement(
        type_="https://in-toto.io/Statement/v1",
        predicate_type="https://slsa.dev/provenance/v1",
        subject=tuple(_subject(name, data) for name, data in sorted(subjects.items())),
        predicate=Predicate(
            build_definition=BuildDefinition(
                build_type=BUILD_TYPES[results.origin],
                external_parameters=_asked(results),
                internal_parameters=_circumstances(results),
                resolved_dependencies=tuple(_dependencies(results)),
            ),
            run_details=RunDetails(
                builder=Builder(
                    id=f"urn:artifact:tool:{tool.name}", version={tool.name: tool.version}
                ),
                metadata=BuildMetadata(
                    invocation_id=results.run_id,
                    started_on=results.started,
                    finished_on=results.finished,
                ),
            ),
        ),
    )


def _subject(name: str, data: bytes) -> Subject:
    from blake3 import blake3

    digest = DigestSet(sha256=hashlib.sha256(data).hexdigest(), blake3=blake3(data).hexdigest())
    return Subject(name=name, digest=digest)


def _asked(results: RunResults) -> dict[str, Any]:
    """What the user asked for."""
    return {
        "command": list(results.tool.command),
        "workload": results.workload.model_dump(mode="json"),
        "protocol": results.protocol.model_dump(mode="json"),
        "protocolDigest": results.protocol_digest,
        "backends": [backend.name for backend in results.backends],
        "modified": list(results.artifact.modified),
    }


def _circumstances(results: RunResults) -> dict[str, Any]:
    """How far it came, and what it ran on and with."""
    return {
        "complete": results.complete,
        "marks": list(results.marks),
        "order": list(results.order),
        "python": results.tool.python,
        "device": results.device.model_dump(mode="json"),
        "machine": results.machine.model_dump(mode="json") if results.machine else None,
        "interpreters": [_interpreter(i) for i in results.interpreters],
        "versions": {b.name: dict(b.versions) for b in results.backends},
        "environment": {b.name: dict(b.env) for b in results.backends},
        "absent": dict(results.absent),
    }


def _interpreter(facts: Interpreter) -> dict[str, Any]:
    """What a run says of an interpreter; older runs say nothing of its files."""
    said = facts.model_dump(mode="json")
    if said["digests"] is None:
        del said["digests"]
    return said


def _dependencies(results: RunResults) -> Iterator[ResourceDescriptor]:
    """What went in: the tree, its lock, workers and input tensors, what a published run names."""
    artifact = results.artifact
    if artifact.content_id is not None:
        yield ResourceDescriptor(
            name=artifact.name,
            digest={"artifactContentId": artifact.content_id},
            annotations={"version": artifact.version} if artifact.version else None,
        )
    if artifact.lock_blake3 is not None:
        yield ResourceDescriptor(name="lock.json", digest={"blake3": artifact.lock_blake3})
    workers: dict[tuple[str, str], list[str]] = {}
    for backend in results.backends:
        if backend.worker is not None and backend.worker_blake3 is not None:
            workers.setdefault((backend.worker, backend.worker_blake3), []).append(backend.name)
    for (path, digest), names in workers.items():
        yield ResourceDescriptor(
            name=path, digest={"blake3": digest}, annotations={"backends": " ".join(names)}
        )
    for (shape, tensor, digest), names in evidence.tensors(results).items():
        yield ResourceDescriptor(
            name=f"inputs/{shape}/{tensor}",
            digest={"sha256": digest},
            annotations={"backends": " ".join(names)},
        )
    for dependency in results.dependencies:
        yield external(dependency)
