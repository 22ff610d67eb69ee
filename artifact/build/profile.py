"""Nsight Compute from the command line: capture a launch into a report, and read one back.

Only options that every release since 2021 has are used. Its own words go to a log file
(``--log-file``), because the program under it may use standard output.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from artifact.build.toolchain import Tool, ask, find_companion, find_nvcc
from artifact.errors import EnvironmentUnmet, MeasurementInvalid

NO_RIGHTS = "ERR_NVGPUCTRPERM"
"""What ncu prints where a user may not read the GPU's counters."""

_LAUNCH_COLUMNS = ("Kernel Name", "Grid Size", "Block Size")

METRICS = {
    "gpu__time_duration.sum": "duration, ns",
    "launch__registers_per_thread": "registers a thread",
    "launch__shared_mem_per_block_dynamic": "dynamic shared memory, bytes",
    "launch__shared_mem_per_block_static": "static shared memory, bytes",
    "launch__waves_per_multiprocessor": "waves",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved occupancy, %",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute throughput, %",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory throughput, %",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active": "tensor pipe, %",
    "dram__bytes.sum": "DRAM traffic, bytes",
}
"""What a summary shows of a launch, in base units, where the report has it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch of a report."""

    names: tuple[str, ...]
    """The kernel's symbol: mangled, and as ncu demangles it."""
    grid: tuple[int, ...]
    block: tuple[int, ...]
    metrics: Mapping[str, float]
    """By ncu's names, in base units; those of :data:`METRICS` that the report has."""

    @property
    def threads(self) -> int:
        """Threads in a block."""
        count = 1
        for length in self.block:
            count *= length
        return count

    @property
    def duration(self) -> float:
        """Nanoseconds; 0 where the report does not have it."""
        return self.metrics.get("gpu__time_duration.sum", 0.0)


def find_ncu(named: Path | None = None, environ: Mapping[str, str] | None = None) -> Tool:
    """The profiler: ``named``, else beside nvcc, on PATH, or where it installs itself.

    Raises:
        EnvironmentUnmet: where there is none, with what to install.
    """
    if named is not None:
        path = Path.cwd() / named
        if path.is_file() and os.access(path, os.X_OK):
            return Tool("ncu", path, "--ncu")
    else:
        nvcc = None
        with contextlib.suppress(EnvironmentUnmet):
            nvcc = find_nvcc(None, environ)
        found = find_companion("ncu", nvcc, environ)
        if found is not None:
            # What it was found beside may have been found behind a variable that leads nowhere.
            passed = (*(nvcc.passed_over if nvcc else ()), *found.passed_over)
            return replace(found, passed_over=passed)
    raise EnvironmentUnmet(
        "there is no profiler",
        expected="ncu, the command of NVIDIA Nsight Compute",
        found="none beside nvcc, in CUDA_HOME, on PATH or below /opt/nvidia"
        if named is None
        else f"{named} is no program that can be executed",
        next="install Nsight Compute (it comes with the CUDA Toolkit), or name it: --ncu PATH",
    )


@dataclass(frozen=True)
class Look:
    """What ncu is asked for."""

    sections: str = "full"
    """Its set of sections."""
    keep_clocks: bool = False
    """Whether the clocks are left as they are; otherwise ncu holds them at their base."""


FULL = Look()
"""What the published command asks for."""


def command_line(
    ncu: Tool,
    program: Sequence[str],
    *,
    output: Path,
    log: Path,
    look: Look = FULL,
    window: bool = False,
) -> list[str]:
    """The command that profiles ``program``.

    Args:
        ncu: The profiler.
        program: The program and its arguments.
        output: The report, which ends in ``.ncu-rep``.
        log: Where ncu's own words go.
        look: What it is asked for.
        window: Whether the program itself says when to look (cuProfilerStart); otherwise
            its first launch is captured.
    """
    when = ["--profile-from-start", "off"] if window else ["--launch-count", "1"]
    clocks = ["--clock-control", "none"] if look.keep_clocks else []
    place = ["--log-file", str(log), "-o", str(output.with_suffix(""))]
    return [str(ncu.path), "--set", look.sections, *clocks, *when, *place, *program]


def capture(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    log: Path,
    printed: Path,
    output: Path,
    timeout: float,
) -> None:
    """Run a command of :func:`command_line`; whatever ends the wait, nothing stays behind.

    Args:
        command: The command.
        environment: Its whole environment.
        cwd: Its working directory.
        log: Where ncu's own words go.
        printed: Takes what the program prints.
        output: The report that it must leave.
        timeout: Seconds until it is given up.

    Raises:
        EnvironmentUnmet: where this user may not profile, or the program cannot be started.
        MeasurementInvalid: where it fails, hangs or leaves no report.
    """
    try:
        with printed.open("wb") as stream:
            process = subprocess.Popen(
                list(command), cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL,
                stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise EnvironmentUnmet(
            "the profiler cannot be started",
            where=command[0],
            found=error.strerror or str(error),
            next=shlex.join([command[0], "--version"]),
        ) from error
    status: int | None = None
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # What the program started is in its group, and may outlive it.
        _end(process)
    words = _text(log)
    if NO_RIGHTS in words:
        raise EnvironmentUnmet(
            "this user may not read the GPU's performance counters",
            where=command[0],
            found=NO_RIGHTS,
            next="sudo, or: options nvidia NVreg_RestrictProfilingToAdminUsers=0 "
            "in /etc/modprobe.d, then load the driver again",
        )
    if status == 0 and output.is_file():
        return
    found = f"status {status}" if status else "no report"
    raise MeasurementInvalid(
        "the profiler did not capture the launch",
        where=" ".join(command),
        expected="status 0 and a report",
        found=f"no end within {timeout:g} s; it was killed" if status is None else found,
        next="type that command in the root of the artifact, and read what it prints",
        details=tuple((words.splitlines() + _text(printed).splitlines())[-10:]),
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def read_report(ncu: Tool, report: Path) -> tuple[Launch, ...]:
    """Every launch of a report, in order.

    Raises:
        EnvironmentUnmet: where ncu cannot read it.
        MeasurementInvalid: where its table is not as expected.
    """
    tables = []
    for base in ("mangled", "demangled"):
        options = ["--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", base]
        tables.append(parse_raw(ask([ncu.path, "--import", report, *options]), str(report)))
    mangled, demangled = tables
    if len(mangled) != len(demangled):
        raise _bad(str(report), "the same launches each time", f"{len(mangled)}, {len(demangled)}")
    return tuple(
        Launch(tuple(dict.fromkeys((*one.names, *other.names))), one.grid, one.block, one.metrics)
        for one, other in zip(mangled, demangled, strict=True)
    )


def parse_raw(text: str, where: str) -> tuple[Launch, ...]:
    """The launches of ncu's raw page as CSV: names, units, then a line for each launch.

    Raises:
        MeasurementInvalid: where it is not such a table.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(io.StringIO("\n".join(lines))))
    if not rows or any(name not in rows[0] for name in _LAUNCH_COLUMNS):
        raise _bad(where, f"a table with the columns {', '.join(_LAUNCH_COLUMNS)}", text[:200])
    names = rows[0]
    launches = []
    for row in rows[1:]:
        values = dict(zip(names, row, strict=False))
        # The line of units has no kernel.
        if values.get("Kernel Name"):
            launches.append(_launch(values, where))
    return tuple(launches)


def _launch(values: Mapping[str, str], where: str) -> Launch:
    metrics = {}
    for name in METRICS:
        with contextlib.suppress(ValueError):
            metrics[name] = float(values.get(name, "").replace(",", ""))
    try:
        grid, block = (
            tuple(int(part) for part in values[column].strip("() ").split(","))
            for column in ("Grid Size", "Block Size")
        )
    except (KeyError, ValueError) as error:
        raise _bad(where, "a grid and a block, such as (8, 4, 1)", str(error)) from error
    return Launch((values["Kernel Name"],), grid, block, metrics)


def _bad(where: str, expected: str, found: str) -> MeasurementInvalid:
    return MeasurementInvalid(
        "the profiler's report cannot be read",
        where=where,
        expected=expected,
        found=found.strip() or "nothing",
        cause="a release of ncu that prints another table",
        next="ncu --import REPORT --csv --page raw",
    )
