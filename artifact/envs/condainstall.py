"""Install locked conda packages with py-rattler; run as a file by condabase.py.

    condainstall.py < REQUEST

The request is a JSON object: ``channel`` (a URL), ``platform``, ``prefix`` and ``packages``,
a list of [name, file, sha256]. The answer is one too: ``absent``, the files that the channel
does not have with that digest (nothing is installed then), or ``error``. It imports nothing
of this package, and ends without the interpreter's shutdown, which py-rattler's threads may
crash.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any


async def install(request: dict[str, Any]) -> list[str]:
    """Install what is asked for, or return what the channel lacks of it."""
    import rattler

    gateway = rattler.Gateway()
    found = await gateway.query(
        sources=[request["channel"]],
        platforms=[request["platform"], "noarch"],
        specs=[name for name, _, _ in request["packages"]],
        recursive=False,
    )
    records = {
        (str(record.file_name), record.sha256.hex()): record
        for group in found
        for record in group
        if record.sha256 is not None
    }
    wanted = [(file, sha256) for _, file, sha256 in request["packages"]]
    absent = [file for file, sha256 in wanted if (file, sha256) not in records]
    if not absent:
        # The digest of each download is compared with that of its record.
        chosen = [records[key] for key in wanted]
        await rattler.install(chosen, target_prefix=request["prefix"], show_progress=False)
    return absent


if __name__ == "__main__":
    try:
        answer: dict[str, Any] = {"absent": asyncio.run(install(json.load(sys.stdin)))}
    except Exception as error:
        # The library raises a class of its own for each thing that can go wrong.
        answer = {"error": str(error) or type(error).__name__}
    print(json.dumps(answer), flush=True)
    os._exit(0)
