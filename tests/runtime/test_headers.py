"""The device headers: what emitted kernels call, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FUNCTION = re.compile(r"__device__ [^;{}()]*?\b(\w+)\(")


def test_every_device_function_is_emitted_or_called_by_one_that_is() -> None:
    """A function that the compiler's text names nowhere can be in no kernel."""
    headers = "\n".join(
        re.sub(r"//[^\n]*", "", path.read_text()) for path in ROOT.glob("runtime/device/*.cuh")
    )
    compiler = "\n".join(path.read_text() for path in ROOT.glob("artifact/choreo/*.py"))
    names = set(_FUNCTION.findall(headers))
    assert {"mbarrier_wait", "mbarrier_arrive_expect"} <= names
    unused = {
        name
        for name in names
        if not re.search(rf"\b{name}\b", compiler) and len(re.findall(rf"\b{name}\b", headers)) == 1
    }
    assert unused == set()
