"""What an interpreter holds, told by that interpreter itself.

This file is run by the interpreter that is to be checked, isolated (``-I``), so it uses the
standard library only and keeps to Python 3.8. It imports nothing of what it reports on:
distributions are read from their metadata, files from their RECORD.

    PYTHON -I probe.py '{"nonce": "...", "digests": true, "names": ["torch", ...]}'

It prints one line: the nonce, a space, and a JSON object. Whatever start-up files print
stands on other lines. ``names`` are the distributions whose files are compared with the
digests in their RECORD.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import platform
import re
import site
import stat
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib import machinery, metadata
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20
# The digests that the RECORD format takes for secure.
_ALGORITHMS = ("sha256", "sha384", "sha512")
# What makers of virtual environments put beside distributions without a RECORD.
_TOOLS_OWN = frozenset({"__pycache__", "_virtualenv.py", "_virtualenv.pth"})


def canonical(name: str) -> str:
    """The canonical form of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def marker_environment() -> dict[str, str]:
    """The PEP 508 variables of this interpreter."""
    info = sys.implementation.version
    version = f"{info.major}.{info.minor}.{info.micro}"
    if info.releaselevel != "final":
        version += info.releaselevel[0] + str(info.serial)
    return {
        "implementation_name": sys.implementation.name,
        "implementation_version": version,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
        "extra": "",
    }


def read_record(distribution: Any) -> list[tuple[str, str]] | None:
    """The rows of a RECORD as (path, digest), or None where there is no readable RECORD."""
    try:
        text = distribution.read_text("RECORD")
        if text is None:
            return None
        rows = [row for row in csv.reader(text.splitlines()) if row]
    except (csv.Error, UnicodeDecodeError):
        return None
    return [(row[0], row[1] if len(row) > 1 else "") for row in rows]


def top_level(rows: list[tuple[str, str]]) -> tuple[set[str], list[str]]:
    """Names at the top of the site directory that a distribution owns, and its modules."""
    owned, modules = set(), set()
    for path, _ in rows:
        first, slash, rest = path.partition("/")
        if first in ("", "..", "__pycache__"):
            continue
        owned.add(first)
        if slash:
            if first.isidentifier() and rest.endswith((".py", ".so")):
                modules.add(first)
        elif first.endswith((".py", ".so")):
            modules.add(first.split(".")[0])
    return owned, sorted(modules)


def file_problem(location: str, path: str, recorded: str) -> str | None:
    """Why a file is not what its RECORD says, or None."""
    algorithm, _, wanted = recorded.partition("=")
    if algorithm not in _ALGORITHMS:
        return "has no SHA-2 digest in RECORD"
    try:
        # Not blocking: a FIFO in the place of a file must not hold the check up.
        name = os.path.join(location, path)  # noqa: PTH118 - a Path costs as much as reading a file
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "is not a regular file"
            digest = hashlib.new(algorithm)
            # Read without a file object, which gives the interpreter away once more a call:
            # with many small files the threads would mostly wait for it.
            for chunk in iter(lambda: os.read(descriptor, _CHUNK), b""):
                digest.update(chunk)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return "is missing"
    except (OSError, ValueError) as error:
        return "cannot be read: " + str(getattr(error, "strerror", None) or error)
    found = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode("ascii")
    return None if found == wanted.rstrip("=") else "was changed after it was installed"


def direct_url(distribution: Any) -> dict[str, Any] | None:
    """What direct_url.json says of a distribution that came from no index, or None."""
    text = distribution.read_text("direct_url.json")
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"url": "an unreadable direct_url.json"}


def shadows(modules: list[str], owned: set[str], location: str) -> list[list[str]]:
    """Modules of a distribution that an import would take from elsewhere: [module, place]."""
    found = []
    for module in modules:
        try:
            spec = machinery.PathFinder.find_spec(module, sys.path)
        except (ImportError, ValueError, OSError):
            continue
        if spec is None or not spec.origin:  # a namespace package has no one place
            continue
        origin, directory = Path(spec.origin).resolve(), Path(location).resolve()
        inside = directory in origin.parents
        if not inside or origin.relative_to(directory).parts[0] not in owned:
            found.append([module, spec.origin])
    return found


def describe(
    distribution: Any, names: frozenset[str], digests: bool, pool: ThreadPoolExecutor
) -> tuple[dict[str, Any], str, set[str]]:
    """One distribution as a JSON object, its directory, and the names that it owns there."""
    location = str(distribution.locate_file(""))
    place = str(getattr(distribution, "_path", location))
    about = distribution.metadata  # parsed anew each time
    name = about["Name"]
    if not isinstance(name, str) or not name:
        return {"name": "", "version": "", "location": place}, location, set()
    rows = read_record(distribution)
    owned, modules = top_level(rows or [])
    owned.add(Path(place).name)
    if rows is None:
        modules = sorted((distribution.read_text("top_level.txt") or "").split())
        owned.update(modules)
    wanted = canonical(name) in names
    hashed = [row for row in rows or () if row[1]] if wanted and digests else []
    # Begun here and read by the caller: the files of all distributions are hashed side by side.
    problems = pool.map(lambda row: [row[0], file_problem(location, row[0], row[1])], hashed)
    described = {
        "name": name,
        "version": str(about["Version"] or ""),
        "location": location,
        "modules": modules,
        "record": rows is not None,
        "checked": len(hashed),
        "problems": problems,
        "direct_url": direct_url(distribution),
        "shadows": shadows(modules, owned, location) if wanted else [],
    }
    return described, location, owned


def importable(directory: str, entry: str) -> bool:
    """Whether an import or the start of the interpreter would take up this name."""
    if entry in _TOOLS_OWN:
        return False
    if entry.endswith((".py", ".so", ".pth", ".egg-link", ".start")):
        return True
    return entry.isidentifier() and Path(directory, entry).is_dir()


def unowned(directories: dict[str, set[str]]) -> list[str]:
    """Importable names in site directories that no distribution's RECORD holds."""
    found = []
    for directory, owned in sorted(directories.items()):
        try:
            entries = sorted(entry.name for entry in Path(directory).iterdir())
        except OSError:
            continue
        found += [
            str(Path(directory, entry))
            for entry in entries
            if entry not in owned and importable(directory, entry)
        ]
    return found


def other_paths() -> list[str]:
    """Directories of sys.path that are neither the standard library nor a site directory."""
    library = Path(sysconfig.get_paths()["stdlib"]).resolve()
    sites = {Path(path).resolve() for path in site.getsitepackages()}
    found = []
    for path in dict.fromkeys(sys.path):
        real = Path(path).resolve()
        if real.is_dir() and real not in sites and library not in (real, *real.parents):
            found.append(path)
    return found


def report(options: dict[str, Any]) -> dict[str, Any]:
    """Everything that a check needs, as a JSON object."""
    names = frozenset(options["names"])
    directories: dict[str, set[str]] = {p: set() for p in site.getsitepackages() if p in sys.path}
    described = []
    with ThreadPoolExecutor(max_workers=min(16, os.cpu_count() or 1)) as pool:
        for distribution in metadata.distributions():
            item, location, owned = describe(distribution, names, options["digests"], pool)
            described.append(item)
            location = location.rstrip(os.sep)
            if location in directories:
                directories[location].update(owned)
        for item in described:
            item["problems"] = [problem for problem in item.get("problems", ()) if problem[1]]
    return {
        "executable": sys.executable,
        "environment": marker_environment(),
        "distributions": described,
        "unowned": unowned(directories),
        "paths": other_paths(),
    }


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    sys.stdout.write("\n" + asked["nonce"] + " " + json.dumps(report(asked)) + "\n")
    sys.stdout.flush()
