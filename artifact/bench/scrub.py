"""Names of the machine, kept out of what a run writes down.

Logs and results are published. Where a path of this machine or its host name would stand,
they say which of a few known places it is: ``$ROOT/baselines/x.py``, ``$PYTHON``,
``$HOST``.
"""

from __future__ import annotations

import copy
import os
import posixpath
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

# Directories that every Linux machine has say nothing about this one.
_COMMON = frozenset(
    ("", "/", "/usr", "/usr/local", "/opt", "/bin", "/usr/bin", "/tmp",  # noqa: S108
     "/lib", "/lib64", "/usr/lib", "/etc", "/home", "/dev")
)  # fmt: skip

# Devices that every machine has.
_DEVICE = re.compile(r"/(?:dev(?:/(?:null|zero|full|u?random|tty|std(?:in|out|err)|shm))?)?")

# A path in a value begins at a slash that continues no name, or behind an option that it is glued
# to. Blanks belong to it unless another path or an option follows. An address with a host is none.
_PATH = re.compile(
    r"""
    (?P<address>
        (?<![\w+./-]) (?!(?i:file):) [A-Za-z][\w+.-]* :// (?=[\w\[$])
        (?:[^\s"'`<>=,;|:] | :(?!/))*
    )
    | (?P<option> (?<![\w-]) --?[A-Za-z]+ (?=/) | (?<=:-) | (?<![\w.~$})*?/-]) )
      (?P<path> / (?: (?=\s) | (?:[^\s:;,=|"'`<>)\]}] | =(?!/) | [ \t]+(?![\s/-]|$))* ) )
    """,
    re.VERBOSE,
)

# Of these every machine has the same, or something of that name.
_SYSTEM = re.compile(r"/(?:(?:dev|proc|sys|etc|bin|lib\w*)(?:/|$)|usr/(?!local/))")

_COMPONENTS = 3
"""A shorter path, such as ``/data/x``, may stand in text for something else."""

_HOST_MIN_LENGTH = 3


class Scrubber:
    """Replaces known places in text, the longest first, at the borders of path components."""

    def __init__(self, places: Iterable[tuple[str, str | os.PathLike[str]]] = ()) -> None:
        """Know ``places``: pairs of a token such as ``$ROOT`` and its absolute path."""
        self._tokens: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        host = socket.gethostname()
        self._host = (
            re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])")
            if len(host) >= _HOST_MIN_LENGTH and host != "localhost"
            else None
        )
        for token, path in places:
            self.add(token, path)

    def add(self, token: str, path: str | os.PathLike[str]) -> None:
        """Know one more place, also under the name that its symlinks resolve to."""
        if not Path(path).is_absolute():
            return
        for name in (os.fspath(path), os.path.realpath(path)):
            if name.rstrip("/") not in _COMMON:
                self.name(token, name.rstrip("/"))

    def name(self, token: str, name: str) -> None:
        """Know one more name that is no path, such as the UUID of a GPU."""
        self._tokens.setdefault(name, token)
        names = sorted(self._tokens, key=len, reverse=True)
        choice = "|".join(re.escape(name) for name in names)
        # `/srv/home/me` is not below `/home/me`; `-I/home/me/include` is.
        # Nor is the host of an address a directory.
        start = r"(?:(?<![\w.-])|(?<=-[IL]))(?<!:/)"
        self._pattern = re.compile(rf"{start}(?:{choice})(?![\w-]|\.\w)")

    def text(self, text: str) -> str:
        """``text`` with every known place replaced by its token."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda match: self._tokens[match.group()], text)
        return self._host.sub("$HOST", text) if self._host is not None else text

    def paths(self, text: str) -> str:
        """A value, such as a word of a command line, without any path of this machine.

        Of a place that has no token only the last name is kept: ``.../ptxas``. A separator
        within a name ends the path there.
        """
        straight = _PATH.sub(lambda match: _replaced(match, _straight), text)
        return _PATH.sub(lambda match: _replaced(match, _last_name), self.text(straight))

    def knowing(self, values: Mapping[str, str]) -> Scrubber:
        """A copy that writes the values of these variables as ``$NAME``, where they are paths.

        It is for what one worker prints, which may name what it was given.
        """
        more = copy.copy(self)
        more._tokens = dict(self._tokens)
        for name, value in values.items():
            token = f"${name}"
            if token not in self._tokens.values() and _is_telling(value):
                more.name(token, posixpath.normpath(value))
        return more

    def mapping(self, values: Mapping[str, str]) -> dict[str, str]:
        """Values, such as those of environment variables, without any path of this machine."""
        return {name: self.paths(value) for name, value in values.items()}


def _is_telling(value: str) -> bool:
    """Whether a value is one path, and one that stands for nothing else in other text."""
    match, path = _PATH.fullmatch(value), posixpath.normpath(value)
    return (
        match is not None
        and match["path"] == value
        and path.count("/") >= _COMPONENTS
        and not _SYSTEM.match(path)
    )


def _replaced(match: re.Match[str], written: Callable[[str], str]) -> str:
    return match["address"] or match["option"] + written(match["path"])


def _straight(path: str) -> str:
    """Without ``..``, by which a path below a known place leads out of it."""
    return posixpath.normpath(path) if "/.." in path else path


def _last_name(path: str) -> str:
    known = posixpath.normpath(path).replace("//", "/")
    return known if _DEVICE.fullmatch(known) else f".../{posixpath.basename(known)}"
