"""Talk to a worker from within its own process; run as a file, below the profiler.

    profiledriver.py REQUESTS ANSWERS WORKER ARGS...

REQUESTS is a JSON list of requests of the worker protocol, ANSWERS the file that takes each
answer line. The worker's file runs as the main program, with pipes in place of its standard
input and output. The profiler is told to look (cuProfilerStart) right before a request
``time`` and to stop right after it, so that it sees what is timed: no autotuning, no input
generation, no oracle. Standard library only: this runs in the interpreter of the worker.
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import sys
import threading
from pathlib import Path
from typing import Any

FAILED = 70
"""The exit status where the conversation could not be held."""


class Profiler:
    """The switch of whatever profiler this process runs under."""

    def __init__(self) -> None:
        """Make the device's primary context current, which torch and CuPy use too."""
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} answers with status {status}")

    def start(self) -> None:
        """Let it look."""
        self._call("cuProfilerStart")

    def stop(self) -> None:
        """Let it stop looking, once everything that was launched has ended."""
        self._call("cuCtxSynchronize")
        self._call("cuProfilerStop")


def converse(requests: list[dict[str, Any]], into: str, ask: int, hear: int) -> None:
    """Send each request and keep its answer; end the worker after the last or an error."""
    # Not in a `with`: on an error the pipes must stay open until the process has ended with
    # its status. Closed, they would let the worker come to a good end first.
    answers, questions = os.fdopen(hear, "rb"), os.fdopen(ask, "wb", buffering=0)
    with Path(into).open("wb", buffering=0) as kept:
        for number, request in enumerate(requests, 1):
            timed = request["op"] == "time"
            profiler = Profiler() if timed else None
            if profiler is not None:
                profiler.start()
            questions.write(json.dumps({**request, "id": number}).encode() + b"\n")
            line = answers.readline()
            if profiler is not None:
                profiler.stop()
            kept.write(line)
            if not line or json.loads(line).get("op") != request["op"]:
                break
    questions.write(b'{"op":"quit","id":0}\n')
    answers.readline()
    questions.close()
    answers.close()


def main() -> None:
    """Hold the conversation on a thread of its own while the worker runs as the main program."""
    requests, into, worker, *arguments = sys.argv[1:]
    stdin, ask = os.pipe()
    hear, stdout = os.pipe()
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.close(stdin)
    os.close(stdout)

    def talk() -> None:
        try:
            converse(json.loads(requests), into, ask, hear)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(FAILED)

    threading.Thread(target=talk, daemon=True).start()
    sys.argv = [worker, *arguments]
    runpy.run_path(worker, run_name="__main__")


if __name__ == "__main__":
    main()
