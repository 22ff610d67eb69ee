"""A conda executable for conda-lock that solves with py-rattler.

conda-lock leaves solving to conda, mamba or micromamba, none of which is a Python package.
This file answers the two calls that conda-lock makes of one, so that ``pip install '.[env]'``
is all that locking needs:

    condasolver.py --version
    condasolver.py create --prefix P --dry-run --json --override-channels --channel C... SPEC...

The second prints the plan that conda would print: a JSON object with the records to fetch.
The variable ``ARTIFACT_CHANNEL_URLS``, a JSON object, says where a channel is;
``ARTIFACT_SOLVER_SAID`` names a file that takes the reason of a failure.
Virtual packages (``__glibc`` and its kind) come as packages of the last channel, which
conda-lock makes for them. It imports nothing of this package, because it is run as a file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _fail(f"this solver does not know the call: {message}")


def _answer(answer: dict[str, Any], status: int) -> NoReturn:
    print(json.dumps(answer), flush=True)
    # py-rattler's threads may outlive the interpreter and crash it while it shuts down.
    os._exit(status)


def _fail(message: str) -> NoReturn:
    if said := os.environ.get("ARTIFACT_SOLVER_SAID"):
        Path(said).write_text(message, encoding="utf-8")
    # A failing conda prints such an object, and conda-lock looks for it.
    _answer({"message": message, "success": False}, 1)


def _arguments() -> argparse.Namespace:
    parser = _Parser(add_help=False)
    parser.add_argument("command", choices=["create"])
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--dry-run", action="store_true", required=True)
    parser.add_argument("--json", action="store_true", required=True)
    parser.add_argument("--override-channels", action="store_true", required=True)
    parser.add_argument("--channel", action="append", default=[])
    parser.add_argument("specs", nargs="+")
    return parser.parse_args()


def fetch_action(record: Any) -> dict[str, Any]:
    """A solved record as the entry of a plan."""
    return {
        "name": record.name.normalized,
        "version": str(record.version),
        "build": str(record.build),
        "build_number": record.build_number,
        "channel": str(record.channel),
        "url": str(record.url),
        "fn": str(record.file_name),
        "md5": record.md5.hex() if record.md5 is not None else "",
        "sha256": record.sha256.hex() if record.sha256 is not None else None,
        "depends": list(record.depends),
        "constrains": list(record.constrains),
        "subdir": str(record.subdir),
        "timestamp": 0,
    }


def main() -> None:
    """Answer one call of conda-lock."""
    if sys.argv[1:] == ["--version"]:
        print("condasolver (py-rattler)")
        return
    arguments = _arguments()
    import rattler

    subdir = os.environ["CONDA_SUBDIR"]  # conda-lock's way to name the platform
    urls = json.loads(os.environ.get("ARTIFACT_CHANNEL_URLS", "{}"))
    try:
        records = asyncio.run(
            rattler.solve(
                sources=[urls.get(channel, channel) for channel in arguments.channel],
                specs=arguments.specs,
                platforms=[subdir, "noarch"],  # type: ignore[list-item]  # any subdir's name
            )
        )
    except Exception as error:
        # Whatever went wrong is the answer: conda-lock passes it on to the reader.
        _fail(str(error))
    actions = [fetch_action(record) for record in records]
    _answer({"success": True, "actions": {"FETCH": actions, "LINK": []}}, 0)


if __name__ == "__main__":
    main()
