"""The tools of one build, all of them found before anything is compiled."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from artifact.build import closure, toolchain
from artifact.build.closure import Library
from artifact.build.failures import ToolchainDiffers
from artifact.build.headers import Headers, find_headers, headers_difference
from artifact.build.toolchain import WHEELS, Tool
from artifact.errors import EnvironmentUnmet
from artifact.model.build import Toolkit
from artifact.model.manifest import Manifest


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What a command line says of the tools; None for what it leaves out."""

    nvcc: Path | None = None
    cutlass: Path | None = None
    compiler_include: Path | None = None
    """An existing folder: headers of another compiler of the kernel language."""


@dataclass(frozen=True, slots=True)
class Tools:
    """nvcc, and the headers that it may be given."""

    nvcc: Tool
    home: Path
    """The ``bin`` directory of its toolkit."""
    cutlass: Headers | None
    missing: EnvironmentUnmet | None
    """Why there are no CUTLASS headers. It matters only to a kernel that includes one."""
    compiler_include: Path | None
    environ: Mapping[str, str]
    """The caller's environment, where tools are looked for."""

    @property
    def passed_over(self) -> tuple[str, ...]:
        """Variables that are set and lead nowhere, a sentence each."""
        found = list(self.nvcc.passed_over)
        if self.cutlass is not None:
            found += self.cutlass.passed_over
        elif self.missing is not None and self.environ.get("CUTE_HOME"):
            # The first place in the order, where it is set.
            found += self.missing.details[:1]
        return tuple(found)

    @property
    def include(self) -> Path:
        """The folder of the toolkit's own headers."""
        targets = self.home.parent / "targets/x86_64-linux/include"
        return targets if targets.is_dir() else self.home.parent / "include"

    @property
    def link_flags(self) -> tuple[str, ...]:
        """Where the runtime's static library is, in a layout that nvcc does not know (PyPI)."""
        lib = self.home.parent / "lib"
        usual = (self.home.parent / "lib64", self.home.parent / "targets/x86_64-linux/lib")
        name = "libcudart_static.a"
        if (lib / name).is_file() and not any((place / name).is_file() for place in usual):
            return (f"-L{lib}",)
        return ()

    def libraries(self) -> tuple[Library, ...]:
        """The folders of headers outside of the tree."""
        found = [Library(closure.TOOLKIT, self.include, self.nvcc.version)]
        if self.cutlass is not None:
            version = self.cutlass.revision or self.cutlass.version
            found.append(Library(closure.CUTLASS, self.cutlass.include, version))
        if self.compiler_include is not None:
            found.append(Library(closure.COMPILER, self.compiler_include, None))
        return tuple(found)

    def include_flags(self) -> tuple[str, ...]:
        """The options that name those folders to nvcc; its own it knows."""
        return tuple(f"-I{library.folder}" for library in self.libraries()[1:])

    def portable(self, text: str) -> str:
        """``text`` with the variables that people set instead of this machine's folders.

        Logs are published. With CUDA_HOME and CUTE_HOME set, a command in them can be typed.
        """
        # nvcc by itself, since it may have been found by a link that lies elsewhere.
        places = [("$CUDA_HOME", self.home.parent), ("$CUDA_HOME/bin/nvcc", self.nvcc.path)]
        if self.cutlass is not None:
            places.append(("$CUTE_HOME", self.cutlass.include.parent))
        if self.compiler_include is not None:
            places.append(("$CHOREO_INCLUDE", self.compiler_include))
        # The longest first: a package of the headers may lie inside the toolkit's environment.
        for name, place in sorted(places, key=lambda pair: -len(str(pair[1]))):
            text = re.sub(rf"{re.escape(str(place))}(?![\w.-])", name, text)
        return text

    def differences(self, manifest: Manifest, *, cutlass: bool) -> tuple[str, ...]:
        """How they differ from what ``manifest`` pins.

        Args:
            manifest: The artifact's manifest.
            cutlass: Whether a kernel includes CUTLASS headers.
        """
        found = [toolchain.nvcc_difference(self.nvcc, manifest)]
        if cutlass and self.cutlass is not None:
            found.append(headers_difference(self.cutlass, manifest))
        return tuple(text for text in found if text is not None)

    def facts(self, *, cutlass: bool) -> Toolkit:
        """What results say of them."""
        headers = None
        if cutlass and self.cutlass is not None:
            version = self.cutlass.version or "of no version"
            commit = f", commit {self.cutlass.revision[:12]}" if self.cutlass.revision else ""
            headers = f"{version}{commit} ({self.cutlass.origin})"
        return Toolkit(
            nvcc=self.nvcc.version or "unknown",
            origin=self.nvcc.origin,
            headers=headers,
            passed_over=tuple(self._without_places(text) for text in self.passed_over),
        )

    def _without_places(self, text: str) -> str:
        """``text`` without what the variables hold: results name no place of a machine."""
        for name in ("CUDA_HOME", "CUTE_HOME"):
            text = text.replace(f"{name}={self.environ.get(name)}", name)
        return text


def find_tools(options: ToolOptions, environ: Mapping[str, str] | None = None) -> Tools:
    """The tools that ``options`` name, or that are found.

    Raises:
        EnvironmentUnmet: where there is no nvcc, or ``--cutlass`` names no headers.
    """
    environ = os.environ if environ is None else environ
    nvcc = toolchain.find_nvcc(options.nvcc, environ)
    cutlass, missing = None, None
    try:
        cutlass = find_headers(options.cutlass, environ)
    except EnvironmentUnmet as error:
        if options.cutlass is not None:
            raise
        missing = error
    home = toolchain.nvcc_home(nvcc)
    return Tools(nvcc, home, cutlass, missing, options.compiler_include, environ)


def require_pinned(differences: tuple[str, ...], unlocked: bool) -> None:
    """Do nothing where the tools are the pinned ones, or others were accepted.

    Raises:
        ToolchainDiffers: naming every difference.
    """
    if differences and not unlocked:
        raise ToolchainDiffers(
            "the toolchain is not the one that the manifest pins",
            expected="the pinned CUDA Toolkit and headers",
            found=differences[0] if len(differences) == 1 else f"{len(differences)} differences",
            next=f"name the pinned one (--nvcc PATH, --cutlass DIR), or install it: {WHEELS}\n"
            "or accept and record this one: --unlocked-env (every table will say UNLOCKED)",
            details=differences if len(differences) > 1 else (),
        )
