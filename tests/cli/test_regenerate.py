"""``artifact regenerate`` with our own compiler: what it says of a source that compiles."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = """\
__co__ void doubled(global s32 [N] x) {
  parallel.async {b} by [N] : block {
    parallel t by 1 : thread {
      u32 rows = x.at(0);
      x.at(b) = x.at(b) * 2;
    }
  }
}
"""
WARNED = "kernels/one.co:4:18: warning: "


@pytest.fixture
def warned(native_artifact: Path) -> Path:
    """An artifact with a kernel whose conversion of a signed number our compiler warns of."""
    (native_artifact / "kernels/one.co").write_text(SOURCE)
    return native_artifact


def artifact(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "artifact", *args],
        cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=300, check=True,
    )  # fmt: skip


def test_a_warning_is_shown_and_ends_nothing(warned: Path) -> None:
    done = artifact("regenerate", "one", cwd=warned)
    assert WARNED in done.stderr
    assert "generated/one.cu: written" in done.stdout
    # It is said each time, whether something is written or not.
    assert WARNED in artifact("regenerate", "one", "--check", cwd=warned).stderr


def test_a_warning_stands_in_the_document(warned: Path) -> None:
    found: dict[str, Any] = json.loads(artifact("regenerate", "one", "--json", cwd=warned).stdout)
    (kernel,) = found["kernels"]
    (text,) = kernel["said"]
    assert text.startswith(WARNED)


def test_a_build_that_regenerates_shows_it_too(native_artifact: Path, native_tools: Path) -> None:
    """Here of another compiler: whatever it prints."""
    program = native_tools / "wordy"
    program.write_text(f'#!/bin/sh\necho "beware of this"\nexec "{native_tools}/choreo" "$@"\n')
    program.chmod(0o755)
    done = artifact("build", "one", "--regenerate", "--choreo", str(program), cwd=native_artifact)
    assert "beware of this" in done.stderr
