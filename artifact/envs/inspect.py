"""What an interpreter holds: run the probe in it and read its answer.

Nothing that the interpreter prints is trusted: its output is bounded in size and time, and
the answer is the one line behind a nonce that only this process knows.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from artifact.envs.requirements import canonical_version
from artifact.errors import EnvironmentUnmet

PROBE = Path(__file__).with_name("probe.py")

#: Seconds. Reading every file of a CUDA environment from a cold disk takes minutes.
TIMEOUT, TIMEOUT_DIGESTS = 60.0, 900.0

#: An answer is about 1 KB a distribution; more than this is no answer.
MAX_OUTPUT_BYTES = 64 * 1024 * 1024

# What an interpreter may need to start at all. PYTHON* variables would change what it is.
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TMPDIR")


@dataclass(frozen=True)
class Question:
    """An interpreter, and the distributions whose files it is asked about."""

    python: Path
    """A link into a virtual environment is not resolved."""
    names: frozenset[str] = frozenset()
    """Canonical names."""


@dataclass(frozen=True)
class Distribution:
    """One installed distribution."""

    name: str
    """The canonical name."""
    version: str
    """In the canonical form of the version scheme."""
    location: str
    """The directory it is installed in."""
    modules: tuple[str, ...]
    """The importable names that it provides at the top level."""
    record: bool
    """Whether it has a readable RECORD."""
    checked: int
    """How many of its files were compared with their digests."""
    problems: tuple[tuple[str, str], ...]
    """Files that are not what RECORD says: (path below location, why)."""
    shadows: tuple[tuple[str, str], ...]
    """Modules that an import would take from elsewhere: (module, file)."""
    origin: str | None
    """Where it was installed from, if not by name from an index."""
    archive_sha256: str | None
    """The digest of the archive it was installed from, where that is recorded."""


@dataclass(frozen=True)
class Snapshot:
    """An interpreter as its probe found it."""

    executable: str
    environment: Mapping[str, str]
    """The PEP 508 variables."""
    distributions: tuple[Distribution, ...]
    nameless: tuple[str, ...]
    """Directories of distributions whose metadata does not name them."""
    unowned: tuple[str, ...]
    """Importable files and directories that belong to no distribution."""
    paths: tuple[str, ...]
    """Import paths beside the standard library and the site directories."""

    @property
    def python(self) -> str:
        """The version of the interpreter, such as ``3.12.1``."""
        return self.environment["python_full_version"]


def inspect_interpreter(
    python: Path, names: Iterable[str] = (), *, digests: bool = False, timeout: float | None = None
) -> Snapshot:
    """Ask the interpreter ``python`` what it holds.

    Args:
        python: The interpreter. A link into a virtual environment is not resolved.
        names: Canonical names of the distributions whose files are to be checked.
        digests: Whether to read those files.
        timeout: Seconds until the interpreter is given up; None for the default.

    Raises:
        EnvironmentUnmet: where it is missing, cannot be started, is no Python of version 3.8
            or newer, fails, hangs, or answers anything else.
    """
    question = Question(python, frozenset(names))
    return inspect_interpreters((question,), digests=digests, timeout=timeout)[0]


def inspect_interpreters(
    questions: Sequence[Question], *, digests: bool = False, timeout: float | None = None
) -> tuple[Snapshot, ...]:
    """Ask several interpreters side by side; the answers come in the order of ``questions``.

    Args:
        questions: Whom to ask, and about what.
        digests: Whether to read the files that they are asked about.
        timeout: Seconds until all of them must have answered; None for the default.

    Raises:
        EnvironmentUnmet: as :func:`inspect_interpreter` does, for the first one that is no
            good. The others are then killed.
    """
    limit = timeout if timeout is not None else (TIMEOUT_DIGESTS if digests else TIMEOUT)
    asked = [_Asked(question, secrets.token_hex(16)) for question in questions]
    _run(asked, digests, limit)
    return tuple(_answer(one) for one in asked)


class _Asked:
    """One probe: its process, and what it printed so far."""

    def __init__(self, question: Question, nonce: str) -> None:
        self.question = question
        self.nonce = nonce
        self.label = str(question.python)
        self.printed = {"stdout": bytearray(), "stderr": bytearray()}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, digests: bool) -> subprocess.Popen[bytes]:
        """Start it.

        Raises:
            EnvironmentUnmet: where the system does not let us.
        """
        names = sorted(self.question.names)
        request = json.dumps({"nonce": self.nonce, "digests": digests, "names": names})
        # Made absolute by hand: resolving the link of a virtual environment would leave it.
        command = [str(Path.cwd() / self.question.python), "-I", "-B", str(PROBE), request]
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={name: os.environ[name] for name in _PASSED if name in os.environ},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise EnvironmentUnmet(
                "an interpreter cannot be started",
                where=self.label,
                expected="the path of a Python interpreter",
                found=reason or str(error),
                next="name the interpreter itself, such as DIR/bin/python",
            ) from error
        return self.process

    def text(self, stream: str) -> str:
        """What it printed on a stream."""
        return self.printed[stream].decode("utf-8", "replace")

    def take(self, stream: str, data: bytes) -> None:
        """Keep what it printed.

        Raises:
            EnvironmentUnmet: where that is more than an answer can be.
        """
        self.printed[stream] += data
        if len(self.printed[stream]) > MAX_OUTPUT_BYTES:
            raise EnvironmentUnmet(
                "an interpreter prints without end",
                where=self.label,
                expected=f"at most {MAX_OUTPUT_BYTES} bytes",
                found="more",
                cause="it is not a Python interpreter",
                next=f"{self.label} -I -c 'import sys; print(sys.version)'",
            )


def _answer(asked: _Asked) -> Snapshot:
    assert asked.process is not None
    status, output, errors = asked.process.returncode, asked.text("stdout"), asked.text("stderr")
    answers = [
        line.removeprefix(asked.nonce + " ")
        for line in output.split("\n")
        if line.startswith(asked.nonce + " ")
    ]
    if status != 0 or len(answers) != 1:
        raise EnvironmentUnmet(
            "an interpreter could not say what it holds",
            where=asked.label,
            expected="a Python interpreter, version 3.8 or newer",
            found=_ending(status),
            cause="it is not a Python interpreter, or its installation is broken",
            next=f"{asked.label} -I -c 'import sys; print(sys.version)'",
            details=tuple((errors or output).strip().splitlines()[-5:]),
        )
    try:
        return _snapshot(json.loads(answers[0]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvironmentUnmet(
            "an interpreter gave an answer that cannot be read",
            where=asked.label,
            found=f"{type(error).__name__}: {error}",
            cause="something in its start-up files changes what it prints",
            next=f"{asked.label} -I -c 'import sys; print(sys.version)'",
        ) from error


def _run(asked: Sequence[_Asked], digests: bool, limit: float) -> None:
    """Start every probe, and take what it prints until its end, all within ``limit`` seconds."""
    deadline = time.monotonic() + limit
    with contextlib.ExitStack() as stack:
        try:
            for one in asked:
                stack.enter_context(one.start(digests))
            _read(asked, deadline, limit)
            for one in asked:
                _wait(one, deadline, limit)
        except BaseException:
            # Whatever ends the wait, an interrupt too: nothing of them stays behind.
            for one in asked:
                if one.process is not None:
                    _kill_group(one.process)
            raise


def _read(asked: Sequence[_Asked], deadline: float, limit: float) -> None:
    with selectors.DefaultSelector() as selector:
        for one in asked:
            assert one.process is not None
            for stream in one.printed:
                selector.register(getattr(one.process, stream), selectors.EVENT_READ, (one, stream))
        while left := selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready:
                one, _ = next(iter(left.values())).data
                raise _hanging(one.label, limit)
            for key, _ in ready:
                one, stream = key.data
                if data := os.read(key.fd, 1 << 16):
                    one.take(stream, data)
                else:
                    selector.unregister(key.fileobj)


def _wait(one: _Asked, deadline: float, limit: float) -> None:
    assert one.process is not None
    try:
        one.process.wait(timeout=max(deadline - time.monotonic(), 0))
    except subprocess.TimeoutExpired as error:
        raise _hanging(one.label, limit) from error


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _hanging(label: str, limit: float) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        "an interpreter did not answer",
        where=label,
        expected=f"an answer within {limit:g} seconds",
        found="none; it was killed",
        cause="it is not a Python interpreter, or its disk does not answer",
        next=f"{label} -I -c 'import sys; print(sys.version)'",
    )


def _ending(status: int) -> str:
    if status == 0:
        return "no answer"
    if status < 0:
        return f"ended by signal {-status}"
    return f"exit status {status}"


def _snapshot(value: dict[str, Any]) -> Snapshot:
    environment = {str(key): str(item) for key, item in value["environment"].items()}
    if "python_full_version" not in environment:
        raise KeyError("python_full_version")
    named = [item for item in value["distributions"] if item["name"]]
    return Snapshot(
        executable=str(value["executable"]),
        environment=environment,
        distributions=tuple(_distribution(item) for item in named),
        nameless=tuple(str(d["location"]) for d in value["distributions"] if not d["name"]),
        unowned=tuple(str(path) for path in value["unowned"]),
        paths=tuple(str(path) for path in value["paths"]),
    )


def _distribution(item: dict[str, Any]) -> Distribution:
    origin, archive = _origin(item["direct_url"])
    return Distribution(
        name=canonicalize_name(str(item["name"])),
        version=canonical_version(str(item["version"])),
        location=str(item["location"]),
        modules=tuple(str(module) for module in item["modules"]),
        record=bool(item["record"]),
        checked=int(item["checked"]),
        problems=tuple((str(path), str(why)) for path, why in item["problems"]),
        shadows=tuple((str(module), str(place)) for module, place in item["shadows"]),
        origin=origin,
        archive_sha256=archive,
    )


def _origin(direct: dict[str, Any] | None) -> tuple[str | None, str | None]:
    """Where direct_url.json says that a distribution came from, and its archive's digest."""
    if direct is None:
        return None, None
    url = str(direct.get("url"))
    archive = direct.get("archive_info")
    if isinstance(archive, dict):
        hashes = archive.get("hashes")
        digest = hashes.get("sha256") if isinstance(hashes, dict) else None
        if digest is None:
            digest = str(archive.get("hash") or "").partition("sha256=")[2] or None
        return url, None if digest is None else str(digest)
    return url, None
