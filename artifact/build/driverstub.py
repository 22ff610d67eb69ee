"""A libcuda to link against, where the machine has none.

``-lcuda`` among the flags needs a library at link time, which neither a machine without a
driver nor the toolkit's wheels have. As in the toolkit's own ``stubs``, an empty function for
every name of the driver's header is enough: what is linked asks for ``libcuda.so.1``, the
driver's, when it is started.
"""

from __future__ import annotations

import re
from pathlib import Path

from artifact.build.failures import BuildFailed
from artifact.build.process import Processes, tool_environment
from artifact.build.tools import Tools

_FLAG = "-lcuda"
_TIMEOUT_S = 120.0
_DECLARED = re.compile(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(")
_RENAMED = re.compile(r"^\s*#\s*define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*)\s*$", re.MULTILINE)
_FOLDERS = ("lib64/stubs", "lib/stubs", "targets/x86_64-linux/lib/stubs")


def needed(flags: tuple[str, ...], tools: Tools, processes: Processes) -> bool:
    """Whether ``flags`` link against a libcuda that nobody here has."""
    if _FLAG not in flags:
        return False
    top = tools.home.parent
    if any((top / folder / "libcuda.so").is_file() for folder in _FOLDERS):
        return False
    status, printed = processes.run(
        ["g++", "-print-file-name=libcuda.so"],
        cwd=Path("/"),
        environment=tool_environment(tools.environ),
        timeout=_TIMEOUT_S,
    )
    # A library that is not found is printed as it was asked for.
    return status != 0 or not Path(printed.strip()).is_absolute()


def names(header: str) -> tuple[str, ...]:
    """The functions of ``cuda.h``, with the names under which later versions export them."""
    return tuple(sorted({*_DECLARED.findall(header), *_RENAMED.findall(header)}))


def make(folder: Path, tools: Tools, processes: Processes) -> str:
    """Make the library in ``folder``, a new one of the place of a build.

    Returns:
        The option that names it to the linker.

    Raises:
        BuildFailed: where the host's compiler does not make it, or there is no header.
    """
    header = tools.include / "cuda.h"
    if not header.is_file():
        raise BuildFailed(
            "the toolkit has no header of the driver",
            where="cuda.h",
            expected=_FLAG.lstrip("-"),
            next="install the toolkit's cuda.h, or name another toolkit: --nvcc PATH",
        )
    folder.mkdir()
    source = folder / "stub.c"
    text = header.read_text(encoding="utf-8", errors="replace")
    source.write_text("".join(f"void {name}(void) {{}}\n" for name in names(text)))
    status, printed = processes.run(
        ["g++", "-x", "c", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", source.name,
         "-o", "libcuda.so"],
        cwd=folder,
        environment=tool_environment(tools.environ),
        timeout=_TIMEOUT_S,
    )  # fmt: skip
    if status != 0:
        raise BuildFailed(
            "no libcuda can be made to link against",
            where=_FLAG,
            found=f"status {status}",
            next="install a C compiler by the name of g++, or the NVIDIA driver",
            details=tuple(printed.splitlines()[-5:]),
        )
    return f"-L{folder.name}"
