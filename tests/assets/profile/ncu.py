"""Stands for Nsight Compute: runs the program below it, and tells of launches it was given.

It is copied beside a file LAUNCHES (JSON: a list of [mangled, demangled, grid, block,
metrics]) and may find files FAIL (what it prints before it fails) and SLEEP there.
"""

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WITH_VALUE = {
    "--set", "--clock-control", "--launch-count", "--profile-from-start", "--log-file", "-o",
    "--import", "--page", "--print-units", "--print-kernel-base",
}  # fmt: skip


def main() -> int:
    given, options, flags = sys.argv[1:], {}, []
    while given and given[0].startswith("-"):
        name = given.pop(0)
        if name in WITH_VALUE:
            options[name] = given.pop(0)
        else:
            flags.append(name)
    with (HERE / "CALLS").open("a") as calls:
        calls.write(json.dumps([options, flags, given]) + "\n")
    if "--import" in options:
        return read(Path(options["--import"]), options["--print-kernel-base"])
    log = Path(options["--log-file"])
    if (HERE / "FAIL").exists():
        log.write_text((HERE / "FAIL").read_text())
        return 1
    if (HERE / "SLEEP").exists():
        time.sleep(60)
    log.write_text("==PROF== Connected to process\n")
    status = subprocess.run(given, check=False).returncode
    launches = (HERE / "LAUNCHES").read_text()
    if status == 0 and launches != "none":
        Path(options["-o"] + ".ncu-rep").write_text(launches)
    return status


def read(report: Path, base: str) -> int:
    launches = json.loads(report.read_text())
    metrics = sorted({name for launch in launches for name in launch[4]})
    print("==PROF== Loaded report")
    out = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
    out.writerow(["ID", "Kernel Name", "Context", "Block Size", "Grid Size", "CC", *metrics])
    out.writerow(["", "", "", "", "", "", *("ns" for _ in metrics)])
    for number, (mangled, demangled, grid, block, values) in enumerate(launches):
        name = mangled if base == "mangled" else demangled
        shapes = [f"({', '.join(map(str, shape))})" for shape in (block, grid)]
        numbers = [f"{values[m]:,}" if m in values else "n/a" for m in metrics]
        out.writerow([str(number), name, "1", *shapes, "9.0", *numbers])
    return 0


sys.exit(main())
