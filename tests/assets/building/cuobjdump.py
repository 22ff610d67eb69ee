"""Stands for cuobjdump: the stand-in machine code is a listing already."""

import pathlib
import sys

assert sys.argv[1] == "-sass"
print(pathlib.Path(sys.argv[2]).read_text())
