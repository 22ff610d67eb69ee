"""Run ``reuse lint`` over this tree, with licenses/ where the tool expects LICENSES/.

    python licenses/lint.py

The tool looks for licence texts in LICENSES/ and nowhere else. This tree has licenses/, and
cannot have both: on file systems without upper and lower case they are one directory, and
our own archives refuse such a pair. So a copy of what belongs to the artifact is linted, in
which licenses/LICENSE.txt is LICENSES/Apache-2.0.txt. The exit status is that of the tool.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from artifact.integrity.documents import load_manifest
from artifact.integrity.rules import Rules
from artifact.integrity.tree import Tree

ROOT = Path(__file__).resolve().parent.parent
TEXT, EXPECTED = "licenses/LICENSE.txt", "LICENSES/Apache-2.0.txt"


def stage(root: Path, into: Path) -> None:
    """Copy what belongs to the artifact at ``root``, the licence's text under its other name."""
    inventory = load_manifest(root).inventory
    rules = Rules(inventory.outside, inventory.results, inventory.published)
    tree = Tree(root)
    tree.prune(rules)
    for entry in tree.entries():
        if entry.kind != "file" or rules.place(entry.path) != "pinned":
            continue
        target = into / (EXPECTED if entry.path == TEXT else entry.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / entry.path, target)


def main() -> int:
    """Lint this tree with the arguments of the command line."""
    with tempfile.TemporaryDirectory(prefix="reuse-lint-") as scratch:
        stage(ROOT, Path(scratch))
        command = [sys.executable, "-m", "reuse", "--root", scratch, "lint", *sys.argv[1:]]
        return subprocess.run(command, cwd=scratch, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
