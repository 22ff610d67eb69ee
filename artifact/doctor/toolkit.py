"""Checks of what native kernels are built and looked at with."""

from __future__ import annotations

import os
from pathlib import Path

from artifact.build.headers import find_headers, headers_difference
from artifact.build.toolchain import (
    WHEELS,
    Tool,
    dependency,
    find_companion,
    find_nvcc,
    front_end_version,
    nvcc_difference,
)
from artifact.doctor.base import ADVICE, BUILD, Check, Subject, from_error
from artifact.errors import EnvironmentUnmet
from artifact.model.build import HEADERS, TOOLKIT

_DRIVER_PARAMETERS = Path("/proc/driver/nvidia/params")


def compiler(subject: Subject) -> tuple[Check, Tool | None]:
    """Where nvcc is, and whether it is the pinned one."""
    try:
        nvcc = find_nvcc(subject.options.nvcc, subject.environ)
    except EnvironmentUnmet as error:
        return from_error("nvcc", error, "absent", BUILD), None
    found = f"{nvcc.version} ({nvcc.path}, found by {nvcc.origin})"
    pin = dependency(subject.manifest, TOOLKIT)
    if nvcc_difference(nvcc, subject.manifest) is not None and pin is not None:
        mend: tuple[str, ...] = (
            f"install the CUDA Toolkit whose nvcc is {pin.version}, or name it: --nvcc PATH",
            f"or take its wheels: {WHEELS}",
            "or accept and record another one: --unlocked-env",
        )
        return Check("nvcc", subject.differs, found, f"{pin.version}", mend, BUILD), nvcc
    if nvcc.passed_over:
        mend = ("unset CUDA_HOME, or set it to the toolkit's folder",)
        passed = "; ".join(nvcc.passed_over)
        return Check("nvcc", "warn", f"{found}; {passed}", "one toolkit", mend, BUILD), nvcc
    return Check("nvcc", "ok", found, scope=BUILD), nvcc


def compilation(subject: Subject, nvcc: Tool | None) -> Check:
    """Whether nvcc compiles an empty kernel, with a front end of its own version."""
    name = "compilation"
    if nvcc is None:
        return Check(name, "absent", "no nvcc to try", scope=BUILD)
    try:
        version = front_end_version(nvcc)
    except EnvironmentUnmet as error:
        check = from_error(name, error, "bad", BUILD)
        mend = ("install a C++ compiler that this nvcc takes, such as g++, and the CUDA headers",)
        return Check(name, "bad", check.found, "an empty kernel compiles", mend, BUILD)
    if version == nvcc.version:
        return Check(name, "ok", f"an empty kernel compiles (front end {version})", scope=BUILD)
    mend = (f"install nvidia-nvvm and nvidia-cuda-crt of the version {nvcc.version} beside it",)
    found = f"nvcc {nvcc.version} starts the front end of {version}"
    return Check(name, "bad", found, "one version of both", mend, BUILD)


def headers(subject: Subject) -> Check:
    """Where the CUTLASS headers are, and whether they are the pinned ones."""
    try:
        there = find_headers(subject.options.cutlass, subject.environ)
    except EnvironmentUnmet as error:
        return from_error("headers", error, "absent", BUILD)
    commit = "" if there.revision is None else f", commit {there.revision[:12]}"
    version = there.version or "of no version"
    found = f"{HEADERS} {version}{commit} ({there.include}, found by {there.origin})"
    if (difference := headers_difference(there, subject.manifest)) is not None:
        pin = dependency(subject.manifest, HEADERS)
        wanted = "" if pin is None else f"{pin.version or ''} {pin.revision or ''}".strip()
        mend: tuple[str, ...] = (
            f"git clone {HEADERS}, check out {wanted}, and name it: --cutlass DIR",
            f"or take its wheel: {WHEELS}",
            "or accept and record others: --unlocked-env",
        )
        return Check("headers", subject.differs, f"{found}: {difference}", wanted, mend, BUILD)
    if there.passed_over:
        mend = ("unset CUTE_HOME, or set it to a checkout",)
        passed = "; ".join(there.passed_over)
        return Check("headers", "warn", f"{found}; {passed}", "one place", mend, BUILD)
    return Check("headers", "ok", found, scope=BUILD)


def disassemblers(subject: Subject, nvcc: Tool | None) -> Check:
    """Whether cuobjdump and nvdisasm are here, which show the machine code of a kernel."""
    names = ("cuobjdump", "nvdisasm")
    found = {name: _companion(name, nvcc, subject) for name in names}
    missing = [name for name, tool in found.items() if tool is None]
    words = ", ".join(str(tool.path) if tool else f"no {name}" for name, tool in found.items())
    if not missing:
        return Check("disassemblers", "ok", words, scope=BUILD)
    packages = " ".join(f"nvidia-cuda-{name}" for name in missing)
    # They have releases of their own, and read the code of every older compiler.
    mend = (
        f"install the whole CUDA Toolkit, or, as new as nvcc or newer: pip install {packages}",
        f"or take the pinned wheels: {WHEELS}",
    )
    return Check("disassemblers", "absent", words, "both", mend, BUILD)


def profiler(subject: Subject, nvcc: Tool | None) -> Check:
    """Nsight Compute, and whether this user may read the GPU's counters."""
    tool = _companion("ncu", nvcc, subject)
    if tool is None:
        mend = ("install NVIDIA Nsight Compute (its command is ncu), and put it on PATH",)
        return Check("profiler", "absent", "no ncu", "ncu, to profile", mend, ADVICE)
    found = f"{tool.path} (found by {tool.origin})"
    if os.geteuid() != 0 and _counters_are_roots():
        mend = (
            "sudo ncu, or let everybody read them: options nvidia "
            "NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then load the driver again",
        )
        return Check("profiler", "warn", f"{found}; counters are root's alone", None, mend, ADVICE)
    return Check("profiler", "ok", found, scope=ADVICE)


def _companion(name: str, nvcc: Tool | None, subject: Subject) -> Tool | None:
    try:
        return find_companion(name, nvcc, subject.environ)
    except EnvironmentUnmet:
        # An nvcc that cannot be asked is a finding of its own check.
        return find_companion(name, None, subject.environ)


def _counters_are_roots() -> bool:
    try:
        text = _DRIVER_PARAMETERS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return "RmProfilingAdminOnly: 1" in text
