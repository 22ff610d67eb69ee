"""A tiny artifact for tests of archives: a manifest, whatever files a test wants, a lock."""

from __future__ import annotations

from pathlib import Path

from artifact.integrity.lockfile import write_lock

MANIFEST = """
manifest_version = 1
default_workload = "small"

[artifact]
name = "tiny-sum"
title = "A tiny artifact"
version = "1.0"
licence = "Apache-2.0"
description = "Sums rows, so that archives have something to hold."

[inventory]
outside = ["dist/", "**/__pycache__/"]
results = "results"
published = []

[archive]
mtime = 2026-09-21T00:00:00Z

[archive.deflate]
implementation = "{implementation}"
{package}
level = {level}
block_bytes = {block_bytes}

[metric]
name = "GB/s"
work = "4*R*C"
per_second = 1e9

[gates.output]
elements = "R"
rows = "R"
band_axis = "R"
band_rows = 64

[gates.published]
atol = 0.001
rtol = 0.001

[gates.strict]
factor = 2.0

[[gates.controls]]
name = "zeros"
description = "All zeros."

[statistics]
tie = 0.01
max_drift = 0.05

[claims]
ratio = 0.05
absolute = 0.05

[report]
title = "Row sums"
axis = "Rows"
suffix = "f32"

[[workloads]]
name = "small"
title = "Small"
device = "cpu"
comparable = false
seed = 1
shapes = [{{ name = "R=8", dims = {{ R = 8, C = 4 }} }}]
protocols = {{ paper = "quick" }}

[[protocols]]
name = "quick"
clock = "host-monotonic"
order = "paper"
warmup = 1
repeat = 1
rounds = 3

[[backends]]
name = "loop"
title = "Loop"
kind = "python"
device = "cpu"
worker = "worker.py"
workloads = ["small"]
anchor = true

[[dependencies]]
name = "Some Library"
version = "1.2"
role = "sums"

[[dependencies]]
name = "Some Headers"
revision = "b50d8fd7196e1c5801c1bd8edf1d64e4bf9add6c"
role = "declares"
licence = "MIT"

[downloads]
worker = "worker.py"
configuration = "manifests/artifact.toml"
"""

FILES: dict[str, bytes] = {
    "worker.py": b"print('sum')\n" * 40,
    "LICENCE": b"Do as you like.\n",
    "run.sh": b"#!/bin/sh\nexit 0\n",
    "data/empty": b"",
    "data/noise.bin": bytes((i * i * 7919 + i // 3) % 251 for i in range(70_000)),
    "data/grüße.txt": "Grüße\n".encode(),
    "docs/" + "d" * 120 + "/" + "e" * 120 + ".txt": b"deep\n",
}


def make_tree(
    root: Path,
    files: dict[str, bytes] | None = None,
    *,
    implementation: str = "zlib-ng",
    level: int = 6,
    block_bytes: int = 65536,
) -> Path:
    """Write the artifact below ``root`` and pin it. ``*.sh`` files are executable."""
    package = 'package_version = "1.1.0"' if implementation == "zlib-ng" else ""
    manifest = MANIFEST.format(
        implementation=implementation, package=package, level=level, block_bytes=block_bytes
    )
    contents = {**(FILES if files is None else {"worker.py": b"", **files})}
    contents["manifests/artifact.toml"] = manifest.encode()
    for path, data in contents.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o755 if path.endswith(".sh") else 0o644)
    write_lock(root)
    return root
