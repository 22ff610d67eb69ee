"""The table of what was built: resources, machine code and tools of each native backend."""

from __future__ import annotations

from artifact.model.build import BuiltKernel
from artifact.model.results import RunResults
from artifact.report import words
from artifact.report.tables import Cell, Table, table, titles
from artifact.report.words import NOTHING, visible

_SHORT = 16


def builds(results: RunResults) -> Table | None:
    """One row a native backend."""
    if results.build is None:
        return None
    labels = titles(results)
    toolkit = results.build.toolkit
    found, passed = "", []
    if toolkit is not None:
        headers = visible(toolkit.headers) if toolkit.headers else "not needed"
        found = (
            f"nvcc {visible(toolkit.nvcc)}, found by {visible(toolkit.origin)}; CUTLASS {headers}."
        )
        passed = [f"Passed over: {visible(text)}." for text in toolkit.passed_over]
    flags = sorted({" ".join(k.build.nvcc_flags) for k in results.build.kernels})
    return table(
        results,
        "builds",
        "Builds of the native kernels",
        (
            "Implementation",
            "Generated file",
            "By",
            "nvcc",
            "Registers",
            "Spills",
            "Static shared memory",
            "Instructions",
            "cubin, SHA-256",
            "Against the pin",
            "nvcc's time",
        ),
        "llllrrrlllr",
        (
            (labels.get(k.build.backend, visible(k.build.backend)), *_cells(k))
            for k in results.build.kernels
        ),
        found,
        *passed,
        *(f"Flags: {visible(text)}." for text in flags if text),
        *(f"Other than pinned: {visible(text)}." for text in results.build.differences),
    )


def _cells(kernel: BuiltKernel) -> tuple[Cell | str, ...]:
    build = kernel.build
    measured = [entry for entry in build.entries if entry.measured]
    spills = sum(entry.spill_store_bytes + entry.spill_load_bytes for entry in measured)
    sass = ", ".join(f"{n} {name}" for name, n in (build.sass or {}).items())
    front_end = "" if build.front_end in (None, build.nvcc) else f", front end {build.front_end}"
    return (
        f"{visible(build.generated)} {build.generated_blake3[: words.SHORT]}",
        visible(build.compiler),
        Cell(visible(build.nvcc + front_end), "warn" if build.differences else ""),
        "/".join(str(entry.registers) for entry in measured) or NOTHING,
        Cell(f"{spills} bytes", "bad" if spills else ""),
        "/".join(f"{entry.static_shared_bytes} bytes" for entry in measured) or NOTHING,
        sass or NOTHING,
        build.cubin_sha256[:_SHORT],
        _identity(kernel),
        f"{words.seconds(build.seconds)}, {kernel.how}",
    )


def _identity(kernel: BuiltKernel) -> Cell:
    if kernel.bit_identical is None:
        return Cell("none is pinned", "quiet")
    if kernel.bit_identical:
        return Cell("bit-identical build", "good")
    return Cell("another one than pinned", "warn")
