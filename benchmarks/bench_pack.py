"""Pack a tree of source text: `artifact pack` against `tar c | gzip`, and its peak memory.

    python benchmarks/bench_pack.py --mib 128 --large-gib 3 --dir /var/tmp/pack-corpus

The tree is Python's own standard library, copied until it has the size asked for. Both
tools compress at the same level, write a file in the same directory and take turns; the
ratio of a round is of two runs that stood next to each other, so that a busy machine slows
both. A ratio of 1 is as fast as tar and gzip; more is faster. `artifact pack` is timed as a
whole command: it verifies the tree first, syncs, and reads the archive back afterwards.
Processor time is given too: what a busy machine would have to lend to either.
Every archive of one format must be the same bytes.

With --large-gib a second tree with one file of that size is packed once in each format, for
the peak of resident memory (ru_maxrss of the process).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from bench_hash import MANIFEST

from artifact.archive.deflate import default_threads, installed_package
from artifact.integrity.compressor import runtime_version

NAME = "hash-corpus"  # what bench_hash's manifest calls its artifact


def make_manifest(root: Path, implementation: str, level: int) -> None:
    package = installed_package(implementation)
    lines = [f'implementation = "{implementation}"', f"level = {level}"]
    if package:
        lines.append(f'package_version = "{package}"')
    (root / "manifests").mkdir(parents=True)
    text = MANIFEST.replace('implementation = "zlib"', "\n".join(lines))
    (root / "manifests/artifact.toml").write_text(text)


def lock(root: Path) -> None:
    command = [sys.executable, "-m", "artifact", "lock", "--quiet", "--root", root]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def make_sources(root: Path, size: int, implementation: str, level: int) -> tuple[int, int]:
    """Copies of the standard library; how many files and bytes."""
    make_manifest(root, implementation, level)
    library = Path(sysconfig.get_paths()["stdlib"])
    sources = sorted(
        p for p in library.rglob("*.py") if p.is_file() and "site-packages" not in p.parts
    )
    files = total = number = 0
    while total < size:
        for source in sources:
            target = root / f"copy{number}" / source.relative_to(library)
            target.parent.mkdir(parents=True, exist_ok=True)
            total += target.write_bytes(source.read_bytes())
            files += 1
            if total >= size:
                break
        number += 1
    lock(root)
    return files, total


def make_large(root: Path, size: int, implementation: str, level: int) -> None:
    """One file, half text and half noise."""
    make_manifest(root, implementation, level)
    noise = hashlib.shake_256(b"pack corpus").digest(4 << 20)
    piece = noise + noise.hex().encode()[: 4 << 20]
    with (root / "large.bin").open("wb") as file:
        left = size
        while left:
            left -= file.write(piece[:left])
    lock(root)


def pack(root: Path, form: str, output: Path) -> tuple[float, int]:
    """Wall time in seconds and peak resident memory in KiB of one `artifact pack`."""
    command = [sys.executable, "-m", "artifact", "pack", "--quiet", "--overwrite"]
    command += ["--format", form, "--root", str(root), "--output", str(output)]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss


def tar_gzip(root: Path, level: int, output: Path) -> float:
    start = time.perf_counter()
    with output.open("wb") as out:
        tar = subprocess.Popen(["tar", "c", "."], cwd=root, stdout=subprocess.PIPE)
        gzip = subprocess.run(["gzip", f"-{level}"], stdin=tar.stdout, stdout=out, check=False)
        if tar.wait() or gzip.returncode:
            raise SystemExit("tar or gzip failed")
    return time.perf_counter() - start


def digest(path: Path) -> str:
    with path.open("rb") as file:
        sha = hashlib.sha256()
        while block := file.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def compare(tree: Path, scratch: Path, level: int, rounds: int) -> dict[str, object]:
    ours: list[float] = []
    ours_cpu: list[float] = []
    theirs_cpu: list[float] = []
    theirs: list[float] = []
    zips: list[float] = []
    digests: set[str] = set()
    zip_digests: set[str] = set()
    archive, other, zipped = (scratch / n for n in ("x.tar.gz", "other.tar.gz", "x.zip"))
    for number in range(rounds + 1):
        runs = [
            lambda: ours.append(pack(tree, "tar.gz", archive)[0]),
            lambda: theirs.append(tar_gzip(tree, level, other)),
        ]
        cpu = [ours_cpu, theirs_cpu]
        order = (0, 1) if number % 2 else (1, 0)
        for i in order:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            runs[i]()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu[i].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        zips.append(pack(tree, "zip", zipped)[0])
        digests.add(digest(archive))
        zip_digests.add(digest(zipped))
        if not number:  # the first round fills the page cache
            del ours[:], theirs[:], zips[:], ours_cpu[:], theirs_cpu[:]
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    return {
        "artifact_pack_tar_gz_s": ours,
        "tar_gzip_s": theirs,
        "artifact_pack_zip_s": zips,
        "artifact_pack_tar_gz_cpu_s": ours_cpu,
        "tar_gzip_cpu_s": theirs_cpu,
        "ratio_of_best": min(theirs) / min(ours),
        "ratio_median": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
        "archive_bytes": archive.stat().st_size,
        "tar_gzip_bytes": other.stat().st_size,
        "zip_bytes": zipped.stat().st_size,
        "same_bytes_every_time": len(digests) == 1 and len(zip_digests) == 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--large-gib", type=float, default=0.0)
    parser.add_argument("--level", type=int, default=6)
    parser.add_argument("--implementation", choices=("zlib-ng", "zlib"), default="zlib-ng")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, default=None, help="where the trees are made")
    parser.add_argument("--output", type=Path, default=None, help="raw results (JSON)")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="bench-pack-", dir=options.dir))
    try:
        tree = scratch / "sources"
        made = make_sources(tree, options.mib << 20, options.implementation, options.level)
        gzip_version = subprocess.run(
            ["gzip", "--version"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
        result: dict[str, object] = {
            "python": platform.python_version(),
            "processors": len(os.sched_getaffinity(0)),
            "threads": default_threads(),
            "compressor": f"{options.implementation} {runtime_version(options.implementation)}",
            "level": options.level,
            "against": gzip_version,
            "files": made[0],
            "bytes": made[1],
            **compare(tree, scratch, options.level, options.rounds),
        }
        if options.large_gib:
            large = scratch / "large"
            size = int(options.large_gib * (1 << 30))
            make_large(large, size, options.implementation, options.level)
            for form in ("tar.gz", "zip"):
                seconds, peak = pack(large, form, scratch / f"large.{form}")
                result[f"large_{form}"] = {
                    "file_bytes": size, "seconds": seconds, "peak_rss_mib": peak / 1024,
                }  # fmt: skip
                (scratch / f"large.{form}").unlink()
    finally:
        shutil.rmtree(scratch)
    text = json.dumps(result, indent=1)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
