"""What ptxas says of each kernel entry (``-Xptxas -v``): registers, spills, shared memory.

Form of its lines (CUDA 13.0)::

    ptxas info    : Compiling entry function 'k' for 'sm_90a'
    ptxas info    : Function properties for k
        0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
    ptxas info    : Used 12 registers, used 1 barriers, 128 bytes smem
    ptxas info    : (C7510) Potential Performance Loss: ... in the function 'k'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from artifact.build.failures import BuildFailed
from artifact.model.build import EntryResources

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_LOSS = re.compile(r"(\(C\d+\) )?Potential Performance Loss: .*")
_IN = re.compile(r"function '([^']+)'")


@dataclass
class _Entry:
    symbol: str
    registers: int | None = None
    stack: tuple[int, int, int] | None = None
    shared: int = 0


def parse(printed: str, symbol: str | None) -> tuple[EntryResources, ...]:
    """The entries of one translation unit, in the order of the report.

    A warning that names no entry of the unit counts against every measured one: which of
    them it means cannot be told.

    Args:
        printed: Everything that nvcc printed.
        symbol: A regular expression that the whole symbol of a measured entry matches;
            None: every entry is measured.

    Raises:
        BuildFailed: where the report lacks the figures of an entry.
    """
    entries: dict[str, _Entry] = {}
    losses: list[tuple[str | None, str]] = []
    current: _Entry | None = None
    described: str | None = None
    for line in printed.splitlines():
        if match := _ENTRY.search(line):
            current = entries.setdefault(match.group(1), _Entry(match.group(1)))
            described = current.symbol
        elif match := _PROPERTIES.search(line):
            described = match.group(1)
        elif match := _STACK.search(line):
            # Device functions that are no entries have properties too.
            if described in entries:
                numbers = (int(match.group(1)), int(match.group(2)), int(match.group(3)))
                entries[described].stack = numbers
        elif (match := _USED.search(line)) and current is not None:
            current.registers = int(match.group(1))
            shared = _SHARED.search(line)
            current.shared = int(shared.group(1)) if shared else 0
        elif match := _LOSS.search(line):
            named = _IN.search(line)
            losses.append((named.group(1) if named else None, match.group().strip()))
    return tuple(
        _resources(
            entry,
            symbol,
            [text for name, text in losses if name == entry.symbol],
            [text for name, text in losses if name not in entries],
        )
        for entry in entries.values()
    )


def _resources(
    entry: _Entry, symbol: str | None, named: list[str], unnamed: list[str]
) -> EntryResources:
    if entry.registers is None or entry.stack is None:
        raise BuildFailed(
            "the assembler's report lacks the figures of a kernel",
            where=entry.symbol,
            expected="registers, stack frame and spills (-Xptxas -v)",
            found=f"registers {entry.registers}, stack and spills {entry.stack}",
            cause="the manifest's nvcc flags lack -Xptxas -v, or another release of ptxas",
            next="add -Xptxas -v to the nvcc_flags of the manifest, then: artifact lock",
        )
    measured = symbol is None or re.fullmatch(symbol, entry.symbol) is not None
    stack, stores, loads = entry.stack
    return EntryResources(
        symbol=entry.symbol,
        measured=measured,
        registers=entry.registers,
        stack_bytes=stack,
        spill_store_bytes=stores,
        spill_load_bytes=loads,
        static_shared_bytes=entry.shared,
        warnings=(*named, *(unnamed if measured else ())),
    )


def judge(backend: str, entries: tuple[EntryResources, ...], symbol: str | None) -> None:
    """Do nothing where every measured entry is as it must be.

    Raises:
        BuildFailed: where there is no measured entry, or one spills registers, or the
            assembler serialized its wgmma or ignored a setmaxnreg.
    """
    measured = [entry for entry in entries if entry.measured]
    if not measured:
        raise BuildFailed(
            "no kernel of the build is the one that the manifest names",
            where=f"backend {backend}, witness.symbol",
            expected="an entry" if symbol is None else f"an entry whose symbol matches {symbol!r}",
            found=", ".join(entry.symbol for entry in entries) or "no entry",
            next="correct witness.symbol in the manifest, then: artifact lock",
        )
    problems = [problem for entry in measured for problem in _problems(entry)]
    if problems:
        raise BuildFailed(
            "the machine code of a kernel is not fit to be measured",
            where=f"backend {backend}",
            expected="no spills, and no loss of performance that the assembler warns of",
            found=problems[0] if len(problems) == 1 else f"{len(problems)} problems",
            cause="too many registers are live, or something stands between issue and wait",
            next=f"read build/{backend}-nvcc.log",
            details=tuple(problems) if len(problems) > 1 else (),
        )


def _problems(entry: EntryResources) -> Iterator[str]:
    if entry.spill_store_bytes or entry.spill_load_bytes:
        yield (
            f"{entry.symbol}: {entry.spill_store_bytes} bytes of spill stores, "
            f"{entry.spill_load_bytes} of spill loads"
        )
    for warning in entry.warnings:
        yield f"{entry.symbol}: {warning}"
