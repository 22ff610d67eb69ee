"""The pinned compressors give the same bytes on processors with other instructions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

QEMU = shutil.which("qemu-x86_64")

SCRIPT = """
import hashlib, random, zlib
from zlib_ng import zlib_ng
made = random.Random(1)
words = [bytes(made.choices(range(97, 123), k=made.randint(2, 9))) for _ in range(400)]
data = b" ".join(made.choices(words, k=50_000)) + made.randbytes(60_000)
for library in (zlib, zlib_ng):
    for level in (1, 6, 9):
        digest, before = hashlib.sha256(), b""
        for at in range(0, len(data), 131_072):
            block = data[at : at + 131_072]
            stream = library.compressobj(level, 8, -15, 8, 0, *([before] if before else []))
            digest.update(stream.compress(block) + stream.flush(library.Z_SYNC_FLUSH))
            before = block[-32768:]
        print(library.__name__, level, digest.hexdigest())
"""


@pytest.mark.skipif(QEMU is None, reason="qemu-user is not installed")
@pytest.mark.parametrize("model", ["Nehalem", "Haswell", "max"])
def test_bytes_do_not_depend_on_the_processor(model: str) -> None:
    # Of a virtual environment the real interpreter, told where its packages are.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    native = [os.path.realpath(sys.executable), "-S", "-c", SCRIPT]
    outputs = [
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        for command in (native, [str(QEMU), "-cpu", model, *native])
    ]
    assert outputs[0].count("\n") == 6
    assert outputs[0] == outputs[1]
