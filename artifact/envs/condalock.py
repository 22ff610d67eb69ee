"""conda-lock.yml: the conda layer of an environment, in conda-lock's format, version 1.

conda-lock demands MD5 of a package and leaves SHA-256 out where it likes; here both are
there for every package. No host is in it: the URL of a package is ``CHANNEL/SUBDIR/FILE``,
which conda-lock's own parser takes, and whoever installs says where the channel is
(:func:`explicit`, ``artifact env create --channel-url URL``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifact.errors import EnvironmentUnmet, UsageError, VerificationError
from artifact.model.backend import Environment
from artifact.model.load import decode, read_bytes

_MD5 = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PLACE = re.compile(
    r"(?:^|/)(?P<channel>[A-Za-z0-9._-]+)/(?P<subdir>noarch|[a-z]+-[a-z0-9]+)"
    r"/(?P<file>[A-Za-z0-9._+!-]+\.(?:conda|tar\.bz2))$"
)


@dataclass(frozen=True)
class CondaPackage:
    """One package of a conda lock."""

    name: str
    version: str
    subdir: str
    """The directory of the channel that it is in: the platform's, or ``noarch``."""
    file: str
    """Its file name, which also holds its build string."""
    md5: str
    sha256: str
    dependencies: Mapping[str, str]
    """Version constraints by name; names that start with ``__`` are of the system itself."""


@dataclass(frozen=True)
class CondaLock:
    """conda-lock.yml for one channel and one platform."""

    channel: str
    platform: str
    content_hash: str
    """conda-lock's digest of the specification that was solved."""
    source: str
    """The specification's file name."""
    packages: tuple[CondaPackage, ...]
    """Sorted by name."""


def yaml() -> Any:
    """PyYAML, which comes with the extra ``env``.

    Raises:
        EnvironmentUnmet: where it is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise EnvironmentUnmet(
            "a tool is missing",
            expected="PyYAML",
            found="not installed",
            next="pip install '.[env]'",
        ) from error
    return yaml


def from_records(
    records: Iterable[Mapping[str, Any]],
    *,
    channel: str,
    platform: str,
    content_hash: str,
    source: str = "environment.yml",
    where: str = "records",
) -> CondaLock:
    """A lock from the records of a solved environment.

    Args:
        records: Mappings with ``name``, ``version``, ``dependencies``, ``url``, and the
            digests as ``md5`` and ``sha256``, at the top or below ``hash``. Of a URL only
            the subdirectory and the file name are kept.
        channel: The name of the channel.
        platform: Such as ``linux-64``.
        content_hash: conda-lock's digest of the specification.
        source: The specification's file name.
        where: How errors name the records.

    Raises:
        VerificationError: where a record lacks a fact, a name stands twice, or a dependency
            is not among the records.
    """
    packages: dict[str, CondaPackage] = {}
    for index, record in enumerate(records):
        package = _package(record, platform, f"{where}[{index}]")
        if package.name in packages:
            raise _bad(f"{where}[{index}].name", "each package once", f"{package.name} again")
        packages[package.name] = package
    for package in packages.values():
        for dependency in package.dependencies:
            if dependency not in packages and not dependency.startswith("__"):
                raise _bad(f"{where}: {package.name}", f"its dependency {dependency}", "none")
    ordered = tuple(packages[name] for name in sorted(packages))
    return CondaLock(channel, platform, content_hash, source, ordered)


def locked_layer(environment: Environment, instead: str) -> str:
    """Where the conda lock of ``environment`` is, below the root.

    Args:
        environment: The environment as the manifest declares it.
        instead: The command for one that has none.

    Raises:
        UsageError: where it has none.
    """
    if environment.conda_lock is None:
        raise UsageError(
            "an environment has no conda layer",
            where=environment.name,
            expected="conda_lock in the manifest",
            found="none",
            next=instead,
        )
    return environment.conda_lock


def read_conda_lock(path: Path) -> CondaLock:
    """The conda lock at ``path``.

    Raises:
        VerificationError: with the place, where it is missing or not such a lock.
        EnvironmentUnmet: where it cannot be read, or PyYAML is missing.
    """
    return parse_conda_lock(read_bytes(path, next="artifact env lock NAME"), str(path))


def parse_conda_lock(data: bytes, where: str) -> CondaLock:
    """A conda lock from its bytes, ours or as conda-lock wrote it for one platform.

    Raises:
        VerificationError: with the place of what is wrong.
    """
    text = decode(data, where)
    try:
        value = yaml().safe_load(text)
    except yaml().YAMLError as error:
        raise _bad(where, "YAML", " ".join(str(error).split())) from error
    if not isinstance(value, dict) or value.get("version") != 1:
        raise _bad(f"{where}: version", "a conda lock, version 1", "another document")
    try:
        metadata = value["metadata"]
        (platform,) = metadata["platforms"]
        (channel,) = metadata["channels"]
        (source,) = metadata["sources"]
        return from_records(
            value["package"],
            channel=str(channel["url"]).rstrip("/").rpartition("/")[2],
            platform=str(platform),
            content_hash=str(metadata["content_hash"][platform]),
            source=str(source),
            where=f"{where}: package",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _bad(
            f"{where}: metadata",
            "content_hash, and one channel, platform and source",
            f"{type(error).__name__}: {error}",
        ) from error


def render_conda_lock(lock: CondaLock, *, header: Iterable[str] = ()) -> bytes:
    """A lock as the bytes of its file."""
    document = {
        "version": 1,
        "metadata": {
            "content_hash": {lock.platform: lock.content_hash},
            "channels": [{"url": lock.channel, "used_env_vars": []}],
            "platforms": [lock.platform],
            "sources": [lock.source],
        },
        "package": [
            {
                "name": package.name,
                "version": package.version,
                "manager": "conda",
                "platform": lock.platform,
                "dependencies": dict(sorted(package.dependencies.items())),
                "url": f"{lock.channel}/{package.subdir}/{package.file}",
                "hash": {"md5": package.md5, "sha256": package.sha256},
                "category": "main",
                "optional": False,
            }
            for package in lock.packages
        ],
    }
    head = "".join(f"# {line}".rstrip() + "\n" for line in header)
    body: str = yaml().safe_dump(document, sort_keys=False, width=100)
    return (head + body).encode("utf-8")


def explicit(lock: CondaLock, channel_url: str) -> str:
    """The lock as an explicit file that conda, mamba and micromamba install from.

    Args:
        lock: The lock.
        channel_url: Where the lock's channel is: the URL that ends in its name.

    Returns:
        The text of the file: ``@EXPLICIT`` and a URL with its SHA-256 a line.
    """
    base = channel_url.rstrip("/")
    lines = [f"{base}/{p.subdir}/{p.file}#sha256:{p.sha256}" for p in lock.packages]
    return "\n".join(["@EXPLICIT", *lines]) + "\n"


def _package(record: Any, platform: str, where: str) -> CondaPackage:
    if not isinstance(record, Mapping):
        raise _bad(where, "a package", type(record).__name__)
    digests = record.get("hash", record)
    md5, sha256 = (digests.get(name) if isinstance(digests, Mapping) else None
                   for name in ("md5", "sha256"))  # fmt: skip
    if not isinstance(md5, str) or not _MD5.fullmatch(md5):
        raise _bad(f"{where}.hash.md5", "32 hexadecimal digits", str(md5))
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise _bad(f"{where}.hash.sha256", "64 hexadecimal digits", str(sha256))
    for field, allowed in (("manager", "conda"), ("platform", platform)):
        if record.get(field, allowed) != allowed:
            raise _bad(f"{where}.{field}", allowed, str(record[field]))
    for field in ("name", "version"):
        if not isinstance(record.get(field), str) or not record[field]:
            raise _bad(f"{where}.{field}", "a text", str(record.get(field)))
    place = _PLACE.search(str(record.get("url")))
    if place is None or place["subdir"] not in (platform, "noarch"):
        raise _bad(f"{where}.url", f"CHANNEL/{platform}/FILE or noarch", str(record.get("url")))
    dependencies = record.get("dependencies", {})
    if not isinstance(dependencies, Mapping):
        raise _bad(f"{where}.dependencies", "names and versions", type(dependencies).__name__)
    return CondaPackage(
        name=record["name"],
        version=record["version"],
        subdir=place["subdir"],
        file=place["file"],
        md5=md5,
        sha256=sha256,
        dependencies={str(name): str(spec) for name, spec in dependencies.items()},
    )


def _bad(where: str, expected: str, found: str) -> VerificationError:
    return VerificationError(
        "a conda lock is not valid",
        where=where,
        expected=expected,
        found=found[:200],
        next="artifact env lock NAME",
    )
