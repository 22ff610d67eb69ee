"""Wall time of `artifact verify` and `artifact --help`, interpreter start included.

    python benchmarks/bench_verify.py [--root DIR]

Runs take turns with a bare `python -c pass`, so that a busy machine slows all three. The
first verification validates manifest and lock and is not counted: from then on their
digests are trusted. The breakdown is the command's own (`verify --json`); the kernel's
clock for the start of a process has steps of 10 ms, so read it from the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMITS = {"artifact verify": 0.25, "artifact --help over bare": 0.15}


def processor_s() -> float:
    """Processor time of all children so far: it hardly depends on what else runs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def timed(command: list[str], cwd: Path) -> tuple[float, str]:
    """Wall time in seconds and standard output of ``command``; it must succeed."""
    # Without byte code every start compiles the package again.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=cwd, env=environment, check=True, capture_output=True, text=True
    )
    return time.perf_counter() - start, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--output", type=Path, default=None, help="raw results (JSON)")
    options = parser.parse_args()
    command = Path(sys.executable).with_name("artifact")
    artifact = [str(command)] if command.exists() else [sys.executable, "-m", "artifact"]
    bare = [sys.executable, "-c", "pass"]
    verify = [*artifact, "verify", "--json", "--root", str(options.root)]
    timed(verify, options.root)
    rounds, steps, processor = [], [], []
    for _ in range(options.rounds):
        before = processor_s()
        seconds, answer = timed(verify, options.root)
        processor.append(processor_s() - before)
        document = json.loads(answer)
        assert document["ok"] and document["documents_trusted"]
        steps.append(document["seconds"])
        rounds.append(
            {
                "artifact verify": seconds,
                "artifact --help": timed([*artifact, "--help"], options.root)[0],
                "python -c pass": timed(bare, options.root)[0],
            }
        )
    median = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    breakdown = {name: statistics.median(s[name] for s in steps) for name in steps[0]}
    over = statistics.median(r["artifact --help"] - r["python -c pass"] for r in rounds)
    results = {"artifact verify": median["artifact verify"], "artifact --help over bare": over}
    print(f"{document['files']} files, {document['bytes']} bytes, {options.rounds} rounds, medians")
    for name, seconds in median.items():
        print(f"  {seconds * 1e3:7.1f} ms  {name}")
    print("of artifact verify:")
    for name, seconds in breakdown.items():
        print(f"  {seconds * 1e3:7.1f} ms  {name}")
    print(f"processor time of artifact verify: {statistics.median(processor):.3f} s")
    print(f"best round of artifact verify: {min(r['artifact verify'] for r in rounds):.3f} s")
    for name, seconds in results.items():
        print(f"{name}: {seconds:.3f} s (limit {LIMITS[name]} s)")
    if options.output:
        record = {
            "files": document["files"],
            "bytes": document["bytes"],
            "processors": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
            "load_average": os.getloadavg()[0],
            "medians_s": median,
            "breakdown_s": breakdown,
            "verify_processor_s": processor,
            "results_s": results,
            "limits_s": LIMITS,
            "rounds_s": rounds,
        }
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
