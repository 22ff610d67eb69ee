"""A worker that computes nothing and can misbehave in every way that the runner must see.

It speaks the worker protocol with made-up figures that pass the gates. The variable FAULT
names what goes wrong and at which request, such as ``hang@check`` or ``crash@time:2`` (the
second ``time``); several are separated by commas. DELAY is the time in seconds that each
answer takes, LAUNCH_MS what a launch is said to take.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--backend", required=True)
parser.add_argument("--implementation", default="fake")
ARGS = parser.parse_args()

ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)

FAULTS = [part for part in os.environ.get("FAULT", "").split(",") if part]
DELAY = float(os.environ.get("DELAY", "0"))
LAUNCH_MS = float(os.environ.get("LAUNCH_MS", "0"))
COUNTS = {}


def fault(op):
    """The fault that this request is to meet, if any."""
    for text in FAULTS:
        kind, _, place = text.partition("@")
        where, _, number = place.partition(":")
        if where == op and (not number or int(number) == COUNTS[op]):
            return kind
    return None


def figures(dims, size, error):
    rows, columns = dims["N"], dims["M"]
    bands = [
        {
            "first": first,
            "last": min(first + size, rows) - 1,
            "rows": min(first + size, rows) - first,
            "e_max": error,
            "e_rms": error / 2,
            "e0_max": 0.001,
            "e0_rms": 0.0005,
        }
        for first in range(0, rows, size)
    ]
    return {
        "elements": rows * columns,
        "rows": rows,
        "nonfinite": 0,
        "outside_tolerance": 0,
        "max_abs": error,
        "max_abs0": 0.001,
        "bands": bands,
    }


def answer(op, request, wrong):
    if op == "hello":
        clock = "cuda-events" if wrong == "clock" else "host-monotonic"
        versions = {"fake": "1.0"}
        if wrong == "paths":
            versions["module"] = str(Path(__file__).resolve())
        return {"protocol": 2 if wrong == "protocol" else 1, "clock": clock, "versions": versions}
    if op == "prepare":
        STATE["dims"] = request["shape"]
        text = json.dumps([request["shape"], request["seed"], wrong == "inputs"], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        inputs = {} if wrong == "none" else {"x": digest}
        return {"inputs": inputs, "setup_ms": {"inputs": 1.0}}
    if op == "check":
        size = request["gates"]["band_rows"]
        good = figures(STATE["dims"], size, 0.5 if wrong == "error" else 0.001)
        bad = 0.001 if wrong == "control" else 1.0
        controls = [
            {**control, "figures": figures(STATE["dims"], size, bad)}
            for control in request["controls"]
        ]
        return {"figures": good, "controls": controls}
    if op == "witness":
        name = "something else" if wrong == "facts" else ARGS.implementation
        return {"facts": {"implementation": name, "threads": 1}}
    if op == "time":
        begin = time.perf_counter()
        time.sleep(request["repeat"] * (LAUNCH_MS or 0.1) / 1000)
        ms = (time.perf_counter() - begin) * 1000 / request["repeat"]
        if wrong == "mistimed":
            ms = 1e6
        repeat = 1 if wrong == "counts" else request["repeat"]
        clock = "cuda-events" if wrong == "clock" else "host-monotonic"
        return {"ms": ms, "clock": clock, "warmup": request["warmup"], "repeat": repeat}
    return {}


STATE = {}
REPORTED = (
    "out_of_memory",
    "missing_module",
    "wrong_version",
    "unsupported_shape",
    "fallback",
    "failed",
)


def say(value):
    ANSWERS.write(json.dumps(value) + "\n")
    ANSWERS.flush()


def misbehave(wrong):
    """Faults that leave no answer, or another text than an answer."""
    if wrong == "hang":
        time.sleep(3600)
    elif wrong == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    elif wrong == "exit":
        print("about to leave", file=sys.stderr, flush=True)
        os._exit(3)
    elif wrong == "crash":
        print("about to crash", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif wrong == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif wrong == "garbage":
        ANSWERS.write("Segmentation fault? no, 42.\n")
        ANSWERS.flush()
        time.sleep(3600)
    elif wrong == "double":
        ANSWERS.write('{"op": "quit", "id": 1, "backend": "alpha", "id": 1}\n')
        ANSWERS.flush()
        time.sleep(3600)
    elif wrong == "huge":
        for _ in range(17):
            ANSWERS.write("x" * (1 << 20))
        ANSWERS.flush()
        time.sleep(3600)
    elif wrong == "closed":
        ANSWERS.close()
        time.sleep(3600)
    elif wrong == "spam":
        while True:
            os.write(2, b"never ending\n" * 1000)
    elif wrong == "child":
        # Outlives its parent unless the whole group is killed, and holds the pipes open.
        start_child()
        os._exit(4)
    elif wrong == "fill":
        fill_disk(os.environ["FILL"])
    elif wrong == "offspring":
        start_child()


def start_child():
    """A process that ignores SIGTERM: what is ignored stays so across the start."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print(f"child {child.pid}", file=sys.stderr, flush=True)


def fill_disk(path):
    """Leave no room in the file system of ``path``."""
    with Path(path).open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


for line in sys.stdin:
    request = json.loads(line)
    op, number = request["op"], request["id"]
    COUNTS[op] = COUNTS.get(op, 0) + 1
    wrong = fault(op)
    print(f"{ARGS.backend}: {op}", file=sys.stderr, flush=True)
    time.sleep(DELAY)
    misbehave(wrong)
    said = {"op": op, "id": number, "backend": ARGS.backend}
    if wrong in REPORTED:
        message = f"no luck with {op}\nsecond line"
        say({**said, "op": "error", "kind": wrong, "message": message, "found": "nothing"})
        continue
    said.update(answer(op, request, wrong))
    if wrong == "id":
        said["id"] += 1
    elif wrong == "op":
        said = {"op": "quit", "id": number, "backend": ARGS.backend}
    elif wrong == "backend":
        said["backend"] = "someone-else"
    elif wrong == "field":
        said["extra"] = 1
    elif wrong == "noise":
        ANSWERS.write("a library greets you\n")
    say(said)
    if wrong == "twice":
        say(said)
    if op == "quit":
        sys.exit(7 if wrong == "status" else 0)
