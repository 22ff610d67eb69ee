"""The run folder that a command's argument names."""

from __future__ import annotations

from pathlib import Path

from artifact.errors import UsageError


def run_folder(run: str, root: Path | None) -> Path:
    """The folder that ``run`` names: a folder, its results.json, or a name among the results.

    Args:
        run: The argument.
        root: The artifact's root, where it was named.

    Raises:
        UsageError: where there is no such run.
    """
    from artifact.integrity.documents import load_manifest
    from artifact.model.root import find_root

    path = Path(run)
    if path.name == "results.json" and path.is_file():
        return path.parent
    if path.is_dir():
        return path
    expected, next_ = "a run folder with a results.json", None
    if len(path.parts) == 1 or root is not None:
        top = find_root(Path.cwd(), root)
        results = top / load_manifest(top).inventory.results
        if (results / path).is_dir():
            return results / path
        expected += f", or the name of one in {results}"
        next_ = f"ls {results}"
    raise UsageError(
        "there is no such run",
        where=run,
        expected=expected,
        found="a file" if path.exists() else "nothing",
        next=next_,
    )
