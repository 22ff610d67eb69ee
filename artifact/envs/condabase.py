"""The conda layer put on disk: an interpreter from the packages of conda-lock.yml.

py-rattler downloads and links them. The lock has no hosts and says nothing about how a
package is linked, so each record is looked up where the channel is; it is taken only if its
SHA-256 is the locked one, and py-rattler compares the download with it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artifact.envs.condalock import CondaLock
from artifact.errors import EnvironmentUnmet


def install_base(lock: CondaLock, channel_url: str, prefix: Path) -> None:
    """Install the packages of ``lock`` into the directory ``prefix``.

    Args:
        lock: The conda layer.
        channel_url: Where its channel is.
        prefix: The directory that becomes a conda environment.

    Raises:
        EnvironmentUnmet: where py-rattler is missing, the channel cannot be read, or a
            package of the lock is not there with its locked digest.
    """
    try:
        import rattler
    except ImportError as error:
        raise EnvironmentUnmet(
            "a tool is missing",
            expected="py-rattler",
            found="not installed",
            next="pip install '.[env]'",
        ) from error
    try:
        records = asyncio.run(_records(lock, channel_url))
    except Exception as error:
        # The library raises a class of its own for each thing that can go wrong.
        raise _failed("a conda channel cannot be read", channel_url, error) from error
    absent = [p.file for p in lock.packages if (p.file, p.sha256) not in records]
    if absent:
        raise EnvironmentUnmet(
            "a conda channel lacks packages of the lock",
            where=channel_url,
            expected=f"{len(lock.packages)} packages with their locked digests",
            found=f"{len(lock.packages) - len(absent)}",
            cause="it is another channel, or packages were withdrawn",
            next="name the channel's URL, which ends in its name: --channel-url URL",
            details=tuple(absent),
        )
    wanted = [records[p.file, p.sha256] for p in lock.packages]
    try:
        asyncio.run(rattler.install(wanted, target_prefix=prefix, show_progress=False))
    except Exception as error:
        raise _failed("conda packages could not be installed", channel_url, error) from error


async def _records(lock: CondaLock, channel_url: str) -> dict[tuple[str, str], Any]:
    """The channel's records of the locked names, by file name and SHA-256."""
    import rattler

    gateway = rattler.Gateway()
    found = await gateway.query(
        sources=[channel_url],
        platforms=[lock.platform, "noarch"],  # type: ignore[list-item]  # any subdir's name
        specs=[package.name for package in lock.packages],
        recursive=False,
    )
    records = {}
    for record in (record for group in found for record in group):
        if record.sha256 is not None:
            records[str(record.file_name), record.sha256.hex()] = record
    return records


def _failed(what: str, channel_url: str, error: Exception) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        what,
        where=channel_url,
        found=str(error) or type(error).__name__,
        cause="the channel cannot be reached, or a download is not the locked file",
        next="name another URL of the channel: --channel-url URL",
    )
