"""The run folder: created once, never another's, and results.json whole at every moment.

``complete`` is false from the first byte of results.json until its last write, which also
pins every other file of the folder. Between the two the file is replaced after every step,
each time by a whole document (written beside, synced, renamed).
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from artifact.errors import EnvironmentUnmet
from artifact.integrity.atomic import is_partial, write_atomic
from artifact.model.base import Model
from artifact.model.load import dump_json
from artifact.model.lock import FilePin
from artifact.model.results import ErrorRecord, Phase, RunResults, State

RESULTS = "results.json"
LOCK_COPY = "lock.json"
LOGS = "logs"

_MAX_SHARE = 0.02
"""The largest part of the timing phase that writing results.json may take."""

_MAX_NAMES = 1000


def utc_now() -> datetime:
    """The moment, in UTC: what is written down knows no other time zone."""
    return datetime.now(timezone.utc)


def stamp(moment: datetime) -> str:
    """``moment`` as documents write it: ``2026-09-21T10:05:14.123Z``."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def slug(name: str) -> str:
    """``name`` as a part of a folder's name: ``NVIDIA H200`` becomes ``nvidia-h200``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "device"


def create(parent: Path, device: str, suffix: str, moment: datetime) -> Path:
    """A new folder ``<UTC>-<device>-<suffix>`` in ``parent``, which is made if need be.

    Where another run took the name within the same second, ``-2``, ``-3``, ... is put
    behind the time. An existing folder is never used.

    Raises:
        EnvironmentUnmet: where no folder can be made.
    """
    time_ = moment.strftime("%Y%m%dT%H%M%SZ")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MAX_NAMES):
            more = f"-{number}" if number > 1 else ""
            folder = parent / f"{time_}{more}-{slug(device)}-{suffix}"
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return folder
    except OSError as error:
        raise EnvironmentUnmet(
            "the run folder cannot be made",
            where=str(parent),
            found=error.strerror or str(error),
            cause="the checkout is read-only, or the disk is full",
            next="name a folder that can be written: --results-dir DIR",
        ) from error
    raise EnvironmentUnmet(
        "no name is free for the run folder",
        where=str(parent),
        next="name another folder: --results-dir DIR",
    )


class RunDir:
    """The folder of one run and its results.json.

    Fields are changed through :meth:`set` and :meth:`add`, which keep each field's JSON, so
    that a write costs no more than its bytes however many samples there are.

    Args:
        folder: A new, empty folder.
        results: The document of a run that has just begun.

    Raises:
        EnvironmentUnmet: where the first write fails; the folder is then removed again.
    """

    def __init__(self, folder: Path, results: RunResults) -> None:
        self.folder = folder
        self._values: dict[str, Any] = {name: getattr(results, name) for name in _fields()}
        self._parts = {name: _deeper(_encoded(value)) for name, value in self._values.items()}
        self._items: dict[str, list[str]] = {}
        self._written = 0.0
        self._cost = 0.0
        try:
            self.save()
            (folder / LOGS).mkdir()
        except BaseException as error:
            self._abandon()
            if isinstance(error, OSError):
                raise _no_room(folder, error) from error
            raise

    def _abandon(self) -> None:
        with contextlib.suppress(OSError):
            (self.folder / RESULTS).unlink(missing_ok=True)
            self.folder.rmdir()

    @property
    def phase(self) -> Phase:
        """The phase that the run is in."""
        state: State = self._values["state"]
        return state.phase

    def get(self, field: str) -> Any:
        """The value of a field of :class:`RunResults` as it stands."""
        return self._values[field]

    def set(self, **fields: Any) -> None:
        """Replace fields of the document; nothing is written yet."""
        for name, value in fields.items():
            self._values[name] = value
            self._parts[name] = _deeper(_encoded(value))
            self._items.pop(name, None)

    def add(self, field: str, item: Model) -> None:
        """Append to a list of the document; nothing is written yet."""
        if field not in self._items:
            self._values[field] = list(self._values[field])
            self._items[field] = [_item(value) for value in self._values[field]]
        self._values[field].append(item)
        self._items[field].append(_item(item))

    def results(self, **changes: Any) -> RunResults:
        """The document as a validated model, with ``changes`` made to it alone."""
        values = {**self._values, **changes}
        return RunResults.model_validate(
            {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        )

    def encode(self) -> bytes:
        """The document as it stands: the same bytes that ``pretty_json`` would make."""
        parts = dict(self._parts)
        for name, items in self._items.items():
            parts[name] = "[\n  " + ",\n  ".join(items) + "\n ]"
        lines = ",\n ".join(f'"{name}": {part}' for name, part in parts.items())
        return f"{{\n {lines}\n}}\n".encode()

    def save(self) -> None:
        """Replace results.json.

        Raises:
            EnvironmentUnmet: where it cannot be written; the file is then as it was.
        """
        begin = time.monotonic()
        write_atomic(self.folder / RESULTS, self.encode())
        self._written = time.monotonic()
        self._cost = self._written - begin

    def save_soon(self) -> None:
        """Replace results.json unless that would take more than 2 % of the time.

        What is not written now is written by the next :meth:`save`, and every end of a run
        but a SIGKILL has one. A kill loses the samples of at most fifty times the length
        of a write.
        """
        if self._cost <= _MAX_SHARE * (time.monotonic() - self._written):
            self.save()

    def finish(self, done: RunResults) -> RunResults:
        """Write ``done`` with a pin of every other file: the last write of a run.

        Args:
            done: The document with ``complete: true``, as the pages were made of it.

        Raises:
            EnvironmentUnmet: where it cannot be written; the file is then as it was.
            VerificationError: where it does not match its schema (a bug of ours).
        """
        pinned = done.model_copy(update={"files": pins(self.folder)})
        write_atomic(self.folder / RESULTS, dump_json("results", pinned, RESULTS))
        return pinned

    def fail(self, record: ErrorRecord, finished: datetime) -> None:
        """Note why the run ended early; everything measured so far is kept.

        Where even that cannot be written (a full disk), results.json stays as the last
        write left it: whole, and ``complete: false``.
        """
        self.set(state=State(phase=record.phase, error=record), finished=stamp(finished))
        with contextlib.suppress(EnvironmentUnmet):
            self.save()


def pins(folder: Path, leave_out: Iterable[str] = (RESULTS,)) -> tuple[FilePin, ...]:
    """A pin of every file below ``folder`` but those to ``leave_out``, by the bytes of the path."""
    from artifact.integrity.digest import hash_files

    skip = set(leave_out)
    paths = [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and not is_partial(path.name)
    ]
    found = [
        FilePin(
            path=name,
            size=digests.size,
            executable=bool((folder / name).stat().st_mode & 0o100),
            blake3=digests.blake3,
            sha256=str(digests.sha256),
        )
        for name, digests in hash_files(folder, [path for path in paths if path not in skip])
    ]
    return tuple(sorted(found, key=lambda pin: pin.path.encode("utf-8")))


def _fields() -> tuple[str, ...]:
    return tuple(RunResults.model_fields)


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _encoded(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=1)


def _item(value: Model) -> str:
    return _deeper(_deeper(_encoded(value)))


def _deeper(text: str) -> str:
    # Inside strings JSON escapes newlines, so each one here begins a line of the layout.
    return text.replace("\n", "\n ")


def _no_room(folder: Path, error: OSError) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        "the run folder cannot be written",
        where=str(folder),
        found=error.strerror or str(error),
        next="make room, or name another folder: --results-dir DIR",
    )
