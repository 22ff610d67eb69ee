"""The loops of a kernel that multiply, in machine code, with the cycles that ptxas planned.

    python benchmarks/tuning/sass_loop.py BINARY KERNEL [--listing] [--cuobjdump PATH]

BINARY is a cubin, an executable or a library, KERNEL a part of the mangled name. Of each
innermost loop with an HGMMA: its instructions, the sum of their stall counts (an instruction
issues so many cycles before the next of its warp), how many read an operand from the operand
cache (``.reuse``), and how many of the multiply-adds do. With --listing every instruction and the
sum up to it. A count of what ptxas planned, not a measurement: waits take what they take.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

# An instruction takes two lines: its address, text and lower word, then the upper word.
_INSTRUCTION = re.compile(
    r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>[^;]*?)\s*;\s+/\* 0x[0-9a-f]{16} \*/\n"
    r"\s+/\* 0x(?P<upper>[0-9a-f]{16}) \*/",
    re.MULTILINE,
)
_BRANCH = re.compile(r"\bBRA\S*\s.*?0x([0-9a-f]+)$")
# Bits 41 to 44 of the upper word are the stall count (also in published work on Volta's encoding).
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


def functions(sass: str, kernel: str) -> list[tuple[str, str]]:
    """Name and text of each function whose name contains ``kernel``."""
    parts = (part.partition("\n") for part in sass.split("Function : ")[1:])
    return [(name.strip(), text) for name, _, text in parts if kernel in name]


def main() -> None:
    """Print the loops of each kernel that is meant."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("kernel")
    parser.add_argument("--listing", action="store_true")
    parser.add_argument("--cuobjdump", default="cuobjdump")
    options = parser.parse_args()
    command = [options.cuobjdump, "-sass", options.binary]
    sass = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = functions(sass, options.kernel)
    if not found:
        parser.exit(1, f"no kernel of {options.binary} has {options.kernel!r} in its name\n")
    for name, text in found:
        print(name)
        for loop in multiplying_loops(instructions(text)):
            print(f"  {summary(loop)}")
            total = 0
            for each in loop if options.listing else ():
                total += each.stall
                print(f"  {each.address:05x} {total:5d} {each.stall:3d}  {each.text}")


if __name__ == "__main__":
    main()
