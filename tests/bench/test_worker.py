"""One worker process, and everything that it can do wrong."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from artifact.bench import failures
from artifact.bench.failures import (
    WorkerDied,
    WorkerGarbage,
    WorkerHung,
    WorkerNotStarted,
    WrongBackend,
)
from artifact.bench.messages import Hello, Prepared, Quit, Timed, Witnessed
from artifact.bench.rawlog import RawLog
from artifact.bench.scrub import Scrubber
from artifact.bench.worker import Worker
from artifact.errors import ArtifactError, EnvironmentUnmet, ExitCode

FAKE = Path(__file__).parents[1] / "assets/workers/fake.py"

Make = Callable[..., Worker]
Wait = Callable[[Callable[[], object]], None]


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Worker] = []

    def start(fault: str = "", *, command: list[str] | None = None, **environment: str) -> Worker:
        log = RawLog(tmp_path / f"{len(made)}.log", Scrubber([("$HERE", tmp_path)]))
        worker = Worker(
            "alpha",
            command or [sys.executable, "-I", str(FAKE), "--backend", "alpha"],
            environment={"PATH": os.environ["PATH"], "FAULT": fault, **environment},
            cwd=tmp_path,
            log=log,
        )
        made.append(worker)
        worker.start()
        return worker

    yield start
    for worker in made:
        worker.kill()


def hello(worker: Worker, timeout: float = 60.0) -> Hello:
    return worker.ask(Hello, timeout, protocol=1)


def test_a_conversation(make: Make) -> None:
    worker = make()
    assert hello(worker).versions == {"fake": "1.0"}
    shape = {"N": 8, "M": 2}
    prepared = worker.ask(Prepared, 60, shape=shape, seed=1, parameters={})
    assert prepared.setup_ms == {"inputs": 1.0}
    assert worker.ask(Witnessed, 60).facts["implementation"] == "fake"
    timed = worker.ask(Timed, 60, warmup=1, repeat=3)
    assert (timed.warmup, timed.repeat) == (1, 3)
    pid = worker.pid
    worker.stop()
    assert worker.pid is None
    assert pid is not None and not alive(pid)
    lines = worker.log.path.read_text().splitlines()
    assert "alpha: prepare" in lines
    assert sum("] > " in line for line in lines) == 5
    assert sum("] < " in line for line in lines) == 5


GARBAGE = [
    ("garbage", "a line that is not JSON: Segmentation fault? no, 42."),
    ("noise", "a line that is not JSON: a library greets you"),
    ("id", "an answer to request 2, not 1"),
    ("op", "an answer to 'quit', not to 'hello'"),
    ("field", "extra: Extra inputs are not permitted"),
    ("double", "a line that is not strict JSON: the key 'id' stands twice in one object"),
    ("huge", "a line of more than 16777216 bytes"),
]


@pytest.mark.parametrize(("fault", "found"), GARBAGE, ids=[fault for fault, _ in GARBAGE])
def test_what_is_no_answer(make: Make, fault: str, found: str) -> None:
    worker = make(f"{fault}@hello")
    pid = worker.pid
    assert pid is not None
    with pytest.raises(WorkerGarbage) as caught:
        hello(worker)
    assert caught.value.exit_code == ExitCode.MEASUREMENT
    assert str(caught.value.found).startswith(found)
    assert "alpha: hello" in caught.value.details
    assert not alive(pid)


def test_an_answer_to_nothing(make: Make) -> None:
    worker = make("twice@hello")
    hello(worker)
    (out,) = [pipe for pipe, name in worker._open.items() if name == "out"]
    # It came with the answer, or comes soon after it.
    assert worker._answers or select.select([out], [], [], 60.0)[0]
    with pytest.raises(WorkerGarbage) as caught:
        worker.ask(Witnessed, 60)
    assert "nothing had asked for" in str(caught.value.found)


def test_another_backend_answers(make: Make) -> None:
    worker = make("backend@hello")
    with pytest.raises(WrongBackend) as caught:
        hello(worker)
    assert caught.value.exit_code == ExitCode.FALLBACK
    assert (caught.value.expected, caught.value.found) == ("alpha", "someone-else")


@pytest.mark.parametrize("fault", ["hang", "deaf", "spam"])
def test_no_answer_in_time(make: Make, fault: str) -> None:
    worker = make(f"{fault}@hello")
    pid = worker.pid
    assert pid is not None
    begin = time.monotonic()
    with pytest.raises(WorkerHung) as caught:
        hello(worker, timeout=1.0)
    assert time.monotonic() - begin < 60
    assert caught.value.exit_code == ExitCode.MEASUREMENT
    assert caught.value.expected == "an answer within 1 s"
    assert not alive(pid)


def test_a_worker_that_prints_without_end_does_not_fill_the_disk(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artifact.bench.rawlog.MAX_LOG_BYTES", 100_000)
    program = """
        import os, sys
        sys.stdin.readline()
        for _ in range(1000):
            os.write(2, b"never ending\\n" * 1000)
        print('{"op":"quit","id":1,"backend":"alpha"}', flush=True)
    """
    worker = make(command=[sys.executable, "-I", "-c", textwrap.dedent(program)])
    worker.ask(Quit, 60)
    data = worker.log.path.read_bytes()
    assert len(data) < 400_000
    assert data.endswith(b"[the log ends here: the worker wrote too much]\n")


DEATHS = [
    ("exit", "it ended with status 3", "about to leave"),
    ("crash", "it was ended by SIGSEGV", "about to crash"),
    ("killed", "it was ended by SIGKILL", "alpha: hello"),
]


@pytest.mark.parametrize(("fault", "found", "last"), DEATHS, ids=[fault for fault, *_ in DEATHS])
def test_the_process_ends(make: Make, fault: str, found: str, last: str) -> None:
    with pytest.raises(WorkerDied) as caught:
        hello(make(f"{fault}@hello"))
    assert caught.value.exit_code == ExitCode.MEASUREMENT
    assert caught.value.found == found
    assert caught.value.details[-1] == last
    assert (caught.value.cause is not None) == (fault == "killed")


def test_standard_output_is_closed(make: Make) -> None:
    with pytest.raises(WorkerDied) as caught:
        hello(make("closed@hello"))
    assert caught.value.found == "it closed its standard output"


def test_it_is_dead_before_it_is_asked(make: Make, wait_until: Wait) -> None:
    worker = make(command=[sys.executable, "-I", "-c", "raise SystemExit(9)"])
    pid = worker.pid
    assert pid is not None
    wait_until(lambda: not alive(pid))
    with pytest.raises(WorkerDied) as caught:
        hello(worker)
    assert caught.value.found == "it ended with status 9"


def child_of(worker: Worker) -> int:
    tail = worker.log.tail()
    return int(next(line for line in tail if line.startswith("child ")).split()[1])


def test_what_a_dead_worker_started_is_killed_and_does_not_hold_the_runner_up(
    make: Make, wait_until: Wait
) -> None:
    worker = make("child@hello")
    begin = time.monotonic()
    with pytest.raises(WorkerDied) as caught:
        hello(worker, timeout=600)
    assert time.monotonic() - begin < 300
    assert caught.value.found == "it ended with status 4"
    child = child_of(worker)
    wait_until(lambda: not alive(child))


def test_what_a_good_worker_left_running_is_killed(make: Make, wait_until: Wait) -> None:
    worker = make("offspring@hello")
    hello(worker)
    child = child_of(worker)
    assert alive(child)
    worker.stop()
    wait_until(lambda: not alive(child))


REPORTED = [
    ("out_of_memory", failures.OutOfMemory, ExitCode.ENVIRONMENT),
    ("missing_module", failures.MissingModule, ExitCode.ENVIRONMENT),
    ("wrong_version", failures.WrongVersion, ExitCode.ENVIRONMENT),
    ("unsupported_shape", failures.UnsupportedShapeError, ExitCode.USAGE),
    ("fallback", failures.WorkerFallback, ExitCode.FALLBACK),
    ("failed", failures.WorkerFailed, ExitCode.MEASUREMENT),
]


@pytest.mark.parametrize(("kind", "error", "code"), REPORTED, ids=[kind for kind, *_ in REPORTED])
def test_what_a_worker_reports(
    make: Make, kind: str, error: type[ArtifactError], code: ExitCode
) -> None:
    worker = make(f"{kind}@witness")
    hello(worker)
    with pytest.raises(error) as caught:
        worker.ask(Witnessed, 60)
    assert type(caught.value) is error
    assert caught.value.exit_code == code
    assert caught.value.what.startswith("alpha: ")
    assert caught.value.what.endswith("no luck with witness")
    assert caught.value.details == ("second line",)
    # It is still there, and can be stopped in order.
    worker.stop()


def test_each_failure_is_a_class_of_its_own() -> None:
    kinds = [error for _, error, _ in REPORTED]
    kinds += [WorkerDied, WorkerGarbage, WorkerHung, WorkerNotStarted, WrongBackend]
    assert len(set(kinds)) == len(kinds)
    assert all(not issubclass(a, b) for a in kinds for b in kinds if a is not b)


def test_an_interpreter_that_is_not_there(make: Make, tmp_path: Path) -> None:
    with pytest.raises(WorkerNotStarted) as caught:
        make(command=[str(tmp_path / "python"), "x"])
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert caught.value.found == "No such file or directory: $HERE/python"


def test_an_end_with_another_status(make: Make) -> None:
    worker = make("status@quit")
    hello(worker)
    with pytest.raises(WorkerDied) as caught:
        worker.stop()
    assert caught.value.found == "status 7"


def test_no_end_at_all(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artifact.bench.worker.STOP_TIMEOUT_S", 0.5)
    program = """
        import json, sys, time
        for line in sys.stdin:
            request = json.loads(line)
            answer = {"op": request["op"], "id": request["id"], "backend": "alpha"}
            print(json.dumps(answer), flush=True)
        time.sleep(3600)
    """
    worker = make(command=[sys.executable, "-I", "-c", textwrap.dedent(program)])
    pid = worker.pid
    assert pid is not None
    with pytest.raises(WorkerHung):
        worker.stop()
    assert not alive(pid)


def test_a_large_answer_is_taken_whole(make: Make) -> None:
    program = """
        import json, sys
        request = json.loads(sys.stdin.readline())
        facts = {f"fact-{i}": "x" * 1000 for i in range(5000)}
        answer = {"op": "witness", "id": request["id"], "backend": "alpha", "facts": facts}
        print(json.dumps(answer), flush=True)
    """
    worker = make(command=[sys.executable, "-I", "-c", textwrap.dedent(program)])
    assert len(worker.ask(Witnessed, 60).facts) == 5000


def test_an_answer_in_pieces(make: Make) -> None:
    program = """
        import sys, time
        sys.stdin.readline()
        for part in ('{"op":"quit",', '"id":1,"bac', 'kend":"alpha"}', chr(10)):
            sys.stdout.write(part)
            sys.stdout.flush()
            time.sleep(0.05)
        sys.stdin.readline()
    """
    worker = make(command=[sys.executable, "-I", "-c", textwrap.dedent(program)])
    assert worker.ask(Quit, 60).id == 1


def test_much_standard_error_does_not_block(make: Make) -> None:
    program = """
        import os, sys
        sys.stdin.readline()
        for _ in range(40):
            os.write(2, b"y" * 65535 + b"\\n")
        print('{"op":"quit","id":1,"backend":"alpha"}', flush=True)
    """
    worker = make(command=[sys.executable, "-I", "-c", textwrap.dedent(program)])
    assert worker.ask(Quit, 60).id == 1
    worker.kill()
    assert worker.log.path.stat().st_size > 40 * 65535


def test_a_log_that_cannot_be_written(make: Make) -> None:
    worker = make()
    hello(worker)
    worker.log._file.close()
    worker.log._file = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 - the log closes it
    worker.ask(Witnessed, 60)
    with pytest.raises(EnvironmentUnmet) as caught:
        worker.ask(Witnessed, 60)
    assert caught.value.found == "No space left on device"


RUNNER = """
    import os, sys, time
    from pathlib import Path
    from artifact.bench.messages import Hello
    from artifact.bench.rawlog import RawLog
    from artifact.bench.reaper import Reaper
    from artifact.bench.scrub import Scrubber
    from artifact.bench.worker import Worker

    folder = Path(sys.argv[1])
    reaper = Reaper()
    scratch = folder / "scratch"
    (scratch / "below").mkdir(parents=True)
    reaper.folder(scratch)
    worker = Worker(
        "alpha",
        [sys.executable, "-I", sys.argv[2], "--backend", "alpha"],
        environment={"FAULT": "offspring@hello,deaf@witness"},
        cwd=folder,
        log=RawLog(folder / "alpha.log", Scrubber()),
        reaper=reaper,
    )
    worker.start()
    worker.ask(Hello, 60, protocol=1)
    (folder / "pid").write_text(str(worker.pid))
    from artifact.bench.messages import Witnessed
    worker.ask(Witnessed, 600)
"""


def test_a_killed_runner_leaves_nothing_behind(tmp_path: Path, wait_until: Wait) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUNNER), str(tmp_path), str(FAKE)]
    )
    try:
        log = tmp_path / "alpha.log"
        wait_until(lambda: (tmp_path / "pid").exists() and "alpha: witness" in log.read_text())
        worker = int((tmp_path / "pid").read_text())
        child = int(
            next(
                line for line in log.read_text().splitlines() if line.startswith("child ")
            ).split()[1]
        )
        assert alive(worker) and alive(child)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        # The worker ignores SIGTERM and the end of its input.
        wait_until(lambda: not alive(worker) and not alive(child))
        wait_until(lambda: not (tmp_path / "scratch").exists())
    finally:
        runner.kill()
        runner.wait()
