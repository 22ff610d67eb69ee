"""The inventory rules: which path is pinned, which stands outside, which is another's run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from artifact.errors import VerificationError

Place = Literal["pinned", "outside", "unlisted-results"]


class Rules:
    """Where every path of a tree belongs (semantics: the manifest's ``[inventory]``).

    A pattern is matched against the path below the root, component by component. ``*``
    stands for any text within one component, a leading or inner ``**`` for any number of
    components, every other character for itself. A pattern that ends in ``/`` matches
    directories, with all that is in them; any other pattern matches what is no directory.

    Args:
        outside: Patterns of what stands outside.
        results: The folder of run folders.
        published: Names of the run folders that are part of the artifact.

    Raises:
        VerificationError: for a pattern that can match nothing, with its dotted place.
    """

    def __init__(self, outside: Iterable[str], results: str, published: Iterable[str]) -> None:
        self.outside = tuple(outside)
        self.results = results
        self.published = frozenset(published)
        directories: list[str] = []
        files: list[str] = []
        for i, pattern in enumerate(self.outside):
            if problem := _problem(pattern):
                raise VerificationError(
                    "an inventory pattern can match nothing",
                    where=f"manifests/artifact.toml: inventory.outside[{i}]",
                    expected="name/  **/name/  **/*.ext  directory/name",
                    found=f"{pattern!r}: {problem}",
                    next="correct the pattern, then: artifact lock",
                )
            (directories if pattern.endswith("/") else files).append(_translate(pattern))
        never = "(?!)"
        self._directories = re.compile("(?:" + ("|".join(directories) or never) + ")", re.DOTALL)
        self._files = re.compile("(?:" + ("|".join(files) or never) + r")\Z", re.DOTALL)
        self._results_prefix = results + "/"

    def place(self, path: str, is_dir: bool = False) -> Place:
        """Where ``path`` belongs; every directory above it is taken into account.

        Args:
            path: A path below the root, with ``/`` between its components.
            is_dir: Whether it is a directory (a symlink is none).
        """
        if self._directories.match(path + "/" if is_dir else path):
            return "outside"
        if not is_dir and self._files.match(path):
            return "outside"
        if path.startswith(self._results_prefix):
            run, slash, _ = path[len(self._results_prefix) :].partition("/")
            if (slash or is_dir) and run not in self.published:
                return "unlisted-results"
        return "pinned"


def _problem(pattern: str) -> str | None:
    body = pattern[:-1] if pattern.endswith("/") else pattern
    if not body:
        return "it is empty"
    if body.startswith("/"):
        return "it begins with /, but paths are taken below the root"
    for part in body.split("/"):
        if part in ("", ".", ".."):
            return f"it has the component {part!r}"
        if "**" in part and part != "**":
            return "** stands for whole components only"
    if body.split("/")[-1] == "**":
        return "it ends in **; name the directory itself"
    return None


def _translate(pattern: str) -> str:
    """``pattern`` as a regular expression; a directory's ends behind the ``/``."""
    parts = pattern.rstrip("/").split("/")
    out = [
        "(?:[^/]+/)*"
        if part == "**"
        else "[^/]*".join(re.escape(text) for text in part.split("*")) + "/"
        for part in parts
    ]
    text = "".join(out)
    return text if pattern.endswith("/") else text.removesuffix("/")
