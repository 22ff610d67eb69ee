"""Hash a tree of mixed files: both digests against openssl, BLAKE3 alone against b3sum.

    python benchmarks/bench_hash.py --gib 4 --dir /var/tmp/hash-corpus

Every file is in the page cache and every tool may use the same number of processors. The
tools take turns, and the ratio of each round is of two runs that stood next to each other,
so that a busy machine slows both. A ratio of 1 is as fast as the other tool; more is
faster. `artifact verify` and `artifact verify --fast` are timed as whole commands, start
of the interpreter, reading of the lock and inventory included; openssl is given the list
of files ready-made, and b3sum its list of digests.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from blake3 import blake3

#: Share of the bytes, and the size of one file. Sizes vary by a third around it.
MIX = ((0.40, 256 << 20), (0.30, 16 << 20), (0.20, 1 << 20), (0.08, 64 << 10), (0.02, 8 << 10))

MANIFEST = """\
manifest_version = 1
default_workload = "none"
[artifact]
name = "hash-corpus"
title = "Files to hash"
version = "1"
licence = "CC0-1.0"
description = "Random bytes."
[inventory]
outside = []
results = "results"
published = []
[archive]
mtime = 2026-01-01T00:00:00Z
[archive.deflate]
implementation = "zlib"
[metric]
name = "op/s"
work = "N"
per_second = 1.0
[gates.output]
elements = "N"
rows = "N"
band_axis = "N"
band_rows = 1
[gates.published]
atol = 0.0
rtol = 0.0
[gates.strict]
factor = 1.0
[[gates.controls]]
name = "nan"
description = "NaN"
[statistics]
tie = 0.01
max_drift = 0.05
[claims]
ratio = 0.05
absolute = 0.05
[report]
title = "none"
axis = "N"
suffix = "none"
[[workloads]]
name = "none"
title = "none"
device = "cpu"
comparable = false
seed = 0
shapes = [{ name = "N=1", dims = { N = 1 } }]
protocols = { paper = "none" }
[[protocols]]
name = "none"
clock = "host-monotonic"
order = "paper"
warmup = 0
repeat = 1
rounds = 1
[[backends]]
name = "none"
title = "none"
kind = "python"
device = "cpu"
worker = "manifests/artifact.toml"
workloads = ["none"]
"""


def make_tree(root: Path, total: int) -> list[str]:
    """Deterministic bytes in files of mixed sizes; kept if a tree of this size is there."""
    stamp = root.parent / f"{root.name}.made"
    wanted = f"{total} {MIX}"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(root, ignore_errors=True)
        (root / "manifests").mkdir(parents=True)
        (root / "manifests/artifact.toml").write_text(MANIFEST)
        random = blake3(b"hash corpus")
        position = number = 0
        for share, typical in MIX:
            left = int(total * share)
            while left > 0:
                size = min(left, typical * (67 + number * 37 % 67) // 100)
                folder = root / f"data/{number % 97:02}"
                folder.mkdir(parents=True, exist_ok=True)
                with (folder / f"{number:06}.bin").open("wb") as file:
                    for start in range(0, size, 1 << 20):
                        count = min(1 << 20, size - start)
                        file.write(random.digest(length=count, seek=position))
                        position += count
                left -= size
                number += 1
        subprocess.run([sys.executable, "-m", "artifact", "lock", "--root", root], check=True)
        stamp.write_text(wanted)
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def seconds(command: list[str], root: Path, listing: bytes | None = None) -> tuple[float, float]:
    """Wall time and processor time of ``command`` in ``root``; it must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, cwd=root, input=listing, stdout=subprocess.DEVNULL, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=4.0)
    parser.add_argument("--dir", type=Path, default=None, help="where the tree is made and kept")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=None, help="raw results (JSON)")
    options = parser.parse_args()
    base = options.dir or Path(tempfile.mkdtemp(prefix="hash-corpus-"))
    root = base / "tree"
    base.mkdir(parents=True, exist_ok=True)
    paths = make_tree(root, int(options.gib * 2**30))
    total = sum((root / path).stat().st_size for path in paths)
    jobs = len(os.sched_getaffinity(0))
    # The largest first: xargs then ends with small files and keeps every process busy.
    ordered = sorted(paths, key=lambda path: -(root / path).stat().st_size)
    listing = b"\0".join(os.fsencode(path) for path in ordered) + b"\0"
    sums = base.resolve() / "tree.b3"
    with sums.open("wb") as file:
        subprocess.run(["xargs", "-0", "b3sum"], cwd=root, input=listing, stdout=file, check=True)
    python = [sys.executable, "-m", "artifact", "verify", "--quiet"]
    xargs = ["xargs", "-0", "-P", str(jobs), "-n", "32"]
    tools = {
        "openssl dgst -sha256": ([*xargs, "openssl", "dgst", "-sha256"], listing),
        "artifact verify": (python, None),
        "b3sum --check": (
            ["b3sum", "--check", "--quiet", "--num-threads", str(jobs), str(sums)],
            None,
        ),
        "artifact verify --fast": ([*python, "--fast"], None),
    }
    for command, text in tools.values():
        seconds(command, root, text)
    timings = [
        {name: seconds(command, root, text) for name, (command, text) in tools.items()}
        for _ in range(options.rounds)
    ]
    rounds = [{name: wall for name, (wall, _) in timing.items()} for timing in timings]
    processor = {name: statistics.median(t[name][1] for t in timings) for name in tools}
    pairs = {
        "artifact verify / openssl": ("artifact verify", "openssl dgst -sha256", 0.75),
        "artifact verify --fast / b3sum --check": ("artifact verify --fast", "b3sum --check", 0.8),
    }
    record = {
        "files": len(paths),
        "bytes": total,
        "processors": jobs,
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "rounds_s": rounds,
        "processor_s": processor,
        "ratios": {
            name: statistics.median(r[theirs] / r[ours] for r in rounds)
            for name, (ours, theirs, _) in pairs.items()
        },
        "floors": {name: floor for name, (_, _, floor) in pairs.items()},
    }
    print(f"{len(paths)} files, {total / 2**30:.2f} GiB, {jobs} processors, {len(rounds)} rounds")
    for name in tools:
        median = statistics.median(r[name] for r in rounds)
        best = min(r[name] for r in rounds)
        speed = total / 2**30 / median
        print(
            f"  {name:<24} median {median:7.3f} s ({speed:5.2f} GiB/s)   best {best:7.3f} s   "
            f"processor {processor[name]:7.3f} s"
        )
    for name, ratio in record["ratios"].items():
        print(f"  {name:<32} {ratio:5.2f}   (floor {record['floors'][name]})")
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
