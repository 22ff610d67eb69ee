"""Instructions in the machine code of a kernel, read by ``cuobjdump -sass``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from artifact.build.failures import BuildFailed
from artifact.build.toolchain import WHEELS, Tool, ask, find_companion
from artifact.errors import EnvironmentUnmet

_FUNCTION = re.compile(r"^\s*Function : (\S+)", re.MULTILINE)


def require_disassembler(nvcc: Tool | None, environ: Mapping[str, str] | None = None) -> Tool:
    """The program that lists machine code.

    Raises:
        EnvironmentUnmet: where it is nowhere: what a kernel must hold is never assumed.
    """
    tool = find_companion("cuobjdump", nvcc, environ)
    if tool is None:
        raise EnvironmentUnmet(
            "there is no cuobjdump to look at the machine code with",
            where="CUDA_HOME, PATH, the packages of this interpreter",
            expected="cuobjdump beside nvcc, in CUDA_HOME, on PATH or from its package",
            found="none",
            next=f"install the whole CUDA Toolkit, or: {WHEELS}",
        )
    return tool


def count(
    tool: Tool, cubin: Path, instructions: Sequence[str], symbol: str | None
) -> dict[str, int]:
    """How often each of ``instructions`` stands in the measured kernels of ``cubin``."""
    return counted(ask([tool.path, "-sass", cubin]), instructions, symbol)


def functions(listing: str) -> list[tuple[str, str]]:
    """Name and text of each function, from what cuobjdump printed."""
    parts = _FUNCTION.split(listing)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def counted(listing: str, instructions: Sequence[str], symbol: str | None) -> dict[str, int]:
    """The counts from a listing.

    Args:
        listing: What cuobjdump printed.
        instructions: Names such as ``HGMMA``, which also stand for ``HGMMA.64x128x16``.
        symbol: A regular expression for the functions that count; None for all.
    """
    text = "\n".join(
        body for name, body in functions(listing) if symbol is None or re.fullmatch(symbol, name)
    )
    return {
        name: len(re.findall(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)) for name in instructions
    }


def judge(backend: str, counts: Mapping[str, int]) -> None:
    """Do nothing where every expected instruction is there.

    Raises:
        BuildFailed: naming those that are not.
    """
    missing = [name for name, times in counts.items() if times == 0]
    if missing:
        raise BuildFailed(
            "the machine code of a kernel lacks instructions that it is made of",
            where=f"backend {backend}, kernels.expect.sass",
            expected=", ".join(counts),
            found=f"no {', no '.join(missing)}",
            cause="the compiler took another path than the kernel's source says",
            next=f"cuobjdump -sass build/{backend}.cubin",
        )
