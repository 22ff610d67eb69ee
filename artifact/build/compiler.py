"""The compiler of the kernel language: ours, or another one that is started as a program."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from artifact.build.failures import BuildFailed
from artifact.build.process import Processes, tool_environment
from artifact.build.record import sha256_of
from artifact.errors import EnvironmentUnmet

_TIMEOUT_S = 600.0
_VERSION_TIMEOUT_S = 30.0
_DIGITS = 16
_SHOWN = 12
_INCLUDE = "runtime"
"""The folder of a compiler's checkout whose headers its output includes."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """What makes CUDA of a kernel's source."""

    name: str
    """As stamps write it: name and version, and for another's program the digest of it."""
    program: Path | None
    """None: the compiler of this package."""
    include: Path | None
    """Headers that its output needs, from outside of the tree."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a compiler made of one source."""

    cuda: bytes
    """Without a stamp."""
    said: tuple[str, ...]
    """Its warnings, a text each; of another's compiler all that it printed."""


def find_compiler(program: Path | None = None, include: Path | None = None) -> Compiler:
    """Our compiler, or the one that ``--choreo`` names.

    Args:
        program: What ``--choreo`` says.
        include: What ``--choreo-include`` says; default for another's compiler: the folder
            ``runtime`` of the checkout that it stands in.

    Raises:
        EnvironmentUnmet: where there is no such program or folder.
    """
    include = named_headers(include)
    if program is None:
        from artifact.choreo import NAME, VERSION

        return Compiler(f"{NAME} {VERSION}", None, include)
    path = Path.cwd() / program
    if not path.is_file() or not os.access(path, os.X_OK):
        raise EnvironmentUnmet(
            "there is no compiler of this name",
            where=f"--choreo {program}",
            expected="a program that can be executed",
            found="a file that cannot be executed" if path.is_file() else "no file",
            next="name its program: --choreo PATH, or leave the option out: ours is built in",
        )
    name = f"{path.name} {_version(path)} sha256:{str(sha256_of(path))[:_DIGITS]}"
    return Compiler(re.sub(r"\s+", " ", name), path, include or _beside(path))


def named_headers(folder: Path | None) -> Path | None:
    """The folder that ``--choreo-include`` names.

    Raises:
        EnvironmentUnmet: where it is none.
    """
    if folder is None:
        return None
    place = Path.cwd() / folder
    if not place.is_dir():
        raise EnvironmentUnmet(
            "the headers of the compiler are not there",
            where=f"--choreo-include {folder}",
            expected="a folder of headers",
            found="a file" if place.exists() else "nothing",
            next="name their folder: --choreo-include DIR, or leave the option out",
        )
    return place


def _version(path: Path) -> str:
    """The first words that a compiler says of its version; empty where it says none."""
    environment = tool_environment(os.environ)
    status, printed = Processes().run(
        [str(path), "--version"],
        cwd=path.parent,
        environment=environment,
        timeout=_VERSION_TIMEOUT_S,
    )
    match = re.search(r"\bv?([0-9]+(?:\.[0-9A-Za-z]+)+(?:[-+][0-9A-Za-z.]+)?)", printed)
    return match.group(1) if status == 0 and match else ""


def _beside(program: Path) -> Path | None:
    for folder in program.resolve().parents:
        if (folder / _INCLUDE).is_dir():
            return folder / _INCLUDE
    return None


def compile_source(
    compiler: Compiler, root: Path, source: str, text: bytes, flags: Sequence[str],
    output: Sequence[str],
) -> Made:  # fmt: skip
    """The CUDA that ``compiler`` makes of one source.

    Args:
        compiler: What makes it.
        root: The artifact's root: another's compiler runs there, so that what it writes
            holds relative paths.
        source: The path of the source below it.
        text: Its contents.
        flags: The manifest's flags.
        output: What asks another's compiler for CUDA source.

    Raises:
        ArtifactError: where it does not compile.
    """
    if compiler.program is None:
        return _ours(source, text, flags)
    with tempfile.TemporaryDirectory(prefix="artifact-generate-") as folder:
        result = Path(folder, "generated.cu")
        command = [str(compiler.program), *output, *flags, source, "-o", str(result)]
        status, printed = Processes().run(
            command, cwd=root, environment=tool_environment(os.environ), timeout=_TIMEOUT_S
        )
        if status != 0:
            ended = f"no end within {_TIMEOUT_S:g} s; it was killed"
            raise BuildFailed(
                "the compiler does not take the kernel",
                where=source,
                expected="status 0",
                found=ended if status is None else f"status {status}",
                next=shlex.join(command[:-2]),
                details=tuple(line for line in printed.splitlines() if line.strip())[-_SHOWN:],
            )
        data = result.read_bytes() if result.is_file() else b""
    if not data.strip():
        raise BuildFailed(
            "the compiler ended well and wrote nothing",
            where=source,
            expected=f"CUDA source in the file that {' '.join((*output, '-o'))} names",
            found="no file" if not data else "an empty file",
            next=shlex.join(command[:-2]),
        )
    return Made(data, (printed.rstrip(),) if printed.strip() else ())


def _ours(source: str, text: bytes, flags: Sequence[str]) -> Made:
    from artifact.choreo import compile_text

    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BuildFailed(
            "a kernel's source is not UTF-8",
            where=f"{source}: byte {error.start}",
            next="save it as UTF-8, then run the same command again",
        ) from error
    made = compile_text(decoded, source, _defines(flags))
    return Made(made.cuda.encode("utf-8"), made.warnings)


def _defines(flags: Sequence[str]) -> dict[str, str]:
    """The macros that ``-DNAME[=VALUE]`` flags define."""
    pairs = (flag[2:].partition("=") for flag in flags if flag.startswith("-D"))
    return {name: value if equals else "1" for name, equals, value in pairs}
