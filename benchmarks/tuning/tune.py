"""Time the variants of variants.cuh and the generated kernels against FlashAttention-3.

    PYTHON benchmarks/tuning/tune.py LIBRARY [--seconds S] [--rounds N] [--shapes S,..]
        [--without "NAME;.."]

PYTHON is an interpreter with torch and flash_attn_interface (the environment `main`), LIBRARY what
README.md beside this file says how to build. Windows of some tenths of a second in seeded random
order, FA3 among them; medians, and ratios to FA3. An implementation whose output differs from
FA3's by more than 0.01 is marked WRONG unless its name begins with a dash (a diagnosis that leaves
work out). A quick instrument for choosing what to try: what is published is measured by the runner.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import statistics
from collections.abc import Collection
from pathlib import Path
from typing import Any

BATCH, HEADS, DIM = 4, 32, 128
ANCHOR = "fa3"


class Library:
    """The C interface of library.cu."""

    def __init__(self, path: Path, without: Collection[str] = ()) -> None:
        self.c = ctypes.CDLL(str(path.resolve()))
        self.c.tuning_name.restype = ctypes.c_char_p
        self.c.tuning_time.restype = ctypes.c_double
        count = self.c.tuning_count()
        self.names: list[str] = [self.c.tuning_name(i).decode() for i in range(count)]
        self.timed = [name for name in self.names if name not in without]

    def shape(self, tensors: tuple[Any, ...], seq: int) -> None:
        """What all launches work on from now on."""
        pointers = (ctypes.c_void_p(t.data_ptr()) for t in tensors)
        self.c.tuning_shape(*pointers, BATCH, seq, HEADS)

    def time(self, name: str, repeat: int) -> float:
        """Milliseconds of one launch."""
        return float(self.c.tuning_time(self.names.index(name), repeat))

    def timeline(self) -> list[float]:
        """Mean cycles of a step between its points (flat.cuh), one consumer after the other."""
        cycles = (ctypes.c_double * 16)()
        self.c.tuning_timeline(cycles)
        return list(cycles)

    def clocks(self) -> tuple[float, float]:
        """GHz, and the share of the time in which a CTA had work, of a variant's last launch."""
        ghz, busy = ctypes.c_double(), ctypes.c_double()
        self.c.tuning_clocks(ctypes.byref(ghz), ctypes.byref(busy))
        return ghz.value, busy.value


def measure(library: Library, seq: int, seconds: float, rounds: int) -> dict[str, dict[str, Any]]:
    """TFLOPS of every window of one shape, and the variants' clocks."""
    import torch
    from flash_attn_interface import flash_attn_func

    generator = torch.Generator(device="cuda").manual_seed(seq)

    def uniform(limit: float) -> Any:
        shape = (BATCH, seq, HEADS, DIM)
        drawn = torch.rand(shape, device="cuda", generator=generator)
        return ((2 * drawn - 1) * limit).to(torch.bfloat16)

    q, k, v = uniform(2), uniform(2), uniform(1)
    out = torch.empty_like(q)
    library.shape((q, k, v, out), seq)
    reference = flash_attn_func(q, k, v, causal=True)
    reference = reference[0] if isinstance(reference, tuple) else reference
    work = 2 * BATCH * HEADS * seq * seq * DIM
    repeat = max(3, int(seconds / (work / 620e12)))

    def anchor(count: int) -> float:
        start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        for _ in range(count):
            flash_attn_func(q, k, v, causal=True)
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) / count

    found: dict[str, dict[str, Any]] = {
        name: {"tflops": [], "ghz": [], "busy": [], "error": 0.0}
        for name in (ANCHOR, *library.timed)
    }
    for name in library.timed:
        out.fill_(float("nan"))
        library.time(name, 1)
        error = (out.float() - reference.float()).abs().max().item()
        found[name]["error"] = error if error == error else float("inf")
    for number in range(rounds):
        order = list(found)
        random.Random(seq + number).shuffle(order)
        for name in order:
            if name == ANCHOR:
                anchor(repeat // 3)
                ms = anchor(repeat)
            else:
                library.time(name, repeat // 3)
                ms = library.time(name, repeat)
                ghz, busy = library.clocks()
                found[name]["ghz"].append(ghz)
                found[name]["busy"].append(busy)
                if "timeline" in name:
                    found[name]["timeline"] = library.timeline()
            found[name]["tflops"].append(work / ms / 1e9)
    return found


def main() -> None:
    """Measure, print a table, write everything as JSON if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", default="4096,8192,16384")
    parser.add_argument(
        "--without", default="", help="names that are not timed, with semicolons between"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    import torch

    library = Library(options.library, options.without.split(";"))
    shapes = [int(s) for s in options.shapes.split(",")]
    results = {s: measure(library, s, options.seconds, options.rounds) for s in shapes}
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    print(f"{'':40}" + "".join(f"{f'S={s}':>32}" for s in shapes))
    print(f"{'':40}" + f"{'TFLOPS':>8}{'ratio':>7}{'GHz':>5}{'cycles':>7}{'busy':>5}" * len(shapes))
    for name in (ANCHOR, *library.timed):
        cells = []
        for seq in shapes:
            row, base = results[seq][name], results[seq][ANCHOR]
            tflops = statistics.median(row["tflops"])
            ratio = tflops / statistics.median(base["tflops"])
            wrong = row["error"] > 0.01 and not name.startswith("-")
            cell = f"{tflops:8.1f}{'WRONG' if wrong else f'{ratio:.3f}':>7}"
            if name != ANCHOR and statistics.median(row["ghz"]):
                # A KV tile of 128 x 128 is 4 * 128^3 operations, two matrix products.
                ghz = statistics.median(row["ghz"])
                cycles = multiprocessors * 4 * 128**3 * ghz / tflops / 1e3
                cells.append(f"{cell}{ghz:5.2f}{cycles:7.0f}{statistics.median(row['busy']):5.2f}")
            else:
                cells.append(f"{cell}{'':17}")
        print(f"{name:40}" + "".join(cells))
    points = "wait K, turn, QK issued, PV issued, QK done, softmax, PV done, rest"
    for name in library.timed:
        for seq in shapes:
            if steps := results[seq][name].get("timeline"):
                halves = (steps[:8], steps[8:])
                cells = "  |  ".join(" ".join(f"{c:5.0f}" for c in half) for half in halves)
                print(f"{name} S={seq}: {cells}   ({points})")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
