"""Stands for another compiler of the kernel language: OPTIONS SOURCE -o FILE."""

import pathlib
import sys

if sys.argv[1:] == ["--version"]:
    print("stand-in compiler 1.2.3")
    sys.exit()
*options, source, mark, target = sys.argv[1:]
assert mark == "-o" and "-es" in options, sys.argv
lines = pathlib.Path(source).read_text().splitlines()
factors = [line.split()[1] for line in lines if line.startswith("factor ")]
if len(factors) != 1:
    sys.exit(f"{source}:1:1: error: no factor")
notes = [line for line in lines if line.startswith("//!")]
pathlib.Path(target).write_text(
    "\n".join(
        [
            *notes,
            f"#define FACTOR {factors[0]}",
            f'#define BACKEND "{pathlib.Path(source).stem}"',
            '#include "../runtime/worker.hpp"',
            "",
        ]
    )
)
