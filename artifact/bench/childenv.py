"""The environment of a worker: built up from a short list, never handed down.

What a variable of the caller's shell may change in a kernel or a library is not part of the
protocol (``MHA_SEQ``, ``CHOREO_*``, ``CPATH``, ``NVCC_*_FLAGS``, ``PYTHONPATH``,
``LD_PRELOAD`` and their kind), so nothing passes that is not named here, in the manifest's
``[backends.X.env]`` or by ``--worker-env``. Everything that a worker gets is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from artifact.errors import UsageError
from artifact.model.backend import Backend

_PASSED = ("PATH", "HOME")
"""What any process needs to find its programs and its user's files."""

_PASSED_TO_GPU = ("CUDA_HOME", "LD_LIBRARY_PATH")
"""Where the toolkit and the driver's libraries are."""

_FIXED = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
"""Numbers, messages and times look alike everywhere."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Left to themselves the libraries count the processors each in its own way, and their
threads wait for each other on a machine that does other work. The manifest may say more."""

CACHE = "cache"
"""The folder below a run's scratch folder that holds every cache."""

_CACHES = {
    "TMPDIR": "tmp",
    "XDG_CACHE_HOME": CACHE,
    "CUDA_CACHE_PATH": f"{CACHE}/cuda",
    "CUPY_CACHE_DIR": f"{CACHE}/cupy",
    "TILELANG_CACHE_DIR": f"{CACHE}/tilelang",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE}/torchinductor",
    "TRITON_CACHE_DIR": f"{CACHE}/triton",
}
"""Compiled kernels of another run are never picked up unnoticed: each run has its own caches,
empty or seeded from a folder of known content (:mod:`artifact.bench.caches`)."""

_OWNED = frozenset({"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
"""Set by the runner alone: another value would run on a card that nobody watches."""

_OPTION = re.compile(r"(?P<backend>[^:=]+):(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>[^\0]*)")


def parse_options(options: Iterable[str], backends: Sequence[str]) -> dict[str, dict[str, str]]:
    """``--worker-env BACKEND:NAME=VALUE`` options, by backend.

    Raises:
        UsageError: for another form, a backend that does not run, a name given twice, or a
            name that the runner sets itself.
    """
    found: dict[str, dict[str, str]] = {}
    for option in options:
        match = _OPTION.fullmatch(option)
        if match is None:
            raise UsageError(
                "an option does not say what to set",
                where="--worker-env",
                expected="BACKEND:NAME=VALUE",
                found=option,
            )
        backend, name, value = match["backend"], match["name"], match["value"]
        if backend not in backends:
            raise UsageError(
                "an option names a backend that is not in this run",
                where=f"--worker-env {option}",
                expected=f"one of: {', '.join(backends)}",
                found=backend,
            )
        if name in _OWNED:
            raise UsageError(
                "the runner sets this variable itself",
                where=f"--worker-env {option}",
                found=name,
                next="choose the device with --gpu",
            )
        values = found.setdefault(backend, {})
        if name in values:
            raise UsageError(
                "an option sets one variable twice",
                where=f"--worker-env {option}",
                found=f"{name}={values[name]} before",
            )
        values[name] = value
    return found


@dataclass(frozen=True, slots=True)
class ChildEnvironment:
    """The whole environment of one worker."""

    values: dict[str, str]
    """What the process gets."""
    recorded: dict[str, str]
    """What is written down: ``$NAME`` stands for a value of the caller's shell, ``$SCRATCH``
    for the folder of this run, ``$GPU`` for the UUID of the device."""


def child_environment(
    backend: Backend,
    *,
    caller: Mapping[str, str],
    scratch: Path,
    chosen: Mapping[str, str],
    device_uuid: str | None = None,
) -> ChildEnvironment:
    """The environment of ``backend``'s worker.

    Args:
        backend: Its manifest entry.
        caller: The environment of the runner, of which only the named variables pass.
        scratch: An existing folder of this run alone; cache folders are named below it.
        chosen: What ``--worker-env`` sets; it comes last.
        device_uuid: The GPU that the worker may see; none for a CPU backend.
    """
    passed = (*_PASSED, *(_PASSED_TO_GPU if backend.device == "gpu" else ()))
    fixed = dict(_FIXED)
    if backend.device == "cpu":
        fixed.update(_ONE_THREAD)
    fixed.update(backend.env)
    fixed.update(chosen)
    values, recorded = {}, {}
    for name in passed:
        if name in caller:
            values[name], recorded[name] = caller[name], f"${name}"
    for name, place in _CACHES.items():
        values[name], recorded[name] = str(scratch / place), f"$SCRATCH/{place}"
    # An empty list hides every GPU from a backend that measures the CPU.
    device = {"CUDA_VISIBLE_DEVICES": device_uuid or "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    values.update(fixed | device)
    recorded.update(fixed | device)
    if device_uuid is not None:
        recorded["CUDA_VISIBLE_DEVICES"] = "$GPU"
    return ChildEnvironment(values, recorded)


def make_scratch(scratch: Path) -> None:
    """Make the folders that :func:`child_environment` names."""
    for place in _CACHES.values():
        (scratch / place).mkdir(parents=True, exist_ok=True)


def command_line(backend: Backend, executable: Path, root: Path) -> list[str]:
    """The command that starts ``backend``'s worker, to be run in ``root``.

    A Python worker runs isolated (``-I``): neither the working directory nor the worker's
    own folder nor the user's site-packages are searched for modules, and no ``PYTHON*``
    variable is read. A native one is told that it is a worker: started by hand it measures
    by itself.

    Args:
        backend: Its manifest entry.
        executable: The interpreter of a Python backend, or the program of a native one.
        root: The artifact's root.
    """
    if backend.kind == "native":
        return [str(executable), "--worker", "--backend", backend.name, *backend.args]
    script = str(root / backend.worker)
    return [str(executable), "-I", script, *backend.args, "--backend", backend.name]
