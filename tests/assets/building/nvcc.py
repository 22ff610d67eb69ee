"""Stands for nvcc: the host's C++ compiler makes the executable, and the rest is made up.

A line ``//! WORD ...`` of the source says what is made up: ``sass NAME`` puts an instruction
into the machine code, ``spill`` and ``warn`` change the assembler's report, ``fail`` is an
error, ``sleep`` takes until it is killed, ``static`` writes the path of the source into the
machine code, as a name with internal linkage does.
"""

import os
import pathlib
import subprocess
import sys
import time

VERSION = "13.0.88"
ARGS = sys.argv[1:]
if "--version" in ARGS:
    print(f"Cuda compilation tools, release {VERSION[:4]}, V{VERSION}")
    sys.exit()
if "--dryrun" in ARGS:
    print(f"#$ _HERE_={pathlib.Path(sys.argv[0]).resolve().parent}", file=sys.stderr)
    sys.exit()
COUNTER = pathlib.Path(sys.argv[0]).with_name("calls")
source = next(arg for arg in ARGS if arg.endswith(".cu"))
includes = [arg for arg in ARGS if arg.startswith(("-I", "-O", "-std"))]
plain = ["g++", "-x", "c++", *includes]
if "-M" in ARGS:
    sys.exit(subprocess.call([*plain, "-M", "-MF", ARGS[ARGS.index("-MF") + 1], source]))
with COUNTER.open("a") as file:
    file.write(source + "\n")
text = pathlib.Path(source).read_text()
notes = [line.split()[1:] for line in text.splitlines() if line.startswith("//!")]
words = {note[0] for note in notes}
if "sleep" in words:
    note = pathlib.Path(sys.argv[0]).with_name("falling-asleep")
    note.write_text(f"{os.getpid()} {pathlib.Path.cwd()}")
    note.rename(note.with_name("asleep"))
    time.sleep(600)
if "fail" in words:
    print(f"{source}(3): error: identifier is undefined", file=sys.stderr)
    sys.exit(2)
keep = pathlib.Path(ARGS[ARGS.index("--keep-dir") + 1])
stem = pathlib.Path(source).stem
expanded = subprocess.run([*plain, "-E", "-P", source], capture_output=True, check=True).stdout
cubin = f"Function : kernel_of_{stem}\n" + "".join(
    f"        /*0000*/    {note[1]}.64x8x16 R1 ;\n" for note in notes if note[0] == "sass"
)
if "static" in words:
    cubin += os.path.realpath(source)
(keep / f"{stem}.cubin").write_bytes(cubin.encode() + expanded)
(keep / f"{stem}_dlink.cubin").write_bytes(b"")
front_end = "13.2.51" if "front-end" in words else VERSION
(keep / f"{stem}.ptx").write_text(f"//\n// Cuda compilation tools, release 13.0, V{front_end}\n")
spills = 8 if "spill" in words else 0
for name, lost in ((f"kernel_of_{stem}", spills), ("oracle", 16)):
    print(f"ptxas info    : Compiling entry function '{name}' for 'sm_90a'")
    print(f"ptxas info    : Function properties for {name}")
    print(f"    0 bytes stack frame, {lost} bytes spill stores, {lost} bytes spill loads")
    print("ptxas info    : Used 168 registers, used 1 barriers, 1024 bytes smem")
if "warn" in words:
    print(
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
        f"serialized due to a stand-in in the function 'kernel_of_{stem}'"
    )
sys.exit(subprocess.call([*plain, source, "-o", ARGS[ARGS.index("-o") + 1]]))
