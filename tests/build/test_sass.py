"""Instructions that a kernel must hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from artifact.build import sass
from artifact.build.failures import BuildFailed
from artifact.build.toolchain import Tool
from artifact.errors import EnvironmentUnmet

# The form of cuobjdump 13.2.
LISTING = """\
\t\tFunction : _Z6oraclePf
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   UTMALDG.2D [UR4], [UR6] ;   /* 0x00000a00ff017b82 */
\t\tFunction : _Z4kernPf
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24 ;  /* 0x0 */
        /*0010*/              @!P0 HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24 ;  /* 0x0 */
        /*0020*/                   USETMAXREG.DEALLOC.CTAPOOL 0x18 ;  /* 0x0 */
        /*0030*/                   QHGMMA.64x8 R1 ;  /* HGMMAX */
"""


def test_only_the_measured_kernel_counts() -> None:
    wanted = ("HGMMA", "UTMALDG", "USETMAXREG")
    assert sass.counted(LISTING, wanted, "_Z4kern.*") == {
        "HGMMA": 2, "UTMALDG": 0, "USETMAXREG": 1,
    }  # fmt: skip
    assert sass.counted(LISTING, wanted, None)["UTMALDG"] == 1
    assert sass.counted("", wanted, None) == dict.fromkeys(wanted, 0)


def test_what_is_missing_is_named() -> None:
    sass.judge("b", {"HGMMA": 2})
    with pytest.raises(BuildFailed) as caught:
        sass.judge("b", {"HGMMA": 2, "UTMALDG": 0, "USETMAXREG": 0})
    assert caught.value.found == "no UTMALDG, no USETMAXREG"


def test_without_the_tool_nothing_is_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artifact.build.toolchain.packaged", lambda *a: None)
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    with pytest.raises(EnvironmentUnmet, match="no cuobjdump") as caught:
        sass.require_disassembler(Tool("nvcc", nvcc, "PATH"), {"PATH": os.devnull})
    assert "envs/cuda/requirements.lock" in str(caught.value.next)
