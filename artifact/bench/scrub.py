"""Names of the machine, kept out of what a run writes down.

Logs and results are published. Where a path of this machine or its host name would stand,
they say which of a few known places it is: ``$ROOT/baselines/x.py``, ``$PYTHON``,
``$HOST``.
"""

from __future__ import annotations

import os
import posixpath
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

# Directories that every Linux machine has say nothing about this one.
_COMMON = frozenset(
    ("", "/", "/usr", "/usr/local", "/opt", "/bin", "/usr/bin", "/tmp",  # noqa: S108
     "/lib", "/lib64", "/usr/lib", "/etc", "/home", "/dev")
)  # fmt: skip

# A path in a value: at its start, behind a separator, an option or `file://`; the two slashes of
# another address begin none. Blanks belong to it unless another path or an option follows them.
_PATH = re.compile(
    r"""(?P<before>^|[\s:;,=|"'(\[{]|(?<![\w-])-[IL]|file://)"""
    r"""(?P<path>(?:(?<=:)/(?!/)|(?<!:)/)(?:[^\s:;,=|"')\]}]|=(?!/)|\s+(?![\s/-]))*)"""
)

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
        start = r"(?:(?<![\w.-])|(?<=-[IL]))"
        self._pattern = re.compile(rf"{start}(?:{choice})(?![\w-]|\.\w)")

    def text(self, text: str) -> str:
        """``text`` with every known place replaced by its token."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda match: self._tokens[match.group()], text)
        return self._host.sub("$HOST", text) if self._host is not None else text

    def paths(self, text: str) -> str:
        """A value, such as a word of a command line, without any path of this machine.

        Of a place that has no token only the last name is kept: ``.../ptxas``. ``/`` and what
        is below ``/dev`` are on every machine, and stay.
        """
        return _PATH.sub(lambda match: match["before"] + _last_name(match["path"]), self.text(text))

    def mapping(self, values: Mapping[str, str]) -> dict[str, str]:
        """Values, such as those of environment variables, without any path of this machine."""
        return {name: self.paths(value) for name, value in values.items()}


def _last_name(path: str) -> str:
    known = posixpath.normpath(path.rstrip()).replace("//", "/")
    if known in ("/", "/dev") or known.startswith("/dev/"):
        return path
    return f".../{posixpath.basename(known)}"
