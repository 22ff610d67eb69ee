"""Tiny wheels, conda packages and artifacts, made where a test wants them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

PYTHON = "{}.{}".format(*sys.version_info[:2])
"""The version of Python that the tests run in; tiny environments are locked for it."""

MANIFEST = f"""
manifest_version = 1
default_workload = "none"
[artifact]
name = "tiny-envs"
title = "Tiny environments"
version = "0.1.0"
licence = "Apache-2.0"
description = "An artifact of which only the environments matter."
[inventory]
outside = ["build/"]
results = "results"
published = []
[archive]
mtime = 2026-01-01T00:00:00Z
[archive.deflate]
implementation = "zlib"
[metric]
name = "OPS"
work = "N"
per_second = 1.0
[gates.output]
elements = "N"
rows = "N"
band_axis = "N"
band_rows = 1
[gates.published]
atol = 0.1
rtol = 0.1
[gates.strict]
factor = 2.0
[[gates.controls]]
name = "zeros"
description = "All zeros."
[statistics]
confidence = 0.95
tie = 0.01
max_drift = 0.05
[claims]
ratio = 0.05
absolute = 0.05
[report]
title = "Nothing"
axis = "N"
suffix = "test"
[[workloads]]
name = "none"
title = "None"
device = "cpu"
comparable = false
seed = 1
shapes = [{{ name = "N=1", dims = {{ N = 1 }} }}]
protocols = {{ paper = "quick" }}
[[protocols]]
name = "quick"
clock = "host-monotonic"
order = "paper"
warmup = 1
repeat = 1
rounds = 3
[[backends]]
name = "nothing"
title = "Nothing"
kind = "python"
device = "cpu"
worker = "worker.py"
environment = "tiny"
workloads = ["none"]
[[environments]]
name = "tiny"
title = "Tiny"
python = "{PYTHON}"
requirements = "envs/tiny/requirements.lock"
conda_lock = "envs/tiny/conda-lock.yml"
specification = "envs/tiny/environment.yml"
[[environments]]
name = "bare"
title = "Nothing but wheels"
python = "{PYTHON}"
requirements = "envs/bare/requirements.lock"
"""


def record_digest(data: bytes) -> str:
    """A digest as RECORD spells it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return "sha256=" + digest.decode("ascii")


def wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    requires: Iterable[str] = (),
) -> tuple[Path, str]:
    """A pure Python wheel in ``folder``, and its SHA-256."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {item}\n" for item in requires)
    contents = dict(files or {f"{module}/__init__.py": f"VERSION = {version!r}\n"})
    contents[f"{info}/METADATA"] = metadata
    contents[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    rows = [
        f"{path},{record_digest(text.encode())},{len(text.encode())}"
        for path, text in contents.items()
    ]
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in contents.items():
            archive.writestr(zipfile.ZipInfo(member, (2020, 1, 1, 0, 0, 0)), text)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def lock_line(name: str, version: str, *digests: str) -> str:
    """A requirement of a lock."""
    return " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{d}" for d in digests)]) + "\n"


def artifact(root: Path, locked: str = "# nothing\n") -> Path:
    """An artifact at ``root`` whose environment ``tiny`` has the lock ``locked``."""
    (root / "manifests").mkdir(parents=True)
    (root / "manifests/artifact.toml").write_text(MANIFEST)
    (root / "envs/tiny").mkdir(parents=True)
    (root / "envs/tiny/requirements.lock").write_text(locked)
    return root


def venv(folder: Path, *wheels: Path) -> Path:
    """A virtual environment without pip that holds ``wheels``; its interpreter."""
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", folder], check=True)
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(site(folder))
    return folder / "bin" / "python"


def site(folder: Path) -> Path:
    """The directory of a virtual environment that distributions are installed in."""
    return folder / "lib" / f"python{PYTHON}" / "site-packages"


def conda_package(
    channel: Path,
    name: str,
    version: str,
    *,
    subdir: str = "linux-64",
    depends: Iterable[str] = (),
    files: Mapping[str, bytes] | None = None,
    links: Mapping[str, str] | None = None,
) -> Path:
    """A conda package in a channel's directory. Executable: what is below bin/."""
    index = {
        "name": name,
        "version": version,
        "build": "0",
        "build_number": 0,
        "depends": list(depends),
        "subdir": subdir,
        "timestamp": 1_700_000_000_000,
    }
    if subdir == "noarch":
        index["noarch"] = "generic"
    paths = [
        {
            "_path": path,
            "path_type": "hardlink",
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_in_bytes": len(data),
        }
        for path, data in (files or {}).items()
    ] + [{"_path": path, "path_type": "softlink"} for path in links or {}]
    members = {
        "info/index.json": json.dumps(index).encode(),
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}).encode(),
        **(files or {}),
    }
    target = channel / subdir / f"{name}-{version}-0.tar.bz2"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:bz2", compresslevel=1) as archive:
        for path, data in members.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            member.mode = 0o755 if path.startswith("bin/") else 0o644
            archive.addfile(member, io.BytesIO(data))
        for path, goal in (links or {}).items():
            member = tarfile.TarInfo(path)
            member.type, member.linkname = tarfile.SYMTYPE, goal
            archive.addfile(member)
    return target


INDEX = """
import asyncio, os, pathlib, sys
from rattler.index import index_fs
asyncio.run(index_fs(pathlib.Path(sys.argv[1]), write_zst=False, write_shards=False))
os._exit(0)
"""
# In a process of its own: the library's threads may crash an interpreter that shuts down.


def index(channel: Path) -> str:
    """Write a channel's repodata; its URL."""
    (channel / "noarch").mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-I", "-c", INDEX, channel], check=True)
    return channel.as_uri()
