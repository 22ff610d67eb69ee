"""The conda layer put on disk: an interpreter from the packages of conda-lock.yml.

py-rattler downloads and links them, in a process of its own (condainstall.py). The lock has
no hosts and says nothing about how a package is linked, so each record is looked up where
the channel is. It is taken only if its SHA-256 is the locked one, and py-rattler compares
the download with it.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from artifact.envs.condalock import CondaLock
from artifact.errors import EnvironmentUnmet

_SCRIPT = Path(__file__).with_name("condainstall.py")


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
    if importlib.util.find_spec("rattler") is None:
        raise EnvironmentUnmet(
            "a tool is missing",
            expected="py-rattler",
            found="not installed",
            next="pip install '.[env]'",
        )
    request = {
        "channel": channel_url,
        "platform": lock.platform,
        "prefix": str(prefix),
        "packages": [[package.name, package.file, package.sha256] for package in lock.packages],
    }
    done = subprocess.run(
        [sys.executable, "-I", str(_SCRIPT)],
        input=json.dumps(request).encode(),
        capture_output=True,
        check=False,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        printed = done.stderr.decode("utf-8", "replace").strip().splitlines()
        answer = {"error": printed[-1] if printed else f"exit status {done.returncode}"}
    if error := answer.get("error"):
        raise EnvironmentUnmet(
            "conda packages could not be installed",
            where=channel_url,
            found=error,
            cause="the channel cannot be reached, or a download is not the locked file",
            next="name another URL of the channel: --channel-url URL",
        )
    if absent := answer["absent"]:
        raise EnvironmentUnmet(
            "a conda channel lacks packages of the lock",
            where=channel_url,
            expected=f"{len(lock.packages)} packages with their locked digests",
            found=f"{len(lock.packages) - len(absent)}",
            cause="it is another channel, or packages were withdrawn",
            next="name the channel's URL, which ends in its name: --channel-url URL",
            details=tuple(absent),
        )
