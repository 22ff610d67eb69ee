"""The script that counts what ptxas planned for the loops of a kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks/tuning/sass_loop.py"

# Outer loop 10 to 60, inner loop 20 to 40; behind the end a barrier is asked again from 80.
CODE = (
    (0x00, "MOV R1, R2", 2),
    (0x10, "FFMA.FTZ R1, R1, 0.5, -R3.reuse", 1),
    (0x20, "HGMMA.64x128x16.F32.BF16 R88, R180, gdesc[UR16], RZ, !UPT", 1),
    (0x30, "FFMA.FTZ R1, R1, 0.5, -R2.reuse", 3),
    (0x40, "@!P0 BRA 0x20", 6),
    (0x50, "FFMA.FTZ R1, R1, 0.5, -R2", 1),
    (0x60, "@!P1 BRA 0x10", 5),
    (0x70, "EXIT", 5),
    (0x80, "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR18], R88", 15),
    (0x90, "@P0 BRA 0x30", 5),
    (0xA0, "BRA 0x10", 5),
)


def dump(name: str) -> str:
    """What cuobjdump prints of a function with that code."""
    lines = [f"\t\tFunction : {name}", '\t.headerflags\t@"EF_CUDA_SM90"']
    for address, text, stall in CODE:
        lines.append(f"        /*{address:04x}*/                   {text} ;   /* 0x{7:016x} */")
        lines.append(f"{'':50}/* 0x{stall << 41 | 3 << 45:016x} */")
    return "\n".join(lines) + "\n\t\t..........\n"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script, with a cuobjdump that knows one file."""
    (folder / "sass.txt").write_text(dump("_Z4other") + dump("_Z6kernelv"))
    tool = folder / "cuobjdump"
    tool.write_text(f'#!/bin/sh\n[ "$1 $2" = "-sass some.cubin" ] && cat {folder / "sass.txt"}\n')
    tool.chmod(0o755)
    command = [sys.executable, str(SCRIPT), "some.cubin", *arguments, "--cuobjdump", str(tool)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_the_innermost_loop_that_multiplies_is_counted(tmp_path: Path) -> None:
    said = run(tmp_path, "kernel")
    assert said.returncode == 0
    assert said.stdout.splitlines() == [
        "_Z6kernelv",
        "  00020 to 00040: 3 instructions, 10 cycles of stalls, .reuse in 1, "
        "of 1 multiply-adds in 1",
    ]


def test_the_listing_sums_the_stalls(tmp_path: Path) -> None:
    lines = run(tmp_path, "kernel", "--listing").stdout.splitlines()
    rows = [line.split(maxsplit=3) for line in lines]
    assert [row[1:3] for row in rows[2:]] == [["1", "1"], ["4", "3"], ["10", "6"]]
    assert rows[4][3] == "@!P0 BRA 0x20"


@pytest.mark.parametrize("arguments", [("none",), ("none", "--listing")])
def test_a_name_that_no_kernel_has_is_said(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    said = run(tmp_path, *arguments)
    assert said.returncode == 1
    assert said.stderr == "no kernel of some.cubin has 'none' in its name\n"
