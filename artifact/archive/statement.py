"""``<archive>.intoto.json``: who packed what, when, and out of what.

An in-toto Statement v1 with an SLSA provenance v1 predicate. It is the only file beside an
archive that may differ between two packs of the same content. It is not signed: signing is
the business of whoever publishes it, and takes this file as it is.
"""

from __future__ import annotations

import datetime
import platform
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from artifact import __version__
from artifact.archive.deflate import Compressor
from artifact.errors import VerificationError
from artifact.integrity.documents import Documents
from artifact.integrity.pin import Digests, Finding
from artifact.model.canonical import pretty_json
from artifact.model.load import check_schema, load_json, read_bytes

if TYPE_CHECKING:
    from artifact.integrity.verify import Report
    from artifact.model.backend import Dependency
    from artifact.model.manifest import Manifest
    from artifact.model.provenance import ResourceDescriptor, Statement

_BUILD_TYPE = "urn:artifact:build-type:pack:1"
_BUILDER = "urn:artifact:builder:artifact-pack"


def statement_path(archive: Path) -> Path:
    """Where the statement about ``archive`` stands."""
    return archive.with_name(archive.name + ".intoto.json")


def now() -> str:
    """This moment in UTC, to the second."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_statement(
    *,
    name: str,
    digests: Digests,
    format: str,
    content_id: str,
    manifest: Manifest,
    documents: Documents,
    compressor: Compressor,
    started: str,
) -> Statement:
    """The statement about the archive called ``name``, which has just been verified."""
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

    assert digests.sha256 is not None
    versions = {"artifact": __version__, "python": platform.python_version()}
    if compressor.package_version:
        versions[compressor.implementation] = compressor.package_version
    used = {
        "implementation": compressor.implementation,
        "package_version": compressor.package_version,
        "runtime_version": compressor.runtime_version,
    }
    return Statement(
        type_="https://in-toto.io/Statement/v1",
        subject=(
            Subject(name=name, digest=DigestSet(sha256=digests.sha256, blake3=digests.blake3)),
        ),
        predicate_type="https://slsa.dev/provenance/v1",
        predicate=Predicate(
            build_definition=BuildDefinition(
                build_type=_BUILD_TYPE,
                external_parameters={"format": format, "root": manifest.artifact.name},
                internal_parameters={
                    "deflate": asdict(documents.deflate),
                    "compressor": used,
                    "canonical": compressor.canonical,
                },
                resolved_dependencies=tuple(_dependencies(manifest, documents)),
            ),
            run_details=RunDetails(
                builder=Builder(id=_BUILDER, version=versions),
                metadata=BuildMetadata(
                    invocation_id=uuid.uuid4().urn, started_on=started, finished_on=now()
                ),
                byproducts=(ResourceDescriptor(name="content-id", digest={"blake3": content_id}),),
            ),
        ),
    )


def _dependencies(manifest: Manifest, documents: Documents) -> Iterator[ResourceDescriptor]:
    """What the manifest names as built on, then locks and kernels of the tree by digest."""
    from artifact.model.provenance import ResourceDescriptor

    pins = documents.pins

    def pinned(path: str, **annotations: str) -> ResourceDescriptor:
        pin = pins[path]
        digest = {"sha256": pin.sha256, "blake3": pin.blake3}
        return ResourceDescriptor(name=path, digest=digest, annotations=annotations)

    for dependency in manifest.dependencies:
        yield external(dependency)
    for environment in manifest.environments:
        for path in (environment.requirements, environment.conda_lock, environment.specification):
            if path is not None and path in pins:
                yield pinned(path, role="locked environment", environment=environment.name)
    compilers = {link.kernel: link.compiler for link in documents.links}
    for kernel in manifest.kernels:
        if kernel.source in pins:
            yield pinned(kernel.source, role="kernel source", kernel=kernel.name)
        if kernel.generated in pins:
            made_by = compilers.get(kernel.name, "unknown")
            yield pinned(
                kernel.generated, role="generated code", kernel=kernel.name, compiler=made_by
            )


def external(dependency: Dependency) -> ResourceDescriptor:
    """Something outside of the artifact as a descriptor: by URI, by digest, or by both."""
    from artifact.model.provenance import ResourceDescriptor

    digest: dict[str, str] = {}
    if dependency.sha256:
        digest["sha256"] = dependency.sha256
    if dependency.revision:
        digest["gitCommit"] = dependency.revision
    notes = {
        "role": dependency.role,
        "version": dependency.version,
        "licence": dependency.licence,
    }
    # A descriptor must identify the thing by URI or digest; a generic purl always can.
    uri = dependency.uri
    if uri is None and not digest:
        version = f"@{quote(dependency.version, safe='')}" if dependency.version else ""
        uri = f"pkg:generic/{quote(dependency.name.lower(), safe='')}{version}"
    return ResourceDescriptor(
        name=dependency.name,
        uri=uri,
        digest=digest or None,
        annotations={key: value for key, value in notes.items() if value},
    )


def dump_statement(statement: Statement, where: str) -> bytes:
    """The statement as the bytes of its file, checked against its schema.

    What is not known is left out: readers of other people's tools expect no null there.
    """
    plain = statement.model_dump(mode="json", by_alias=True, exclude_none=True)
    check_schema("statement", plain, where)
    return pretty_json(plain)


def read_statement(path: Path) -> Statement:
    """The statement at ``path``.

    Raises:
        VerificationError: where it breaks its schema.
    """
    from artifact.model.provenance import Statement

    return load_json("statement", Statement, read_bytes(path), str(path))


def check_statement(report: Report, archive: Path, digests: Callable[[], Digests]) -> Report:
    """``report`` with a finding more where the statement beside ``archive`` says otherwise.

    Args:
        report: The verification of the archive.
        archive: Beside it the statement is looked for; there need not be one.
        digests: Gives those of the archive; asked for where there is a statement.

    Raises:
        EnvironmentUnmet: where the statement, or the archive, cannot be read.
    """
    path = statement_path(archive)
    if not path.is_file():
        return report
    try:
        check_subject(read_statement(path), archive.name, digests(), str(path))
    except VerificationError as error:
        finding = Finding(
            "checksum",
            path.name,
            error.what,
            expected=error.expected,
            found=error.found,
            reason=error.cause,
        )
        return replace(report, findings=(*report.findings, finding))
    return report


def check_subject(statement: Statement, name: str, digests: Digests, where: str) -> None:
    """Check that ``statement`` is about the archive with these digests.

    Raises:
        VerificationError: where it is about another one.
    """
    for subject in statement.subject:
        if subject.digest.sha256 == digests.sha256 and subject.digest.blake3 in (
            None,
            digests.blake3,
        ):
            return
    stated = ", ".join(f"sha256:{s.digest.sha256}" for s in statement.subject)
    raise VerificationError(
        "the statement beside an archive is about another one",
        where=where,
        expected=stated,
        found=f"{name}: sha256:{digests.sha256}",
        cause="the archive or the statement was replaced",
        next="fetch both again",
    )
