"""Two runs on one device exclude each other."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from artifact.errors import EnvironmentUnmet


def runtime_folder() -> Path:
    """This user's folder for what must not outlive a boot; made where there is none.

    ``$XDG_RUNTIME_DIR`` or ``/run/user/<uid>``, or a folder of this user alone in the
    system's temporary folder. It is never in the artifact's tree, which may be read-only.

    Raises:
        EnvironmentUnmet: where it is another user's or open to others.
    """
    named = os.environ.get("XDG_RUNTIME_DIR")
    for candidate in (named, f"/run/user/{os.getuid()}"):
        if candidate and os.access(candidate, os.W_OK | os.X_OK):
            return Path(candidate)
    folder = Path(tempfile.gettempdir()) / f"artifact-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise EnvironmentUnmet(
            "the folder for device locks is not this user's alone",
            where=str(folder),
            next=f"ls -ld {folder}; remove it, or set XDG_RUNTIME_DIR to a folder of yours",
        )
    return folder


@contextlib.contextmanager
def exclusive(device: str, holder: Mapping[str, str]) -> Iterator[None]:
    """Hold the lock of ``device`` for the length of the block.

    The system drops it when this process ends, however it ends; workers do not inherit it.

    Args:
        device: ``cpu``, or the UUID of a GPU.
        holder: Said to whoever finds the lock taken.

    Raises:
        EnvironmentUnmet: where another run holds it (exit code 3: the machine is not free,
            and nothing was measured that could be invalid).
    """
    path = runtime_folder() / f"artifact-{re.sub(r'[^A-Za-z0-9-]', '_', device)}.lock"
    # Neither truncated nor followed: the holder's words stay until the lock is ours.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvironmentUnmet(
                f"another run uses the device {device!r}",
                where=str(path),
                expected="one run at a time on a device",
                found=_words(file.read(4096)),
                next="wait until it has ended, or stop it; then run the same command again",
            ) from None
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), **holder}).encode("utf-8"))
        file.flush()
        yield


def _words(data: bytes) -> str:
    try:
        holder = json.loads(data)
        return ", ".join(f"{name} {value}" for name, value in holder.items())
    except (ValueError, AttributeError):
        return "a run that has just begun"
