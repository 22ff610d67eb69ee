"""The loops of a kernel that multiply, in machine code, with the cycles that ptxas planned.

    python benchmarks/tuning/sass_loop.py BINARY KERNEL [--listing] [--cuobjdump PATH]

BINARY is a cubin, an executable or a library, KERNEL a part of the mangled name. Of each
innermost loop with an HGMMA: its instructions, the sum of their stall counts (an instruction
issues so many cycles before the next of its warp), how many read an operand from the operand
cache (``.reuse``), and how many of the multiply-adds do. With --listing every instruction and the
sum up to it. A count of what ptxas planned, not a measurement: waits take what they take.
Without --cuobjdump the program is that of CUDA_HOME, of PATH or of this interpreter's packages.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from artifact.build.sass import functions, require_disassembler
from artifact.errors import ArtifactError, EnvironmentUnmet

# An instruction takes two lines: its address, text and lower word, then the upper word.
_INSTRUCTION = re.compile(
    r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>[^;]*?)\s*;\s+/\* 0x[0-9a-f]{16} \*/\n"
    r"\s+/\* 0x(?P<upper>[0-9a-f]{16}) \*/",
    re.MULTILINE,
)
_BRANCH = re.compile(r"\bBRA\S*\s.*?0x([0-9a-f]+)$")
# Bits 41 to 44 of the upper word are the stall count, as on Volta: Jia et al., Dissecting the
# NVIDIA Volta GPU Architecture via Microbenchmarking, 2018, arXiv:1804.06826.
_STALL_SHIFT, _STALL_MASK = 41, 15


@dataclass(frozen=True)
class Instruction:
    """One instruction: where it lies, its text, and cycles until the next may issue."""

    address: int
    text: str
    stall: int


def instructions(sass: str) -> list[Instruction]:
    """The instructions of one function, from what ``cuobjdump -sass`` prints of it."""
    return [
        Instruction(
            int(match["address"], 16),
            match["text"],
            int(match["upper"], 16) >> _STALL_SHIFT & _STALL_MASK,
        )
        for match in _INSTRUCTION.finditer(sass)
    ]


def multiplying_loops(code: Sequence[Instruction]) -> list[Sequence[Instruction]]:
    """The innermost loops with an HGMMA, in the order of their addresses."""
    index = {instruction.address: i for i, instruction in enumerate(code)}
    found: list[tuple[int, int]] = []
    for end, instruction in enumerate(code):
        branch = _BRANCH.search(instruction.text)
        begin = index.get(int(branch[1], 16), end) if branch else end
        body = [each.text for each in code[begin:end]]
        multiplies = any("HGMMA" in text for text in body)
        # A branch back over the kernel's end belongs to a barrier that is asked again, out of line.
        back = "EXIT" not in body
        # An outer loop ends behind what it contains.
        if multiplies and back and not any(begin <= inner for inner, _ in found):
            found.append((begin, end))
    return [code[begin : end + 1] for begin, end in found]


def summary(loop: Sequence[Instruction]) -> str:
    """What is counted of a loop, in one line."""
    reuse = [each for each in loop if ".reuse" in each.text]
    scaled = sum("FFMA" in each.text for each in loop)
    cached = sum("FFMA" in each.text for each in reuse)
    stalls = sum(each.stall for each in loop)
    return (
        f"{loop[0].address:05x} to {loop[-1].address:05x}: {len(loop)} instructions, {stalls} "
        f"cycles of stalls, .reuse in {len(reuse)}, of {scaled} multiply-adds in {cached}"
    )


def disassembled(binary: Path, tool: Path | None) -> str:
    """What cuobjdump prints of a binary.

    Args:
        binary: A cubin, an executable or a library.
        tool: The program; None to look for it.

    Raises:
        EnvironmentUnmet: where there is no cuobjdump, or it cannot be started.
        ArtifactError: where the binary cannot be read, or has no machine code.
    """
    expected = "a cubin, an executable or a library with machine code for a GPU"
    build = "artifact build, then name a file of build/, such as build/v5"
    try:
        binary.open("rb").close()
    except OSError as error:
        raise ArtifactError(
            "the binary cannot be read",
            where=str(binary),
            expected=expected,
            found=error.strerror,
            next=build,
        ) from error
    program = tool or require_disassembler(None).path
    command = [str(program), "-sass", str(binary)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise EnvironmentUnmet(
            "cuobjdump cannot be started",
            where=str(program),
            expected="a program, by its path",
            found=error.strerror,
            next="name another by --cuobjdump PATH, or leave that out",
        ) from error
    if done.returncode:
        said = (done.stderr + done.stdout).strip()
        raise ArtifactError(
            "cuobjdump lists no machine code of this binary",
            where=str(binary),
            expected=expected,
            found=said or f"status {done.returncode}, and no word",
            next=f"{build}, or look at it: {shlex.join(command)}",
        )
    return done.stdout


def show(binary: Path, kernel: str, tool: Path | None, *, listing: bool) -> None:
    """Print the loops of each kernel that is meant.

    Raises:
        ArtifactError: where there is nothing to look at.
    """
    there = functions(disassembled(binary, tool))
    meant = [(name, text) for name, text in there if kernel in name]
    if not meant:
        raise ArtifactError(
            "no kernel has this in its name",
            where=str(binary),
            expected=f"a kernel with {kernel!r} in its mangled name",
            found="\n".join(name for name, _ in there) or "no kernel at all",
            next="name a part of one that was found" if there else "name another binary",
        )
    for name, text in meant:
        print(name)
        loops = multiplying_loops(instructions(text))
        if not loops:
            print("  no loop with an HGMMA")
        for loop in loops:
            print(f"  {summary(loop)}")
            total = 0
            for each in loop if listing else ():
                total += each.stall
                print(f"  {each.address:05x} {total:5d} {each.stall:3d}  {each.text}")


def main() -> int:
    """Read the command line; the exit code is that of the error, or 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("binary", type=Path)
    parser.add_argument("kernel")
    parser.add_argument("--listing", action="store_true")
    parser.add_argument("--cuobjdump", type=Path)
    options = parser.parse_args()
    try:
        show(options.binary, options.kernel, options.cuobjdump, listing=options.listing)
    except ArtifactError as error:
        print(error.render(), file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
