"""Where the CUDA toolkit is, and which version it has.

It is looked for in a fixed order, and the first place that has it is taken: the command
line, CUDA_HOME, PATH, the packages of this interpreter. What the command line names is taken
or refused, never passed over; a variable that is set and leads nowhere is passed over, and
said. Whether it is the toolkit that the manifest pins is another question
(:func:`nvcc_difference`): one that is not is never taken silently.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from artifact.errors import EnvironmentUnmet
from artifact.model.backend import Dependency
from artifact.model.build import TOOLKIT
from artifact.model.manifest import Manifest

"""The name of the manifest's dependency whose version is that of nvcc."""

WHEELS = "pip install --require-hashes --no-deps -r envs/cuda/requirements.lock"
"""How the pinned toolkit is had as packages of an interpreter."""

_PACKAGES = {
    "nvcc": "nvidia-cuda-nvcc",
    "cuobjdump": "nvidia-cuda-cuobjdump",
    "nvdisasm": "nvidia-cuda-nvdisasm",
}
"""Distributions that hold the tools; those for CUDA 12 and older have other names."""

_NSIGHT = Path("/opt/nvidia/nsight-compute")
"""Where NVIDIA's own packages put the profiler, in a folder for each version."""

_TIMEOUT_S = 60.0
_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)\b")
_HERE = re.compile(r"^#\$ _HERE_=(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """One program of the toolkit."""

    name: str
    path: Path
    """As it was found: it may be a link or a script that starts another program."""
    origin: str
    """Where it was found: ``--nvcc``, ``CUDA_HOME``, ``PATH``, ``PyPI``, ``beside nvcc``."""
    version: str | None = None
    """Such as ``13.0.88``; null where it was not asked."""
    passed_over: tuple[str, ...] = ()
    """Places that come earlier in the order and are set, but have no such program."""


def find_nvcc(named: Path | None = None, environ: Mapping[str, str] | None = None) -> Tool:
    """The compiler: ``named``, else that of CUDA_HOME, of PATH, of this interpreter's packages.

    Args:
        named: What ``--nvcc`` says: the program itself.
        environ: The caller's environment; None for this process's.

    Raises:
        EnvironmentUnmet: where there is none, or the one that was found does not say its
            version.
    """
    environ = os.environ if environ is None else environ
    passed: list[str] = []
    if named is not None:
        path, origin = Path.cwd() / named, "--nvcc"
        if not _is_program(path):
            raise _no_nvcc(f"{named} is no program that can be executed", ("--nvcc",))
    else:
        found = _search("nvcc", environ, passed)
        if found is None:
            looked = (*passed, "PATH has no nvcc", f"{_PACKAGES['nvcc']} is not installed here")
            raise _no_nvcc("nvcc was found nowhere", looked)
        path, origin = found
    return Tool("nvcc", path, origin, _nvcc_version(path), tuple(passed))


def _no_nvcc(found: str, looked: tuple[str, ...]) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        "there is no CUDA compiler",
        expected="nvcc through --nvcc, CUDA_HOME, PATH or the package nvidia-cuda-nvcc",
        found=found,
        next="install the CUDA Toolkit, or name its compiler: --nvcc PATH",
        details=looked,
    )


def _search(name: str, environ: Mapping[str, str], passed: list[str]) -> tuple[Path, str] | None:
    """CUDA_HOME, PATH, packages; ``passed`` takes what is set and leads nowhere."""
    if home := environ.get("CUDA_HOME"):
        path = Path(home) / "bin" / name
        if _is_program(path):
            return path, "CUDA_HOME"
        passed.append(f"CUDA_HOME={home} has no bin/{name}")
    if on_path := shutil.which(name, path=environ.get("PATH", os.defpath)):
        return Path(on_path), "PATH"
    if (path_ := packaged(_PACKAGES.get(name, ""), f"bin/{name}")) and _is_program(path_):
        return path_, "PyPI"
    return None


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def packaged(distribution: str, ending: str) -> Path | None:
    """The file of a distribution of this interpreter whose path ends in ``ending``, or None."""
    if not distribution:
        return None
    try:
        files = metadata.distribution(distribution).files or ()
    except metadata.PackageNotFoundError:
        return None
    wanted = Path(ending).parts
    for file in files:
        if file.parts[-len(wanted) :] == wanted:
            return Path(str(file.locate()))
    return None


def ask(command: Iterable[str | Path], *, cwd: Path | None = None) -> str:
    """What a tool prints, standard error behind standard output.

    It gets PATH, HOME and TMPDIR and no other variable, so that no ``NVCC_APPEND_FLAGS``
    changes its answer.

    Raises:
        EnvironmentUnmet: where it cannot be started, fails, or takes more than a minute.
    """
    line = [str(part) for part in command]
    passed = ("PATH", "HOME", "TMPDIR")
    environment = {name: os.environ[name] for name in passed if name in os.environ}
    try:
        done = subprocess.run(
            line,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            env={**environment, "LC_ALL": "C.UTF-8"},
            cwd=cwd,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentUnmet(
            "a program of the toolkit cannot be asked",
            where=line[0],
            found=(isinstance(error, OSError) and error.strerror) or str(error),
            next=shlex.join(line),
        ) from error
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    if done.returncode != 0:
        raise EnvironmentUnmet(
            "a program of the toolkit fails",
            where=line[0],
            expected="status 0",
            found=f"status {done.returncode}",
            next=shlex.join(line),
            details=tuple(text.strip().splitlines()[-5:]),
        )
    return text


def _nvcc_version(path: Path) -> str:
    printed = ask([path, "--version"])
    version = version_in(printed)
    if version is None:
        raise EnvironmentUnmet(
            "nvcc does not say its version",
            where=str(path),
            expected="a line with its release, such as V13.0.88",
            found=(printed.strip().splitlines() or ["nothing"])[-1],
            next=f"{path} --version",
        )
    return version


def front_end_version(nvcc: Tool) -> str:
    """The version of the front end that ``nvcc`` really starts, from a trial compilation.

    nvcc, its front end (``nvvm/bin/cicc``) and its headers come in packages of their own,
    whose versions may differ: the version of nvcc alone says little about what it makes.

    Raises:
        EnvironmentUnmet: where it compiles nothing: no host compiler, missing headers.
    """
    with tempfile.TemporaryDirectory(prefix="artifact-nvcc-") as folder:
        source, output = Path(folder, "empty.cu"), Path(folder, "empty.ptx")
        source.write_text("__global__ void empty() {}\n", encoding="utf-8")
        problem = None
        try:
            ask([nvcc.path, "--ptx", "-o", output, source], cwd=Path(folder))
        except EnvironmentUnmet as error:
            # The assembler refuses the code of a newer front end, which is then named.
            problem = error
        head = ""
        if output.is_file():
            head = output.read_text(encoding="utf-8", errors="replace")[:2000]
    version = version_in(head)
    if problem is not None and version in (None, nvcc.version):
        raise problem
    if version is None:
        raise EnvironmentUnmet(
            "the code that nvcc makes does not name its compiler",
            where=str(nvcc.path),
            expected="a comment with its release at the head of the PTX",
            found=(head.splitlines() or ["nothing"])[0],
            next="take a release of nvcc whose PTX names it: --nvcc PATH",
        )
    return version


def version_in(text: str) -> str | None:
    """The version in what a tool prints of itself, or at the head of the PTX that it makes."""
    match = _VERSION.search(text)
    return match.group(1) if match else None


def nvcc_home(nvcc: Tool) -> Path:
    """The ``bin`` directory of the toolkit that ``nvcc`` works from, whatever starts it.

    Raises:
        EnvironmentUnmet: where it cannot be asked.
    """
    match = _HERE.search(ask([nvcc.path, "--dryrun", "-E", "-x", "cu", os.devnull]))
    return Path(match.group(1)) if match else nvcc.path.resolve().parent


def find_companion(
    name: str, nvcc: Tool | None, environ: Mapping[str, str] | None = None
) -> Tool | None:
    """``cuobjdump``, ``nvdisasm`` or ``ncu``: beside nvcc, else CUDA_HOME, PATH, packages.

    ``ncu`` is also looked for where Nsight Compute installs itself, the newest first.

    Returns:
        None where it is nowhere. Its version is not asked.
    """
    environ = os.environ if environ is None else environ
    if nvcc is not None:
        beside = nvcc_home(nvcc) / name
        if _is_program(beside):
            return Tool(name, beside, "beside nvcc")
    passed: list[str] = []
    if found := _search(name, environ, passed):
        return Tool(name, *found, passed_over=tuple(passed))
    if name == "ncu":
        folders = sorted(_NSIGHT.glob("*"), key=lambda p: _numbers(p.name), reverse=True)
        for path in (folder / name for folder in folders):
            if _is_program(path):
                return Tool(name, path, str(_NSIGHT), passed_over=tuple(passed))
    return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def dependency(manifest: Manifest, name: str) -> Dependency | None:
    """The dependency of the manifest that is called ``name``."""
    return next((item for item in manifest.dependencies if item.name == name), None)


def nvcc_difference(nvcc: Tool, manifest: Manifest) -> str | None:
    """How ``nvcc`` differs from the toolkit that the manifest pins; None where it does not.

    A manifest that pins none is met by any.
    """
    pin = dependency(manifest, TOOLKIT)
    if pin is None or pin.version is None or pin.version == nvcc.version:
        return None
    return f"nvcc is {nvcc.version}, the manifest pins {pin.version}"
