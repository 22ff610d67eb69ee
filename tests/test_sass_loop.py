"""The script that counts what ptxas planned for the loops of a kernel."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks/tuning/sass_loop.py"

# Outer loop 10 to 60, inner loop 20 to 40; behind the end a barrier is asked again from 80.
CODE = (
    (0x00, "MOV R1, R2", 2),
    (0x10, "FFMA.FTZ R1, R1, 0.5, -R3.reuse", 1),
    (0x20, "HGMMA.64x128x16.F32.BF16 R88, R180, gdesc[UR16], RZ, !UPT", 1),
    (0x30, "FFMA.FTZ R1, R1, 0.5, -R2.reuse", 3),
    (0x40, "@!P0 BRA 0x20", 6),
    (0x50, "FFMA.FTZ R1, R1, 0.5, -R2", 1),
    (0x60, "@!P1 BRA 0x10", 5),
    (0x70, "EXIT", 5),
    (0x80, "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR18], R88", 15),
    (0x90, "@P0 BRA 0x30", 5),
    (0xA0, "BRA 0x10", 5),
)


def dump(name: str, code: tuple[tuple[int, str, int], ...] = CODE) -> str:
    """What cuobjdump prints of a function with some code."""
    lines = [f"\t\tFunction : {name}", '\t.headerflags\t@"EF_CUDA_SM90"']
    for address, text, stall in code:
        lines.append(f"        /*{address:04x}*/                   {text} ;   /* 0x{7:016x} */")
        lines.append(f"{'':50}/* 0x{stall << 41 | 3 << 45:016x} */")
    return "\n".join(lines) + "\n\t\t..........\n"


# The same without what multiplies.
PLAIN = tuple(each for each in CODE if "HGMMA" not in each[1])


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A cuobjdump that reads some.cubin, which is beside it and has two kernels."""
    (tmp_path / "some.cubin").write_text(dump("_Z5plainv", PLAIN) + dump("_Z6kernelv"))
    tool = tmp_path / "cuobjdump"
    tool.write_text('#!/bin/sh\n[ "$1 $2" = "-sass some.cubin" ] && cat some.cubin\n')
    tool.chmod(0o755)
    return tool


def run(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The script, in a folder."""
    command = [sys.executable, str(SCRIPT), *arguments]
    env = {**os.environ, **environ}
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=env)


def look(tool: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script, about some.cubin."""
    return run(tool.parent, "some.cubin", *arguments, "--cuobjdump", str(tool))


def answers(said: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What an error says: ``what``, and its other answers, one each."""
    assert said.stdout == ""
    first, *rest = said.stderr.splitlines()
    assert first.startswith("error: ")
    out = {"what": first.removeprefix("error: ")}
    for line in rest:
        name, text = line[:12].strip().removesuffix(":"), line[12:]
        if not name:
            name = list(out)[-1]
            text = f"{out[name]}\n{text}"
        out[name] = text
    return out


def test_the_innermost_loop_that_multiplies_is_counted(stand_in: Path) -> None:
    said = look(stand_in, "kernel")
    assert said.returncode == 0
    assert said.stdout.splitlines() == [
        "_Z6kernelv",
        "  00020 to 00040: 3 instructions, 10 cycles of stalls, .reuse in 1, "
        "of 1 multiply-adds in 1",
    ]


def test_the_listing_sums_the_stalls(stand_in: Path) -> None:
    lines = look(stand_in, "kernel", "--listing").stdout.splitlines()
    rows = [line.split(maxsplit=3) for line in lines]
    assert [row[1:3] for row in rows[2:]] == [["1", "1"], ["4", "3"], ["10", "6"]]
    assert rows[4][3] == "@!P0 BRA 0x20"


def test_a_kernel_without_such_a_loop_is_said(stand_in: Path) -> None:
    said = look(stand_in, "_Z", "--listing")
    assert said.returncode == 0
    assert said.stdout.splitlines()[:3] == [
        "_Z5plainv",
        "  no loop with an HGMMA",
        "_Z6kernelv",
    ]


@pytest.mark.parametrize("arguments", [("none",), ("none", "--listing")])
def test_a_name_that_no_kernel_has_is_said(stand_in: Path, arguments: tuple[str, ...]) -> None:
    said = look(stand_in, *arguments)
    assert said.returncode == 1
    assert answers(said) == {
        "what": "no kernel has this in its name",
        "where": "some.cubin",
        "expected": "a kernel with 'none' in its mangled name",
        "found": "_Z5plainv\n_Z6kernelv",
        "next": "name a part of one that was found",
    }


def test_a_binary_without_kernels_is_said(stand_in: Path) -> None:
    (stand_in.parent / "some.cubin").write_text("")
    said = look(stand_in, "kernel")
    assert said.returncode == 1
    found = answers(said)
    assert (found["found"], found["next"]) == ("no kernel at all", "name another binary")


EXPECTED = "a cubin, an executable or a library with machine code for a GPU"
BUILD = "artifact build, then name a file of build/, such as build/v5"


def test_a_binary_that_cannot_be_read_is_said(stand_in: Path) -> None:
    said = run(stand_in.parent, "other.cubin", "kernel", "--cuobjdump", str(stand_in))
    assert said.returncode == 1
    assert answers(said) == {
        "what": "the binary cannot be read",
        "where": "other.cubin",
        "expected": EXPECTED,
        "found": "No such file or directory",
        "next": BUILD,
    }


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo some words >&2; exit 255", "some words"),
        ("exit 255", "status 255, and no word"),
    ],
)
def test_a_file_that_is_no_binary_is_said(stand_in: Path, script: str, found: str) -> None:
    stand_in.write_text(f"#!/bin/sh\n{script}\n")
    said = look(stand_in, "kernel")
    assert said.returncode == 1
    assert answers(said) == {
        "what": "cuobjdump lists no machine code of this binary",
        "where": "some.cubin",
        "expected": EXPECTED,
        "found": found,
        "next": f"{BUILD}, or look at it: {stand_in} -sass some.cubin",
    }


def test_a_cuobjdump_that_is_none_is_said(stand_in: Path) -> None:
    stand_in.chmod(0o644)
    said = look(stand_in, "kernel")
    assert said.returncode == 3
    assert answers(said) == {
        "what": "cuobjdump cannot be started",
        "where": str(stand_in),
        "expected": "a program, by its path",
        "found": "Permission denied",
        "next": "name another by --cuobjdump PATH, or leave that out",
    }


def test_cuobjdump_is_looked_for(stand_in: Path) -> None:
    (stand_in.parent / "bin").mkdir()
    stand_in.rename(stand_in.parent / "bin/cuobjdump")
    said = run(stand_in.parent, "some.cubin", "kernel", CUDA_HOME=str(stand_in.parent))
    assert said.stdout.startswith("_Z6kernelv\n  00020 to 00040: 3 instructions")


def test_that_there_is_none_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "some.cubin").touch()
    main = runpy.run_path(str(SCRIPT))["main"]
    monkeypatch.setattr("artifact.build.sass.find_companion", lambda *_: None)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path / "some.cubin"), "kernel"])
    assert main() == 3
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: there is no cuobjdump to look at the machine code with"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "where", "expected", "found", "next"
    ]  # fmt: skip
