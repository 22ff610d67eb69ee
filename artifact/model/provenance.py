"""The two provenance documents.

``manifests/provenance.json`` is inside the tree: deterministic, pinned, without times.
``<archive>.intoto.json`` is beside an archive: an in-toto Statement v1 with an SLSA v1
provenance predicate whose subject is that archive.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from artifact.model.backend import Dependency
from artifact.model.base import Hex64, Model, Name, RelPath, Text, UtcTime
from artifact.model.lock import ChainPin, DeflatePin


class EnvironmentProvenance(Model):
    """A locked environment by the digests of its locks."""

    name: Name
    python: Text
    requirements: RelPath
    requirements_sha256: Hex64
    conda_lock: RelPath | None
    conda_lock_sha256: Hex64 | None
    departures: tuple[str, ...]


class TreeProvenance(Model):
    """manifests/provenance.json: where the contents of the tree come from."""

    provenance_version: Literal[1]
    artifact: Name
    version: Text
    licence: Text
    tool: Text
    """Name and version of the tool that wrote the lock."""
    kernels: tuple[ChainPin, ...]
    environments: tuple[EnvironmentProvenance, ...]
    dependencies: tuple[Dependency, ...]
    deflate: DeflatePin


class DigestSet(Model):
    """Digests of one thing. in-toto names sha256; blake3 is an extension that it allows."""

    sha256: Hex64
    blake3: Hex64 | None = None


class _Camel(Model):
    """A record whose JSON names are given by other people's specification."""

    model_config = ConfigDict(populate_by_name=True)


class Subject(Model):
    """The archive that a statement is about."""

    name: Text
    digest: DigestSet


class ResourceDescriptor(_Camel):
    """Something that went into the archive (in-toto ResourceDescriptor v1)."""

    name: Text
    uri: Text | None = None
    digest: dict[str, Text] | None = None
    annotations: dict[str, str] | None = None


class BuildDefinition(_Camel):
    """What was asked for (SLSA provenance v1)."""

    build_type: Annotated[Text, Field(alias="buildType")]
    external_parameters: Annotated[dict[str, Any], Field(alias="externalParameters")]
    internal_parameters: Annotated[dict[str, Any], Field(alias="internalParameters")]
    resolved_dependencies: Annotated[
        tuple[ResourceDescriptor, ...], Field(alias="resolvedDependencies")
    ]


class Builder(_Camel):
    """What packed it."""

    id: Text
    version: dict[str, Text]


class BuildMetadata(_Camel):
    """When."""

    invocation_id: Annotated[Text, Field(alias="invocationId")]
    started_on: Annotated[UtcTime, Field(alias="startedOn")]
    finished_on: Annotated[UtcTime | None, Field(alias="finishedOn")] = None
    """Null for a run that ended early."""


class RunDetails(_Camel):
    """How it was packed (SLSA provenance v1)."""

    builder: Builder
    metadata: BuildMetadata
    byproducts: tuple[ResourceDescriptor, ...] = ()


class Predicate(_Camel):
    """An SLSA provenance v1 predicate."""

    build_definition: Annotated[BuildDefinition, Field(alias="buildDefinition")]
    run_details: Annotated[RunDetails, Field(alias="runDetails")]


class Statement(_Camel):
    """``<archive>.intoto.json``: an in-toto Statement v1."""

    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")]
    subject: Annotated[tuple[Subject, ...], Field(min_length=1)]
    predicate_type: Annotated[
        Literal["https://slsa.dev/provenance/v1"], Field(alias="predicateType")
    ]
    predicate: Predicate
